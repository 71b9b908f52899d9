from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import gym_llm
from gym_llm.core.registry import ids as registration
from gym_llm.core.registry.classes import nemo_gym_names
from gym_llm.core.registry.ids import env_ids, parse_id, register_envs, verifier_folder
from gym_llm.errors import ConfigError


def test_every_id_is_registered_on_import() -> None:
    assert {"gym_llm/Counter-v0", "gym_llm/MathVerify-v0"} <= set(env_ids()) <= set(gym.registry)
    assert env_ids() == sorted(env_ids())


def test_gymnasium_imports_the_package_by_itself() -> None:
    code = "import gymnasium; gymnasium.make('gym_llm:gym_llm/Counter-v0').reset(seed=0)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_unknown_id_is_gymnasiums_error() -> None:
    with pytest.raises(gym.error.NameNotFound, match="Counter"):
        gym.make("gym_llm/Countr-v0")


@pytest.mark.parametrize(
    ("env_id", "parts"),
    [
        ("gym_llm/Counter-v0", ("gym_llm", "Counter", 0)),
        ("Theirs/Multi-value-v12", ("Theirs", "Multi-value", 12)),
        ("Counter", ("", "Counter", 0)),
        ("a/b/-v", ("a/b", "-v", 0)),
    ],
)
def test_an_id_has_a_namespace_a_name_and_a_version(env_id: str, parts: tuple[str, str, int]) -> None:
    assert parse_id(env_id) == parts


def test_every_folder_with_a_config_is_registered_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = {
        "dice": "dice:\n  env: gym_llm/Dice-v12  # the second one\n",
        "dice_9": "dice_9:\n  kwargs:\n    member:\n      env: gym_llm/Counter-v0\n  env: 'gym_llm/Dice-v9'\n",
        "wide": "wide:\n    kwargs: {}\n    env: gym_llm/Wide-v0\nwider:\n    env: gym_llm/Wide-v0\n",
        ".dice.tmp": "dice:\n  env: gym_llm/Unfinished-v0\n",
        "helpers": None,
    }
    for name, config in configs.items():
        (tmp_path / "envs" / name).mkdir(parents=True)
        if config:
            (tmp_path / "envs" / name / "config.yaml").write_text(config)
    before = dict(gym.registry)
    monkeypatch.setattr(registration, "__file__", str(tmp_path / "core" / "registry" / "ids.py"))
    try:
        register_envs()
        assert {env_id: gym.registry[env_id].entry_point for env_id in gym.registry.keys() - before.keys()} == {
            "gym_llm/Dice-v12": "gym_llm.envs.dice.env:Dice",
            "gym_llm/Dice-v9": "gym_llm.envs.dice_9.env:Dice",
            "gym_llm/Wide-v0": "gym_llm.envs.wide.env:Wide",
        }
        assert [env_id for env_id in env_ids() if "Dice" in env_id] == ["gym_llm/Dice-v9", "gym_llm/Dice-v12"]
        gym.registry.clear()
        (tmp_path / "envs" / "wide" / "config.yaml").write_text("wide: {}\n")
        with pytest.raises(ConfigError, match="has no `env:` line"):
            register_envs()
    finally:
        gym.registry.clear()
        gym.registry.update(before)


def test_a_verifiers_folder_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("package/inner/env.py", "package/__init__.py", "module.py"):
        (tmp_path / "lazy" / module).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lazy" / module).write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "lazy"))
    entry_points = {
        "package.inner.env:A": "package/inner",
        "package:A": "package",
        "module:A": ".",
        "nowhere.env:A": None,
    }
    for number, (entry_point, folder) in enumerate(entry_points.items()):
        env_id = f"lazy/A-v{number}"
        registration.register(env_id, entry_point)
        try:
            assert verifier_folder(env_id) == (folder and (tmp_path / "lazy" / folder).resolve())
            assert nemo_gym_names(env_id) == ()
        finally:
            del gym.registry[env_id]


@pytest.fixture
def their_package(tmp_path: Path) -> Path:
    """An installed package with a verifier in two versions."""
    info, folder = tmp_path / "their_envs-1.0.dist-info", tmp_path / "their_envs"
    info.mkdir()
    folder.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-envs\nVersion: 1.0\n")
    ids = ("Theirs/Own-v3", "Theirs/Own-v12")
    (info / "entry_points.txt").write_text("".join(["[gym_llm.envs]\n", *(f"{id} = their_envs:Own\n" for id in ids)]))
    (folder / "config.yaml").write_text("own:\n  env: Theirs/Own-v12\n  nemo_gym: [their_server, mcqa]\n")
    (folder / "__init__.py").write_text(
        "import gym_llm\nprint('imported')\n"
        "class Own(gym_llm.VerifierEnv):\n    def verify(self, task, episode): return 1.0\n"
    )
    return tmp_path


def run(code: str, path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.append({str(path)!r})\nimport gym_llm, gymnasium\n{code}"
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment)


def test_another_packages_environment_is_found_by_its_entry_point(their_package: Path) -> None:
    done = run(
        "from gym_llm.core.registry.ids import env_ids\n"
        "assert 'Theirs/Own-v3' in env_ids() and 'their_envs' not in sys.modules\n"
        "assert env_ids()[:2] == ['Theirs/Own-v3', 'Theirs/Own-v12']\n"
        "env = gymnasium.make('Theirs/Own-v12', tasks=[{'responses_create_params': {'input': 'Hi'}}])\n"
        "env.reset(); assert env.step([])[1] == 1.0\n",
        their_package,
    )
    assert (done.returncode, done.stdout) == (0, "imported\n"), done.stderr


def test_another_packages_environment_has_its_nemo_gym_names_without_taking_ours(their_package: Path) -> None:
    config = their_package / "nemo.yaml"
    names = ("their_server", "mcqa", "own")
    config.write_text("".join(f"{name}: {{resources_servers: {{{name}: {{entrypoint: app.py}}}}}}\n" for name in names))
    done = run(
        f"from gym_llm.rollouts.config import load_config\nsections = load_config([{str(config)!r}]).environments\n"
        "print(*(section.env for section in sections.values()), 'their_envs' in sys.modules)\n",
        their_package,
    )
    assert done.stdout == "Theirs/Own-v12 gym_llm/MultipleChoice-v0 Theirs/Own-v12 False\n", done.stderr


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_another_packages_environment_is_vectorised_over_ray(their_package: Path) -> None:
    done = run(
        "envs = gymnasium.make_vec('Theirs/Own-v12', num_envs=2, num_shards=2, max_turns=1,\n"
        "    tasks=[{'responses_create_params': {'input': 'Hi'}}])\n"
        "envs.reset(seed=0)\n"
        "print(type(envs.unwrapped).__name__, envs.unwrapped.num_shards, *envs.step([[], []])[1])\n"
        "envs.close()\n",
        their_package,
        PYTHONPATH=os.pathsep.join([str(their_package), os.environ.get("PYTHONPATH", "")]),
    )
    if "RayUnavailable" in done.stderr:
        pytest.skip("Ray cannot start here")
    assert done.stdout.splitlines()[-1:] == ["RayVectorEnv 2 1.0 1.0"], done.stderr


def test_everything_public_can_be_had_from_the_package() -> None:
    for name in gym_llm.__all__:
        assert getattr(gym_llm, name) is not None
    assert set(gym_llm.__all__) <= set(dir(gym_llm))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gym_llm.nothing  # noqa: B018
