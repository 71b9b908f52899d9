"""SimulatedUser: an engine, or a script, in the user's place."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import create_model

from gym_llm.core.env_config import EnvConfig
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.errors import DataError, InfrastructureError, JudgeError
from gym_llm.judge.engine_argument import EngineArgument, auxiliary_engine, check_engine
from gym_llm.judge.judge import Params
from gym_llm.judge.judge_prompts import make_prompt
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Episode, Item, is_said, message_text

_GREETING = "Hello. What can I do for you?"
"""The first message of the simulator's conversation: many chat templates want it from the other side."""
C = TypeVar("C", bound=EnvConfig)


class SimulatedUser:
    """A user who opens the conversation and answers the model's messages. It is a class attribute of an environment.

    ```python
    class TeaShop(VerifierEnv):
        user = SimulatedUser(prompt="You want {wish}. When you have it, write ###DONE###.", stop="###DONE###")
    ```

    The environment then takes the argument `user`, the engine that plays it: `TeaShop(tasks, user="http://HOST/v1")`.
    The user opens the conversation unless the row's own input has a user's message.

    The engine sees the conversation with the roles exchanged: the model's messages are its user's, and the user's
    messages its own. Calls, tool outputs and reasoning are left out.

    Args:
        user: An engine, as `JudgedEnv` takes a judge; None for the script alone.
        prompt: The system message: who the user is, what they want, and when they write the stop words. `{name}` stands
            for the task's field of that name.
        stop: The words with which the user ends the conversation. A message that has them is not passed on.
        max_turns: Maximum number of the user's messages in an episode, without those of the row.
        script: The user's messages if there is no engine, or the name of the task's field that lists them.
        params: Fields of the engine's requests.

    Raises:
        DataError: If the prompt is not a template.
        ValueError: If another argument is invalid.
    """

    def __init__(
        self,
        user: EngineArgument | None = None,
        *,
        prompt: str = "",
        stop: str = "###STOP###",
        max_turns: int = 20,
        script: str | Sequence[str] = (),
        params: Mapping[str, Any] | None = None,
    ) -> None:
        if user is not None:
            check_engine("user", user)
        if type(max_turns) is not int or max_turns < 1:
            raise ValueError(f"max_turns is the number of the user's messages, 1 or more; got {max_turns!r}.")
        if not isinstance(stop, str) or not stop:
            raise ValueError(f"stop is the text that ends the conversation, got {stop!r}.")
        self.user = user
        self.stop = stop
        self.max_turns = max_turns
        self.script = script
        self._prompt = make_prompt({"user": prompt}, "of the simulated user") if prompt else None
        self._params = Params.read(params or {})

    # -- as a class attribute ------------------------------------------------------------------------------------------

    def add_argument(self, config: type[C]) -> type[C]:
        """Return an environment's `Config` with the argument `user`."""
        return create_model("Config", __base__=config, __module__=config.__module__, user=(EngineArgument | None, None))

    def played_by(self, user: EngineArgument) -> SimulatedUser:
        """Return this user with another engine.

        Raises:
            ValueError: If the argument does not name an engine.
        """
        check_engine("user", user)
        other = copy.copy(self)
        other.user = user
        return other

    async def turn(self, env: VerifierEnv, task: Any, episode: Episode) -> str | None:
        """Return the user's next message, the first included; None when the conversation is over.

        Raises:
            DataError: If the prompt or the script names a field that the task does not have.
            JudgeError: If the engine fails, or its message is empty.
        """
        if episode.turn == 0 and any(_is_users(item) for item in episode.request["input"]):
            return None
        instructions = (
            ""
            if self._prompt is None
            else self._prompt.messages({name: _field(task, name) for name in self._prompt.fields})[0]["content"]
        )
        script = _field(task, self.script) if isinstance(self.script, str) else self.script
        return await self.respond(env, episode, instructions, script)

    # -- with instructions that no template can make -------------------------------------------------------------------

    async def opening(self, env: VerifierEnv, instructions: str, script: Sequence[str] = ()) -> str | None:
        """Return the first message, for a hook `opening` of your own; the arguments are those of `respond`."""
        return await self._next(env, [], 0, instructions, script)

    async def respond(
        self, env: VerifierEnv, episode: Episode, instructions: str, script: Sequence[str] = ()
    ) -> str | None:
        """Return the user's next message, for a hook `user_turn` of your own; None when the conversation is over.

        Args:
            env: The environment that asks.
            episode: The conversation so far.
            instructions: The system message.
            script: The user's messages if there is no engine.

        Raises:
            JudgeError: If the engine fails, or its message is empty.
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
        engine = await auxiliary_engine(env, self.user)
        messages = [{"role": "system", "content": instructions, "type": "message"}, *turned_around(items)]
        try:
            response = await engine.respond({"input": messages, **self._params.fields})  # type: ignore[typeddict-item]
        except (InfrastructureError, OSError) as error:
            raise JudgeError(f"The simulated user gave no answer: {error}") from error
        text = strip_thinking(message_text(response["output"]))
        if not text:
            raise JudgeError("The simulated user said nothing.")
        return None if self.stop in text else text


def turned_around(items: Sequence[Item]) -> list[Item]:
    """Return the messages of a conversation as the other side has them. The other side always begins.

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


def _field(task: Any, name: str) -> Any:
    try:
        return getattr(task, name)
    except AttributeError:
        raise DataError(f"The simulated user needs the task's field {name!r}, which the row does not have.") from None


def _is_users(item: Item) -> bool:
    return item.get("role") == "user" and item.get("type", "message") == "message"


def _text(item: Item) -> str:
    return strip_thinking(message_text([{**item, "role": "assistant"}]))
