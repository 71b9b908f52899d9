"""What is written of token ids is written once, and read as it was."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing import function_call, message_item

import gym_llm
from gym_llm.data import read_records
from gym_llm.errors import DataError
from gym_llm.records.record_files import parse_record
from gym_llm.records.token_spans import SPAN, with_copies, without_copies
from gym_llm.types import TOKEN_FIELDS
from gym_llm.wrappers import RecordRollouts, TokenIdTracking

_ids = st.lists(st.integers(0, 3), max_size=4)  # few ids, so that one stretch is often like another


@st.composite
def episodes(draw: Any) -> list[list[dict[str, Any]]]:
    """Turns of which some go on with all that was before, some begin anew, some sample nothing or have no ids."""
    turns: list[list[dict[str, Any]]] = []
    before: list[int] = []
    for number in range(draw(st.integers(1, 6))):
        items: list[dict[str, Any]] = []
        for _ in range(draw(st.integers(1, 2))):
            item: dict[str, Any] = {"type": "reasoning", "summary": []}
            if draw(st.integers(0, 4)):
                prompt = (before if draw(st.booleans()) else []) + draw(_ids)
                sampled = draw(_ids)
                log_probs = [-draw(st.integers(0, 3)) / 4 for _ in sampled]
                item.update(zip(TOKEN_FIELDS, (prompt, sampled, log_probs), strict=True))
                before = prompt + sampled
            items.append(item)
        items.append(function_call("get_weather", {"city": "Oslo"}, f"call_{number}"))
        turns.append(items)
    return [*turns, [message_item("Rain.")]]


@given(episodes())
def test_every_record_is_read_as_it_was(turns: list[list[dict[str, Any]]]) -> None:
    env: Any = TokenIdTracking(gym.make("gym_llm/Weather-v0"))
    env.reset(seed=0)
    for turn in turns:
        *_, info = env.step(turn)
    output, trajectory = env.unwrapped.episode.items, info.get("trajectory")
    record: Any = {"rollout_id": {"task_index": 0, "repeat_index": 0}, "reward": 0.0, "trajectory": trajectory}
    record["response"] = {"output": output}
    before = copy.deepcopy(record)
    written = json.loads(json.dumps(without_copies(record)))
    assert record == before
    sampled = [item for item in output if item.get("generation_token_ids")]
    assert len([item for item in written["response"]["output"] if SPAN in item]) == len(sampled)
    assert with_copies(written) == before


def test_a_run_writes_ids_once_and_replays_them(tmp_path: Path) -> None:
    first, again = tmp_path / "first.jsonl", tmp_path / "again.jsonl"
    with gym_llm.Run("gym_llm/Weather-v0", "pocket", output=first, limit=6) as run:
        run.play()
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    assert all(SPAN in line["response"]["output"][-1] for line in lines)
    assert "prompt_token_ids" not in first.read_text()
    with gym_llm.Run("gym_llm/Weather-v0", f"replay:{first}", output=again, limit=6) as run:
        run.play()

    def tokens(path: Path) -> dict[int, Any]:
        return {
            record["rollout_id"]["task_index"]: (
                record["trajectory"],
                [[item.get(name) for name in TOKEN_FIELDS] for item in record["response"]["output"]],
            )
            for _, record in read_records(path)
        }

    assert tokens(again) == tokens(first) and all(trajectory for trajectory, _ in tokens(first).values())
    with gym_llm.Run("gym_llm/Weather-v0", "pocket", output=first, limit=6, resume=True) as run:
        assert run.remaining == 0


def test_the_recording_wrapper_writes_them_once_too(tmp_path: Path) -> None:
    env = RecordRollouts(TokenIdTracking(gym.make("gym_llm/Weather-v0")), tmp_path / "a.jsonl")
    env.reset(seed=0)
    env.step([{**message_item("Rain."), **dict(zip(TOKEN_FIELDS, ([1, 2], [3], [-0.5]), strict=True))}])
    ((line, record),) = read_records(tmp_path / "a.jsonl")
    assert json.loads(line)["response"]["output"][0][SPAN] == [0, 2, 3]
    assert [record["response"]["output"][0][name] for name in TOKEN_FIELDS] == [[1, 2], [3], [-0.5]]


def record_of(item: dict[str, Any], trajectory: Any) -> dict[str, Any]:
    number = {"task_index": 0, "repeat_index": 0}
    return {"rollout_id": number, "reward": 1.0, "response": {"output": [item]}, "trajectory": trajectory}


SEGMENT = {"input_ids": [1, 2], "loss_mask": [0, 1], "logprobs": [0.0, -0.5]}
TOKENS = dict(zip(TOKEN_FIELDS, ([1], [2], [-0.5]), strict=True))


def test_files_of_earlier_versions_are_read_as_they_are() -> None:
    old = record_of({"type": "message", **TOKENS}, [SEGMENT])
    assert parse_record(json.dumps(old).encode())["response"]["output"] == [{"type": "message", **TOKENS}]


@pytest.mark.parametrize("trajectory", [None, [], [SEGMENT], "mine", [{"input_ids": 3}], {"a": 1}, [None]])
@pytest.mark.parametrize("tokens", [{}, TOKENS, {**TOKENS, "prompt_token_ids": None}, {"generation_token_ids": 5}])
def test_what_somebody_else_calls_a_span_is_not_written(trajectory: Any, tokens: dict[str, Any]) -> None:
    record: Any = record_of({"type": "message", SPAN: [7, 7, 7], **tokens}, trajectory)
    written = json.loads(json.dumps(without_copies(record)))
    assert with_copies(written)["response"]["output"] == [{"type": "message", **tokens}]


@pytest.mark.parametrize(
    "span", [None, 3, [], [0, 1], [0, 1, 9], [1, 0, 1], [-1, 0, 1], [0, 2, 1], [0, -1, 1], ["0", 0, 1]]
)
def test_a_span_that_fits_nothing_is_a_sentence(span: Any) -> None:
    line = json.dumps(record_of({"type": "message", SPAN: span}, [SEGMENT])).encode()
    with pytest.raises(DataError, match=r"an item's `trajectory_span` is .* not in its trajectory"):
        parse_record(line)
