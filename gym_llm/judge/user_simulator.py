"""UserSimulator: an engine in the user's place, or a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.errors import InfrastructureError, JudgeError
from gym_llm.judge.auxiliary_engine import EngineArgument, check_engine, side_engine
from gym_llm.judge.judge import Params
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Episode, Item, is_said, message_text

_GREETING = "Hello. What can I do for you?"
"""What the simulator's conversation begins with: many chat templates want its first message from the other side."""


class UserSimulator:
    """What the user says, from `opening` and `respond` of a verifier.

    The engine sees the conversation with the roles turned around, without calls, tool outputs and reasoning: what the
    model said is its user's, what the user said its own.

    Args:
        user: The engine, as `JudgedEnv` takes a judge; None for scripts alone.
        stop: The words with which the user ends the conversation; what is said beside them is not passed on.
        max_turns: The most messages of the user's in an episode, the row's own not counted.
        params: Fields of the engine's requests.

    Raises:
        ValueError: If an argument makes no sense.
    """

    def __init__(
        self,
        user: EngineArgument | None = None,
        *,
        stop: str = "###STOP###",
        max_turns: int = 20,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        if user is not None:
            check_engine("user", user)
        if type(max_turns) is not int or max_turns < 1:
            raise ValueError(f"max_turns is the number of the user's messages, 1 or more; got {max_turns!r}.")
        if not isinstance(stop, str) or not stop:
            raise ValueError(f"stop is what the user says to end the conversation, got {stop!r}.")
        self.user = user
        self.stop = stop
        self.max_turns = max_turns
        self._params = Params.read(params or {})

    async def opening(self, env: VerifierEnv, instructions: str, script: Sequence[str] = ()) -> str | None:
        """The first message, for `opening`; arguments as of `respond`."""
        return await self._next(env, [], 0, instructions, script)

    async def respond(
        self, env: VerifierEnv, episode: Episode, instructions: str, script: Sequence[str] = ()
    ) -> str | None:
        """The user's next message, for `respond`; None when the conversation is over.

        Args:
            env: Who asks.
            episode: What was said so far.
            instructions: Who the user is, what they want, and when they say the stop words: the system message.
            script: What they say if there is no engine, one message after another.

        Raises:
            JudgeError: If the engine fails, or says nothing.
        """
        said = sum(_is_users(item) for item in episode.items)
        return await self._next(env, episode.request["input"] + episode.items, said, instructions, script)

    async def _next(
        self, env: VerifierEnv, items: list[Item], said: int, instructions: str, script: Sequence[str]
    ) -> str | None:
        if said >= self.max_turns:
            return None
        if self.user is None:
            return script[said] if said < len(script) else None
        engine = await side_engine(env, self.user)
        messages = [{"role": "system", "content": instructions, "type": "message"}, *turned_around(items)]
        try:
            response = await engine.respond({"input": messages, **self._params.fields})  # type: ignore[typeddict-item]
        except (InfrastructureError, OSError) as error:
            raise JudgeError(f"The simulated user gave no answer: {error}") from error
        text = strip_thinking(message_text(response["output"]), unclosed=True)
        if not text:
            raise JudgeError("The simulated user said nothing.")
        return None if self.stop in text else text


def turned_around(items: Sequence[Item]) -> list[Item]:
    """The messages of a conversation as the other side has them; the first is always the other's.

    >>> turned_around([{"role": "user", "content": "A table for two?"}])[-1]
    {'role': 'assistant', 'content': 'A table for two?', 'type': 'message'}
    """
    messages: list[Item] = []
    for item in items:
        role = "user" if is_said(item) else "assistant" if _is_users(item) else None
        if not role or not (text := _text(item)):
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += f"\n\n{text}"  # several turns with calls between: chats take turns
        else:
            messages.append({"role": role, "content": text, "type": "message"})
    if not messages or messages[0]["role"] == "assistant":
        messages.insert(0, {"role": "user", "content": _GREETING, "type": "message"})
    return messages


def _is_users(item: Item) -> bool:
    return item.get("role") == "user" and item.get("type", "message") == "message"


def _text(item: Item) -> str:
    return strip_thinking(message_text([{**item, "role": "assistant"}]))
