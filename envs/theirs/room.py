"""Room: plays episodes of one framework, in this process or in a child that has no gym_llm.

This file and those in `peers/` import only Python's library; a peer imports its framework when it is first used.

A peer is a class `Peer` in `peers/NAME.py`. Its arguments are JSON values; one object plays one episode:

- `reset(seed)` and `step(action)` return a turn, and may be async. `close()` ends the episode.
- An action is the model's output: `{"text": str, "calls": [{"call_id", "name", "arguments"}]}`. `arguments` is an
  object, or the model's string if that is not a JSON object.
- A turn is a dict. All of its keys are optional:
  - `say`: a text, or Responses items; for several seats a list.
  - `reward`: a number; for several seats a list.
  - `terminated`, `truncated`, `info`: as in Gymnasium.
  - `tools`: function schemas, if they have changed; of a game, those of its first seat.
  - `illegal`: the numbers of the seats whose moves were illegal; they are asked again.
  - `seats`: the names of all seats, in the first turn of a game (a peer with `SEATS = True`).
  - `seat`: the number of the seat whose turn is next, or a list of them. `legal`: the texts of its legal moves.
  - `observation`: the framework's own, while `peer.recording` is true.

The file also has constants: `ENV_ID`, `PACKAGES` for pip, and `MODULE`, which is imported. `needs(arguments)` names the
modules that an environment needs besides. All of these may be missing:

- `SCORES_AT_LIMIT`: if true, an action with `over` ends the episode, which a limit has cut off, and returns its reward.
- `OPTIONS` of pip, and `PYTHONS`, the versions that it runs on.
- `packages(arguments)` returns what pip installs instead of `PACKAGES`.
- `MAX_TURNS`: after how many turns of the model an episode is truncated.
- `ENGINES`: which arguments may name an engine, and the seat that it plays.
- `check(arguments)` raises a `ValueError` when the environment is made.
- `of_row(row)` returns the arguments that a row's own fields mean.
- `samples(arguments)` returns a dict of arguments for each sample that the arguments choose, in the list's order; or
  None if seeds make episodes without end. It may be async.
- `served(arguments)` returns the arguments of a `ServedFolder`, whose address is then the argument `url`; or None.

`gym-llm env replay` uses these names: `FRAMEWORKS`, the names in recorded episodes, perhaps with a version.
`recorded(episode)` returns the arguments and the seed, and `utter(action)` the output for a recorded action.
`as_recorded(turns)` returns the record if its form is another one. `UNREPEATABLE` says why some environments differ in
another process; for single episodes `recorded` raises a `NotImplementedError` that does. `compared(observation)`
returns what is compared of an observation, recorded or played, if that is not all.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import random
import sys
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parent / "peers"
MOST_CHARACTERS = 1 << 24
"""How long the texts of a turn may be together."""


def load(name: str) -> Any:
    """Import a framework's file without gym_llm, once."""
    for shared in ("bridge", "views", "wires"):
        _imported(f"_gym_llm_theirs_{shared}", Path(__file__).parent / f"{shared}.py")
    return _imported(f"_gym_llm_theirs_{name}", PEERS / f"{name}.py")


def _imported(name: str, path: Path) -> Any:
    if (found := sys.modules.get(name)) is not None:
        return found
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def see_folder() -> None:
    """Let Python find modules of the current folder, after all others: a child's path has its own folder instead."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)


class GlobalRandom:
    """Gives an episode its own state of the global generators of Python and NumPy while its code runs."""

    def __init__(self) -> None:
        self._own: Any = None

    def __enter__(self) -> None:
        self._others = _states()
        if self._own is not None:
            _restore(self._own)

    def __exit__(self, *_: object) -> None:
        self._own = _states()
        _restore(self._others)


def _states() -> Any:
    numpy = sys.modules.get("numpy.random")
    return random.getstate(), None if numpy is None else numpy.get_state()


def _restore(states: Any) -> None:
    random.setstate(states[0])
    if states[1] is not None:
        sys.modules["numpy.random"].set_state(states[1])


class Play:
    """An episode of a peer.

    The peer's attribute `draws` says when its code uses a global generator: `"never"`, in `"reset"`, or `"always"`.
    """

    def __init__(self, peer: Any) -> None:
        self.peer = peer
        draws = getattr(peer, "draws", "never")
        self._guard = None if draws == "never" else GlobalRandom()
        self._step_guard = self._guard if draws == "always" else None

    @classmethod
    def of(cls, name: str, arguments: dict[str, Any], *, recording: bool = False) -> Play:
        """Make an environment of a framework."""
        see_folder()
        peer = load(name).Peer(**arguments)
        peer.recording = recording
        return cls(peer)

    def reset(self, seed: int | None) -> Any:
        """Begin; returns the first turn, or an awaitable of it."""
        return self._run(self._guard, self.peer.reset, seed)

    def step(self, action: dict[str, Any]) -> Any:
        """Go on; returns the next turn, or an awaitable of it."""
        guard = self._step_guard
        return self.peer.step(action) if guard is None else self._run(guard, self.peer.step, action)

    def close(self) -> Any:
        """End the episode; returns None, or an awaitable."""
        return self.peer.close() if hasattr(self.peer, "close") else None

    @staticmethod
    def _run(guard: Any, function: Any, argument: Any) -> Any:
        if guard is None:
            return function(argument)
        with guard:
            turn = function(argument)
        if inspect.isawaitable(turn):
            raise TypeError("A peer that draws from a global generator cannot be async.")
        return turn


def characters(value: Any, budget: int = MOST_CHARACTERS) -> int:
    """Count the characters of a JSON value's texts; stops where they exceed the budget.

    >>> characters({"say": ["four"]})  # an element of a list or dict counts as a character, too
    8
    """
    count, waiting = 0, [value]
    while waiting and count <= budget:
        value = waiting.pop()
        if isinstance(value, str):
            count += len(value)
        elif isinstance(value, dict):
            count += sum(map(len, map(str, value)))
            waiting.extend(value.values())
        elif isinstance(value, (list, tuple)):
            count += len(value)
            waiting.extend(value)
    return count
