"""Durable episodes: ended at any turn, they go on there, and nothing is asked twice."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from testing import ROOT, function_call, message_item, often, response, row

from gym_llm import Run, VerifierEnv, tool
from gym_llm.concurrency.answered_once import answered_once
from gym_llm.engines import Engine
from gym_llm.errors import EngineError, JudgeError, ToolError
from gym_llm.rollouts.durable import journal as journals
from gym_llm.rollouts.durable.left_journals import read_journal
from gym_llm.rollouts.durable.run_journals import journals_beside

TURNS = 6
ENV, MARKET = "durable/Shop-v0", "durable/Market-v0"
TIMES = ("timing", "turn_timing", "made_by")


class Counting(Engine):
    """Calls the tools in turn, as long as it may; then every episode waits for an answer that never comes."""

    model = "counting"

    def __init__(
        self,
        stop_at: int = 1000,
        *,
        only: str = "",
        masks: str = "",
        records: int = 0,
        fails: int = 0,
        usage: int = 0,
        down_at: int = -1,
        fails_at_most: int = 1,
    ) -> None:
        self.stop_at, self.only, self.masks, self.records, self.fails = stop_at, only, masks, records, fails
        self.usage = {"input_tokens": usage, "output_tokens": usage, "total_tokens": 2 * usage} if usage else None
        self.down_at, self.fails_at_most = down_at, fails_at_most
        self.asked: list[tuple[str, int]] = []
        self.is_stuck = asyncio.Event()

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        if request.get("tool_choice") == "none":  # a summary of a long history
            self.asked.append((episode_id, -1))
            return response(message_item("I have counted."))
        calls = [item["call_id"] for item in request["input"] if item.get("type") == "function_call"]
        turn = int(calls[-1][1:]) + 1 if calls else 0
        if turn >= self.stop_at and episode_id == self.masks:
            raise EngineError("It does not like this one.")
        if turn >= self.stop_at and episode_id.startswith(self.only):
            while self.records and Path("a.jsonl").read_bytes().count(b"\n") < self.records:
                await asyncio.sleep(0.01)
            await stuck(self.is_stuck)
        if turn == self.down_at and self.fails_at_most:
            self.fails_at_most -= 1
            raise EngineError("down", failure_kind="provider_unavailable")
        if self.fails:
            self.fails -= 1
            raise EngineError("on strike", failure_kind="provider_unavailable")
        self.asked.append((episode_id, turn))
        item = function_call(("count", "elsewhere", "refuse")[turn % 3], call_id=f"c{turn}")
        if turn == TURNS:
            item = message_item("done")
        tokens = {"prompt_token_ids": [1] * (2 * turn + 1), "generation_token_ids": [1], "generation_log_probs": [-0.5]}
        return response({**item, **tokens}, usage=self.usage)


async def stuck(event: asyncio.Event) -> None:
    event.set()
    await asyncio.sleep(3600)


class Shop(VerifierEnv):
    """Counts, and asks outside, where every answer is another number."""

    asked: list[str] = []
    drifts = False
    stuck_in_verify: asyncio.Event | None = None

    def setup(self, task: Any) -> dict[str, int]:
        return {"count": 0}

    @tool
    def count(self, state: dict[str, int]) -> int:
        """Count."""
        state["count"] += 1
        return state["count"] + (1000 if self.drifts else 0)

    @tool
    async def elsewhere(self) -> int:
        """Ask outside."""
        self.asked.append("elsewhere")
        return len(self.asked)

    @tool
    async def refuse(self) -> int:
        """Be refused."""
        self.asked.append("refuse")
        raise ToolError(f"No, for the time {len(self.asked)}.")

    async def verify(self, task: Any, episode: Any) -> float:
        async def judge() -> int:
            self.asked.append("verify")
            return len(self.asked)

        said = await answered_once("verdict", episode.state["count"], judge)
        if self.stuck_in_verify is not None:
            await stuck(self.stuck_in_verify)
        return said + episode.state["count"] / 10


class Market(Shop):
    """Compares the shops of a group."""

    stuck_in_group: asyncio.Event | None = None

    async def verify_group(self, task: Any, episodes: list[Any]) -> list[float]:
        rewards = []
        for number, episode in enumerate(episodes):

            async def compare() -> int:
                self.asked.append("compare")
                return len(self.asked)

            rewards.append(100 * await answered_once("comparison", [number, episode.answer], compare))
            if number and self.stuck_in_group is not None:
                await stuck(self.stuck_in_group)
        return rewards


class Forgiving(Shop):
    """Goes on where its judge has failed."""

    judged = 0

    @tool
    async def elsewhere(self, state: dict[str, int]) -> int:
        """Ask a judge that fails at first."""

        async def judge() -> int:
            type(self).judged += 1
            if self.judged == 1:
                raise JudgeError("The judge is on strike.")
            return self.judged

        try:
            return await answered_once("opinion", 0, judge)
        except JudgeError:
            return -1


class Grouped(Shop):
    """Scores groups, with a judge that fails at first."""

    scored = 0

    async def verify_group(self, task: Any, episodes: Any) -> list[float]:
        type(self).scored += 1
        if self.scored == 1:
            raise JudgeError("The judge is on strike.")
        return [0.0 for _ in episodes]


if ENV not in gymnasium.registry:
    for shop_class in (Shop, Market, Forgiving, Grouped):
        gymnasium.register(f"durable/{shop_class.__name__}-v0", entry_point=shop_class)


@pytest.fixture(autouse=True)
def shop(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Shop, "asked", [])


def play(engine: Engine, *, until: asyncio.Event | None = None, tasks: int = 1, **options: Any) -> list[Any]:
    """Play into `a.jsonl`, to the end or until an episode is stuck; return the records without their times."""
    rows = [row(f"Task {number}") for number in range(tasks)]
    options = {"durable": True, "retries": 0, "max_failures": None, "output": "a.jsonl", **options}

    async def drain(run: Run) -> None:
        async for _ in run.records():
            pass

    async def follow(run: Run) -> None:
        playing = asyncio.create_task(drain(run))
        if until is not None:
            await until.wait()
            playing.cancel()
        await asyncio.gather(playing, return_exceptions=until is not None)

    with Run(options.pop("env_id", ENV), engine, tasks=rows, **options) as run:
        asyncio.run(follow(run))
    path = Path(options["output"])
    records = list(map(json.loads, path.read_text().splitlines())) if path.exists() else []
    return [{name: value for name, value in record.items() if name not in TIMES} for record in records]


def stop(at: int = 4, **options: Any) -> Counting:
    """Play until an episode is stuck at this turn."""
    engine = Counting(at)
    assert play(engine, until=engine.is_stuck, **options) == []
    return engine


def files(output: str = "a.jsonl") -> list[Path]:
    return sorted(journals_beside(Path(output)).glob("*/*/*.log"))


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


def test_a_masked_episode_that_is_tried_again_begins_at_its_first_turn():
    first = Counting(2, masks="0-0", records=1)
    (masked,) = play(first, until=first.is_stuck, tasks=2)
    assert masked["reward"] is None
    second = Counting()
    records = play(second, tasks=2, resume=True, retry_failed=True)
    assert [record["reward"] is None for record in records] == [False, False]
    asked = [turn for name, turn in second.asked if name == "0-0"]
    assert asked == list(range(TURNS + 1))
    assert [turn for name, turn in second.asked if name == "1-0"] == list(range(2, TURNS + 1))


def test_a_groups_comparison_is_not_asked_for_twice(monkeypatch):
    options: dict[str, Any] = {"env_id": MARKET, "repeats": 3, "concurrency": 1}
    expected = play(Counting(), durable=False, output="whole.jsonl", **options)
    asked = list(Shop.asked)
    Shop.asked.clear()
    event = asyncio.Event()
    monkeypatch.setattr(Market, "stuck_in_group", event)
    first, second = Counting(), Counting()
    assert play(first, until=event, **options) == []
    assert Shop.asked.count("compare") == 2
    monkeypatch.setattr(Market, "stuck_in_group", None)
    assert play(second, resume=True, **options) == expected
    assert Shop.asked == asked and second.asked == []
    assert not journals_beside(Path("a.jsonl")).exists()


@pytest.mark.parametrize("turn", [1, 3, TURNS])
def test_an_episode_goes_on_after_its_engine_was_down(turn):
    expected = play(Counting(), durable=False, output="whole.jsonl")
    Shop.asked.clear()
    engine = Counting(down_at=turn)
    (record,) = play(engine, retries=1)
    assert record.pop("attempts") == 2 and [record] == expected
    assert engine.asked == [("0-0", number) for number in range(TURNS + 1)]


def test_an_episode_that_the_engine_masked_is_tried_again_where_it_was():
    first, second, third = Counting(down_at=4, fails_at_most=9), Counting(down_at=5), Counting()
    assert [record["failure_kind"] for record in play(first, tasks=2)] == ["provider_unavailable"] * 2
    assert play(Counting(), tasks=2, resume=True)[0]["reward"] is None  # not asked for
    play(second, tasks=2, resume=True, retry_failed=True)
    records = play(third, tasks=2, resume=True, retry_failed=True)
    assert [record["reward"] is None for record in records] == [False, False]
    asked = first.asked + second.asked + third.asked
    assert sorted(asked) == sorted((f"{task}-0", turn) for task in range(2) for turn in range(TURNS + 1))
    assert not journals_beside(Path("a.jsonl")).exists()


def test_a_masked_episode_can_go_on_after_a_run_that_left_it_out():
    first = Counting(5, only="1-0", records=1, down_at=4)
    play(first, until=first.is_stuck, tasks=2)
    second, third = Counting(0), Counting()
    second.is_stuck.set()
    tasks = [row(f"Task {number}") for number in range(2)]
    with Run(ENV, second, tasks=tasks, output="a.jsonl", resume=True) as run:
        assert run.restored == 1
    play(Counting(), tasks=2, resume=True)
    records = play(third, tasks=2, resume=True, retry_failed=True)
    assert [record["reward"] is None for record in records] == [False, False]
    assert third.asked == [("0-0", turn) for turn in range(4, TURNS + 1)]


def test_attempts_are_counted_again_after_the_last_one_has_failed():
    play(Counting(down_at=2, fails_at_most=2), retries=1)
    second = Counting(4, down_at=3)
    play(second, until=second.is_stuck, retries=1, resume=True, retry_failed=True)
    (record,) = play(Counting(), retries=1, resume=True)
    assert record["attempts"] == 2


def test_a_judge_that_failed_is_asked_again(monkeypatch):
    expected = play(Counting(), durable=False, output="whole.jsonl")
    failing, verify = [True], Shop.verify

    async def judged(self, task, episode):
        async def judge() -> int:
            if failing:
                failing.pop()
                raise JudgeError("The judge is on strike.")
            return 1

        await answered_once("first verdict", 0, judge)
        return await verify(self, task, episode)

    monkeypatch.setattr(Shop, "verify", judged)
    Shop.asked.clear()
    engine = Counting()
    (record,) = play(engine, retries=1)
    assert record["reward"] == expected[0]["reward"] and record["attempts"] == 2 and not failing
    assert engine.asked == [("0-0", number) for number in range(TURNS + 1)]


def test_a_failure_that_a_tool_has_caught_stays_an_answer(monkeypatch):
    monkeypatch.setitem(globals(), "ENV", "durable/Forgiving-v0")
    monkeypatch.setattr(Forgiving, "judged", 0)
    engine = Counting(down_at=5)
    (record,) = play(engine, retries=1)
    assert engine.asked == [("0-0", number) for number in range(TURNS + 1)]
    assert record["attempts"] == 2 and Forgiving.judged == 2


def test_a_group_whose_judge_failed_is_scored_without_being_sampled_again(monkeypatch):
    monkeypatch.setitem(globals(), "ENV", "durable/Grouped-v0")
    monkeypatch.setattr(Grouped, "scored", 0)
    first, second = Counting(), Counting()
    masked = play(first, repeats=2)
    assert [record["failure_kind"] for record in masked] == ["judge_failed"] * 2
    records = play(second, repeats=2, resume=True, retry_failed=True)
    assert [record["reward"] is None for record in records] == [False, False]
    assert len(first.asked) == 2 * (TURNS + 1) and second.asked == []


def test_turns_are_written_once_however_often_the_engine_is_down(monkeypatch):
    written, lines = journals.write_all, list[bytes]()

    def write(file: int, data: bytes) -> None:
        lines.extend(data.splitlines())
        written(file, data)

    monkeypatch.setattr(journals, "write_all", write)
    (masked,) = play(Counting(down_at=5, fails_at_most=2), retries=1)
    assert masked["attempts"] == 2
    assert sum(b" sampled " in line for line in lines) == 5
    second = Counting()
    play(second, resume=True, retry_failed=True)
    assert second.asked == [("0-0", 5), ("0-0", 6)]


def test_a_journal_that_was_removed_does_not_end_the_run(monkeypatch):
    def setup(self: Any, task: Any) -> dict[str, int]:
        shutil.rmtree(journals_beside(Path("a.jsonl")), ignore_errors=True)
        return {"count": 0}

    monkeypatch.setattr(Shop, "setup", setup)
    records = play(Counting(down_at=3, fails_at_most=2), tasks=3, concurrency=1, retries=2)
    assert [record["reward"] is None for record in records] == [False] * 3


def test_the_attempt_is_remembered():
    first = Counting(2, fails=1)
    assert play(first, until=first.is_stuck, retries=1) == []
    second = Counting()
    (record,) = play(second, resume=True, retries=1)
    assert record["attempts"] == 2 and second.asked[0] == ("0-0", 2)


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
