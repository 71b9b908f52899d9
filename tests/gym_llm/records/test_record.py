"""Records: what is written is what is read, today's and yesterday's."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
from testing import ROOT, row

import gym_llm
from gym_llm.engines import make_engine
from gym_llm.errors import DataError
from gym_llm.records.record import SCHEMA_VERSION, lost_record, read_record
from gym_llm.records.record_files import read_records
from gym_llm.records.rollout_file import RolloutFile
from gym_llm.stats.run_summary import Summary
from gym_llm.types import Rollout
from gym_llm.utils.json_codec import dumps


def record(**fields: Any) -> dict[str, Any]:
    return {"rollout_id": {"task_index": 0, "repeat_index": 0}, "reward": 1.0, **fields}


def test_every_record_says_its_version_and_comes_back_as_it_was(tmp_path: Path) -> None:
    played = gym_llm.collect("gym_llm/Arithmetic-v0", "pocket", limit=2)
    made = [*played, lost_record("gym_llm/Arithmetic-v0", (2, 0), "lost")]
    assert [one["schema_version"] for one in made] == [SCHEMA_VERSION] * 3
    with RolloutFile(tmp_path / "a.jsonl") as file:
        for one in made:
            file.append(one)
        assert list(file.records()) == made


def test_an_old_record_s_task_may_have_a_field_named_schema_version() -> None:
    scored = {"outcome": "scored", "failure_kind": None, "traceback": None}
    assert read_record(record(schema_version=3)) == record(schema_version=3, **scored)
    with pytest.raises(DataError, match=f"reads up to {SCHEMA_VERSION}"):
        read_record(record(schema_version=SCHEMA_VERSION + 1, error_phase=None))


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("envs/*/data/example_rollouts.jsonl")), ids=lambda path: path.parts[-3]
)
def test_records_from_before_there_were_versions_are_read(path: Path) -> None:
    summary = Summary()
    for line, one in read_records(path):
        assert one.items() >= json.loads(line).items() and "schema_version" not in one
        assert one["outcome"] == "scored"
        summary.add(one)
    assert summary.episodes and math.isfinite(summary.mean_reward)


def test_a_field_of_the_task_by_the_name_of_ours_is_no_version() -> None:
    assert read_record(record(schema_version="2026-11"))["schema_version"] == "2026-11"  # type: ignore[comparison-overlap]


@pytest.mark.parametrize(
    "old, kind",
    [
        ({"reward": math.nan}, "verifier_error"),
        ({"reward": 0.0, "error": "KeyError: 'x'", "error_phase": "verify"}, "verifier_error"),
        ({"reward": 0.0, "error": "HTTP 500", "error_phase": "engine", "schema_version": 1}, "agent_request_failed"),
    ],
)
def test_an_old_record_s_failure_is_no_zero(tmp_path: Path, old: dict[str, Any], kind: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(dumps(record(**old)))
    ((_, one),) = read_records(path)
    assert (one["outcome"], one["reward"], one["failure_kind"]) == ("masked", None, kind) and one["error"]


def test_an_old_record_s_limit_is_an_outcome() -> None:
    assert read_record(record(truncated=True))["outcome"] == "truncated"


def test_a_masked_record_has_no_reward_and_a_scored_one_has() -> None:
    new = {"schema_version": 2, "error_phase": None}
    for fields in ({"outcome": "masked"}, {"outcome": "scored", "reward": None}):
        with pytest.raises(DataError, match="its outcome is"):
            read_record(record(**new, **fields))


def test_a_later_version_is_one_sentence_that_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    later = SCHEMA_VERSION + 1
    path.write_bytes(
        dumps(record(schema_version=SCHEMA_VERSION)) + dumps(record(schema_version=later, error_phase=None))
    )
    with pytest.raises(
        DataError, match=rf"a\.jsonl, line 2 is not a rollout: its schema_version is {later}.*update it\.$"
    ):
        list(read_records(path))


@pytest.mark.parametrize(
    "broken",
    [
        [],
        {"reward": 1.0},
        record(reward="x"),
        record(response=None),
        record(info=[]),
        record(error=5),
        record(trajectory="x"),
        record(rollout_id=[0, 0]),
        record(rollout_id={"task_index": "5", "repeat_index": 0}),
        record(rollout_id={"task_index": True, "repeat_index": 0}),
        record(rollout_id={"task_index": 5}),
    ],
    ids=repr,
)
def test_what_is_no_record_is_refused(tmp_path: Path, broken: Any) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(dumps(record()) + dumps(broken))
    with pytest.raises(DataError, match=r"a\.jsonl, line 2 is not a rollout: it"):
        list(read_records(path))


def test_a_torn_last_line_and_empty_ones_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(dumps(record()) + b"\n" + dumps(record())[:-9])
    assert [one["rollout_id"] for _, one in read_records(path)] == [record()["rollout_id"]]
    path.write_bytes(b"half\n" + dumps(record()))
    with pytest.raises(DataError, match="line 1 is not a rollout: not JSON"):
        list(read_records(path))


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Cannot read .*a\.jsonl: No such file"):
        list(read_records(tmp_path / "a.jsonl"))


def test_what_was_recorded_with_half_a_character_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    output = [{"type": "message", "role": "assistant", "content": "\ud800"}]
    path.write_bytes(dumps(record(responses_create_params={"input": "Hi"}, response={"output": output})))

    async def answer() -> Any:
        async with make_engine(f"replay:{path}") as engine:
            return (await engine.respond({"input": "Hi"}, episode_id="0-0"))["output"]  # type: ignore[typeddict-item]

    assert asyncio.run(answer()) == output


# -- edited by hand ------------------------------------------------------------------------------------------------


def today(**fields: Any) -> dict[str, Any]:
    """A whole record of this version."""
    return {
        **record(env_id="test/Env-v0", outcome="scored", terminated=True, truncated=False),
        **{"failure_kind": None, "error": None, "error_phase": None, "traceback": None},
        "responses_create_params": {"input": [{"role": "user", "content": "Hi"}]},
        "response": {"output": [], "usage": {"input_tokens": 1, "output_tokens": 2}},
        "info": {"turn": 1, "tool_errors": 0},
        "trajectory": [{"input_ids": [1], "loss_mask": [1], "logprobs": [-0.5]}],
        "timing": {"total": 0.5},
        "schema_version": SCHEMA_VERSION,
        **fields,
    }


def edited(old: str, new: str, **fields: Any) -> bytes:
    """Today's record with a piece of its text replaced."""
    line = dumps(today(**fields))
    assert line.count(old.encode()) == 1
    return line.replace(old.encode(), new.encode())


