"""Score a conversation that an agent sends: in the session whose tools it called, or from its items alone.

NeMo Gym's agents play the episode themselves. They ask the model, post its calls to `/TOOL`, and send the whole
conversation at the end. To get the same reward as a rollout:

1. The items before the model's last turn are put into the episode.
2. The last turn is a step, so the environment's own rules end the episode.
3. Turns after `max_turns`, or after the calls that the verifier grades, are left out. If they called tools, the episode
   is replayed up to that point.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any, NamedTuple, cast

from gymnasium.error import InvalidAction

from gym_llm.core.driver import Driver
from gym_llm.core.tasks import PreparedTask
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.engines.replay import is_environments, recorded_turns
from gym_llm.evaluation.reverify.rescoring import NotFromItems, check_env, score_items
from gym_llm.protocols.responses.actions import read_action
from gym_llm.serve.episode_session import BadRequest, EpisodeFailed, EpisodeSession
from gym_llm.serve.nemo.answer_bodies import masked, scored
from gym_llm.serve.nemo.nemo_rows import PARAMS, Rows, Seeded, changed_field
from gym_llm.serve.served_tool_calls import CALL_REWARDS
from gym_llm.types import Item, Row
from gym_llm.utils.limits import ITEMS, limit

_UNFINISHED = {"incomplete", "failed", "cancelled"}
_MOST_TURNS = 4_096
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.:-]*")


ADDRESSES = frozenset(
    ("seed_session", "verify", "close_session", "aggregate_metrics", "reset", "step", "close", "mcp", "tasks")
)
"""Addresses that a model may name as a tool, and that its agent would post to."""


class OtherTask(Exception):
    """The row is another than the session's."""


class Conversation(NamedTuple):
    """An agent's response, read.

    Attributes:
        response: As it came.
        items: All that was said.
    """

    response: dict[str, Any]
    items: list[Item]

    @property
    def calls_addresses(self) -> bool:
        """Whether the model called an address of the server, which may have ended or changed the session.

        An agent posts to `/NAME` for any name, so a name with other characters than a tool's may be an address, too:
        `close_session?x`, `./close_session`, `Weather-v0/close_session`.
        """
        names = {str(item.get("name")) for item in self.items if item.get("type") == "function_call"}
        return not names.isdisjoint(ADDRESSES) or not all(map(_TOOL_NAME.fullmatch, names))


class _Cut(NamedTuple):
    """A conversation up to the turn where the environment ends it.

    Attributes:
        before: The items before the turn to step, or all.
        turns: The number of the model's turns in `before`.
        turn_start: The index in `before` of the last of them.
        last: The turn to step; None if there is no such turn.
        is_end: Whether the conversation is complete.
        undo: Whether the turns that were left out called tools.
    """

    before: list[Item]
    turns: int
    turn_start: int
    last: list[Item] | None
    is_end: bool
    undo: bool = False


def read_conversation(body: dict[str, Any], server_name: str) -> Conversation:
    """Return the conversation in the `response` of a body.

    Args:
        body: The body of a request to `/verify` or `/step`.
        server_name: The name that MCP clients put before tools, `mcp__SERVER__TOOL`; verifiers know `TOOL`.

    Raises:
        BadRequest: If the response or one of its items is invalid.
    """
    response = body.get("response")
    if not isinstance(response, dict):
        raise BadRequest("The `response` is missing: send the row's fields and the model's response.")
    items = response.get("output")
    if not isinstance(items, list):
        raise BadRequest("The response's `output` is a list of items.")
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise BadRequest(f"Item {index} of the output is a JSON object, got {type(item).__name__}.")
    prefix = f"mcp__{server_name}__"
    if any(str(item.get("name")).startswith(prefix) for item in items):
        items = [_renamed(item, prefix) for item in items]
    turns = 0
    for environments, group in groupby(items, is_environments):
        if environments:
            for item in group:
                _check_environments(item)
        else:
            turns += 1
            _check_turn(list(group), response)
    if turns > _MOST_TURNS:
        raise BadRequest(f"The response has {turns:,} turns, but {_MOST_TURNS:,} is the limit.")
    return Conversation(response, items)


