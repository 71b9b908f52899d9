"""The four conversions given anything at all: a result, or the one error that each says it raises."""

import random
import re

import pytest

from gym_llm.errors import EngineError
from gym_llm.protocols.chat.completions import chat_to_response, response_to_chat
from gym_llm.protocols.chat.requests import chat_to_request, request_to_chat


def deep(levels, kind=list):
    value = kind()
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


ATOMS = [
    None, True, 0, -1, 3.5, float("nan"), float("inf"), 10**400, 10**5000, "", "x", "\ud800", [], {}, [None], {"a": 1},
    [[]], b"x", (1,), "function", "message", "assistant", "user", "text", set(), object(), deep(900), deep(900, dict),
]  # fmt: skip
KEYS = re.findall(
    r"\w+",
    "messages role content tool_calls function name arguments id type tools tool_choice response_format json_schema "
    "logprobs top_logprobs max_tokens max_completion_tokens reasoning_effort verbosity text format input instructions "
    "reasoning effort include output summary call_id image_url file url refusal choices message usage prompt_tokens "
    "created model finish_reason token_ids prompt_token_ids allowed_tools mode incomplete_details reason status "
    "reasoning_content previous_response_id created_at parallel_tool_calls max_output_tokens",
)
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
PARTS = [
    {"type": "text", "text": "a"},
    {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
    {"type": "file", "file": {"file_id": "f"}},
]
SAID = {"role": "assistant", "content": "c", "reasoning_content": "r", "refusal": None, "tool_calls": [CALL]}
MESSAGES = [{"role": "user", "content": PARTS}, SAID, {"role": "tool", "tool_call_id": "1", "content": "o"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
BODY = {
    "messages": [{"role": "system", "content": "s"}, *MESSAGES],
    "tools": [TOOL],
    "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [TOOL]}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
    "logprobs": True,
    "top_logprobs": 2,
    "max_tokens": 3,
    "reasoning_effort": "low",
    "verbosity": "low",
}
CHOICE = {"message": SAID, "finish_reason": "stop", "token_ids": [1], "logprobs": {"content": [{"logprob": -1.0}]}}
COMPLETION = {
    "id": "c",
    "model": "m",
    "created": 1,
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    "choices": [CHOICE],
    "prompt_token_ids": [1],
}


def anything(rng, depth=0):
    kind = rng.random()
    if depth > 4 or kind < 0.35:
        return rng.choice(ATOMS)
    if kind < 0.6:
        return [anything(rng, depth + 1) for _ in range(rng.randrange(3))]
    keys = (rng.choice(KEYS) if rng.random() < 0.98 else rng.choice([1, None, (1,)]) for _ in range(rng.randrange(4)))
    return {key: anything(rng, depth + 1) for key in keys}


def spoiled(rng, value, often):
    if rng.random() < often:
        return anything(rng, 2)
    if isinstance(value, dict):
        changed = {key: spoiled(rng, item, often) for key, item in value.items() if rng.random() > often / 3}
        return changed | ({rng.choice(KEYS): anything(rng, 2)} if rng.random() < often else {})
    return [spoiled(rng, item, often) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("convert", "value", "error"),
    [
        (chat_to_request, BODY, ValueError),
        (request_to_chat, chat_to_request(BODY), EngineError),
        (chat_to_response, COMPLETION, EngineError),
        (response_to_chat, chat_to_response(COMPLETION), ValueError),
    ],
)
def test_what_is_malformed_raises_the_one_error_that_it_may(convert, value, error):
    refused = 0
    for seed in range(1_000):
        rng = random.Random(seed)
        given = spoiled(rng, value, rng.choice((0.02, 0.15, 1.0)))
        try:
            convert(given)
        except error as raised:
            refused += 1
            assert len(str(raised)) < 1_000
    assert 300 < refused < 1_000
