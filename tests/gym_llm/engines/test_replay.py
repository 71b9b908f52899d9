"""ReplayEngine on rollout files."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import gym_llm
from gym_llm.engines.engine import Engine
from gym_llm.engines.replay import ReplayEngine
from gym_llm.errors import EngineError, EngineUnavailable
from gym_llm.types import TOKEN_FIELDS, Item, Request, ResponseDict

QUESTION = {"role": "user", "content": "Weather in Rome and Oslo?"}
THOUGHT = {"type": "reasoning", "id": "rs", "summary": []}
CALLS = [
    {"type": "function_call", "name": "get_weather", "arguments": "{}", "call_id": "a"},
    {"type": "function_call", "name": "get_weather", "arguments": "{}", "call_id": "b"},
]
OUTPUTS = [{"type": "function_call_output", "call_id": call_id, "output": "sun"} for call_id in "ab"]
ANSWER = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sun."}]}
FOLLOW_UP = {"type": "message", "role": "user", "content": "And Bern?"}
ITEMS = [THOUGHT, *CALLS, *OUTPUTS, ANSWER, FOLLOW_UP, ANSWER]
USAGE = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}


def record(output: list[Any], task: int = 0, repeat: int = 0, **response: Any) -> dict[str, Any]:
    return {
        "rollout_id": {"task_index": task, "repeat_index": repeat},
        "responses_create_params": {"input": [{"role": "system", "content": "Be brief."}, QUESTION]},
        "response": {"output": output, "status": "completed", "model": "recorded", "usage": USAGE, **response},
        "reward": 1.0,
    }


def write(path: Path, *lines: Any) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def replay(path: str, *inputs: Any, episode_id: str = "0-0") -> list[Any]:
    """The responses to the inputs, one after the other."""

    async def run() -> list[Any]:
        async with ReplayEngine(path) as engine:
            return [await engine.respond({"input": said}, episode_id=episode_id) for said in inputs]

    return asyncio.run(run())


def test_turns_come_back_one_by_one(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", record([ANSWER], task=1), record(ITEMS))
    start: list[Item] = record([])["responses_create_params"]["input"]
    second, third = [*start, *ITEMS[:5]], [*start, *ITEMS[:7]]
    responses = replay(path, start, second, third)
    assert [response["output"] for response in responses] == [[THOUGHT, *CALLS], [ANSWER], [ANSWER]]
    assert [response["usage"] for response in responses] == [None, None, USAGE]
    assert {response["model"] for response in responses} == {"recorded"}


def test_turns_that_the_environment_does_not_answer_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    thoughts = [{**THOUGHT, **dict(zip(TOKEN_FIELDS, ([1], [n], [-0.5]), strict=True))} for n in range(2)]
    answer = {**ANSWER, **dict(zip(TOKEN_FIELDS, ([1], [5], [-0.5]), strict=True))}
    items = [*thoughts, answer, FOLLOW_UP, thoughts[0]]
    path = write(tmp_path / "r.jsonl", {**record(items), "info": {"turn": 4}})
    starts = [[QUESTION, *items[:known]] for known in (0, 1, 2, 4)]
    assert [answered["output"] for answered in replay(path, *starts)] == [
        [thoughts[0]], [thoughts[1]], [answer], [thoughts[0]]
    ]  # fmt: skip
    bare = [
        [{name: value for name, value in item.items() if name not in TOKEN_FIELDS} for item in one] for one in starts
    ]
    said = [[answered["output"] for answered in replay(path, *asked)] for asked in (bare, starts)]
    assert said[0] == said[1]  # requests may have lost the ids
    unfinished = {**record(items[:4], status="incomplete"), "info": {"turn": 4}}  # the last prompt did not fit
    path = write(tmp_path / "unfinished.jsonl", unfinished)
    assert [len(answered["output"]) for answered in replay(path, *starts)] == [1, 1, 1, 0]
    # A record that does not name its turns is split by what the environment said.
    path = write(tmp_path / "nameless.jsonl", record(items))
    assert replay(path, starts[0])[0]["output"] == [*thoughts, answer]


def test_an_episode_can_be_replayed_again_and_in_any_order(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", record(ITEMS))
    start = [QUESTION]
    again = replay(path, [*start, *ITEMS[:5]], start, start, "Weather in Rome and Oslo?")
    assert [len(response["output"]) for response in again] == [1, 3, 3, 3]


def test_repeats_are_told_apart_and_the_last_record_of_an_episode_counts(tmp_path: Path) -> None:
    other = {**ANSWER, "id": "other"}
    path = write(tmp_path / "r.jsonl", record([]), record([other], repeat=1), record([ANSWER]))
    assert replay(path, [QUESTION])[0]["output"] == [ANSWER]
    assert replay(path, [QUESTION], episode_id="0-1")[0]["output"] == [other]


def test_nemo_gyms_rollouts_are_replayed_by_their_task_and_rollout_index(tmp_path: Path) -> None:
    first, second = record([ANSWER]), record([THOUGHT, ANSWER])
    for number, theirs in enumerate((first, second)):
        del theirs["rollout_id"]
        theirs |= {"_ng_task_index": 3, "_ng_rollout_index": number}
    path = write(tmp_path / "r.jsonl", first, second)
    assert replay(path, [QUESTION], episode_id="3-0")[0]["output"] == [ANSWER]
    assert replay(path, [QUESTION], episode_id="3-1")[0]["output"] == [THOUGHT, ANSWER]


def test_status_comes_with_the_last_turn(tmp_path: Path) -> None:
    details = {"reason": "max_output_tokens"}
    path = write(tmp_path / "r.jsonl", record(ITEMS[:6], status="incomplete", incomplete_details=details))
    first, last = replay(path, [QUESTION], [QUESTION, *ITEMS[:5]])
    assert (first["status"], first["incomplete_details"]) == ("completed", None)
    assert (last["status"], last["incomplete_details"]) == ("incomplete", details)


def test_a_turn_that_did_not_fit_the_context_is_replayed_as_empty(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", record(ITEMS[:5], status="incomplete"), record([], task=1, status="incomplete"))
    last = replay(path, [QUESTION, *ITEMS[:5]])[0]
    assert last["output"] == [] and last["status"] == "incomplete"
    assert replay(path, [QUESTION], episode_id="1-0")[0]["output"] == []


def test_missing_episodes_and_turns_are_errors(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", record([ANSWER]))
    with pytest.raises(EngineError, match="no episode '7-0'"):
        replay(path, [QUESTION], episode_id="7-0")
    with pytest.raises(EngineError, match="1 turns of episode 0-0, but turn 2"):
        replay(path, [QUESTION, ANSWER, FOLLOW_UP])


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    whole = json.dumps(record([ANSWER]))
    path.write_text(whole + "\n\n" + json.dumps(record([ANSWER], task=1))[:50])
    assert replay(str(path), [QUESTION])[0]["output"] == [ANSWER]
    with pytest.raises(EngineError, match="no episode '1-0'"):
        replay(str(path), [QUESTION], episode_id="1-0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{\n", "line 1: not JSON"),
        ('{"task": 1}\n', "line 1: no rollout record"),
        ("[1]\n", "line 1: no rollout record"),
    ],
)
def test_files_that_hold_something_else_are_refused_at_start(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(EngineUnavailable, match=expected):
        replay(str(path))


def test_a_missing_file_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"Cannot read .*nothing\.jsonl"):
        replay(str(tmp_path / "nothing.jsonl"))


def test_an_engine_that_was_not_started_says_so(tmp_path: Path) -> None:
    engine = ReplayEngine(write(tmp_path / "r.jsonl", record([ANSWER])))
    with pytest.raises(EngineError, match="not running"):
        asyncio.run(engine.respond({"input": [QUESTION]}, episode_id="0-0"))


class _Counting(Engine):
    """Says how many items it was sent."""

    model = "counting"

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        text = f"{len(request['input'])} items"
        message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        return {
            "id": "r",
            "object": "response",
            "created_at": 1.0,
            "model": "m",
            "status": "completed",
            "output": [message],
        }


def test_a_run_replayed_gives_the_same_episodes(tmp_path: Path) -> None:
    recorded = gym_llm.collect("gym_llm/FollowUp-v0", _Counting(), repeats=2)
    path = write(tmp_path / "r.jsonl", *recorded)
    replayed = gym_llm.collect("gym_llm/FollowUp-v0", f"replay:{path}", repeats=2)
    assert len(replayed) == len(recorded) == 10
    for before, after in zip(recorded, replayed, strict=True):
        assert after["error"] is None
        assert after["response"]["output"] == before["response"]["output"]
        assert (after["rollout_id"], after["reward"]) == (before["rollout_id"], before["reward"])
    assert any(len(record["response"]["output"]) > 1 for record in replayed)
