import pickle
from typing import Any

import gymnasium as gym
import pytest
from hostile import HostileActions

import gym_llm  # noqa: F401 - registers the environments
from gym_llm.envs.weather.env import Weather
from gym_llm.tokens.parsers.parser import MAX_PIECES
from gym_llm.types import Item, message_text
from gym_llm.wrappers import HarmonyParser

openai_harmony = pytest.importorskip("openai_harmony")
TOKENS = {"prompt_token_ids": [1, 2], "generation_log_probs": [-0.5]}
THINKING = "<|channel|>analysis<|message|>The user asks for Oslo.<|end|>"
PREAMBLE = "<|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
CALL = '<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Oslo"}'
FINAL = "<|start|>assistant<|channel|>final<|message|>It rains."


@pytest.fixture(scope="module")
def encoding() -> Any:
    try:
        return openai_harmony.load_harmony_encoding("HarmonyGptOss")
    except openai_harmony.HarmonyError as error:
        pytest.skip(f"openai_harmony has no vocabulary: {error}")


@pytest.fixture
def env(encoding: Any) -> HarmonyParser:
    env = HarmonyParser(gym.make("gym_llm/Weather-v0"))
    env.reset(seed=0)
    return env


def turn(text: str, **fields: Any) -> list[Item]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return [{"type": "message", "id": "msg_1", "role": "assistant", "content": [part], **fields}]


def tokens(encoding: Any, text: str) -> dict[str, Any]:
    return {**TOKENS, "generation_token_ids": encoding.encode(text, allowed_special="all")}


def said(items: list[Item]) -> list[tuple[str, str]]:
    """Each item's kind and text, a call's name and arguments."""
    return [
        (item["name"], item["arguments"])
        if item["type"] == "function_call"
        else (item["type"], item["summary"][0]["text"] if item["type"] == "reasoning" else message_text([item]))
        for item in items
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (THINKING + FINAL + "<|return|>", [("reasoning", "The user asks for Oslo."), ("message", "It rains.")]),
        (
            THINKING + PREAMBLE + CALL + "<|call|>",
            [
                ("reasoning", "The user asks for Oslo."),
                ("message", "I look."),
                ("get_weather", '{"city": "Oslo"}'),
            ],
        ),
        (
            " to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>{}<|call|>",
            [("get_weather", "{}")],
        ),
        ("<|channel|>analysis to=functions.a.b code<|message|><|call|>", [("a.b", "{}")]),
        ("<|channel|>analysis to=python code<|message|>print(1)<|call|>", [("python", "print(1)")]),
        ("<|start|>assistant<|channel|>final<|message|>4<|return|>", [("message", "4")]),
        ("<|channel|>final<|message|>4<|end|>\n", [("message", "4")]),
        ("<|channel|>final<|message|>4<|end|><|start|>assistant<|channel|>final", [("message", "4")]),
        ("<|channel|>final <|constrain|>json<|message|>[4]<|return|>", [("message", "[4]")]),
        ("<|message|>4<|return|>", [("message", "4")]),
        ("<|channel|>other<|message|>4<|end|>", [("message", "4")]),
        (
            "<|channel|>final<|message|>4<|end|><|start|>user<|message|>And 5?<|end|>",
            [("message", "4"), ("message", "And 5?")],
        ),
    ],
)
def test_ids_and_text_are_read_alike(env: HarmonyParser, encoding: Any, text: str, expected: list[Any]) -> None:
    from_text = env.action(turn(text))
    from_ids = env.action(turn("", **tokens(encoding, text)))
    assert said(from_text) == said(from_ids) == expected


HM = "<|channel|>analysis<|message|>hm"
TO_F = "<|channel|>commentary to=functions.f <|constrain|>json"


@pytest.mark.parametrize("answer", ["4", "final words", "<b>4</b>"])
@pytest.mark.parametrize(
    "text",
    [
        HM + "<|start|>assistant<|channel|>final<|message|>",
        HM + "<|end|><|channel|>final<|message|>",
        HM + "<|channel|>final<|message|>",
        HM + "<|end|>assistant<|channel|>final<|message|>",
        HM + "<|end|><|start|>assistantfinal<|message|>",
        HM + "<|end|><|start|>assistant final<|message|>",
        HM + "<|end|><|start|>final<|message|>",
        HM + "<|end|>final<|message|>",
        HM + "<|end|><|message|>",
        HM + "<|end|><|start|>assistant<|message|>",
        HM + "<|start|>assistant<|message|>",
        HM + "<|end|><|start|><|channel|>final<|message|>",
        HM + "<|end|>\n<|start|>assistant<|channel|>final<|message|>",
        HM + "<|end|><|start|>assistant<|channel|>final ",
        HM + "<|return|><|start|>assistant<|channel|>final<|message|>",
        "analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>",
        "assistant" + HM + "<|end|><|start|>assistant<|channel|>final<|message|>",
        "<|channel|>analysis hm<|end|><|start|>assistant<|channel|>final<|message|>",
        "<|channel|>analysis hm<|start|>assistant<|channel|>final<|message|>",
        HM + "<|end|><|start|><|start|>assistant<|channel|>final<|message|>",
        HM + "<|end|><|end|><|start|>assistant<|start|>assistant<|channel|>final<|message|>",
        "<|channel|>analysis<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>",
        HM + "<|channel|>analysis<|channel|>final<|message|>",
        HM + "<|end|><|start|>assistant:<|channel|>final<|message|>",
    ],
)
def test_a_missing_special_token_is_made_up_for(env: HarmonyParser, encoding: Any, text: str, answer: str) -> None:
    expected = [("reasoning", "hm"), ("message", answer)]
    for end in ("", "<|return|>", "<|end|><|return|>", "<|end|><|start|>assistant"):
        whole = text + answer + end
        assert said(env.action(turn(whole))) == said(env.action(turn("", **tokens(encoding, whole)))) == expected


