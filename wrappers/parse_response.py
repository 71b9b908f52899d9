"""The wrappers that have a parser (`gym_llm.tokens.parsers`) structure each action: one for each, one for any."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat

import gymnasium as gym
from gymnasium.error import DependencyNotInstalled
from gymnasium.utils import RecordConstructorArgs

from gym_llm.protocols.responses.actions import output_items, with_output, with_status
from gym_llm.tokens.parsers import Parser, make_parser, parser_names
from gym_llm.tokens.parsers.harmony import Harmony
from gym_llm.tokens.parsers.reasoning import Reasoning
from gym_llm.tokens.parsers.tool_calls import ToolCalls
from gym_llm.tokens.parsers.vllm_parsers import HARMONY, VLLM
from gym_llm.utils.text import did_you_mean
from gym_llm.wrappers.token_ids import TokenIdTracking

if TYPE_CHECKING:
    from gym_llm.rollouts.factory import Wrap


_NOTHING: Any = {"input": []}


class ParsingWrapper(gym.ActionWrapper[Any, Any, Any], RecordConstructorArgs):
    """A wrapper whose parser structures each action, given its request; `arguments` are those of the subclass."""

    def __init__(self, env: gym.Env[Any, Any], parser: Parser, **arguments: Any) -> None:
        layer = env
        while isinstance(parser, ToolCalls) and isinstance(layer, gym.Wrapper):
            if isinstance(layer, ParsingWrapper) and isinstance(layer.parser, Reasoning):
                raise ValueError(
                    "ToolCallParser around ReasoningParser would execute calls inside the reasoning: put it on first."
                )
            layer = layer.env
        RecordConstructorArgs.__init__(self, **arguments)
        gym.ActionWrapper.__init__(self, env)
        self.parser: Parser = parser
        self._request = _NOTHING

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._request = observation if isinstance(observation, dict) else _NOTHING  # a text, say
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a turn with the parsed action."""
        result = self.env.step(self.action(action))
        self._request = result[0] if isinstance(result[0], dict) else _NOTHING
        return result

    def action(self, action: Any) -> Any:
        """The action with what was parsed in items of their own; the same object if there is nothing to do."""
        items = with_status(action, output_items(action))
        parsed = self.parser.parse(items, self._request)
        if parsed is items:
            return action
        if calls := [item for item in parsed if item.get("type") == "function_call"]:  # their ids are taken from now on
            self._request = {**self._request, "input": [*self._request.get("input", ()), *calls]}
        return with_output(action, parsed)


class ParseActions(ParsingWrapper):
    """Has a parser of any name structure the actions, another package's too; see `gym_llm.tokens.parsers.make_parser`.

    Args:
        env: The environment to wrap.
        name: One of `tokens.parsers.parser_names()`.
        **options: The parser's.

    Example:
        >>> import gymnasium as gym, gym_llm
        >>> from gym_llm.wrappers import ParseActions
        >>> env = ParseActions(gym.make("gym_llm/Weather-v0"), "reasoning", start="[THINK]", end="[/THINK]")
        >>> action = [{"type": "message", "role": "assistant", "content": "[THINK]Rain?[/THINK]It rains."}]
        >>> [item["type"] for item in env.action(action)]
        ['reasoning', 'message']
    """

    def __init__(self, env: gym.Env[Any, Any], name: str, **options: Any) -> None:
        super().__init__(env, make_parser(name, **options), name=name, **options)


class ReasoningParser(ParsingWrapper):
    r"""Moves thinking between tags out of the model's messages into reasoning items.

    Goes around `ToolCallParser`, so that a call that was only thought of is not made. See
    `gym_llm.tokens.parsers.reasoning.Reasoning` for the rest and the arguments.

    Example:
        >>> import gymnasium as gym, gym_llm
        >>> from gym_llm.wrappers import ReasoningParser
        >>> env = ReasoningParser(gym.make("gym_llm/Weather-v0"))
        >>> text = "<think>\nRain, I guess.\n</think>\n\nIt rains."
        >>> action = [{"type": "message", "id": "msg_1", "role": "assistant", "content": text}]
        >>> reasoning, message = env.action(action)
        >>> reasoning["id"], reasoning["summary"][0]["text"], message["content"]
        ('rs_msg_1', '\nRain, I guess.\n', '\n\nIt rains.')
    """

    def __init__(self, env: gym.Env[Any, Any], start: str = "<think>", end: str = "</think>") -> None:
        super().__init__(env, Reasoning(start, end), start=start, end=end)


class ToolCallParser(ParsingWrapper):
    """Turns tool calls written as text into `function_call` items.

    `ReasoningParser` goes around this wrapper, so that a call that was only thought of is not made; the other way round
    is a ValueError. See `gym_llm.tokens.parsers.tool_calls.ToolCalls` for the rest and the argument.

    Example:
        >>> import gymnasium as gym, gym_llm
        >>> from gym_llm.wrappers import ToolCallParser
        >>> env = ToolCallParser(gym.make("gym_llm/Weather-v0"))
        >>> observation, info = env.reset(seed=0)
        >>> text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
        >>> action = [{"type": "message", "role": "assistant", "content": text}]
        >>> observation, reward, terminated, truncated, info = env.step(action)
        >>> [item["type"] for item in observation["input"][-2:]], terminated
        (['function_call', 'function_call_output'], False)
    """

    def __init__(self, env: gym.Env[Any, Any], format: Literal["auto", "hermes", "llama"] = "auto") -> None:
        super().__init__(env, ToolCalls(format), format=format)


