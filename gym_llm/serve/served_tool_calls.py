"""Tool calls outside of a turn, for clients that call tools one by one and send the conversation at the end."""

from __future__ import annotations

import functools
from typing import Any

from gym_llm.concurrency import is_cancellation
from gym_llm.core.rewards import read_step_reward
from gym_llm.core.tools import Tool, tools_of
from gym_llm.core.tools.calls import run_calls
from gym_llm.core.tools.tool import error_output
from gym_llm.serve.episode_session import BadRequest, EpisodeSession

CALL_REWARDS = "call_rewards"
_GRADED = "The calls themselves are graded here: they are not carried out."


async def call_tool(session: EpisodeSession, name: str, arguments: str) -> tuple[str, bool]:
    """Run a tool of the episode under way, outside of a turn; the call is not added to the episode's items.

    Its `step_reward` counts at once (`session.total_reward`); `session.notes["call_rewards"]` lists it by call.

    Args:
        session: The session.
        name: The name that the model called; may be unknown.
        arguments: The model's arguments, which should be a JSON object.

    Returns:
        The text for the model, as in a turn's `function_call_output`, and whether it reports an error.

    Raises:
        BadRequest: If no episode is under way.
        EpisodeFailed: If the tool failed; the episode is over and masked.
    """
    outcome: tuple[str, bool] = await session.call(_call, session, name, arguments)
    return outcome


def _call(session: EpisodeSession, name: str, arguments: str) -> tuple[str, bool]:
    if not session.is_playing:
        raise BadRequest("No episode is under way: reset first.")
    verifier = session.verifier
    playing = verifier.playing
    kind: Any = type(playing)
    if not playing.executes_tools:
        return error_output(_GRADED), True
    episode: Any = playing.episode
    call = {"type": "function_call", "call_id": "", "name": name, "arguments": arguments}
    verifier.phase = "tool"
    episode.step_reward = 0.0
    info: dict[str, Any] = {}
    try:
        outputs, errors = run_calls(playing, _tools(kind), [call], episode.state)
        reward = read_step_reward(episode, info) if episode.step_reward != 0.0 else 0.0
    except BaseException as error:  # a panic in Rust is not an Exception
        if is_cancellation(error):
            raise
        verifier.end_episode(error)
        raise session.fail(error) from error
    verifier.phase = "env"
    episode.tool_errors += errors
    session.total_reward += reward
    session.notes.setdefault(CALL_REWARDS, []).append(reward)
    text: str = outputs[0]["output"]
    return text, errors > 0


@functools.cache
def _tools(cls: Any) -> dict[str, Tool]:
    return tools_of(cls)
