"""Rollout files made by real rollouts, with a model that says what the test wants."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from testing import Item, message, response

from gym_llm.engines import Engine
from gym_llm.rollouts.run import Run
from gym_llm.types import Request, ResponseDict

Say = Callable[[Request, int, int], list[Item] | str]
"""What is said to a request, of a task index and a repeat index."""


class Scripted(Engine):
    """Says what a function says; every answer has cost ten tokens, and five for each repeat before."""

    model = "scripted"

    def __init__(self, say: Say) -> None:
        self._say = say

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        task, repeat = map(int, episode_id.split("-"))
        said: Any = self._say(request, task, repeat)
        count = 10 + 5 * repeat
        usage = {"input_tokens": 7, "output_tokens": count, "total_tokens": 7 + count}
        return response(*(message(said) if isinstance(said, str) else said), usage=usage)  # type: ignore[return-value]


def play(path: str | Path, env_id: str, say: Say, **arguments: Any) -> Path:
    """Play an environment into a file; the arguments are those of `Run`."""
    with Run(env_id, Scripted(say), output=path, max_failures=None, **arguments) as run:
        run.play()
    return Path(path)


def boxed(number: int | str) -> str:
    """How Arithmetic is answered."""
    return f"It is \\boxed{{{number}}}."


def sum_of(request: Request) -> int:
    """What Arithmetic asks for."""
    words = request["input"][0]["content"].replace("?", " ").replace(". Put", " ").split()
    place = next(place for place, word in enumerate(words) if word in "+-")
    left, sign, right = words[place - 1 : place + 2]
    return int(left) + int(right) * (1 if sign == "+" else -1)