async def score_session(session: EpisodeSession, rows: Rows, row: Row, conversation: Conversation) -> dict[str, Any]:
    """Score a session's episode with this conversation.

    Returns:
        The fields of the answer.

    Raises:
        OtherTask: If the session was seeded with another row.
        BadRequest: If the row is invalid; the episode is unchanged.
    """
    if session.failure is not None:
        return masked(session.failure.kind, session.failure.reason)
    last = session.last
    if last is None:
        return masked("session_lost", "The session has no episode: it was not seeded.")
    seeded: Seeded = session.notes["nemo"]
    if session.episode is not seeded.episode:  # an agent with the token for its tools may have reset it elsewhere
        raise OtherTask("The session plays another episode than its seed.")
    if session.outcome is not None:  # it was played with /step
        return scored(session.total_reward, session.outcome == "truncated", last.info)
    if row != seeded.row:
        if (name := changed_field(seeded.row, row)) is not None:
            raise OtherTask(f"The session was seeded with another task: `{name}` is not the same.")
        prepared = rows.prepare(row)
        session.episode.row, session.episode.request = prepared.row, prepared.request  # type: ignore[union-attr]
    cut = _cut(session.verifier.playing, conversation)
    try:
        if cut.undo:
            return await _played_again(session, rows.prepare(row), conversation)
        await session.call(_lay, session, seeded.opening, conversation, cut)
        if cut.last is not None:
            last = await session.step(_turn(conversation, cut.last, is_end=cut.is_end))
        if not last.done:
            last = await session.cut_short()
    except EpisodeFailed as failed:
        return masked(failed.failure.kind, failed.failure.reason)
    return scored(session.total_reward, last.truncated, last.info)


async def score_alone(session: EpisodeSession, rows: Rows, row: Row, conversation: Conversation) -> dict[str, Any]:
    """Score a conversation by its items alone, in a session opened for it.

    Returns:
        The fields of the answer.

    Raises:
        NotFromItems: If the verifier needs state that the tools changed.
        BadRequest: If the row is invalid.
    """
    rows.prepare(row)
    fields = {name: value for name, value in row.items() if name != PARAMS}
    record = {
        PARAMS: row[PARAMS],
        "response": {**conversation.response, "output": conversation.items},
        "task_fields": fields,
        "rollout_id": {"task_index": 0, "repeat_index": 0},
        "reward": None,
    }

    def score() -> dict[str, Any]:
        try:
            check_env(session.env)
            found = score_items(Driver(session.env), cast(Any, record), 0)
        except NotFromItems:
            session.verifier.end_episode()
            raise
        except Exception as error:
            session.verifier.end_episode(error)
            failure = session.fail(error).failure
            return masked(failure.kind, failure.reason)
        return scored(found.reward, found.truncated, found.info)

    try:
        answer: dict[str, Any] = await session.call(score)
    except EpisodeFailed as failed:  # it took too long
        return masked(failed.failure.kind, failed.failure.reason)
    return answer


async def score_anew(session: EpisodeSession, rows: Rows, row: Row, conversation: Conversation) -> dict[str, Any]:
    """Score a conversation by replaying all of its turns, in any session.

    Returns:
        The fields of the answer.

    Raises:
        BadRequest: If the row is invalid.
    """
    prepared = rows.prepare(row)
    try:
        return await _played_again(session, prepared, conversation)
    except EpisodeFailed as failed:
        return masked(failed.failure.kind, failed.failure.reason)


