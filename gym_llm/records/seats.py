"""Seats: the players of an episode in its record, and a record for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gym_llm.records.record import response_of
from gym_llm.types import TURN_FIELDS, Episode, Rollout, SeatRecord

_TOKENS = set(TURN_FIELDS)


def seat_record(
    episode: Episode,
    *,
    player: str,
    is_trained: bool,
    turn_rewards: Sequence[float],
    reward: float,
    trajectory: list[dict[str, Any]] | None,
    info: dict[str, Any],
    is_own: bool,
) -> dict[str, Any]:
    """Return a seat as the record has it; see `gym_llm.types.SeatRecord`.

    Args:
        episode: What the seat saw and said.
        player: `"policy"`, `"random"`, or the spec of its engine.
        is_trained: Whether trainers get a row of it.
        turn_rewards: What each of its turns was paid.
        reward: The sum of them.
        trajectory: Its segments; None without token ids.
        info: Its details.
        is_own: Whether it is the seat of the record itself, which has its request, response and trajectory.
    """
    fields: dict[str, Any] = {
        "player": player,
        "trained": is_trained,
        "reward": reward,
        "turns": episode.turn,
        "tool_errors": episode.tool_errors,
        "info": info,
    }
    if any(turn_rewards[:-1]):
        fields["turn_rewards"] = list(turn_rewards)
    if not is_own:
        fields["responses_create_params"] = dict(episode.request)
        fields["response"] = {
            **response_of(episode),
            "output": [_without_tokens(item) for item in episode.items],
        }
        fields["trajectory"] = trajectory
    return fields


def _without_tokens(item: dict[str, Any]) -> dict[str, Any]:
    """An item without its token ids: they are in the trajectory."""
    if _TOKENS.isdisjoint(item):
        return item
    return {name: value for name, value in item.items() if name not in _TOKENS}


def seat_records(record: Rollout, *, trained: bool = True) -> dict[str, Rollout]:
    """Return a record for each seat of an episode, as if it had been played alone, by seat.

    Each has the seat's request, response, reward, trajectory and details. An episode that was masked is so for all.
    A record without seats is returned unchanged, under the name "".

    Args:
        record: A record, as it was made or read.
        trained: Leave out the seats that are not trained.

    >>> record = {"reward": 1.0, "info": {"turn": 1}, "seats": {"x": {"trained": True, "reward": 1.0, "turns": 1,
    ...     "info": {}}, "o": {"trained": True, "reward": -1.0, "turns": 2, "info": {}, "response": {"output": []}}}}
    >>> [(seat, one["reward"], one["info"]["turn"]) for seat, one in seat_records(record).items()]
    [('x', 1.0, 1), ('o', -1.0, 2)]
    """
    seats = record.get("seats")
    if seats is None:
        return {"": record}
    return {name: _alone(record, seat) for name, seat in seats.items() if seat["trained"] or not trained}


def _alone(record: Rollout, seat: SeatRecord) -> Rollout:
    alone: dict[str, Any] = {name: value for name, value in record.items() if name not in ("seats", "turn_rewards")}
    own = {"turn": seat["turns"], "tool_errors": seat.get("tool_errors", 0), **seat["info"]}
    alone["info"] = {"task_index": record.get("info", {}).get("task_index", -1), **own}
    if "response" in seat:
        named = ("responses_create_params", "response", "trajectory")
        alone |= {name: value for name, value in seat.items() if name in named}
    if "turn_rewards" in seat:
        alone["turn_rewards"] = seat["turn_rewards"]
    alone["reward"] = None if record["reward"] is None else seat["reward"]
    return alone  # type: ignore[return-value]
