"""fork: new endings of a recorded episode, from one of its turns on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from hashlib import blake2b
from typing import Any, Final, NamedTuple, SupportsFloat, Unpack, cast

import gymnasium as gym

from gym_llm.engines import make_engine
from gym_llm.engines.around import EngineAround
from gym_llm.engines.engine import Engine, EpisodeReport
from gym_llm.engines.replay import is_environments, recorded_turns
from gym_llm.engines.specs import seeded_options
from gym_llm.errors import CannotFork
from gym_llm.protocols.responses.actions import with_output
from gym_llm.protocols.responses.token_fields import without_tokens
from gym_llm.rollouts.durable.durable_episode import EpisodeDiverged
from gym_llm.rollouts.made_by import made_by
from gym_llm.rollouts.plan import Job, Plan, open_plan
from gym_llm.rollouts.play import iter_records
from gym_llm.rollouts.recorded_task import row_of
from gym_llm.rollouts.settings import RolloutSettings, SettingOptions
from gym_llm.types import ForkedFrom, Item, Request, ResponseDict, Rollout

_KEPT: Final = ("task_key", "task_sha256", "task_source", "dataset")
_FORKS = 1 << 40  # repeat indexes from here on are those of forks: no run has as many repeats


class Fork(NamedTuple):
    """A continuation of a recorded episode.

    Attributes:
        record: The episode.
        turn: The number of its turns that the fork begins with.
        number: The number of the fork among those of its turn, from 0.
    """

    record: Rollout
    turn: int
    number: int

    @property
    def job(self) -> Job:
        """Return the fork's own id: the same one for the same record, turn and number."""
        task, repeat = self.record["rollout_id"]["task_index"], self.record["rollout_id"]["repeat_index"]
        digest = blake2b(f"{task}/{repeat}/{self.turn}/{self.number}".encode(), digest_size=5).digest()
        return Job(task, _FORKS + int.from_bytes(digest, "big"))

    def env_seed(self, run_seed: int) -> int:
        """Return the seed with which the episode's environment was reset; a run's seed makes it."""
        if (origin := self.record.get("forked_from")) is not None:
            return origin["env_seed"]
        return Job(**self.record["rollout_id"]).env_seed(self.record.get("made_by", {}).get("seed", run_seed))


