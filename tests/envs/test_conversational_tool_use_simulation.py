"""ConversationalToolUse: NeMo Gym's own episodes come out the same, and a simulator's fault masks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from testing import function_call, message

from gym_llm.errors import DataError, JudgeError

ENV_ID = "gym_llm/ConversationalToolUse-v0"
RECORDED = json.loads((Path(__file__).parent / "vectors" / "conversational_tool_use.json").read_text("utf-8"))
"""Episodes of random scripts, played by NeMo Gym's own agent and resources server (07d6b0d) for this test."""
GOOD = '{"success": true, "explanation": "fine"}'
BAD = '{"success": false, "explanation": "bad"}'
JUDGED = {"g": GOOD, "f": f"```json{GOOD}```", "b": BAD, "x": "garble"}
SAID = {
    "S": "###STOP###",
    "T": "###TRANSFER###",
    "C": "Customer: Hello, I want a day.",
    "i": "It is A1.",
    "k": "  customer:  Thanks",
}
RESULTS = {"m": '{"day":"Monday"}', "f": '```json{"day":"Monday"}```', "3": '{"day":3}', "o": "oops"}
PARTIES = ("customer", "representative", "tool_results")


def replay(*texts: str) -> dict[str, Any]:
    return {"engine": "replay:", "kwargs": {"answers": list(texts)}}


def judge_texts(episode: dict[str, Any]) -> list[str]:
    """The judge's texts in the order in which we ask: a party's steps at once, so tries come in rounds."""
    if episode["config"]["verification_type"] != "message":
        return [
            "garble"
            if letters == "x"
            else json.dumps(
                {
                    f"{party}_{field}": letter == "1" if field == "success" else "e"
                    for party, letter in zip(PARTIES, letters, strict=True)
                    for field in ("success", "explanation")
                }
            )
            for letters in episode["combined"]
        ]
    stops, texts = episode["config"]["enable_termination"], []
    for is_agent in (False, True):
        asked = [
            tries
            for source, tries in zip(episode["sources"], episode["table"], strict=True)
            if (source == "a") == is_agent
        ]
        left, failed = asked, False
        for trial in range(3):
            texts += [JUDGED[tries[trial]] for tries in left]
            failed |= any(tries[trial] == "b" or (trial == 2 and tries[trial] == "x") for tries in left)
            left = [tries for tries in left if tries[trial] == "x"]
        if failed and stops:
            return texts
    return [*texts, *(JUDGED[letter] for letter in episode["whole"])]


def make(**kwargs: Any) -> gym.Env:
    return gym.make(ENV_ID, **{"judge": replay(), "user": replay(), "tool_simulator": replay(), **kwargs})


def row(**fields: Any) -> dict[str, Any]:
    scenario = {"reason_for_contact": "another day", "outside_policy_scope": fields.pop("outside", False)}
    params = {"input": [], "parallel_tool_calls": fields.pop("parallel", False)}
    given = {"policy": "Be kind.", "tools": RECORDED["tools"], "customer_scenario": scenario}
    return {"responses_create_params": params, **given, **fields}


def finish(env: gym.Env, task: dict[str, Any], turns: list[Any]) -> tuple[float, bool, dict[str, Any]]:
    env.reset(options={"task": task})
    for turn in turns:
        _, reward, terminated, truncated, info = env.step(turn)
        if terminated or truncated:
            return float(reward), truncated, info
    raise AssertionError("the episode goes on")


def as_response(turn: dict[str, Any]) -> dict[str, Any]:
    items = []
    for each in turn["items"]:
        if isinstance(each, str):
            items += message(each)
        elif each is None:
            items.append({"type": "reasoning", "summary": []})
        else:
            items.append({"type": "function_call", **dict(zip(("call_id", "name", "arguments"), each, strict=True))})
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return {
        "id": "r",
        "object": "response",
        "created_at": 0.0,
        "model": "m",
        "status": "completed",
        "output": items,
    } | (cut if turn["cut"] else {})


@pytest.mark.parametrize("number", range(len(RECORDED["episodes"])))
def test_recorded_episodes_score_as_nemo_gym_scored_them(number: int) -> None:
    episode = RECORDED["episodes"][number]
    env = make(
        judge=replay(*judge_texts(episode)),
        user=replay(*(SAID[letter] for letter in episode["says"])),
        tool_simulator=replay(*(RESULTS[letter] for letter in episode["results"])),
        max_turns=episode["max_turns"],
        conform="nemo",
        **episode["config"],
    )
    task = row(parallel=episode["parallel"], outside=episode["outside"], initial_user_message=episode["initial"])
    expected = dict(episode["expected"])
    if expected["terminal_state"] == "incomplete" and not episode["turns"]:
        with pytest.raises(JudgeError, match="before the model's first turn"):
            env.reset(options={"task": task})
        assert expected["instance_config"]["mask_sample"]
        return
    reward, _, info = finish(env, task, [as_response(turn) for turn in episode["turns"]])
    for name in ("trajectory_invalid_reasons", "failure_labels"):
        assert sorted(info[name]) == sorted(expected.pop(name))
    assert reward == expected.pop("reward")
    assert {name: info[name] for name in expected} == expected