ODD_LINES = {
    "null": b"null\n",
    "a number": b"5\n",
    "a text": b'"record"\n',
    "a list": b"[1]\n",
    "empty object": b"{}\n",
    "byte order mark": b"\xef\xbb\xbf" + dumps(today()),
    "UTF-16": dumps(today()).decode().encode("utf-16"),
    "not UTF-8": edited("Hi", "H\x80").replace("\x80".encode(), b"\x80"),
    "half a line": dumps(today())[:60] + b"\n",
    "two in a line": dumps(today())[:-1] + dumps(today()),
    "single quotes": repr(today()).encode() + b"\n",
    "nested 100,000 deep": edited('"tool_errors":0', '"deep":' + "[" * 100_000 + "]" * 100_000),
    "5,000 digits": edited('"tool_errors":0', '"long":' + "9" * 5_000),
    "reward of 5,000 digits": edited('"reward":1.0', '"reward":' + "9" * 5_000),
    "reward 1e999": edited('"reward":1.0', '"reward":1e999'),
    "reward Infinity": edited('"reward":1.0', '"reward":Infinity'),
    "reward NaN": edited('"reward":1.0', '"reward":NaN'),
    "reward 10**400 beside half a character": edited('"reward": 1.0', '"reward": 1' + "0" * 400, text="\ud800"),
    **{
        f"{name} {value!r:.30}": dumps(today(**{name: value}))
        for name, values in {
            "reward": ("x", None, True, [1.0], {"value": 1.0}),
            "rollout_id": (None, [0, 0], "0-0", {}, {"task_index": 5}),
            "env_id": (None, 5),
            "dataset": (None, ["a"]),
            "outcome": (None, "won", "masked", "truncated", ["scored"]),
            "failure_kind": (5,),
            "error": (5, "it failed"),
            "error_phase": (5,),
            "traceback": (["x"],),
            "terminated": (1, "true", None),
            "truncated": (True, "no"),
            "info": (None, [], {"turn": "three"}, {"turn": None}, {"tool_errors": -1}, {"turn": True}),
            "response": (None, [], "x", {"output": None}, {"output": ["x"]}, {"output": {}}),
            "responses_create_params": (None, [], {}, {"input": None}, {"input": [5]}),
            "trajectory": (
                "x",
                {},
                [5],
                [{"input_ids": [1], "loss_mask": [1, 1], "logprobs": [0.0]}],
                [{"input_ids": [1], "rewards": []}],
            ),
            "timing": (None, [], {"total": "x"}),
            "turn_rewards": (None, 0.5, {}, [None], ["x"], [True], [float("inf")]),
            "turn_timing": (None, {}, [5], [{"engine": 0.5}], [{"engine": 0.5, "env": "x"}]),
            "schema_version": ("2", 2.5, True, -1, SCHEMA_VERSION + 1, 10**30),
            "attempts": (0.5, "two"),
            "task_fields": (None, []),
        }.items()
        for value in values
    },
    **{
        f"task_index {value!r:.30}": dumps(today(rollout_id={"task_index": value, "repeat_index": 0}))
        for value in ("5", True, None, 1.5, -2, 2**63, 10**30, [0])
    },
    **{
        f"repeat_index {value!r}": dumps(today(rollout_id={"task_index": 0, "repeat_index": value}))
        for value in ("0", False, None, -1)
    },
    **{
        f"usage {value!r}": dumps(today(response={"output": [], "usage": value}))
        for value in ("many", [1], {"input_tokens": "x"}, {"output_tokens": -3}, {"input_tokens": True})
    },
    **{f"without {name}": dumps({k: v for k, v in today().items() if k != name}) for name in ("rollout_id", "reward")},
}


