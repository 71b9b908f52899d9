"""Two hundred (task, answer) pairs of verifiers that need no model: right, wrong and odd answers, some with tools.

An answer is a list of turns, each what `env.step` takes; where an episode asks for more the model says "Done.".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import gymnasium as gym
from testing import Item, function_call, message_item, response

from gym_llm import VerifierEnv, tool
from gym_llm.types import Verdict

MAX_TURNS = 6
Turn = list[Item] | dict[str, Any]


class Pair(NamedTuple):
    """One episode.

    Attributes:
        env_id: Who scores.
        row: The task; its `metadata` has the pair's number.
        turns: What the model says.
        talks: Whether the user may say something after the model, so that who hands in one conversation cannot play it.
    """

    env_id: str
    row: dict[str, Any]
    turns: list[Turn]
    talks: bool = False

    def turn(self, number: int) -> Turn:
        """The turn of this number."""
        return self.turns[number] if number < len(self.turns) else said("Done.")


class Faulty(VerifierEnv):
    """Rewards turns and parts; its hooks and a tool fail where they are told to."""

    def setup(self, task: Any) -> list[str]:
        return []

    @tool
    def note(self, state: list[str], text: str) -> str:
        """Keep a text; each is worth more than the one before."""
        if text == "raise":
            raise KeyError(text)
        state.append(text)
        assert self.episode is not None
        self.episode.step_reward += 0.1 + (len(state) - 1) / 7
        return text

    def verify(self, task: Any, episode: Any) -> Verdict:
        if episode.answer == "raise":
            raise ValueError("told so")
        if episode.answer == "nan":
            return Verdict(float("nan"))
        return Verdict(len(episode.answer) / 3, {"noted": len(episode.state)}, {"length": len(episode.answer) / 7})


FAULTY = "test/SameRewardsFaulty-v0"
gym.register(FAULTY, Faulty, disable_env_checker=True)


def said(text: str, **fields: Any) -> Turn:
    """A turn that says a text."""
    return response(message_item(text), **fields) if fields else [message_item(text)]


def called(*calls: tuple[str, Any]) -> Turn:
    """A turn of calls."""
    return [function_call(name, arguments, f"call_{number}") for number, (name, arguments) in enumerate(calls)]


_ODD = ("", " ", "?", "\\boxed{", "\\boxed{}", "ünï\u202ecode \\boxed{\U0001f600}", "a\x00b", "x" * 20_000, "{" * 500)
_THINKING: Item = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Let us see."}]}


def _math() -> Iterator[tuple[dict[str, Any], list[Turn]]]:
    expected = {"11/12": ("\\boxed{\\frac{11}{12}}", "\\boxed{0.91\\overline{6}}", "\\boxed{22/24}", "\\boxed{12/11}")}
    expected |= {"x^2-1": ("\\boxed{(x-1)(x+1)}", "\\boxed{x^2 - 1}", "The answer is $x^2-1$.", "\\boxed{x^2+1}")}
    expected |= {"4": ("\\boxed{4}", "\\boxed{4.0}", "\\boxed{\\text{four}}", "\\boxed{5} or \\boxed{4}")}
    for answer, texts in expected.items():
        for text in (*texts, *_ODD[:7]):
            yield {"expected_answer": answer}, [said(text)]
        yield {"expected_answer": answer}, [[_THINKING], [_THINKING, message_item(texts[0])]]
        cut = {**message_item(texts[0]), "phase": "final_answer"}  # as an engine marks it
        yield {"expected_answer": answer}, [response(cut, status="incomplete")]


def _choices() -> Iterator[tuple[dict[str, Any], list[Turn]]]:
    options = [{letter: f"Option {letter.lower()}"} for letter in "ABCD"]
    for mode, text in product(
        ("strict_single_letter_boxed", "lenient_boxed", "lenient_answer_colon"),
        ("\\boxed{B}", "\\boxed{ b }", "\\boxed{C}", "Answer: B", "\\boxed{A, B}", "B", "\\boxed{Option b}", *_ODD[:5]),
    ):
        yield {"options": options, "expected_answer": "B", "grading_mode": mode}, [said(text)]


def _instructions() -> Iterator[tuple[dict[str, Any], list[Turn]]]:
    wanted = {"instruction_id_list": ["punctuation:no_comma", "keywords:existence"], "prompt": "Snow."}
    for mode, text in product(
        ("binary", "fraction"),
        ("Snow on the lamp.", "Snow, and a lamp.", "No words of these.", "SNOW LAMP", *_ODD[:2], *_ODD[5:]),
    ):
        metadata = {**wanted, "kwargs": [{}, {"keywords": ["snow", "lamp"]}], "grading_mode": mode}
        yield {"verifier_metadata": metadata}, [said(text)]


def _weather() -> Iterator[tuple[dict[str, Any], list[Turn]]]:
    paris = ("get_weather", {"city": "Paris"})
    answers: list[list[Turn]] = [
        [called(paris), said("Cold.")],
        [called(("get_weather", {"city": " PARIS ", "more": [1, None]})), said("Cold.")],
        [called(("get_weather", {"city": "Oslo"})), said("Cold.")],
        [called(("get_weather", {"city": "Oslo"}), paris), said("Cold.")],
        [called(("get_wether", {"city": "Paris"})), called(paris), said("Cold.")],
        [called(("get_weather", {"town": "Paris"})), said("Sorry.")],
        [called(("get_weather", '{"city": "Paris"')), said("Sorry.")],
        [called(("get_weather", "[1]")), called(("get_weather", "")), said("Sorry.")],
        [called(("get_weather", {"city": "\x00\U0001f600"})), said("")],
        [said("I do not know.")],
        [[*called(paris), message_item("Let me look.")], said("Cold.")],
        [[_THINKING, *called(paris)], [_THINKING], said("Cold.")],
        [called(("get_weather", {"city": str(number)})) for number in range(MAX_TURNS - 1)] + [called(paris)],
        [called(("get_weather", {"city": str(number)})) for number in range(MAX_TURNS)]
        + [called(paris), said("Cold.")],
        [called(paris), said("Cold", status="incomplete")],
    ]
    for city, answer in product(("Paris", None), answers):
        yield {} if city is None else {"expected_city": city}, answer


def _counter() -> Iterator[tuple[dict[str, Any], list[Turn]]]:
    four, five = ("increment_counter", {"count": 4}), ("increment_counter", {"count": 5})
    read = ("get_counter_value", {})
    answers: list[list[Turn]] = [
        [called(four), called(five), called(read), said("12")],
        [called(four, five), called(read), said("12")],
        [called(four), said("12")],
        [called(four), called(("increment_counter", {"count": "5"})), said("12")],
        [called(four), called(("increment_counter", {"count": 5.5})), said("12")],
        [called(("increment_counter", {"count": 10**30})), said("12")],
        [said("12")],
    ]
    for start, answer in product((3, 12, -1), answers):
        yield {"initial_count": start, "expected_count": 12}, answer


def _graded_calls() -> Iterator[tuple[dict[str, Any], list[Turn]]]:
    names = {"tide_table": ("harbour", "day"), "convert_length": ("source", "target")}
    tools = [
        {
            "type": "function",
            "name": name,
            "description": "",
            "strict": False,
            "parameters": {"type": "object", "properties": {field: {"type": "string"} for field in fields}},
        }
        for name, fields in names.items()
    ]
    right = ("tide_table", {"harbour": "Cuxhaven", "day": "2031-05-03"})
    answers: list[list[Turn]] = [
        [called(right)],
        [called(("tide_table", {"day": "2031-05-03", "harbour": "Cuxhaven"}))],
        [called(("tide_table", {"harbour": "cuxhaven", "day": "2031-05-03"}))],
        [called(("convert_length", {"source": "m", "target": "km"}))],
        [called(right, right)],
        [called(("tide_table", "{"))],
        [said("At noon.")],
        [[message_item("Let me look."), *called(right)]],
        [[]],
    ]
    for answer in answers:
        task = {"expected_answers": [{"name": right[0], "arguments": right[1]}]}
        yield {"_tools": tools, **task}, answer


def _talk() -> Iterator[tuple[dict[str, Any], list[Turn]]]:
    for words, expected in product(
        (("Jupiter", "Saturn"), ("Jupiter", "Mars"), ("Saturn",), ("", ""), ("Jupiter", _ODD[5])),
        ("Saturn", "Jupiter"),
    ):
        yield {"follow_ups": ["And then?"], "expected_answer": expected}, [said(word) for word in words]


def _games() -> Iterator[tuple[dict[str, Any], list[Turn]]]:
    stand, hit = "<action>stand</action>", "<action>hit</action>"
    for seed, moves in product(range(8), ((stand,), (hit, stand), (hit, hit, hit, hit), ("?",))):
        yield {"seed": seed}, [said(move) for move in moves]


def _faults() -> Iterator[tuple[dict[str, Any], list[Turn]]]:
    yield {}, [said("raise")]
    yield {}, [said("nan")]
    yield {}, [called(("note", {"text": "raise"})), said("x")]
    yield {}, [called(("note", {"text": "a"})), called(("note", {"text": "b"})), said("yes")]
    yield {}, [called(("note", {"text": "a"}), ("note", {"text": "b"}), ("note", {"text": "c"})), said("abcd")]
    yield {}, [said("abcdefghijk")]
    one = ("note", {"text": "a"})
    # Summed call by call these rewards are another float than turn by turn.
    yield {}, [called(one), called(one), called(one, one, one), called(one, one, one), said("abcd")]


KINDS = {
    "gym_llm/MathVerify-v0": _math,
    "gym_llm/MultipleChoice-v0": _choices,
    "gym_llm/InstructionFollowing-v0": _instructions,
    "gym_llm/Weather-v0": _weather,
    "gym_llm/Counter-v0": _counter,
    "gym_llm/XlamFC-v0": _graded_calls,
    "gym_llm/FollowUp-v0": _talk,
    "gym_llm/Blackjack-v0": _games,
    FAULTY: _faults,
}


def pairs() -> list[Pair]:
    """All of them."""
    found: list[Pair] = []
    for env_id, make in KINDS.items():
        talks = env_id in ("gym_llm/FollowUp-v0", "gym_llm/Blackjack-v0")
        for fields, turns in make():
            fields = json.loads(json.dumps(fields))
            params: dict[str, Any] = {"metadata": {"pair": str(len(found))}}
            params["input"] = [{"role": "user", "content": "What is it?"}]
            if (tools := fields.pop("_tools", None)) is not None:
                params["tools"] = tools
            found.append(Pair(env_id, {"responses_create_params": params, **fields}, turns, talks))
    return found