async def _played_again(session: EpisodeSession, prepared: PreparedTask, conversation: Conversation) -> dict[str, Any]:
    last = await session.reset(options={"task": prepared})
    turns = recorded_turns({**conversation.response, "output": conversation.items})
    for number, turn in enumerate(turns, 1):
        last = await session.step(_turn(conversation, turn, is_end=number == len(turns)))
        if last.done:
            break
    if not last.done:
        last = await session.cut_short()
    return scored(session.total_reward, last.truncated, last.info)


def _turn(conversation: Conversation, items: list[Item], *, is_end: bool) -> dict[str, Any]:
    """Return the response of one turn: only the last one can have been cut off."""
    whole = {} if is_end else {"status": "completed", "incomplete_details": None}
    return {**conversation.response, "output": items, **whole}


def _lay(session: EpisodeSession, opening: list[Item], conversation: Conversation, cut: _Cut) -> None:
    episode: Any = session.episode
    session.total_reward = _total(session, cut.before)
    episode.items = [*opening, *cut.before]
    episode.turn = cut.turns
    episode.turn_start = len(opening) + cut.turn_start
    if cut.last is None:
        episode.last_response = {**conversation.response, "output": cut.before[cut.turn_start :]}
        if isinstance(usage := conversation.response.get("usage"), dict):
            episode.add_usage(usage)


def _total(session: EpisodeSession, items: list[Item]) -> float:
    """Return the total reward of the turns so far, summed by turn as a rollout does, so that floats round alike."""
    rewards = list(session.notes.get(CALL_REWARDS, ()))
    calls = [
        [item for item in turn if item.get("type") == "function_call"] for _, turn in groupby(items, is_environments)
    ]
    if len(rewards) != sum(map(len, calls)):  # not each call was made here
        return session.total_reward
    left = iter(rewards)
    return sum((sum((next(left) for _ in turn), 0.0) for turn in calls), 0.0)


def _cut(playing: VerifierEnv, conversation: Conversation) -> _Cut:
    items = conversation.items
    position = turns = turn_start = 0
    for environments, group in groupby(items, is_environments):
        said = list(group)
        position += len(said)
        is_end = position == len(items)
        if environments:
            if turns >= playing.max_turns:
                undo = any(item.get("type") == "function_call" for item in items[position:])
                return _Cut(items[:position], turns, turn_start, None, is_end, undo)
            continue
        turns, turn_start = turns + 1, position - len(said)
        if any(item.get("type") == "function_call" for item in said):
            steps = not playing.executes_tools
        else:
            steps = is_end or turns >= playing.max_turns
        if steps:
            calls = playing.executes_tools and any(item.get("type") == "function_call" for item in items[position:])
            return _Cut(items[:turn_start], turns - 1, turn_start, said, is_end, calls)
    is_unfinished = conversation.response.get("status") in _UNFINISHED
    if not items or (is_unfinished and is_environments(items[-1])):
        return _Cut(items, turns, turn_start, [], True)  # the last turn said nothing: its prompt did not fit
    return _Cut(items, turns, turn_start, None, True)


def _check_turn(turn: list[Item], response: dict[str, Any]) -> None:
    try:
        read_action({**response, "output": turn})
    except InvalidAction as error:
        raise BadRequest(str(error)) from None


def _check_environments(item: Item) -> None:
    name = "output" if item.get("type") == "function_call_output" else "content"
    value = item.get(name)
    if isinstance(value, list):
        is_right = len(value) <= limit(ITEMS) and all(isinstance(part, dict) for part in value)
    else:
        is_right = isinstance(value, str)
    if not is_right or not isinstance(item.get("call_id"), str if name == "output" else (str, type(None))):
        raise BadRequest(f"A {item.get('type') or 'message'!s:.40} of the output has a wrong `{name}` or `call_id`.")


def _renamed(item: Item, prefix: str) -> Item:
    name = item.get("name")
    if item.get("type") == "function_call" and isinstance(name, str) and name.startswith(prefix):
        return {**item, "name": name[len(prefix) :]}
    return item
