"""The limits of what comes from outside: stated, configurable, and kept."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.error import InvalidAction
from testing import ROOT, cpu_seconds, function_call, message, outputs

from gym_llm.cli import main
from gym_llm.errors import UsageError
from gym_llm.records.rollout_file import RolloutFile
from gym_llm.tokens.parsers import make_parser
from gym_llm.tokens.parsers.tool_calls import INVALID_CALL
from gym_llm.utils.limits import CALLS, ITEMS, LIMITS, ROW_BYTES, VALUES, check_limits, count_values, limit

MOST_SECONDS = 0.5
"""Of processor time on a busy machine; benchmarks/loop_holds.py promises a tenth of it."""
TOOL = {"type": "function", "name": "get_weather", "parameters": {}}
SHAPES = ("[],", "1,", '"",', "{},", '"a":{},', "[[1],")


def step(action: list) -> tuple[list[str], dict]:
    """The outputs of a turn of Weather's, and its info."""
    env = gym.make("gym_llm/Weather-v0", max_turns=2)
    env.reset(seed=0)
    observation, _, _, _, info = env.step(action)
    return outputs(observation), info


def test_every_limit_is_documented() -> None:
    text = (ROOT / "docs" / "concepts" / "task.md").read_text()
    assert [variable for variable in LIMITS if f"`{variable}`" not in text] == []


@pytest.mark.parametrize("text", ["many", "-1", "0", "1.5", "9" * 30, "１０００"])
def test_a_variable_that_is_no_number_is_one_sentence(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(ROW_BYTES, text)
    with pytest.raises(UsageError, match=f"{ROW_BYTES} is a whole number of 1 or more"):
        check_limits()
    assert main(["list"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_variable_that_is_empty_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VALUES, "")
    assert limit(VALUES) == LIMITS[VALUES].default


@pytest.mark.parametrize(
    "value", [1, "a", [], {}, [1, 2, [3, []]], {"a": 1, "b": [{}, {"c": '",[{'}]}, ["\\", '\\"', ",,,"], {"\\": "\\\\"}]
)
def test_values_are_counted_as_json_has_them(value: object) -> None:
    def values(value: object) -> int:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return 1 + sum(map(values, parts))

    counted = count_values(json.dumps(value), 100)
    empties = json.dumps(value).count("[]") + json.dumps(value).count("{}")
    assert values(value) <= counted <= values(value) + empties


def test_calls_beyond_the_limit_are_answered_and_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CALLS, "100")
    env = gym.make("gym_llm/Counter-v0")
    env.reset(seed=0)
    calls = [function_call("increment_counter", {"count": 1}, f"c{number}") for number in range(150)]
    before = env.unwrapped.episode.state.count  # type: ignore[attr-defined]
    observation, *_, info = env.step(calls)
    assert env.unwrapped.episode.state.count - before == 100  # type: ignore[attr-defined]
    said = outputs(observation)
    assert len(said) == 150 and info["tool_errors"] == 50
    assert said[99] == '{"success":true}' and "the first 100 calls" in said[100]


def test_arguments_beyond_the_limit_are_refused_and_others_of_the_turn_are_not() -> None:
    large = function_call("get_weather", '{"city": [' + "[]," * 20_000 + "0]}")
    small = function_call("get_weather", {"city": "Oslo"})
    said, info = step([large, small, large])
    assert "The arguments of get_weather are too many" in said[0] and "16,384" in said[0]
    assert "cold" in said[1] and info["tool_errors"] == 2


def test_a_long_text_full_of_commas_is_one_value() -> None:
    said, info = step([function_call("get_weather", {"city": ',[{"\\' * 200_000})])
    assert info["tool_errors"] == 0 and "cold" in said[0]


def test_the_values_of_a_turn_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VALUES, "1000")
    calls = [function_call("get_weather", {"city": "Oslo", "more": [0] * 400}) for _ in range(4)]
    said, info = step(calls)
    assert info["tool_errors"] == 2 and "cold" in said[1] and "at most 1,000" in said[2]


@pytest.mark.parametrize(
    "action",
    [
        message("4") * 4_097,
        [{**message("")[0], "content": [{}] * 4_097}],
        [{"type": "reasoning", "summary": [{}] * 4_097}],
    ],
)
def test_an_answer_of_more_items_or_parts_is_none(action: list, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidAction, match=rf"has 4,097 .*4,096 is the limit \({ITEMS}\)"):
        step(action)
    monkeypatch.setenv(ITEMS, "5000")
    step(action)


@pytest.mark.parametrize("unit", SHAPES)
def test_a_megabyte_of_values_is_never_parsed(unit: str) -> None:
    value = "[" + unit * (1_000_000 // len(unit)) + "0]"
    text = f'{{"city": {value}}}'
    assert cpu_seconds(step, [function_call("get_weather", text)]) < MOST_SECONDS
    assert cpu_seconds(step, [function_call("get_weather", text[:10_000] + "0]}")] * 100) < MOST_SECONDS


@pytest.mark.parametrize("unit", SHAPES)
@pytest.mark.parametrize(("start", "end"), [("<tool_call>", "</tool_call>"), ("", "")])
def test_a_written_call_of_a_megabyte_is_a_broken_one(unit: str, start: str, end: str) -> None:
    value = "[" + unit * (1_000_000 // len(unit)) + "0]"
    text = f'{start}{{"name": "get_weather", "parameters": {value}}}{end}'
    parser = make_parser("tool_calls")

    def parse() -> list:
        return parser.parse(message(text), {"input": [], "tools": [TOOL]})

    (call,) = parse()
    assert call["type"] == "function_call" and call["name"] == INVALID_CALL and value in call["arguments"]
    assert cpu_seconds(parse) < MOST_SECONDS


def test_small_calls_before_a_large_one_are_made() -> None:
    small = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
    large = '<tool_call>{"name": "get_weather", "arguments": {"city": [' + "0," * 20_000 + "0]}}</tool_call>"
    calls = make_parser("tool_calls").parse(message(small + large + small), {"input": [], "tools": [TOOL]})
    assert [call["name"] for call in calls] == ["get_weather", INVALID_CALL, "get_weather"]


def test_thousands_of_harmony_messages_take_linear_time() -> None:
    pytest.importorskip("openai_harmony")
    parser = make_parser("harmony")
    marked = message("<|channel|>final<|message|>4")
    items = [*marked, *({**message("4")[0], "generation_token_ids": [1]} for _ in range(4_000))]
    assert cpu_seconds(parser.parse, items, {"input": []}) < MOST_SECONDS


def test_thousands_of_places_in_a_trajectory_that_are_a_models_own_take_linear_time(tmp_path: Path) -> None:
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}
    segment = {"input_ids": [3, 4], "loss_mask": [0, 1], "logprobs": [0.0, -0.5]}
    items = [
        {**message("4")[0], **(tokens if number % 2 else {"trajectory_span": [0, 0, 1]})} for number in range(4_000)
    ]
    record = {"response": {"output": items}, "trajectory": [segment] * 4_000}
    with RolloutFile(tmp_path / "rollouts.jsonl") as file:
        assert cpu_seconds(file.append, record) < MOST_SECONDS
        written = json.loads((tmp_path / "rollouts.jsonl").read_bytes())["response"]["output"]
    assert not any("trajectory_span" in item for item in written) and written[1]["generation_token_ids"] == [2]