def test_a_wrong_call_is_answered_and_the_judge_does_not_see_a_simulator_in_it() -> None:
    env = make(judge=replay(GOOD, GOOD, GOOD, GOOD, GOOD, GOOD), user=replay("Hi.", SAID["S"]))
    turns = [[function_call("lost")], [function_call("find", {"code": 7})], message("Done.")]
    reward, _, info = finish(env, row(), turns)
    assert (reward, info["tool_errors"], info["num_tool_results"], info["num_tool_failures"]) == (1.0, 2, 2, 0)
    outputs = [item["output"] for item in env.unwrapped.episode.items if item["type"] == "function_call_output"]
    assert "no tool named 'lost'" in outputs[0] and "do not fit" in outputs[1]
    assert [step["reward"] for step in info["step_evaluations"]] == [1, 1, None, 1, None, 1, 1]


@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        ([BAD, GOOD, GOOD], "customer"),
        ([GOOD, GOOD, "garble", "garble", "garble"], "verdict"),
        ([""], "no answer|nothing|verdict"),
    ],
)
def test_a_simulator_or_a_judge_that_fails_masks_the_episode(texts: list[str], fault: str) -> None:
    env = make(judge=replay(*texts), user=replay("Hi.", SAID["S"]))
    with pytest.raises(JudgeError, match=fault):
        finish(env, row(), [message("Hello.")])


def test_a_tool_simulator_that_never_fits_masks_the_episode() -> None:
    env = make(user=replay("Hi."), tool_simulator=replay("oops", '{"day":3}', "{}"))
    with pytest.raises(JudgeError, match="3 times"):
        finish(env, row(), [[function_call("find", {"code": "A1"})]])


def test_a_result_is_asked_for_until_it_fits() -> None:
    env = make(user=replay("Hi."), tool_simulator=replay("oops", RESULTS["m"]))
    env.reset(options={"task": row()})
    observation, *_ = env.step([function_call("find", {"code": "A1"})])
    assert observation["input"][-1]["output"] == RESULTS["m"]


def test_who_plays_the_tools_sees_what_was_said_and_returned() -> None:
    env = make(user=replay("Hi."), tool_simulator=replay(RESULTS["m"], "7"))
    env.reset(options={"task": row(parallel=True)})
    asked = []
    engine_of = "gym_llm.envs.conversational_tool_use_simulation.env.auxiliary_engine"
    with pytest.MonkeyPatch.context() as patch:

        class Watched:
            async def respond(self, request: dict[str, Any]) -> dict[str, Any]:
                asked.append(request["input"])
                return {"output": message(RESULTS["m"])}

        async def watched(*_: Any) -> Watched:
            return Watched()

        patch.setattr(engine_of, watched)
        env.step([function_call("find", {"code": "A1"}), function_call("note", {"text": "x"}, "call_2")])
    first, second = asked
    assert "<customer>\nHi.\n</customer>" in first[-1]["content"] and '{"code": "A1"}' in first[-1]["content"]
    assert second[-2] == {"type": "message", "role": "assistant", "content": RESULTS["m"]}
    assert "<conversation>" not in second[-1]["content"] and "Tool: note" in second[-1]["content"]
    assert "Be kind." in second[0]["content"] and second[0]["role"] == "system"


def test_a_row_may_begin_in_the_middle() -> None:
    begun = [{"role": "user", "content": "Hi."}, function_call("find", {"code": "A1"})]
    task = row()
    task["responses_create_params"]["input"] = begun
    env = make(tool_simulator=replay(RESULTS["m"]))
    observation, _ = env.reset(options={"task": task})
    assert observation["input"][-1]["output"] == RESULTS["m"] and observation["tools"][0]["name"] == "find"
    task["responses_create_params"]["input"] = [*begun[:1], {"role": "assistant", "content": "Hello."}]
    observation, _ = make(user=replay("Customer: It is A1.")).reset(options={"task": task})
    assert observation["input"][-1] == {"type": "message", "role": "user", "content": "It is A1."}


@pytest.mark.parametrize(
    "items",
    [
        [{"role": "user", "content": "Hi."}, {"role": "user", "content": SAID["S"]}],
        [{"role": "user", "content": "Hi."}, function_call("lost")],
        [{"type": "function_call_output", "call_id": "c", "output": ""}],
    ],
)
def test_a_row_whose_conversation_cannot_go_on_is_refused(items: list[dict[str, Any]]) -> None:
    task = row()
    task["responses_create_params"]["input"] = items
    with pytest.raises(DataError):
        make().reset(options={"task": task})


def test_arguments_that_are_long_are_not_matched_with_patterns() -> None:
    tool = {
        "name": "say",
        "parameters": {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}},
    }
    env = make(user=replay("Hi.", "Hm."))
    env.reset(options={"task": {**row(), "tools": [tool]}})
    observation, *_ = env.step([function_call("say", {"text": "a" * 5000})])
    assert "longer than" in observation["input"][-1]["output"]


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="user"):
        make(user="nowhere:")
    with pytest.raises(ValueError, match="generation_attempts"):
        make(generation_attempts=0)
    with pytest.raises(DataError, match="one name"):
        make(tasks=[{**row(), "tools": RECORDED["tools"] * 2}]).reset()