async def fork(
    record: Rollout,
    *,
    turn: int,
    n: int,
    engine: str | Engine = "pocket",
    first: int = 0,
    env_kwargs: dict[str, Any] | None = None,
    engine_options: dict[str, Any] | None = None,
    settings: RolloutSettings | None = None,
    **more: Unpack[SettingOptions],
) -> AsyncGenerator[Rollout, None]:
    """Play `n` continuations of a recorded episode from one of its turns on, and yield each as it finishes.

    The environment is played again with the recorded answers, up to that turn. Then the engine answers. It gets the
    recorded items with their token ids, so the ids of the shared prefix are those of the record.

    The environment begins with the seed of the record, and tools run again. If it asks for something else than it did
    before, nothing is yielded for the record. Calls of a hook to another model are made again, and may be answered
    differently.

    A fork's record has `forked_from`: the `rollout_id` of its parent, the turn, the fork's number and the
    environment's seed. Its own `rollout_id` is the same whenever that fork is played. Its usage counts the tokens of
    the new turns. A fork can be forked, too.

    Args:
        record: A record with its turns, as `rollout` yields it or `read_record` reads it.
        turn: The number of turns that are kept, from 0; less than the record has (`info["turn"]`).
        n: The number of continuations.
        engine: As for `gym_llm.rollout`, like the further arguments.
        first: The number of the first fork, for more forks of the same turn.
        env_kwargs: The arguments of the environment that the record was played with.
        engine_options: Arguments of the engine that the spec names.
        settings: How they are played; give the `sampling` and the `wrappers` of the record.
        **more: Or the settings one by one. The seed is that of the sampling, and of the record's run if it names none.

    Yields:
        Records in the order of finishing; a fork that fails is a masked one.

    Raises:
        CannotFork: If the record cannot be played again, or its environment asks for something else than before.
        ValueError: If an argument is invalid.
        Exception: As `gym_llm.rollout`.
    """
    if type(n) is not int or n < 1:
        raise ValueError(f"n is the number of continuations, 1 or more; got {n!r}.")
    settings = RolloutSettings.of(settings, **more)
    if settings.workers or settings.durable:
        raise ValueError("Forks are played in this process, without a journal.")
    env_id = record["env_id"]
    plan = open_plan(env_id, env_kwargs=env_kwargs, needs_tasks=False)
    if plan.factory.scores_groups:
        raise CannotFork(f"{env_id} scores whole groups: a fork has none.")
    turns = _turns_to_keep(record, turn, settings)
    forks = [Fork(record, turn, number) for number in range(first, first + n)]
    again = Plan(plan.factory, n, 1, n)
    maker = await asyncio.to_thread(made_by, plan.factory, engine, engine_options, settings)

    def replay(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        return _ResetAsRecorded(env, forks, turns, settings.seed)

    async with AsyncExitStack() as stack:
        if isinstance(engine, str):
            options = seeded_options(engine, engine_options, settings.seed)
            engine = await stack.enter_async_context(make_engine(engine, **options))
        replaying = _Replaying(engine, forks, turns)
        wrapped = RolloutSettings(**{**vars(settings), "wrappers": (_StepAsRecorded, *settings.env_wrappers, replay)})
        played = iter_records(again, replaying, wrapped, made_by={**maker.key, "model": engine.model})
        async for finished in await stack.enter_async_context(aclosing(played)):
            if replaying.diverged is not None:
                raise CannotFork(replaying.diverged)
            yield _named(finished, forks[finished["rollout_id"]["task_index"]], settings.seed)


def _turns_to_keep(record: Rollout, turn: int, settings: RolloutSettings) -> list[list[Item]]:
    """Return the recorded turns that a fork begins with.

    Raises:
        CannotFork: If the record's turns are not those of one model.
        ValueError: If the record has no such turn.
    """
    if "response" not in record:
        raise CannotFork("The record has no turns: its episode never began.")
    if len(record.get("seats", ())) > 1:
        raise CannotFork("The record is of several seats: its turns are not those of one model.")
    if "agent" in record["info"] or settings.agent is not None:
        raise CannotFork("An agent's episode cannot be forked: its program cannot go on from the middle.")
    count = int(record["info"].get("turn", 0))
    turns = recorded_turns(cast(Any, record["response"]), count)
    if len(turns) != count:
        raise CannotFork(f"The record has {count} turns, but its items show {len(turns)}: they cannot be separated.")
    if type(turn) is not int or not 0 <= turn < max(count, 1):
        raise ValueError(f"turn is the number of turns to keep, 0 to {count - 1}; got {turn!r}.")
    return turns[:turn]


def _named(record: Rollout, fork: Fork, run_seed: int) -> Rollout:
    """Give a record its own id, its parent's, and what the parent says of the task."""
    job, parent = fork.job, fork.record
    origin: ForkedFrom = {
        "rollout_id": parent["rollout_id"],
        "turn": fork.turn,
        "number": fork.number,
        "env_seed": fork.env_seed(run_seed),
    }
    record.update({"rollout_id": {"task_index": job.task_index, "repeat_index": job.repeat_index}})
    record.update({name: parent[name] for name in _KEPT if name in parent})  # type: ignore[literal-required, typeddict-item]
    record["forked_from"] = origin
    return record


class _StepAsRecorded(gym.Wrapper[Any, Any, Any, Any]):
    """Gives the environment the recorded turns unchanged: a parser may find calls in the rest of a parsed text.

    Attributes:
        turns: The recorded turns that are still to come, the next one last.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.turns: list[list[Item]] = []

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        return self.env.step(with_output(action, self.turns.pop()) if self.turns else action)


class _ResetAsRecorded(gym.Wrapper[Any, Any, Any, Any]):
    """Resets to the task and the seed of the fork whose place is asked for as the task's index."""

    def __init__(self, env: gym.Env[Any, Any], forks: Sequence[Fork], turns: list[list[Item]], run_seed: int) -> None:
        super().__init__(env)
        self._forks, self._turns, self._run_seed = forks, turns, run_seed
        while not isinstance(env, _StepAsRecorded):
            env = env.env  # type: ignore[attr-defined]
        self._steps = env

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        fork = self._forks[(options or {})["task_index"]]
        self._steps.turns = self._turns[::-1]
        task = {"task": row_of(fork.record), "task_index": fork.record["rollout_id"]["task_index"]}
        return self.env.reset(seed=fork.env_seed(self._run_seed), options=task)


class _Replaying(EngineAround):
    """Answers the first turns of each fork from its record, and has the engine answer the others.

    Attributes:
        diverged: How an episode asked for something else than before; None if none has.
    """

    def __init__(self, engine: Engine, forks: Sequence[Fork], turns: list[list[Item]]) -> None:
        super().__init__(engine)
        self._forks, self._turns = forks, turns
        self._answered = [0] * len(forks)
        self.diverged: str | None = None

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request; see `Engine.respond`."""
        place = _place(episode_id)
        fork, number = self._forks[place], self._answered[place]
        self._answered[place] += 1
        if number <= fork.turn:
            self._check(request, fork.record, number)
        if number >= fork.turn:
            return await self.engine.respond(request, episode_id=fork.job.episode_id)
        recorded = fork.record["response"]
        return {
            "id": f"resp_{fork.job.episode_id}-{number}",
            "object": "response",
            "created_at": recorded.get("created_at") or 0.0,
            "model": recorded.get("model") or self.model,
            "status": "completed",
            "output": self._turns[number],
            "usage": None,
        }

    async def end_episode(
        self, episode_id: str, *, rewards: Sequence[float] = (), failed: bool = False
    ) -> EpisodeReport | None:
        """Let go of an episode; see `Engine.end_episode`."""
        place = _place(episode_id)
        self._answered[place] = 0  # it may be played again
        return await self.engine.end_episode(self._forks[place].job.episode_id, rewards=rewards, failed=failed)

    def _check(self, request: Request, record: Rollout, number: int) -> None:
        """Compare a request with the record up to its turn."""
        params, items = record["responses_create_params"], record["response"]["output"]
        first = params["input"]
        shown = [{"role": "user", "content": first}] if isinstance(first, str) else first
        said = _environments(items, sum(map(len, self._turns[:number])))
        asked = request["input"]
        if (
            list(map(without_tokens, asked[: len(shown)])) != list(map(without_tokens, shown))
            or [item for item in asked[len(shown) :] if is_environments(item)] != said
        ):
            job = Job(**record["rollout_id"])
            self.diverged = (
                f"Episode {job.episode_id} is not deterministic: its turn {number + 1} begins with other items."
            )
            raise EpisodeDiverged(self.diverged)


def _environments(items: list[Item], count: int) -> list[Item]:
    """Return what the environment says before the model's next item, after this number of the model's items."""
    said = []
    for item in items:
        if is_environments(item):
            said.append(item)
        elif count == 0:
            break
        else:
            count -= 1
    return said


def _place(episode_id: str) -> int:
    return int(episode_id.partition("-")[0])
