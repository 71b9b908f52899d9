"""Replay: plays recorded episodes of other frameworks again, and compares their rewards and observations.

A line of a file is an episode that was recorded from the framework itself: `framework`, `version`, `env`, `seed`,
`kwargs`, `actions`, `observations`, `rewards` and `done`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import inspect
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gym_llm.data.files.reading import read_objects
from gym_llm.envs.theirs import room
from gym_llm.envs.theirs.environments import python_of
from gym_llm.envs.theirs.frameworks import Framework, framework_of
from gym_llm.envs.theirs.peer_process import PeerFailed, PeerProcess, RemotePlay
from gym_llm.errors import InfrastructureError

_AT_ONCE = 16
_SECONDS = 120.0
_COMPARED = ("observations", "rewards", "done")
_EXTRAS = r"[\[=]"


@dataclass
class Replayed:
    """The findings of a replay.

    Attributes:
        agreed: How many episodes were equal, value for value.
        tried: How many were played.
        skipped: Why others were not, with their numbers.
        differences: One sentence for each episode that differed.
    """

    agreed: int = 0
    tried: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


class _Skipped(Exception):
    pass


async def replay(
    source: str | Path, report: Callable[[str], None] = lambda _: None, *, at_once: int = _AT_ONCE
) -> Replayed:
    """Play the episodes of a file, many at once: each must be as if it were played alone.

    Args:
        source: The file: JSON Lines.
        report: Gets a sentence for each difference, as it is found.
        at_once: How many episodes are under way at once; each step waits for one of every other.

    Raises:
        DataError: If the file cannot be read.
    """
    found, processes = Replayed(), _Processes()
    gate = asyncio.Semaphore(at_once)

    async def one(place: int, episode: dict[str, Any]) -> None:
        async with gate:
            try:
                different = await _differences(episode, processes)
            except _Skipped as reason:
                found.skipped[str(reason)] += 1
                return
        found.tried += 1
        found.agreed += not different
        if different:
            found.differences.append(f"Line {place}: {episode.get('env')}: {different}")
            report(found.differences[-1])

    try:
        await asyncio.gather(*(one(place, episode) for place, episode in read_objects(str(source))))
    finally:
        await processes.aclose()
    return found


class _Processes:
    """The children of each framework that is needed."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ...], PeerProcess] = {}
        self._lock = asyncio.Lock()

    async def of(self, framework: Framework) -> PeerProcess:
        key = (framework.name, *framework.packages)
        async with self._lock:
            if key not in self._made:
                python = await asyncio.to_thread(python_of, framework)
                self._made[key] = PeerProcess(framework.name, python, _SECONDS)
            return self._made[key]

    async def aclose(self) -> None:
        for each in self._made.values():
            await each.aclose()


@contextlib.asynccontextmanager
async def _play(
    framework: Framework, arguments: dict[str, Any], processes: _Processes
) -> AsyncIterator[room.Play | RemotePlay]:
    play: room.Play | RemotePlay
    if framework.plays_here(arguments):
        play = room.Play.of(framework.name, arguments, recording=True)
    else:
        play = RemotePlay(await processes.of(framework.with_arguments(arguments)), arguments, recording=True)
    try:
        yield play
    finally:
        await _awaited(play.close())


async def _differences(episode: dict[str, Any], processes: _Processes) -> str:
    """Return what differs, in words; empty if nothing does."""
    name, version = str(episode.get("framework")), str(episode.get("version"))
    framework = framework_of(f"{name} {version}") or framework_of(name)
    if framework is None:
        raise _Skipped(f"{episode.get('framework')} cannot be replayed")
    _check_version(framework, name, version)
    peer = room.load(framework.name)
    if (why := getattr(peer, "UNREPEATABLE", {}).get(episode["env"])) is not None:
        raise _Skipped(f"{episode['env']}: {why}")
    turns: list[dict[str, Any]] = []
    try:
        arguments, seed = peer.recorded(episode)
        async with _play(framework, arguments, processes) as play:
            turns.append(await _awaited(play.reset(seed)))
            for action in episode["actions"]:
                said = peer.utter(action) if hasattr(peer, "utter") else action
                await asyncio.sleep(0)  # let the other episodes play in between
                try:
                    turns.append(await _awaited(play.step(_action(said))))
                except Exception as error:
                    turns.append({"reward": {"raises": _raised(error)}})
                    break
    except FileNotFoundError as error:
        raise _Skipped(f"a file is missing: {error}") from None
    except NotImplementedError as error:
        raise _Skipped(str(error)) from None
    except PeerFailed as error:
        if "FileNotFoundError" in str(error):
            raise _Skipped(f"a file is missing: {error}") from None
        return f"it cannot be played: {error}"
    except (InfrastructureError, ImportError, ConnectionError) as error:
        return f"it cannot be played: {error}"
    played = getattr(peer, "as_recorded", _as_recorded)(turns)
    played = json.loads(json.dumps(played, default=str))
    seen = episode["observations"]
    if len(seen) >= len(episode["actions"]):  # some recorders leave out what follows the last action
        played["observations"] = played["observations"][: len(seen)]
    wanted = {name: episode[name] for name in _COMPARED}
    if hasattr(peer, "compared"):
        for each in (played, wanted):
            each["observations"] = [peer.compared(observation) for observation in each["observations"]]
    return "; ".join(
        f"{name}: {str(played.get(name))[-150:]} instead of {str(wanted[name])[-150:]}"
        for name in _COMPARED
        if played.get(name) != wanted[name]
    )


def _as_recorded(turns: list[dict[str, Any]]) -> dict[str, Any]:
    last = turns[-1]
    return {
        "observations": [turn["observation"] for turn in turns if "observation" in turn],
        "rewards": [turn.get("reward", 0.0) for turn in turns[1:]],
        "done": bool(last.get("terminated") or last.get("truncated")),
    }


def _action(said: Any) -> dict[str, Any]:
    return said if isinstance(said, dict) else {"text": said, "calls": []}


def _raised(error: Exception) -> str:
    """An exception as recorders write it: `ValueError("…")`; a child writes `ValueError: …`."""
    if not isinstance(error, PeerFailed):
        return repr(error)
    kind, _, text = str(error).partition(": ")
    return f"{kind}({text!r})"


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _check_version(framework: Framework, name: str, recorded: str) -> None:
    """Skip what another version recorded: of the framework's first package, or of the one that the episode names."""
    first, *others = framework.packages
    if "==" not in first:  # a wire: the server's version is its own
        return
    versions = [
        _version(framework, first),
        *(_version(framework, each) for each in others if each.startswith(f"{name}==")),
    ]
    if recorded.partition("-")[0] not in versions:
        raise _Skipped(f"{re.split(_EXTRAS, first)[0]} {versions[0]} is installed, and {recorded} was recorded")


def _version(framework: Framework, package: str) -> str:
    name, pinned = re.split(_EXTRAS, package)[0], package.partition("==")[2]
    if framework.is_installed and not framework.is_apart:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return pinned
