"""Durable episodes: ended at any turn, they go on there, and nothing is asked twice."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from durable_shop import ENV, TURNS, Counting, Shop, files, play, shop, stop
from testing import ROOT, often, row

from gym_llm import Run
from gym_llm.rollouts.durable import journal as journals
from gym_llm.rollouts.durable.left_journals import read_journal
from gym_llm.rollouts.durable.run_journals import journals_beside

__all__ = ["shop"]


@pytest.mark.parametrize("turn", range(TURNS + 1))
def test_an_episode_goes_on_at_the_turn_where_it_was(turn):
    expected = play(Counting(), durable=False, output="whole.jsonl")
    asked = list(Shop.asked)
    Shop.asked.clear()
    first, second = stop(turn), Counting()
    assert play(second, resume=True) == expected
    assert first.asked + second.asked == [("0-0", number) for number in range(TURNS + 1)]
    assert Shop.asked == asked
    assert not journals_beside(Path("a.jsonl")).exists()


def test_a_budget_counts_the_turns_of_the_journal():
    (whole,) = play(Counting(usage=5), durable=False, output="whole.jsonl", max_tokens=50)
    Shop.asked.clear()
    first, second = Counting(3, usage=5), Counting(usage=5)
    assert play(first, until=first.is_stuck, max_tokens=50) == []
    (record,) = play(second, resume=True, max_tokens=50)
    assert first.asked + second.asked == [("0-0", number) for number in range(5)]
    for each in (whole, record):  # the empty response that truncates has its own id and time
        del each["response"]["id"], each["response"]["created_at"]
    assert record == whole and whole["truncated"]


@pytest.mark.parametrize("strategy", ["trim", "summary"])
def test_a_compacted_history_is_restored(strategy):
    how = {"compact": strategy, "compact_context": 200}
    alone = Counting()
    (expected,) = play(alone, durable=False, output="whole.jsonl", **how)
    assert expected["info"]["compactions"] > 1
    Shop.asked.clear()
    asked = []
    for turn in (2, 4):
        engine = Counting(turn)
        play(engine, until=engine.is_stuck, resume=turn > 2, **how)
        asked += engine.asked
    last = Counting()
    (record,) = play(last, resume=True, **how)
    assert record == expected
    assert asked + last.asked == alone.asked


def test_a_verdict_is_not_asked_for_twice(monkeypatch):
    expected = play(Counting(), durable=False, output="whole.jsonl")
    Shop.asked.clear()
    first, second = Counting(), Counting()
    monkeypatch.setattr(Shop, "stuck_in_verify", first.is_stuck)
    assert play(first, until=first.is_stuck) == []
    monkeypatch.setattr(Shop, "stuck_in_verify", None)
    assert play(second, resume=True) == expected
    assert second.asked == [] and Shop.asked.count("verify") == 1


def test_many_lives_keep_one_journal(tmp_path):
    asked = []
    for turn in range(1, TURNS + 1):
        engine = Counting(turn)
        play(engine, until=engine.is_stuck, resume=True)
        asked += engine.asked
    assert len(list(journals_beside(Path("a.jsonl")).glob("_/*"))) <= 2
    last = Counting()
    (record,) = play(last, resume=True)
    assert asked + last.asked == [("0-0", number) for number in range(TURNS + 1)]
    assert record["reward"] is not None and "attempts" not in record


def test_a_resumed_run_is_durable_without_being_asked():
    stop(3)
    second = Counting()
    play(second, resume=True, durable=False)
    assert second.asked[0] == ("0-0", 3)


@pytest.mark.parametrize("cut", [1, 9, 40, 200])
def test_a_line_that_was_cut_off_costs_its_turn_only(cut):
    stop(4)
    (file,) = files()
    data = file.read_bytes()
    file.write_bytes(data[:-cut])
    whole = sum(b" sampled " in line for line in data[:-cut].split(b"\n")[:-1])
    second = Counting()
    (record,) = play(second, resume=True)
    assert second.asked[0] == ("0-0", whole) and record["reward"] is not None


def test_a_copy_that_was_cut_off_leaves_the_journal_before_it(monkeypatch):
    first = stop(4)
    written = journals.write_all
    monkeypatch.setattr(journals, "write_all", lambda file, data: written(file, data[: len(data) // 2]))
    engine = Counting(4)
    play(engine, until=engine.is_stuck, resume=True)
    monkeypatch.setattr(journals, "write_all", written)
    second = Counting()
    play(second, resume=True)
    assert first.asked + second.asked == [("0-0", number) for number in range(TURNS + 1)]


def test_an_episode_that_asks_for_something_else_begins_anew_and_says_so(monkeypatch, caplog):
    stop(4)
    monkeypatch.setattr(Shop, "drifts", True)
    second = Counting()
    with caplog.at_level(logging.WARNING):
        (record,) = play(second, resume=True)
    assert "It is played again from its beginning" in caplog.text
    assert second.asked == [("0-0", number) for number in range(TURNS + 1)]
    assert record["reward"] is not None and record["failure_kind"] is None


@pytest.mark.parametrize("how", ["resume=False", "another engine"])
def test_a_journal_of_another_run_is_not_used(how):
    stop(4)
    second = Counting()
    options = {"resume": False} if how == "resume=False" else {"resume": True, "seed": 1}
    play(second, **options)
    assert second.asked[0] == ("0-0", 0)


@pytest.mark.parametrize("left", [("made_by.json",), ()])
def test_a_removal_that_was_interrupted_is_ended(left):
    play(Counting())
    folder = journals_beside(Path("a.jsonl"))
    folder.mkdir()
    for name in left:
        (folder / name).write_text("{}")
    play(Counting(), resume=True)
    assert not folder.exists()


def test_a_folder_that_is_no_journal_stays():
    folder = journals_beside(Path("a.jsonl"))
    folder.mkdir()
    (folder / "mine").write_text("my notes")
    play(Counting(), durable=False)
    assert (folder / "mine").read_text() == "my notes"


def test_files_are_removed_when_their_episodes_are_recorded(monkeypatch):
    monkeypatch.setattr(journals, "_FILE_BYTES", 2000)
    most = []
    monkeypatch.setattr(Shop, "setup", lambda self, task: most.append(len(files())) or {"count": 0})
    records = play(Counting(), tasks=30, concurrency=2)
    assert len(records) == 30 and 1 < max(most) < 12


def test_a_full_disk_ends_the_journal_and_not_the_run(monkeypatch, caplog):
    def full(file: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journals, "write_all", full)
    (record,) = play(Counting())
    assert record["reward"] is not None and caplog.text.count("not durable now") == 1


def test_only_unfinished_episodes_stay_in_the_journal():
    first = Counting(3, only="2-0", records=2)
    play(first, until=first.is_stuck, tasks=3)
    for _ in range(2):
        engine = Counting(0)
        engine.is_stuck.set()
        with Run(ENV, engine, tasks=[row(f"Task {n}") for n in range(3)], output="a.jsonl", resume=True) as run:
            assert run.restored == 1
        folders = [path for path in journals_beside(Path("a.jsonl")).glob("_/*")]
        assert [job.task_index for path in folders for job in read_journal(path)] == [2]


async def agent(episode: Any) -> None:
    """Ask the model, and act as it says, until the episode is over."""
    request = episode.request
    while request is not None:
        request = await episode.step(await episode.respond(request))


@pytest.mark.parametrize("turn", [0, 3, TURNS])
def test_the_model_of_an_agent_is_not_asked_again(turn):
    expected = play(Counting(), durable=False, output="whole.jsonl", agent=agent)
    Shop.asked.clear()
    first = stop(turn, agent=agent)
    second = Counting()
    records = play(second, resume=True, agent=agent)
    assert [one["response"]["output"] for one in records] == [one["response"]["output"] for one in expected]
    assert [(one["reward"], one["trajectory"]) for one in records] == [
        (one["reward"], one["trajectory"]) for one in expected
    ]
    assert [number for _, number in first.asked + second.asked] == list(range(TURNS + 1))


@pytest.mark.slow
def test_killed_again_and_again_nothing_is_lost_or_sampled_twice():
    """A small run of benchmarks/durable_kills.py: tools, a Python session, a judge."""
    kills, episodes = often(10, 100), often(6, 40)
    command = ["benchmarks/durable_kills.py", "--kills", kills, "--episodes", episodes, "--between", 0.01, 0.4]
    ended = subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, capture_output=True, text=True, timeout=1200)
    figures = json.loads(ended.stdout.splitlines()[-1])
    assert figures["kills"] >= kills and figures["turns_restored"] > 0, figures
    for name in ("lost", "masked", "different", "sampled_twice", "lives_that_failed", "journals_left"):
        assert figures[name] == 0, f"{name}: {figures} {ended.stderr[-2000:]}"