@pytest.mark.parametrize(
    "text",
    [
        HM + "<|start|>assistant" + TO_F + "<|message|>{}<|call|>",
        HM + "<|end|>" + TO_F + "<|message|>{}",
        HM + TO_F + "<|message|>{}<|call|>",
        HM + "<|end|><|start|>assistant" + TO_F + "{}<|call|>",
        HM + "<|end|> to=functions.f<|channel|>commentary<|message|>{}",
        HM + "<|end|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>",
        HM + "<|end|><|start|>assistant" + TO_F + "<|channel|>commentary json<|message|>{}<|call|>",
    ],
)
def test_a_call_without_a_special_token_is_a_call(env: HarmonyParser, encoding: Any, text: str) -> None:
    assert said(env.action(turn(text))) == said(env.action(turn("", **tokens(encoding, text))))
    assert said(env.action(turn(text))) == [("reasoning", "hm"), ("f", "{}")]
    answered = text.removesuffix("<|call|>") + FINAL
    assert said(env.action(turn(answered)))[1:] == [("f", "{}"), ("message", "It rains.")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("analysisHm.assistantfinal4", [("reasoning", "Hm."), ("message", "4")]),
        ("analysisWe multiply.assistantfinalThe answer", [("reasoning", "We multiply."), ("message", "The answer")]),
        ('analysisHmassistantcommentary to=functions.f json{"a": 1}', [("reasoning", "Hm"), ("f", '{"a": 1}')]),
        ("analysis of the assistant role", [("message", "analysis of the assistant role")]),
        ("The assistantfinal token", [("message", "The assistantfinal token")]),
    ],
)
def test_a_turn_without_any_special_tokens_is_read(env: HarmonyParser, text: str, expected: list[Any]) -> None:
    assert said(env.action(turn(text))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<|channel|>analysis<|message|>Hm", [("reasoning", "Hm")]),
        (CALL[:-4], [("get_weather", '{"city": "Os')]),
        ("<|channel|>final<|message|>It", [("message", "It")]),
        (THINKING + CALL.partition("<|message|>")[0], None),
        (THINKING + "<|start|>assistant<|channel|>com ment ary x<|message|>4", None),
        (
            THINKING + "and then" + FINAL,
            [("reasoning", "The user asks for Oslo."), ("message", "and then"), ("message", "It rains.")],
        ),
        ("<|channel|>commentary 2?<|end|>" + FINAL, [("message", "2?"), ("message", "It rains.")]),
        ("<|channel|>I look<|end|>" + THINKING, [("reasoning", "I look"), ("reasoning", "The user asks for Oslo.")]),
        ("Sure thing. <|channel|>final<|message|>4<|return|>", [("message", "Sure thing."), ("message", "4")]),
        ("<|message|>a<|channel|>b<|message|>c", [("message", "a<|channel|>b<|message|>c")]),
    ],
)
def test_what_broke_off_or_is_not_the_format_is_kept(env: HarmonyParser, text: str, expected: list[Any] | None) -> None:
    if expected is None:  # from there on it is text
        expected = [("reasoning", "The user asks for Oslo."), ("message", text.removeprefix(THINKING))]
    assert said(env.action(turn(text))) == expected


