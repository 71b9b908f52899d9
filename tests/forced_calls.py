"""Requests that constrain a turn, and what their answers have to be, for every engine that can be made to follow."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from testing import POCKET
from token_conversations import tokenizer_for

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}, "unit": {"enum": ["cm", "m"]}},
    "required": ["n", "unit"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "name": "measure", "description": "Measure.", "parameters": SCHEMA},
    {"type": "function", "name": "stop", "description": "Stop.", "parameters": None},
]
ANSWER = {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA}}


def request(**fields: Any) -> dict[str, Any]:
    """Return a request that the pocket model answers in a few words."""
    return {"input": [{"role": "user", "content": "What is 2 + 3? Put the answer in \\boxed{}."}], **fields}


def calls(response: Any) -> list[dict[str, Any]]:
    """Return the calls of a response."""
    return [item for item in response["output"] if item["type"] == "function_call"]


def fits(arguments: dict[str, Any]) -> bool:
    """Return whether arguments, or an answer, fit `SCHEMA`."""
    return set(arguments) == {"n", "unit"} and 0 <= arguments["n"] <= 99 and arguments["unit"] in ("cm", "m")


def has_valid_calls(response: Any) -> bool:
    """Return whether a response ends with calls of `TOOLS` that fit, and says that they were forced."""
    made = calls(response)
    fitting = (call["name"] == "stop" or fits(json.loads(call["arguments"])) for call in made)
    last = response["output"][-1]
    return bool(made) and made[-1] is last and last["generation_constrained"] is True and all(fitting)


def expect_log_probs_under_the_mask(turn: dict[str, Any], asked: dict[str, Any]) -> None:
    """Compare a turn of the pocket model in float32 with its logits under the mask, at each sampled id."""
    import torch
    from transformers import AutoModelForCausalLM

    from gym_llm.engines.grammar_masks import GrammarMasks
    from gym_llm.tokens.prompt_tokens import PromptTokens

    prompt, sampled = turn["prompt_token_ids"], turn["generation_token_ids"]
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = model(torch.tensor([prompt + sampled])).logits[0, len(prompt) - 1 : -1].float()
    own = logits.log_softmax(-1)
    tokenizer = tokenizer_for("pocket")
    prompts = PromptTokens(tokenizer, stop_token_ids=[1015, 1017])
    masks = GrammarMasks(prompts, tokenizer, 1024, model="pocket")
    mask = asyncio.run(masks.of(asked))  # type: ignore[arg-type]
    assert mask is not None
    differing = 0
    for place, (token, log_prob) in enumerate(zip(sampled, turn["generation_log_probs"], strict=True)):
        allowed = torch.from_numpy(mask.allowed())
        assert allowed[token]
        under_mask = logits[place].masked_fill(~allowed, -torch.inf).log_softmax(-1)
        assert log_prob == pytest.approx(float(under_mask[token]), abs=1e-4)
        differing += abs(log_prob - float(own[place, token])) > 1e-2
        mask.accept(token)
    assert differing > 3  # and so the flag is needed
    masks.close()
