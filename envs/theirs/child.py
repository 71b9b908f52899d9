"""The child process that plays a framework's episodes: `python child.py NAME`, one JSON object a line both ways.

It imports only Python's library, `room.py`, `views.py`, `bridge.py` and the framework. A request has an `id`, the
number of a `play`, and an `op`: `open`, `step` or `close`; or the `op` `samples`, and the arguments. Its answer has the
`id`, and a `turn` or an `error`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import sys
import traceback
from typing import Any

import room


class Child:
    """The plays of this process."""

    def __init__(self, name: Any, out: Any) -> None:
        self._name, self._out = name, out
        self._plays: dict[int, room.Play] = {}

    async def answer(self, request: Any) -> Any:
        """Carry out a request and write its answer."""
        try:
            turn = self._carry_out(request)
            if inspect.isawaitable(turn):
                turn = await turn
            reply = self._reply(request["id"], turn)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # also SystemExit: a peer must not end the others' process
            where = traceback.format_exc(limit=-8)[-8_000:]
            said = f"{type(error).__name__}: {error}"[:2_000]
            reply = json.dumps({"id": request["id"], "error": said, "traceback": where})
        self._out.write(reply + "\n")
        self._out.flush()

    def _carry_out(self, request: Any) -> Any:
        if request["op"] == "samples":
            room.see_folder()
            return _listed(room.load(self._name).samples(request["arguments"]))
        number = request["play"]
        if request["op"] == "open":
            play = self._plays[number] = room.Play.of(self._name, request["arguments"], recording=request["recording"])
            return play.reset(request["seed"])
        if request["op"] == "step":
            return self._plays[number].step(request["action"])
        play = self._plays.pop(number, None)
        return play and play.close()

    @staticmethod
    def _reply(number: Any, turn: Any) -> Any:
        if room.characters(turn) > room.MOST_CHARACTERS:
            raise ValueError(f"The observation has more than {room.MOST_CHARACTERS:,} characters.")
        try:
            return json.dumps({"id": number, "turn": turn}, default=_plain, allow_nan=False)
        except ValueError:
            if not math.isfinite(sum(_rewards(turn))):
                raise ValueError("The reward is not a finite number.") from None
            return json.dumps({"id": number, "turn": _finite(turn)}, default=_plain)


async def _listed(samples: Any) -> Any:
    return {"samples": await samples if inspect.isawaitable(samples) else samples}


def _rewards(turn: Any) -> Any:
    reward = turn.get("reward", 0.0)
    return reward if isinstance(reward, list) else [reward]


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)[:10_000]


async def main(name: Any) -> Any:
    """Answer requests until the standard input closes."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a framework prints must not be an answer
    child, loop = Child(name, out), asyncio.get_running_loop()
    is_async = inspect.iscoroutinefunction(room.load(name).Peer.step)
    tasks = set()
    while line := await loop.run_in_executor(None, sys.stdin.readline) if is_async else sys.stdin.readline():
        if not is_async:  # one after the other, without a thread
            await child.answer(json.loads(line))
            continue
        tasks.add(task := asyncio.create_task(child.answer(json.loads(line))))
        task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
