"""Opponents: engines, or random moves, in the seats that the policy does not play."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeAlias

from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.errors import DataError
from gym_llm.judge.engine_argument import EngineArgument, auxiliary_engine, check_engine
from gym_llm.types import Request

OpponentsArgument: TypeAlias = EngineArgument | dict[str, EngineArgument]
"""An engine, `"random"` or `"policy"`, for all other seats; or an object of these by seat."""

RANDOM = "random"
POLICY = "policy"


def by_seat(argument: OpponentsArgument) -> dict[str, EngineArgument] | None:
    """Return the object of engines by seat; None if the argument is one engine for all."""
    is_engine = isinstance(argument, str) or set(argument) <= {"engine", "kwargs"}
    return None if is_engine else argument  # type: ignore[return-value]


def check_opponents(argument: OpponentsArgument, seats: Sequence[str] | None = None) -> None:
    """Check who plays which seats: `{"o": "http://HOST/v1"}`.

    Args:
        argument: The argument.
        seats: All seats; None if the row decides.

    Raises:
        ValueError: If one names no engine, or there is no such seat.
    """
    engines = by_seat(argument)
    for seat, each in (engines or {"": argument}).items():
        if engines is not None and seats is not None:
            seat_named(seat, seats)
        if each not in (RANDOM, POLICY):
            check_engine("opponents", each)


def seat_named(seat: str | int, seats: Sequence[str]) -> str:
    """Return the name of a seat that is given by its name, or by its number from 0.

    Raises:
        ValueError: If there is no such seat.

    >>> seat_named("o", ["x", "o"]), seat_named("0", ["x", "o"]), seat_named(1, ["x", "o"])
    ('o', 'x', 'o')
    """
    if seat in seats:
        return str(seat)
    number = int(seat) if str(seat).isdecimal() and len(str(seat)) < 10 else -1
    if not 0 <= number < len(seats):
        raise ValueError(f"There is no seat {seat!r}; the seats are {', '.join(seats)}.")
    return seats[number]


def players_of(argument: OpponentsArgument | None, seats: Sequence[str], others: EngineArgument) -> dict[str, Any]:
    """Return who plays each seat.

    Args:
        argument: The environment's argument.
        seats: The names of all seats.
        others: Who plays the seats that the argument leaves out.

    Raises:
        ValueError: If the argument names a seat that does not exist.
    """
    engines = {} if argument is None else by_seat(argument)
    if engines is None:
        return dict.fromkeys(seats, argument)
    return dict.fromkeys(seats, others) | {seat_named(seat, seats): each for seat, each in engines.items()}


async def answer(
    env: VerifierEnv, argument: EngineArgument, request: Request, legal: list[str], rng: random.Random, episode_id: str
) -> dict[str, Any] | list[dict[str, Any]]:
    """Return an opponent's action.

    Args:
        env: The environment that asks.
        argument: `"random"`, or an engine.
        request: What the seat is shown.
        legal: Its legal moves, if they are known.
        rng: Draws random moves.
        episode_id: Names the conversation, for the engine.

    Raises:
        DataError: If moves are to be random, and the game does not say which are legal.
        InfrastructureError: If the engine fails: this masks the episode for all seats.
    """
    if argument == RANDOM:
        if not legal:
            raise DataError("Moves are to be random, and this game does not say which are legal: give an engine.")
        return [{"type": "message", "role": "assistant", "content": rng.choice(legal)}]
    engine = await auxiliary_engine(env, argument)
    return await engine.respond(request, episode_id=episode_id)  # type: ignore[return-value]
