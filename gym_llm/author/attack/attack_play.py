"""Playing scripted turns against a verifier, whatever it does."""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from gymnasium.error import InvalidAction

from gym_llm.core.tasks import PreparedTask
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.errors import JudgeError
from gym_llm.records.failures import reason
from gym_llm.types import Item

Turn = list[Item] | dict[str, Any]
"""The model's answer of one turn: output items, or a whole response."""

_MOST_REPEATS = 3
_SHORT = 160
_LONG, _BUSY = 5.0, 0.2
"""An episode that ends with the attack's time hangs if it took so many seconds, and this share of them of the CPU."""


class TooLong(BaseException):
    """An episode takes longer than it may; not an Exception, so that no `except Exception` swallows it."""


class OutOfTime(Exception):
    """The attack's time is over."""


@dataclass(slots=True)
class Played:
    """The result of one episode.

    Attributes:
        reward: Its reward; None without one.
        error: What was raised, as a sentence.
        refused: Whether an action was none that a model can take; then nothing can be said.
        judge_failed: Whether the judge failed, which is not the verifier's fault.
        hung: Whether it took too long.
        opening: The first observation and info, as JSON.
        outputs: What tools answered.
        cpu: Seconds of CPU time of the last step.
        seconds: Of the clock, all in all.
        turns: What was played.
        taken: How many turns it took, the repeated last one included.
        info: The last info.
    """

    reward: float | None = None
    error: str | None = None
    refused: bool = False
    judge_failed: bool = False
    hung: bool = False
    opening: str = ""
    outputs: list[str] = field(default_factory=list)
    cpu: float = 0.0
    seconds: float = 0.0
    turns: list[Turn] = field(default_factory=list)
    taken: int = 0
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def ending(self) -> str:
        """Return the result in words."""
        if self.hung:
            return "no end"
        return f"it raises {self.error}" if self.error else f"reward {self.reward:g}" if self.reward is not None else ""


class Player:
    """Plays episodes of one environment, again and again.

    Args:
        make: Makes the environment.
        seconds: How long an episode may take.
        on_play: Told of each episode.

    Attributes:
        deadline: When all plays have to be over, by `time.monotonic`.
        before: Told of an episode that is about to be played: its row, and what the model will say.
    """

    def __init__(
        self, make: Callable[[], VerifierEnv], seconds: float, on_play: Callable[[Played, int], None] | None = None
    ) -> None:
        self._make = make
        self._seconds = seconds
        self.on_play = on_play
        self.env = make()
        self.plays = 0
        self.deadline = math.inf
        self.before: Callable[[dict[str, Any], list[Turn]], None] = lambda row, turns: None

    def fresh(self) -> None:
        """Let go of the environment and make another."""
        with suppress(Exception):
            self.env.close()
        self.env = self._make()

    def other(self) -> VerifierEnv:
        """Return another environment like this one, which the caller closes."""
        return self._make()

    def play(self, index: int, task: PreparedTask, turns: list[Turn]) -> Played:
        """Play an episode of a task; the last turn is repeated a few times if the episode goes on.

        Raises:
            OutOfTime: If the deadline is over, before or during the episode.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime
        self.plays += 1
        played = Played(turns=turns)
        self.before(task.row, turns)
        began, cpu_began = time.monotonic(), time.process_time()
        try:
            with time_limit(min(self._seconds, left)):
                self._play(index, task, turns, played)
        except TooLong:
            self.fresh()
            seconds, cpu = time.monotonic() - began, time.process_time() - cpu_began
            if seconds < self._seconds and (seconds < _LONG or cpu < _BUSY * seconds):
                raise OutOfTime from None  # it may only wait for a worker that has a deadline of its own
            played.hung = True
        except InvalidAction:
            played.refused = True
            self.env.end_episode()
        except JudgeError as error:
            played.judge_failed, played.error = True, reason(error)
        except Exception as error:  # whatever a verifier raises is a result
            played.error = reason(error)
        played.seconds = time.monotonic() - began
        if self.on_play is not None:
            self.on_play(played, index)
        return played

    def reset(self, index: int, task: PreparedTask, turns: list[Turn]) -> Any:
        """Begin an episode that the caller plays on: (observation, info)."""
        self.before(task.row, turns)
        return self.env.reset(seed=index, options={"task": task, "task_index": index})

    def _play(self, index: int, task: PreparedTask, turns: list[Turn], played: Played) -> None:
        env = self.env
        observation, info = env.reset(seed=index, options={"task": task, "task_index": index})
        played.opening = as_text([observation, info])
        asked, over, number, total = len(observation["input"]), False, 0, 0.0
        while not over and number < len(turns) + _MOST_REPEATS:
            start = time.process_time()
            observation, reward, terminated, truncated, info = env.step(turns[min(number, len(turns) - 1)])
            played.cpu = time.process_time() - start
            played.taken = number = number + 1
            total += float(reward)
            over = terminated or truncated
            if over:
                played.reward = total
        played.outputs = [
            str(item.get("output"))
            for item in observation["input"][asked:]
            if item.get("type") == "function_call_output"
        ]
        if not over:
            info = dict(info)
            played.reward = total + env.score_truncated(info)
        played.info = info


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TooLong` in this, the main thread, after a number of seconds."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def message(text: str) -> Item:
    """A model's message."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def reasoning(text: str) -> Item:
    """Return a reasoning item."""
    return {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}]}


def call(name: str, arguments: Any, call_id: str = "call_1") -> Item:
    """A function call; arguments that are no text are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": text}


def says(text: str) -> list[Turn]:
    """Return one turn that says a text."""
    return [[message(text)]]


def as_text(value: Any) -> str:
    """A value as JSON that is the same for the same value."""
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    except (ValueError, RecursionError, TypeError):
        return repr(value)


def shortened(value: Any) -> Any:
    """A JSON value whose texts and lists are short enough to be shown."""
    if isinstance(value, str):
        text = value if len(value) <= _SHORT else f"{value[: _SHORT // 2]}…({len(value):,})…{value[-_SHORT // 2 :]}"
        return text.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: shortened(each) for key, each in value.items()}
    if isinstance(value, list):
        few = [shortened(each) for each in value[:6]]
        return few if len(value) <= 6 else [*few, f"… {len(value) - 6} more"]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def said(turns: list[Turn]) -> Any:
    """Return a short form of turns: the text, where each is one message, else their items."""
    items = [turn if isinstance(turn, list) else turn.get("output", []) for turn in turns]
    texts = [
        each[0]["content"][0]["text"]
        for each in items
        if len(each) == 1 and each[0].get("type") == "message" and isinstance(each[0]["content"], list)
    ]
    if len(texts) == len(turns) and all(isinstance(turn, list) for turn in turns):
        return shortened(texts[0] if len(texts) == 1 else texts)
    return shortened(turns)


def close(env: VerifierEnv) -> None:
    """Close an environment, whatever that raises."""
    with suppress(Exception), closing(env):
        pass