class HarmonyParser(ParsingWrapper):
    """Makes items of what gpt-oss writes; see `gym_llm.tokens.parsers.harmony.Harmony`.

    Example:
        >>> import gymnasium as gym, gym_llm
        >>> from gym_llm.wrappers import HarmonyParser
        >>> env = HarmonyParser(gym.make("gym_llm/Weather-v0"))
        >>> text = "<|channel|>analysis<|message|>Rain?<|end|><|start|>assistant<|channel|>final<|message|>It rains."
        >>> reasoning, message = env.action([{"type": "message", "role": "assistant", "content": text}])
        >>> reasoning["summary"][0]["text"], message["content"]
        ('Rain?', 'It rains.')
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env, Harmony())


class VLLMParser(ParsingWrapper):
    """Has vLLM's parsers make reasoning, message and `function_call` items of the text in a model's messages.

    With a `reasoning_parser`, `ToolCallParser` may be inside; with only a `tool_call_parser`, `ReasoningParser` goes
    around this. See `gym_llm.tokens.parsers.vllm_parsers.VLLM` for the rest and the arguments.

    Example:
        >>> import gymnasium as gym, gym_llm
        >>> from gym_llm.wrappers import VLLMParser
        >>> env = VLLMParser(gym.make("gym_llm/Weather-v0"), "pocket", "qwen3", "pythonic")  # doctest: +SKIP
        >>> observation, info = env.reset(seed=0)  # doctest: +SKIP
        >>> text = 'Rain?</think>[get_weather(city="Oslo")]'
        >>> action = env.action([{"type": "message", "role": "assistant", "content": text}])  # doctest: +SKIP
        >>> [item["type"] for item in action]  # doctest: +SKIP
        ['reasoning', 'function_call']
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        model: str,
        reasoning_parser: str | None = None,
        tool_call_parser: str | None = None,
        chat_template_kwargs: dict[str, Any] | None = None,
    ) -> None:
        parser = VLLM(model, reasoning_parser, tool_call_parser, chat_template_kwargs)
        super().__init__(env, parser, **vars(parser))
        self.model = model


def parser_wrappers(
    reasoning_parser: str | None, tool_call_parser: str | None, model: str | None, *, engine: str = "the engine"
) -> list[Wrap] | None:
    """Return the wrappers of a run that names its parsers; None for the default ones (`DEFAULT_WRAPPERS`).

    Args:
        reasoning_parser: One of `tokens.parsers.parser_names()`, or vLLM's name for one; None for `ReasoningParser`.
        tool_call_parser: The same for calls; None for `ToolCallParser`. A parser that finds both is named twice;
            `harmony`, and vLLM's names for it, stand for both alone.
        model: The model whose tokenizer vLLM's parsers use; see `VLLM`.
        engine: The name of the engine, for the error.

    Raises:
        ValueError: If a parser is unknown, lacks options, or needs a tokenizer and `model` is None.
        gymnasium.error.DependencyNotInstalled: If a package that one needs is not installed.
        OSError: If the tokenizer cannot be loaded.
    """
    names = {reasoning_parser, tool_call_parser} - {None}
    if not names:
        return None
    registered = names.intersection(parser_names())
    theirs = {
        "reasoning_parser": None if reasoning_parser in registered else reasoning_parser,
        "tool_call_parser": None if tool_call_parser in registered else tool_call_parser,
    }
    wrappers: list[Wrap] = []
    if names <= {*HARMONY, "harmony"}:
        wrappers.append(HarmonyParser)
    else:
        if tool_call_parser is None:
            wrappers.append(ToolCallParser)
        elif tool_call_parser in registered and tool_call_parser != reasoning_parser:
            wrappers.append(partial(ParseActions, name=tool_call_parser))
        if any(theirs.values()):
            if model is None:
                raise ValueError(f"vLLM's parsers need the tokenizer of the model that {engine} serves: give --model.")
            wrappers.append(partial(VLLMParser, model=model, **theirs))  # type: ignore[arg-type]
        if reasoning_parser is None:
            wrappers.append(ReasoningParser)
        elif reasoning_parser in registered:
            wrappers.append(partial(ParseActions, name=reasoning_parser))
    env: gym.Env[Any, Any] = gym.Env()
    try:
        for wrap in wrappers:  # what is wrong with one is told before anything starts
            env = wrap(env)
    except TypeError as error:
        raise ValueError(f"A parser that has to be given options cannot be named here: {error}.") from None
    except DependencyNotInstalled as error:
        hints = [did_you_mean(name, parser_names()) for name in theirs.values() if name]
        raise DependencyNotInstalled(f"{error}{''.join(hints)}") from None
    return [*wrappers, TokenIdTracking]
