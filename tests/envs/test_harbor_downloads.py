"""Harbor's datasets by their names: what `harbor download` leaves, and registries."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gym_llm.core.registry.env_files import env_spec
from gym_llm.envs.harbor.downloads import key_of, tasks_of
from gym_llm.errors import DataError

OWN = Path(__file__).parents[2] / "envs" / "harbor" / "data" / "tasks"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HARBOR_DATASETS", raising=False)
    monkeypatch.delenv("HARBOR_REGISTRY", raising=False)
    return tmp_path


def registered(folder: Path, version: str, *tasks: dict[str, Any]) -> None:
    named = {"name": "bench", "description": ""}
    older = {**named, "version": "1.0", "tasks": [{"name": "x", "path": "nowhere/x"}]}
    (folder / "registry.json").write_text(json.dumps([older, {**named, "version": version, "tasks": list(tasks)}]))


def test_a_downloaded_folder_is_found_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(OWN, folder / "bench")
    for name in ("bench", "bench@2.0", "org/bench@latest"):
        assert [Path(path).name for path in tasks_of(name)] == sorted(path.name for path in OWN.iterdir())
    monkeypatch.setenv("HARBOR_DATASETS", str(folder))
    monkeypatch.chdir("/")
    assert len(tasks_of("bench")) == 5


def test_a_registrys_tasks_are_beside_it_or_in_the_cache(folder: Path) -> None:
    shutil.copytree(OWN / "fix-script", folder / "mine" / "fix-script")
    git = {"name": "log-report", "git_url": "https://a.b/c", "git_commit_id": "1f2e", "path": "tasks/log-report"}
    registered(folder, "2.0", {"name": "fix-script", "path": "mine/fix-script"}, git)
    with pytest.raises(DataError, match=r"1 of 2 tasks are missing.*log-report.*--cache"):
        tasks_of("bench@2.0")
    key = key_of("git_url='https://a.b/c' git_commit_id='1f2e' path=PosixPath('tasks/log-report')")
    shutil.copytree(OWN / "log-report", folder / ".cache" / "harbor" / "tasks" / key / "log-report")
    assert [Path(path).name for path in tasks_of("bench@2.0")] == ["fix-script", "log-report"]
    assert tasks_of("bench") == tasks_of("bench@2.0")  # the last of the name
    with pytest.raises(DataError, match="1 of 1"):
        tasks_of("bench@1.0")
    with pytest.raises(DataError, match=r"no dataset 'bench'.*bench@1.0, bench@2.0"):
        tasks_of("bench@3.0")


@pytest.mark.parametrize("text", ["{", "[5]", '{"a": 1}', '[{"name": "bench", "version": "1"}]', '[{"name": 5}]'])
def test_a_file_that_is_not_a_registry_is_refused(text: str, folder: Path) -> None:
    (folder / "registry.json").write_text(text)
    with pytest.raises(DataError, match="not a registry"):
        tasks_of("bench")


def test_what_is_not_here_is_said_with_the_command(folder: Path) -> None:
    with pytest.raises(DataError, match="harbor download bench@"):
        tasks_of("bench@2.0")
    for name in ("", "..", "a/..", "@2"):
        with pytest.raises(DataError, match="not the name of a dataset"):
            tasks_of(name)


def test_the_short_name_plays_harbor() -> None:
    spec = env_spec("harbor:bench@2.0")
    assert (spec.id, spec.kwargs["dataset"]) == ("gym_llm/Harbor-v0", "bench@2.0")
