"""gym_llm.Run: what the command line does, from Python. The engine is a stand-in, everything else is real."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from testing import message_item, response, row

import gym_llm
from gym_llm import Part, Run, VerifierEnv
from gym_llm.engines import Engine
from gym_llm.errors import DataError, EngineError, UsageError
from gym_llm.wrappers import ReasoningParser, ToolCallParser

ENV = "gym_llm/FollowUp-v0"


class Yes(Engine):
    """Says yes, or fails; interrupts the process at the answer of this number, or waits for ever."""

    def __init__(self, model: str = "yes", *, interrupt_at: int = -1, hang: bool = False, broken: bool = False) -> None:
        self.model, self.interrupt_at, self.hang, self.broken = model, interrupt_at, hang, broken
        self.starts = self.answers = self.closes = 0

    async def start(self) -> None:
        self.starts += 1

    async def aclose(self) -> None:
        self.closes += 1

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        self.answers += 1
        if self.answers == self.interrupt_at:
            os.kill(os.getpid(), signal.SIGINT)
        if self.hang or self.answers >= self.interrupt_at > 0:
            await asyncio.sleep(3600)
        await asyncio.sleep(0)
        if self.broken:
            raise EngineError("on strike")
        return response(message_item("yes"))


class Patient(VerifierEnv):
    """Takes for ever to verify."""

    async def verify(self, task: Any, episode: Any) -> float:
        await asyncio.sleep(3600)
        return 1.0


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows(count: int) -> list[Any]:
    return [row(f"Question {number}", expected_answer="yes") for number in range(count)]


def pairs(path: str | Path = "a.jsonl") -> list[tuple[int, int]]:
    ids = [json.loads(line)["rollout_id"] for line in Path(path).read_bytes().splitlines()]
    return sorted((number["task_index"], number["repeat_index"]) for number in ids)


def summary_file() -> dict[str, Any]:
    return json.loads(Path("a.summary.json").read_text())


every = [(task, repeat) for task in range(5) for repeat in range(4)]


def test_a_run_is_resumed_from_python():
    with Run(ENV, Yes(), tasks=rows(5), output="a.jsonl", limit=2) as run:
        assert (run.remaining, run.path, run.summary.episodes) == (2, Path("a.jsonl"), 0)
        assert run.play().episodes == 2
    with gym_llm.Run(ENV, Yes(), tasks=rows(5), output="a.jsonl", repeats=4, resume=True, concurrency=128) as run:
        assert (run.remaining, run.summary.episodes, run.played) == (18, 2, 0)
        summary = run.play()
        assert (run.remaining, run.played) == (0, 18)
    assert summary is run.summary
    assert (summary.episodes, summary.mean_reward, summary.pass_at()) == (20, 1.0, {1: 1.0, 2: 1.0, 4: 1.0})
    assert pairs() == every
    told = summary_file()
    assert (told["episodes"], told["episodes_this_run"], told["complete"], told["model"]) == (20, 18, True, "yes")
    assert told["settings"]["concurrency"] == 128


def test_a_file_whose_names_were_sorted_is_resumed():
    """As `jq -S` writes it: `repeat_index` comes before `task_index`."""
    with Run(ENV, Yes(), tasks=rows(5), output="a.jsonl", repeats=4) as run:
        run.play()
    lines = Path("a.jsonl").read_bytes().splitlines()
    kept = [record for line in lines if (record := json.loads(line))["rollout_id"]["repeat_index"] != 2]
    Path("a.jsonl").write_text("".join(json.dumps(record, sort_keys=True) + "\n" for record in kept))
    with Run(ENV, Yes(), tasks=rows(5), output="a.jsonl", repeats=4, resume=True) as run:
        assert run.remaining == 5
        run.play()
    assert pairs() == every


def test_an_async_user_takes_records_as_they_are_written():
    async def play() -> None:
        with Run(ENV, Yes(), output="a.jsonl", repeats=4, concurrency=2) as run:
            async with aclosing(run.records()) as records:
                async for record in records:
                    number = record["rollout_id"]
                    assert (number["task_index"], number["repeat_index"]) in pairs()
                    if run.played == 7:
                        break

    asyncio.run(play())
    assert len(pairs()) == 7
    assert (summary_file()["episodes"], summary_file()["complete"]) == (7, False)
    with Run(ENV, Yes(), output="a.jsonl", repeats=4, resume=True) as run:
        run.play()
    assert (run.played, pairs()) == (13, every)


def test_a_run_that_is_interrupted_goes_on_where_it_was():
    engine = Yes(interrupt_at=8)
    with Run(ENV, engine, output="a.jsonl", repeats=4, concurrency=2) as run:
        with pytest.raises(KeyboardInterrupt):
            run.play()
        assert run.played == len(pairs()) == 20 - run.remaining > 0
        engine.interrupt_at = -1
        run.play()
        assert run.play().episodes == 20  # and again: there is nothing left
    assert pairs() == every
    assert summary_file()["complete"] is True


def test_an_interrupt_reaches_a_run_in_a_notebook():
    async def cell() -> None:  # a notebook's code runs in a loop, whose thread waits for the run meanwhile
        with Run(ENV, Yes(interrupt_at=8), output="a.jsonl", repeats=4, concurrency=2) as run:
            run.play()

    loop = asyncio.new_event_loop()
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(cell())
    loop.close()
    assert 0 < len(pairs()) < 20
    assert (summary_file()["episodes"], summary_file()["complete"]) == (len(pairs()), False)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"env_id": "gym_llm/Counter-v0"}, "env_id was 'gym_llm/FollowUp-v0' and is 'gym_llm/Counter-v0'"),
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"sampling": {"temperature": 0.5}}, "sampling was {}"),
        ({"tasks": rows(3)}, "tasks_sha256 was None"),
        ({"wrappers": [partial(ReasoningParser, start="[THINK]")]}, r"wrappers was None and is \[\"ReasoningParser\("),
        ({"engine": Yes("no")}, "a.jsonl was played by yes, not no: name another output."),
    ],
)
def test_runs_of_other_settings_are_not_mixed(change, sentence):
    same: dict[str, Any] = {"env_id": ENV, "engine": Yes()}
    with Run(**same, output="a.jsonl", limit=3) as run:
        run.play()
    before = {path: path.read_bytes() for path in Path().iterdir()}
    with pytest.raises(UsageError, match=sentence), Run(**same | change, output="a.jsonl", resume=True) as run:
        run.play()
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_rows_and_wrappers_are_part_of_what_a_run_is():
    same: dict[str, Any] = {"tasks": rows(4), "wrappers": [ToolCallParser], "output": "a.jsonl", "resume": True}
    with Run(ENV, Yes(), **same, limit=2) as run:
        run.play()
    with Run(ENV, Yes(), **same) as run:
        assert run.play().episodes == 4
    with pytest.raises(UsageError, match="tasks_sha256 was '"):
        Run(ENV, Yes(), **same | {"tasks": rows(5)})


def test_failed_episodes_are_played_again_where_that_is_asked_for():
    with Run(ENV, Yes(broken=True), output="a.jsonl") as run:
        assert run.play().failures == 5
    with Run(ENV, Yes(), output="a.jsonl", resume=True) as run:
        assert run.remaining == 0
    with Run(ENV, Yes(), output="a.jsonl", resume=True, retry_failed=True) as run:
        assert run.play().failures == 0
    assert pairs() == [(task, 0) for task in range(5)]


def test_parts_have_tasks_and_engines_of_their_own_and_share_those_that_are_the_same(monkeypatch):
    made: list[Yes] = []

    def make(spec: str, **options: Any) -> Engine:
        made.append(Yes(options["model"]))
        return made[-1]

    monkeypatch.setattr("gym_llm.rollouts.workload.make_engine", make)
    url, one, two = "http://host/v1", {"model": "one", "api_key": "sk-0123456789"}, {"model": "two"}
    parts = [
        Part(ENV, url, rows(3), engine_options=one, repeats=2, dataset="follow/train"),
        Part("gym_llm/Counter-v0", url, engine_options=two, dataset="count"),
        Part(ENV, url, engine_options=one, dataset="follow/example"),
    ]
    with Run(parts, limit=2) as run:
        run.play()
    assert run.path.name.startswith("follow-count-")
    assert [(engine.model, engine.starts, engine.closes) for engine in made] == [("one", 1, 1), ("two", 1, 1)]
    told = json.loads(run.summary_path.read_text())
    assert {name: (numbers["model"], numbers["episodes"]) for name, numbers in told["datasets"].items()} == {
        "follow/train": ("one", 4),
        "count": ("two", 2),
        "follow/example": ("one", 2),
    }
    assert "sk-0123456789" not in run.summary_path.read_text() + run.path.read_text()
    with Run(parts, limit=2, output=run.path, resume=True) as again:
        assert (again.remaining, again.model) == (0, "one, two")
    with pytest.raises(ValueError, match="a `dataset` of its own"):
        Run([Part(ENV), Part(ENV)])


def test_an_engine_that_the_caller_started_stays_open():
    engine = Yes()
    with Run(ENV, engine, output="a.jsonl") as run:
        run.play()
    assert (run.played, engine.starts, engine.closes) == (5, 0, 0)


def test_settings_reach_the_episodes():
    gym.register("test/Patient-v0", entry_point=Patient)
    try:
        with Run("test/Patient-v0", Yes(), output="a.jsonl", tasks=[row()], step_timeout=0.05) as run:
            run.play()
    finally:
        del gym.registry["test/Patient-v0"]
    assert run.summary.first_error is not None
    assert "step_timeout" in run.summary.first_error


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"env_id": "arithmetc"}, UsageError, "Did you mean gym_llm/Arithmetic-v0?"),
        ({"tasks": "missing.jsonl"}, UsageError, "Cannot read the task file missing.jsonl"),
        ({"episodes": 3, "repeats": 2}, UsageError, "either `episodes` or `limit` and `repeats`"),
        ({"engine": "pokcet"}, UsageError, "did you mean pocket"),
        ({"engine_options": {"treads": 1}, "engine": "pocket"}, UsageError, "no option 'treads'"),
        ({"resume": True, "output": None}, UsageError, "resume needs output"),
        ({"retry_failed": True}, UsageError, "retry_failed only makes sense with resume"),
        ({"tool_call_parser": "hermes", "engine": "http://h/v1"}, UsageError, "the model that http://h/v1 serves"),
        ({"output": "folder/a.jsonl"}, DataError, "already exists"),
        ({"concurency": 3}, TypeError, "Did you mean concurrency?"),
        ({"workers": 2, "runtime_env": ["numpy", None]}, ValueError, "one dict, or None, for each of the `workers`"),
        ({"workers": 3, "runtime_env": [None, None]}, ValueError, "one dict, or None, for each of the `workers`"),
        ({"concurrency": 0}, ValueError, "concurrency is 1 or more"),
    ],
)
def test_a_mistake_is_an_error_with_one_sentence_and_leaves_nothing(arguments, error, sentence):
    Path("folder").mkdir()
    Path("folder/a.jsonl").write_text("{}\n")
    with (
        pytest.raises(error) as raised,
        Run(**{"env_id": ENV, "engine": Yes(), "output": "a.jsonl"} | arguments) as run,
    ):
        run.play()
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
    assert list(Path().rglob("*.*")) == [Path("folder/a.jsonl")]


def test_a_file_belongs_to_one_run_until_that_is_closed():
    with Run(ENV, Yes(), output="a.jsonl", limit=1) as run:
        run.play()
        with pytest.raises(DataError, match="is being written by another process"):
            Run(ENV, Yes(), output="a.jsonl", resume=True)
    run.close()  # once more
    with Run(ENV, Yes(), output="a.jsonl", resume=True) as run:
        assert run.remaining == 4
    assert summary_file()["complete"] is True  # of what the first was to play: nothing was played since


def test_a_file_of_several_datasets_or_with_a_field_of_that_name_is_resumed_or_refused_with_a_sentence():
    tasks = [row(expected_answer="yes", dataset="a/b") for _ in range(2)]
    for resume in (False, True):
        with Run(ENV, Yes(), tasks=tasks, output="a.jsonl", limit=1 + resume, resume=resume) as run:
            run.play()
            assert run.played == 1
    Path("a.summary.json").unlink()
    parts = [Part(ENV, Yes(), dataset="c"), Part(ENV, Yes(), dataset="d")]
    with pytest.raises(UsageError, match="holds rollouts of gym_llm/FollowUp-v0"):
        Run(parts, output="a.jsonl", resume=True)


def failed_run(**more: Any) -> dict[Path, bytes]:
    """Files of a run of which every episode is masked."""
    with Run(ENV, Yes(broken=True), output="a.jsonl", max_failures=None, **more) as run:
        run.play()
    return {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}


def test_what_is_to_be_retried_is_dropped_only_when_it_is_played_again():
    before = failed_run()
    with Run(ENV, Yes(), output="a.jsonl", resume=True, retry_failed=True) as run:
        assert (run.remaining, run.summary.episodes) == (5, 0)
    for other in ({"engine": Yes("no")}, {"engine": "http://127.0.0.1:9/v1"}, {"seed": 3}, {"tasks": rows(5)}):
        with (
            pytest.raises((UsageError, EngineError)),
            Run(**{"env_id": ENV, "engine": Yes()} | other, output="a.jsonl", resume=True, retry_failed=True) as run,
        ):
            run.play()
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_what_is_not_to_be_played_is_not_dropped():
    failed_run(repeats=2)
    with Run(ENV, Yes(), output="a.jsonl", resume=True, retry_failed=True, limit=2) as run:
        assert run.remaining == 2
        assert run.play().failures == 8
    assert pairs() == [(task, repeat) for task in range(5) for repeat in range(2)]


def test_of_parts_only_those_that_can_be_played_are_dropped():
    first = [Part(ENV, Yes(broken=True), dataset="a"), Part(ENV, Yes(broken=True), dataset="b")]
    with Run(first, output="a.jsonl", max_failures=None) as run:
        run.play()
    second = [Part(ENV, Yes(), dataset="a"), Part(ENV, Yes("no"), dataset="b")]
    with (
        pytest.raises(UsageError, match="played by yes, not no"),
        Run(second, output="a.jsonl", resume=True, retry_failed=True) as run,
    ):
        run.play()
    kept = [json.loads(line) for line in Path("a.jsonl").read_bytes().splitlines()]
    assert sorted((record["dataset"], record["outcome"]) for record in kept) == [
        *[("a", "scored")] * 5,
        *[("b", "masked")] * 5,
    ]


def test_a_link_is_one_after_failed_episodes_were_played_again(tmp_path):
    (tmp_path / "runs").mkdir()
    Path("a.jsonl").symlink_to("runs/real.jsonl")
    failed_run()
    with Run(ENV, Yes(), output="a.jsonl", resume=True, retry_failed=True) as run:
        assert run.play().failures == 0
    assert Path("a.jsonl").is_symlink()
    assert pairs("runs/real.jsonl") == [(task, 0) for task in range(5)]


EDITS = {
    "another answer": lambda task: task.update(expected_answer="no"),
    "one more field": lambda task: task.update(more=1),
    "one field less": lambda task: task.pop("note"),
    "another question": lambda task: task["responses_create_params"].update(input="Another question"),
    "a parameter": lambda task: task["responses_create_params"].update(temperature=0.5),
    "tools": lambda task: task["responses_create_params"].update(tools=[]),
    "a field by the name of a record's own": lambda task: task.update(reward=2.0),
    "a dataset": lambda task: task.update(dataset=None),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_an_edited_task_is_noticed_without_the_summary(edit):
    tasks = [{**task, "note": [1, {"deep": None}], "reward": 1.0, "dataset": "theirs"} for task in rows(3)]
    with Run(ENV, Yes(), tasks=tasks, output="a.jsonl", limit=2) as run:
        run.play()
    Path("a.summary.json").unlink()
    with Run(ENV, Yes(), tasks=tasks, output="a.jsonl", resume=True) as run:
        assert run.remaining == 1
    edit(tasks[1])
    before = Path("a.jsonl").read_bytes()
    with pytest.raises(
        UsageError, match=r"a\.jsonl was made with other tasks \(task 1 was another one when it was played"
    ):
        Run(ENV, Yes(), tasks=tasks, output="a.jsonl", resume=True)
    assert Path("a.jsonl").read_bytes() == before
    with pytest.raises(UsageError, match="there is no task 1 any more"):
        Run(ENV, Yes(), tasks=tasks[:1], output="a.jsonl", resume=True)


def test_rows_that_are_not_json_are_the_same_tasks_again():
    def tasks() -> list[Any]:
        return [row("Say yes.", expected_answer="yes", odd=(1, 10**30, object), when={1: 2}, nan=float("nan"))]

    with Run(ENV, Yes(), tasks=tasks(), output="a.jsonl") as run:
        run.play()
    Path("a.summary.json").unlink()
    with Run(ENV, Yes(), tasks=tasks(), output="a.jsonl", resume=True) as run:
        assert run.remaining == 0


class Odd(VerifierEnv):
    """Its details cannot be written."""

    def verify(self, task: Any, episode: Any) -> Any:
        class Mute:
            def __repr__(self) -> str:
                raise RuntimeError("says nothing")

        details = {"x": 10**5000, "mute": Mute(), "turn": "three", "tool_errors": None, "nan": float("nan"), "fine": 1}
        return gym_llm.Verdict(1.0, details)


def test_details_that_cannot_be_written_end_no_run():
    gym.register("test/OddDetails-v0", entry_point=Odd)
    try:
        with Run("test/OddDetails-v0", Yes(), output="a.jsonl", tasks=rows(3), limit=2) as run:
            assert run.play().mean_reward == 1.0
        with Run("test/OddDetails-v0", Yes(), output="a.jsonl", tasks=rows(3), resume=True) as run:
            assert (run.play().mean_reward, run.summary.turns) == (1.0, 3)
    finally:
        del gym.registry["test/OddDetails-v0"]
    (info, *_) = (json.loads(line)["info"] for line in Path("a.jsonl").read_bytes().splitlines())
    assert info.pop("task_index") in (0, 1)
    assert info == {
        **{"turn": 1, "tool_errors": 0, "fine": 1, "nan": None},
        **{"x": "(cannot be written: int)", "mute": "(cannot be written: Mute)"},
    }


def test_an_output_that_vanishes_is_one_sentence_and_no_summary_says_that_it_is_whole():
    class Cleaning(Yes):
        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            if self.answers == 3:
                Path("a.jsonl").unlink()
            return await super().respond(request, episode_id=episode_id)

    with (
        pytest.raises(DataError, match=r"a\.jsonl is no longer this run.s file: it was renamed or removed"),
        Run(ENV, Cleaning(), output="a.jsonl", concurrency=1) as run,
    ):
        run.play()
    assert summary_file()["complete"] is False


def test_a_closed_run_writes_nothing():
    with Run(ENV, Yes(), output="a.jsonl", limit=1) as run:
        pass
    other = os.open("other", os.O_CREAT | os.O_RDWR)  # gets the number of the file that was closed
    with pytest.raises(UsageError, match="This run is closed"):
        run.play()
    os.close(other)
    assert Path("other").read_bytes() == b"" and list(Path().iterdir()) == [Path("other")]


def test_wrappers_and_parsers_names_do_not_go_together():
    with pytest.raises(UsageError, match="either wrappers or parsers"):
        Run(ENV, Yes(), output="a.jsonl", wrappers=[ToolCallParser], reasoning_parser="think_tags")


def test_a_run_that_played_nothing_leaves_nothing():
    with Run(ENV, Yes(), output="a.jsonl") as run:
        assert run.summary.episodes == 0
    assert list(Path().iterdir()) == []
