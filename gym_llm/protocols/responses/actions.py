"""Reading an action: a Responses answer in any of the forms people have it in.

An action is a response object with `to_dict` (ours, the `openai` package's), its dict, or the list of its output
items. A wrong *shape* is the caller's fault and raises `InvalidAction`; what a model *wrote* in it never raises.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any

import gymnasium as gym
from gymnasium.error import InvalidAction

from gym_llm.types import Item
from gym_llm.utils.limits import FEW, ITEMS, limit
from gym_llm.utils.text import nearest

_OPTIONAL_STR, _OPTIONAL_DICT = (str, NoneType), (dict, NoneType)
_EXPECTED = "an action is a Response, its dict ({'output': [...]}), or the list of its output items"


def read_action(action: Any) -> tuple[list[Item], dict[str, Any]]:
    """Return an action's output items, as plain dicts (dicts are not copied), and its response.

    The response is `{}` for a bare list.

    Raises:
        InvalidAction: If the action is invalid, or an item does not have the shape of a model's output item.
    """
    response: dict[str, Any]
    if action.__class__ is dict:
        response = action
    elif action.__class__ is list:
        response = {"output": action}
    else:
        response = _plain(action)
    items = response.get("output")
    if items.__class__ is not list:
        if not isinstance(items, (list, tuple)):
            raise InvalidAction(_complaint(action, response))
        items = list(items)
    if len(items) > FEW and len(items) > limit(ITEMS):
        raise InvalidAction(f"The output has {len(items):,} items, but {limit(ITEMS):,} is the limit ({ITEMS}).")
    for index, item in enumerate(items):
        if item.__class__ is not dict:
            items = [_plain_item(item) for item in items]
            item = items[index]
        check = _CHECKS.get(kind) if (kind := item.get("type")).__class__ is str else _check_untyped
        if check is not None:
            problem = check(item)
            if problem:
                raise InvalidAction(f"Item {index} of the output {problem}.")
        else:
            if problem := _check_role(item):
                raise InvalidAction(f"Item {index} of the output {problem}.")
            if kind not in _KNOWN_TYPES:
                _warn_of_near_miss(kind)
    if action.__class__ is list or action.__class__ is tuple:
        return items, {}
    if not (isinstance(response.get("status"), _OPTIONAL_STR) and isinstance(response.get("usage"), _OPTIONAL_DICT)):
        field, kind = ("usage", dict) if isinstance(response.get("status"), _OPTIONAL_STR) else ("status", str)
        actual = type(response[field]).__name__
        raise InvalidAction(f"The response's `{field}` is a {actual}, but it should be a {kind.__name__} or None.")
    return items, response


def is_refusal(error: BaseException, verifier: Any) -> bool:
    """Whether a step was refused before anything happened: the action is invalid, or there is no episode.

    Gymnasium's errors may also be raised by a hook. Then they are its author's, and the episode is over.

    Args:
        error: The step's exception.
        verifier: The `VerifierEnv`.
    """
    return isinstance(error, gym.error.Error) and verifier.phase == "env"


def output_items(action: Any) -> list[Item]:
    """The output items of an action, as plain dicts; see `read_action`.

    >>> output_items([{"type": "message", "role": "assistant", "content": "Four."}])[0]["content"]
    'Four.'
    """
    return read_action(action)[0]


def with_status(action: Any, items: list[Item]) -> list[Item]:
    """Return the output items of an action; the last says that it was cut off, if only the response does.

    >>> with_status({"status": "incomplete"}, [{"type": "message", "content": "4"}])[0]["status"]
    'incomplete'
    """
    response = action if isinstance(action, dict) else {}
    is_cut_off = response.get("status") == "incomplete" or response.get("incomplete_details")
    if not items or not is_cut_off or items[-1].get("status", "") not in ("", None, "in_progress"):
        return items
    return [*items[:-1], {**items[-1], "status": "incomplete"}]


def with_output(action: Any, items: list[Item]) -> dict[str, Any] | list[Item]:
    """Return an action with other output items: a dict for a response, a list for a bare list; always a copy."""
    if isinstance(action, (list, tuple)):
        return items
    return {**_plain(action), "output": items}


def _plain(action: Any) -> dict[str, Any]:
    if isinstance(action, tuple):
        return {"output": list(action)}
    if (response := _to_dict(action)) is None:
        raise InvalidAction(_complaint(action, None))
    return response


def _plain_item(value: Any) -> Item:
    if (item := _to_dict(value)) is None:
        raise InvalidAction(f"An output item is a dict or a Responses item object, got {type(value).__name__}.")
    return item


def _to_dict(value: Any) -> dict[str, Any] | None:
    if isinstance(value, dict):
        return value
    if not hasattr(value, "to_dict"):
        return None
    try:
        plain = value.to_dict()
    except Exception as error:  # any object may come here, and a class, with a `to_dict` of another meaning
        raise InvalidAction(f"{value!r:.100} has a to_dict that fails ({error}), but {_EXPECTED}.") from error
    return plain if isinstance(plain, dict) else None


def _complaint(action: Any, response: dict[str, Any] | None) -> str:
    if isinstance(action, str):
        return f"Got a str, but {_EXPECTED}; gym_llm.wrappers.TextAction takes plain text."
    if response is None:
        return f"Got {type(action).__name__}, but {_EXPECTED}."
    if "output" in response:
        return f"The response's `output` is a {type(response['output']).__name__}, but it should be a list of items."
    hint = "; one item alone goes into a list" if "type" in response else ""
    return f"Got a dict without `output`, but {_EXPECTED}{hint}."


def _check_message(item: Item) -> str | None:
    role = item.get("role")
    if not isinstance(role, str) or role != "assistant":  # a comparison with an array, say, is no truth
        role_text = repr(role[:40]) if isinstance(role, str) else f"of type {type(role).__name__}"
        return f"is a message with role {role_text}, but a model's message has role 'assistant'"
    content = item.get("content")
    if content.__class__ is list:
        if problem := _check_length(content):
            return problem
        for part in content:
            if not isinstance(part, dict):
                return f"has a content part of type {type(part).__name__}, but a part is a dict"
            if part.get("type") == "output_text" and not isinstance(part.get("text"), str):
                return "has an output_text part whose `text` is not a str"
        return None
    return None if isinstance(content, str) else "is a message whose `content` is neither a list of parts nor a str"


def _check_length(parts: list[Any]) -> str | None:
    if len(parts) > FEW and len(parts) > limit(ITEMS):
        return f"has {len(parts):,} parts, but {limit(ITEMS):,} is the limit ({ITEMS})"
    return None


def _check_reasoning(item: Item) -> str | None:
    for parts in (item.get("summary"), item.get("content")):
        if parts.__class__ is list and (problem := _check_length(parts)):
            return problem
    return _check_role(item)


def _check_function_call(item: Item) -> str | None:
    for field in ("name", "arguments", "call_id"):
        if not isinstance(item.get(field), str):
            return f"is a function_call whose `{field}` is not a str"
    return _check_role(item)


def _check_role(item: Item) -> str | None:
    if "role" in item and not isinstance(item["role"], (str, NoneType)):
        return f"has a `role` of type {type(item['role']).__name__}, but a role is a str"
    return None


def _check_untyped(item: Item) -> str | None:
    if item.get("type") is None and "role" in item:
        return _check_message(item)
    return "has no `type`"


_compared: set[str] = set()


def _warn_of_near_miss(kind: str) -> None:
    """Warn once that an item's type is nearly a known one: such an item is ignored.

    A process compares only a limited number of types: an answer may have tens of thousands.
    """
    if kind in _compared or len(kind) > _LONGEST_TYPE or len(_compared) >= _MOST_COMPARED:
        return
    _compared.add(kind)
    if known := nearest(kind, _KNOWN_TYPES, cutoff=0.8):
        gym.logger.warn(
            f"An output item has the type {kind!r}, which is unknown and counts for nothing. Did you mean {known!r}?"
        )


_KNOWN_TYPES = frozenset(
    (
        "message", "reasoning", "compaction", "program", "program_output", "additional_tools",
        "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
        "file_search_call", "web_search_call", "tool_search_call", "tool_search_output", "computer_call",
        "computer_call_output", "image_generation_call", "code_interpreter_call", "local_shell_call",
        "local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call",
        "apply_patch_call_output", "mcp_call", "mcp_list_tools", "mcp_approval_request",
        "mcp_approval_response",
    )
)  # fmt: skip
"""The types of output items in `openai.types.responses`, whether or not we do anything with them."""
_MOST_COMPARED = 500
_LONGEST_TYPE = 2 * max(map(len, _KNOWN_TYPES))
_CHECKS: dict[str, Callable[[Item], str | None]] = {
    "message": _check_message,
    "function_call": _check_function_call,
    "reasoning": _check_reasoning,
    "function_call_output": lambda _: (
        "is a function_call_output, but those are the environment's to write: an action is one turn of the model; of a "
        "finished conversation step once with each (recorded ones are played by the engine replay:FILE)"
    ),
}
