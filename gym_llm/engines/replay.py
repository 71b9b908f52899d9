"""ReplayEngine: answers what was answered before, from a rollout file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, BinaryIO

from gym_llm.engines.engine import Capabilities, Engine
from gym_llm.errors import DataError, EngineError, EngineUnavailable
from gym_llm.records.record import read_record
from gym_llm.records.token_spans import with_copies
from gym_llm.types import TOKEN_FIELDS, Item, Request, ResponseDict
from gym_llm.utils.json_codec import loads

_SAMPLED = TOKEN_FIELDS[1]


class ReplayEngine(Engine):
    """Answers each turn of an episode with the recorded turn, and ignores the rest of the request.

    The engine finds the record by `episode_id`, `"{task_index}-{repeat_index}"`; the last record with an id counts. It
    finds the turn by the environment's messages in the request. It remembers nothing between requests, so an episode
    can be replayed any number of times. `usage` and the status come with an episode's last turn.

    Args:
        path: A rollout file (JSON Lines) of `gym_llm.rollout` or NeMo Gym. A torn last line is left out.
        dataset: Use only records of this dataset.

    Attributes:
        model: `replay:` and the file's name; the responses carry the recorded model.
    """

    capabilities = Capabilities(samples=False)

    def __init__(self, path: str, *, dataset: str | None = None) -> None:
        self.path = Path(path)
        self.dataset = dataset
        self.model = f"replay:{self.path.name}"
        self._places: dict[str, tuple[int, int]] = {}  # episode id -> offset and length: a file may exceed memory
        self._file: BinaryIO | None = None

    async def start(self) -> None:
        """Open the file and find its records.

        Raises:
            EngineUnavailable: If the file is missing, or a line (but the last) is not a rollout record.
        """
        try:
            self._file = self.path.open("rb")
            self._places = self._index(self._file)
        except OSError as error:
            raise EngineUnavailable(f"Cannot read the rollout file {str(self.path)!r}: {error.strerror}.") from None
        except EngineUnavailable:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Close the file. Safe to call twice."""
        if self._file is not None:
            self._file.close()
            self._file = None

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """The recorded answer to an episode's next turn; see `Engine.respond`."""
        if self._file is None:
            raise EngineError("The engine is not running: use it as `async with engine`, or call start() first.")
        if episode_id not in self._places:
            raise EngineError(f"{self.path.name} has no episode {episode_id!r} (task index - repeat index).")
        offset, length = self._places[episode_id]
        self._file.seek(offset)
        record: Any = with_copies(loads(self._file.read(length)))
        response = record["response"]
        turns = recorded_turns(response, (record.get("info") or {}).get("turn"))
        by_tokens = len(turns) > len(recorded_turns(response))
        count = _items_of_model if by_tokens else _answers_of_environment
        turn = count(request["input"]) - count(record["responses_create_params"]["input"])
        if by_tokens:  # the environment says nothing between some: the model's items that were said are counted
            ends = list(accumulate(map(len, turns), initial=0))
            turn = ends.index(turn) if turn in ends else -1
        if not 0 <= turn < len(turns):
            raise EngineError(
                f"{self.path.name} has {len(turns)} turns of episode {episode_id}, but turn {turn + 1} was asked for."
            )
        ending = response if turn == len(turns) - 1 else {}
        return {
            "id": f"resp_{episode_id}-{turn}",
            "object": "response",
            "created_at": response.get("created_at") or time.time(),
            "model": response.get("model") or self.model,
            "status": ending.get("status") or "completed",
            "incomplete_details": ending.get("incomplete_details"),
            "output": turns[turn],
            "usage": ending.get("usage"),
        }

    def _index(self, file: BinaryIO) -> dict[str, tuple[int, int]]:
        """Where each episode's record is."""
        places: dict[str, tuple[int, int]] = {}
        datasets = set()
        offset = 0
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    value = loads(line)
                except ValueError:
                    if not line.endswith(b"\n"):
                        break  # the run that wrote it was killed in the middle
                    raise EngineUnavailable(f"{self.path.name}, line {number}: not JSON.") from None
                try:
                    if isinstance(value, dict):
                        # What is only said again need not have been scored.
                        value = {"reward": 0.0, **value}
                    record = read_record(value)
                    record["responses_create_params"]["input"], record["response"]["output"]
                except (DataError, KeyError) as error:
                    reason = f"it has no {error}" if isinstance(error, KeyError) else error
                    raise EngineUnavailable(
                        f"{self.path.name}, line {number}: no rollout record to replay ({reason})."
                    ) from None
                dataset = record.get("dataset", "")
                if self.dataset in (None, dataset):
                    places["{task_index}-{repeat_index}".format_map(record["rollout_id"])] = offset, len(line)
                    datasets.add(dataset)
            offset += len(line)
        if len(datasets) > 1:
            raise EngineUnavailable(
                f"{self.path.name} has several datasets: replay it with its configuration, or set `dataset` to one of "
                f"{', '.join(sorted(datasets))}."
            )
        return places


def recorded_turns(response: Mapping[str, Any], count: int | None = None) -> list[list[Item]]:
    """The model's turns of a recorded response, which holds all that was said.

    Args:
        response: The record's `response`, its items with their token ids.
        count: The number of turns that the record names. The environment may say nothing between two turns, for
            example after unfinished reasoning. Then token ids separate them, if that gives this number.
    """
    items = response["output"]
    turns = model_turns(items)
    said_nothing = response.get("status") == "incomplete" and (not turns or is_environments(items[-1]))
    last: list[list[Item]] = [[]] if said_nothing else []  # the last turn's prompt did not fit
    if count not in (None, len(turns + last)):
        apart = model_turns(items, by_tokens=True)
        turns = apart if len(apart + last) == count else turns
    return turns + last


def model_turns(items: list[Item], *, by_tokens: bool = False) -> list[list[Item]]:
    """Split an episode's items into the model's turns, leaving out what the environment said.

    With `by_tokens`, a turn also ends after an item with sampled ids: the last item of a turn has them.

    >>> output = {"type": "function_call_output"}
    >>> model_turns([{"type": "reasoning"}, {"type": "function_call"}, output, output, {"type": "message"}])
    [[{'type': 'reasoning'}, {'type': 'function_call'}], [{'type': 'message'}]]
    """
    turns: list[list[Item]] = []
    is_open = False  # whether the last turn may go on
    for item in items:
        if is_environments(item):
            is_open = False
            continue
        if not is_open:
            turns.append([])
        turns[-1].append(item)
        is_open = not (by_tokens and item.get(_SAMPLED) is not None)
    return turns


def is_environments(item: Item) -> bool:
    """Whether an item is the environment's: a tool's output, or a message that is not the assistant's."""
    kind = item.get("type", "message")
    return kind == "function_call_output" or (kind == "message" and item.get("role") in ("user", "system", "developer"))


def _answers_of_environment(items: Any) -> int:
    """How many times the environment spoke, counting what it said in a row once."""
    if isinstance(items, str):
        return 1
    return sum(environments for environments, _ in groupby(items, is_environments))


def _items_of_model(items: Any) -> int:
    return 0 if isinstance(items, str) else sum(not is_environments(item) for item in items)
