"""What tests of changing weights share: two models, what they give to tokens, and answers while the weights change."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

import torch
from transformers import AutoModelForCausalLM

POCKET = str(resources.files("gym_llm.engines.pocket") / "model")


@torch.no_grad()
def old_and_new() -> list[Any]:
    """Return the pocket model, and one with other weights."""
    old, new = (AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32).eval() for _ in range(2))
    new.model.norm.weight.mul_(0.9)
    new.model.layers[0].mlp.up_proj.weight.mul_(1.1)
    return [old, new]


@torch.no_grad()
def scores(model: Any, ids: list[int]) -> list[float]:
    """Return the log probability of each id but the first."""
    log_probs = model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
    return log_probs.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()


async def answers_during(change: Callable[[], Awaitable[None]], engine: Any, request: Any, count: int) -> list[Any]:
    """Return the answers to a request that is asked again and again, this many at once, until after a change."""
    answers: list[Any] = []
    is_over = False

    async def ask(number: int) -> None:
        for turn in itertools.count():
            is_last = is_over
            answers.append(await engine.respond(request, episode_id=f"{number}-{turn}"))
            if is_last:
                break

    asking = [asyncio.create_task(ask(number)) for number in range(count)]
    await change()
    is_over = True
    await asyncio.gather(*asking)
    return answers
