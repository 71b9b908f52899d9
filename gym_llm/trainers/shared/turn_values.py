"""turn_values: what each turn of an episode was worth, by playing the rest of it several times."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from gym_llm.engines.engine import Engine
from gym_llm.rollouts.fork import Fork, forkable_turns, play_forks
from gym_llm.rollouts.settings import RolloutSettings, SettingOptions
from gym_llm.types import Rollout


class TurnValues(NamedTuple):
    """The values of an episode's turns.

    Attributes:
        values: Of each turn: the mean reward of the forks that begin before it. None if no fork is scored. A fork of an
            episode that does not repeat itself is left out, with a warning.
        forks: The records of all forks, by turn and number. They can be trained on, too.
    """

    values: list[float | None]
    forks: list[Rollout]


async def turn_values(
    records: Sequence[Rollout],
    *,
    k: int,
    engine: str | Engine = "pocket",
    env_kwargs: dict[str, Any] | None = None,
    engine_options: dict[str, Any] | None = None,
    settings: RolloutSettings | None = None,
    **more: Unpack[SettingOptions],
) -> list[TurnValues]:
    """Estimate the value of the state before each turn of recorded episodes, from `k` forks of each.

    These are the Monte Carlo values of VinePPO (Kazemnejad et al. 2024, arXiv 2410.01679), for turns in place of steps
    of reasoning. An episode of T turns costs `k * T` forks, on average of half its turns. All are played at once. The
    turns of an agent's episode are its calls of the model.

    Args:
        records: Episodes of one environment. A masked one gets no values.
        k: The number of forks for each turn, 1 or more.
        engine: The policy's; the further arguments are those of `gym_llm.fork`.
        env_kwargs: The arguments of the environment that the records were played with.
        engine_options: Arguments of the engine that the spec names.
        settings: How the forks are played.
        **more: Or the settings one by one.

    Returns:
        One for each record, in order.

    Raises:
        CannotFork: If a record cannot be played again.
        ValueError: If an argument is invalid.
        Exception: As `gym_llm.rollout`.
    """
    if type(k) is not int or k < 1:
        raise ValueError(f"k is the number of forks for each turn, 1 or more; got {k!r}.")
    turns = [0 if record["reward"] is None else forkable_turns(record) for record in records]
    places = {
        (fork := Fork(record, turn, number)).job: (place, fork)
        for place, record in enumerate(records)
        for turn in range(turns[place])
        for number in range(k)
    }
    forks = [fork for _, fork in places.values()]
    if len(forks) < k * sum(turns):
        raise ValueError("Two of the records are of the same episode.")
    found: list[list[list[Rollout]]] = [[[] for _ in range(count)] for count in turns]
    options: dict[str, Any] = {"env_kwargs": env_kwargs, "engine_options": engine_options}
    playing = play_forks(forks, engine, RolloutSettings.of(settings, **more), strict=False, **options)
    async with aclosing(playing) as played:
        async for record in played:
            ids = record["rollout_id"]
            place, fork = places[ids["task_index"], ids["repeat_index"]]  # type: ignore[index]
            found[place][fork.turn].append(record)
    return [
        TurnValues(
            list(map(_mean, each)),
            [one for turn in each for one in sorted(turn, key=lambda record: record["forked_from"]["number"])],
        )
        for each in found
    ]


def value_advantages(values: Sequence[float | None], reward: float | None) -> NDArray[np.float64]:
    """Return the advantage of each turn: the value after it less the value before it.

    The value after the last turn is the episode's reward. So the advantages add up to the reward less the value before
    the first turn. A turn without a value gets 0.0, and the turn before it the difference of both.

    Args:
        values: The value before each turn, as of `turn_values`.
        reward: The reward of the episode; None if it is masked.

    Returns:
        Array, float64, shape `(turns,)`, as of `turn_advantages`; empty for a masked episode.

    >>> value_advantages([0.25, 0.75, 0.5], 1.0).tolist()
    [0.5, -0.25, 0.5]
    >>> value_advantages([0.25, None, 0.5], 1.0).tolist()
    [0.25, 0.0, 0.5]
    """
    if reward is None:
        return np.zeros(0)
    advantages, after = np.zeros(len(values)), reward
    for turn in reversed(range(len(values))):
        if (value := values[turn]) is not None:
            advantages[turn] = after - value
            after = value
    return advantages


def _mean(records: list[Rollout]) -> float | None:
    rewards = [record["reward"] for record in records if record["reward"] is not None]
    return float(np.mean(rewards)) if rewards else None
