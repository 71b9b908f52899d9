"""What a command shows while it reads a large file, or waits for an engine."""

import time

import pytest

from gym_llm import VerifierEnv
from gym_llm.cli import bars, progress
from gym_llm.core.tasks import RowTasks, TaskKind
from gym_llm.utils.json_codec import dumps


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(bars, "_LINE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_TICK_SECONDS", 0.01)


@pytest.fixture
def tasks(tmp_path):
    file = tmp_path / "large.jsonl"
    file.write_bytes(b"".join(dumps(VerifierEnv.row(f"{number}" * 100)) + b"\n" for number in range(3_000)))
    return str(file)


def test_reading_tasks_shows_how_far_it_is(at_once, tasks, capsys):
    with progress.show_reading():
        RowTasks.from_file(tasks, TaskKind(VerifierEnv.Task, list))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 3 and lines[-1].startswith("reading large.jsonl: ") and lines[-1].endswith(" of 1 MB")


def test_a_quiet_command_shows_nothing(at_once, tasks, capsys):
    with progress.show_reading(quiet=True):
        RowTasks.from_file(f"{tasks}[:2000]", TaskKind(VerifierEnv.Task, list))
    assert capsys.readouterr().err == ""


def test_waiting_is_shown_while_the_thread_is_blocked(at_once, capsys):
    with progress.show_waiting("starting pocket") as started:
        time.sleep(0.3)
        started()
        shown = capsys.readouterr().err.splitlines()
        assert len(shown) > 2 and shown[0] == "starting pocket ..." and shown[1] == "starting pocket: 0 s"
    assert capsys.readouterr().err == ""