def test_a_call_runs_the_tool_and_carries_the_turns_tokens(env: HarmonyParser, encoding: Any) -> None:
    fields = tokens(encoding, THINKING + CALL + "<|call|>")
    observation, _, terminated, _, info = env.step(turn("", **fields))
    reasoning, call, answer = observation["input"][-3:]
    assert [item["type"] for item in (reasoning, call, answer)] == [
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    assert (terminated, info["tool_errors"], call["call_id"]) == (False, 0, "call_1")
    assert {key: call[key] for key in fields} == fields and not fields.keys() & reasoning.keys()
    assert [item["call_id"] for item in env.action(turn(CALL))] == ["call_2"]
    assert [item["call_id"] for item in env.action(turn(CALL + "<|end|>" + CALL))] == ["call_3", "call_4"]
    env.reset(seed=1)
    assert env.action(turn(CALL))[0]["call_id"] == "call_1"


def test_an_unfinished_thought_is_incomplete(env: HarmonyParser) -> None:
    (cut,) = env.action(turn(THINKING.removesuffix("<|end|>")))
    assert cut["status"] == "incomplete"
    assert env.action(turn(THINKING + FINAL))[0]["status"] == "completed"


def test_what_is_structured_already_stays(env: HarmonyParser, encoding: Any) -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    for action in (turn("It rains."), [reasoning, *turn("It rains.", **tokens(encoding, THINKING + FINAL))], []):
        assert env.action(action) is action
    refusal = {"type": "refusal", "refusal": "No."}
    message = {"role": "assistant", "content": [{"type": "output_text", "text": FINAL}, refusal]}
    assert env.action([message])[-1]["content"] == [refusal]


def test_a_pickled_parser_goes_on(env: HarmonyParser) -> None:
    env.step(turn(CALL))
    twin = pickle.loads(pickle.dumps(env))
    assert twin.action(turn(CALL)) == env.action(turn(CALL))


def test_nothing_that_a_model_writes_raises(env: HarmonyParser, encoding: Any) -> None:
    hostile = HostileActions(Weather, seed=5)
    pieces = [THINKING, PREAMBLE, CALL, FINAL, "\ud800", *sorted(encoding.special_tokens_set)[:30]]
    for _ in range(300):
        text = "".join(hostile.rng.choices([*pieces, hostile.text()], k=hostile.rng.randrange(12)))
        ids = [hostile.rng.randrange(220_000) for _ in range(20)] + encoding.encode(
            "<|message|>", allowed_special="all"
        )
        hostile.rng.shuffle(ids)
        for fields in ({}, {**TOKENS, "generation_token_ids": ids}):
            items = env.action(turn(text, **fields))
            assert {key: items[-1][key] for key in fields} == fields
            assert not any(fields.keys() & item.keys() for item in items[:-1])


@pytest.mark.parametrize("as_ids", [True, False])
def test_after_so_many_messages_the_rest_is_one(env: HarmonyParser, encoding: Any, as_ids: bool) -> None:
    text = THINKING + (FINAL + "<|end|>") * 3000
    items = env.action(turn("", **tokens(encoding, text)) if as_ids else turn(text))
    written = [text for _, text in said(items)]
    assert MAX_PIECES - 2 <= len(items) <= MAX_PIECES and set(written[1:-1]) == {"It rains."}
    assert written[-1] == (FINAL + "<|end|>") * (3000 - len(items) + 2)


@pytest.mark.parametrize("unit", ["a", " ", "\ud800", "<|message|>", "<|start|>", "'s"])
def test_a_megabyte_is_one_message(env: HarmonyParser, unit: str) -> None:
    """openai_harmony takes quadratic time to tokenise some of these, and panics on others."""
    content = unit * (1_000_000 // len(unit))
    (item,) = env.action(turn("<|channel|>final<|message|>" + content))
    assert said([item]) == [("message", content.replace("\ud800", "?"))]


def test_a_header_of_a_megabyte_is_text(env: HarmonyParser) -> None:
    text = "<|channel|>final" + "a" * 1_000_000 + "<|message|>4"
    assert said(env.action(turn(text))) == [("message", text)]


@pytest.mark.parametrize("bad", [-1, 10**10, 300_000, "x", None, 1.5, [], {}])
@pytest.mark.parametrize("first", [True, False])
def test_what_are_no_ids_are_not_read(env: HarmonyParser, encoding: Any, bad: Any, first: bool) -> None:
    ids = tokens(encoding, FINAL)["generation_token_ids"]
    ids = [bad, *ids] if first else [*ids, bad]
    assert said(env.action(turn(FINAL, **TOKENS, generation_token_ids=ids))) == [("message", "It rains.")]
    for ids in (7, "ids", {}, ()):
        assert said(env.action(turn(FINAL, generation_token_ids=ids))) == [("message", "It rains.")]


@pytest.mark.parametrize("parallel", [True, False])
def test_only_the_first_call_is_made_where_calls_are_not_to_be_parallel(encoding: Any, parallel: bool) -> None:
    row = {"responses_create_params": {"input": "Rain?", "parallel_tool_calls": parallel}}
    env = HarmonyParser(gym.make("gym_llm/Weather-v0", tasks=[row]))
    env.reset(seed=0)
    text = THINKING + CALL + "<|call|>" + CALL + "<|call|>"
    made = env.action(turn(text, **tokens(encoding, text)))
    assert [kind for kind, _ in said(made)] == ["reasoning", *["get_weather"] * (2 if parallel else 1)]
    assert made[-1]["generation_token_ids"] == tokens(encoding, text)["generation_token_ids"]