@pytest.mark.parametrize("line", ODD_LINES.values(), ids=ODD_LINES.keys())
def test_a_record_that_was_edited_by_hand_is_one_sentence_with_file_and_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "a.jsonl"
    first = dumps(today(rollout_id={"task_index": 7, "repeat_index": 0}))
    path.write_bytes(first + b"\n" + line + first)
    with RolloutFile(path, resume=True) as file, pytest.raises(DataError) as refused:
        list(file.records())
    said = str(refused.value)
    assert said.startswith(f"{path}, line 3 is not a rollout: ") and said.endswith(".")
    assert "\n" not in said and len(said) < 400 + len(str(path))


def test_what_was_not_edited_is_read() -> None:
    assert read_record(today()) == today()
    masked = today(outcome="masked", reward=None, failure_kind="judge_failed", error="down")
    assert read_record(masked) == masked


# -- a task's fields by the names of ours ----------------------------------------------------------------------------

OURS = sorted(Rollout.__annotations__.keys() - {"responses_create_params"})


@pytest.mark.parametrize("value", [None, "theirs", 5, ["a", {"b": 1}], True])
def test_a_task_s_fields_never_take_the_place_of_ours(tmp_path: Path, value: Any) -> None:
    task = {**row("Say yes.", expected_answer="yes"), **dict.fromkeys(OURS, value)}
    path = tmp_path / "a.jsonl"
    with gym_llm.Run("gym_llm/FollowUp-v0", tasks=[task] * 3, output=path, limit=2) as run:
        run.play()
    written = [one for _, one in read_records(path)]
    plain = gym_llm.collect("gym_llm/FollowUp-v0", tasks=[row("Say yes.", expected_answer="yes")] * 2)
    for one, other in zip(sorted(written, key=lambda one: one["rollout_id"]["task_index"]), plain, strict=True):
        assert one["task_fields"] == dict.fromkeys(OURS, value)
        others = ("timing", "turn_timing", "response", "trajectory", "task_key", "task_sha256", "made_by")
        same = [name for name in other if name not in others]
        assert [one[name] for name in same] == [other[name] for name in same]  # type: ignore[literal-required]
    with gym_llm.Run("gym_llm/FollowUp-v0", tasks=[task] * 3, output=path, resume=True) as run:
        assert run.remaining == 1
        assert run.play().episodes == 3
    (tmp_path / "a.summary.json").unlink()
    with gym_llm.Run("gym_llm/FollowUp-v0", tasks=[task] * 3, output=path, resume=True) as run:
        assert (run.remaining, run.summary.failures) == (0, 0)


def test_in_earlier_records_later_names_are_the_task_s() -> None:
    read = read_record({**record(error_phase=None, schema_version=1, outcome=5, traceback="theirs", dataset=["a"])})
    assert (read["outcome"], read["traceback"]) == ("scored", None)
    assert read["task_fields"] == {"outcome": 5, "traceback": "theirs", "dataset": ["a"]}
