"""Tools in namespaces, which OpenAI's clients send for MCP servers (Codex): shown to a model as plain functions.

A chat template knows functions by one name each. A tool `get_weather` in the namespace `mcp__gym` is shown as
`get_weather`, or as `mcp__gym__get_weather` where two tools of a request have that name. The client needs both names
back in the call. Source: `NamespaceTool` and `ResponseFunctionToolCall.namespace` of the openai package.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

from gym_llm.protocols.dialect import Body, Refusal
from gym_llm.types import Item

NAMESPACE = "namespace"
_Names: TypeAlias = dict[tuple[str, str], str]


def flattened(body: Body) -> Body:
    """Return a body whose tools and calls have no namespaces; the same body if it has none.

    Raises:
        Refusal: If a namespace has no name or no list of tools.
    """
    tools = body.get("tools")
    if not isinstance(tools, list) or not any(_is_namespace(tool) for tool in tools):
        return body
    shown = _shown_names(tools)
    plain: list[Any] = []
    for tool in tools:
        if _is_namespace(tool):
            plain += [{**member, "name": shown[tool["name"], member["name"]]} for member in tool["tools"]]
        else:
            plain.append(tool)
    items = body.get("input")
    if isinstance(items, list):
        items = [_without_namespace(item, shown) for item in items]
    return {**body, "tools": plain, "input": items}


def with_namespaces(output: list[Item], body: Body) -> list[Item]:
    """Return a model's items with the namespaces of the tools that they call, as the body declares them."""
    tools = body.get("tools")
    if not isinstance(tools, list) or not any(_is_namespace(tool) for tool in tools):
        return output
    declared = {name: place for place, name in _shown_names(tools).items()}
    return [_with_namespace(item, declared) for item in output]


def _is_namespace(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") == NAMESPACE


def _shown_names(tools: list[Any]) -> _Names:
    """The name that the model sees of each tool in a namespace."""
    places: list[tuple[str, str]] = []
    taken: Counter[str] = Counter(str(tool.get("name")) for tool in tools if isinstance(tool, dict))
    for tool in filter(_is_namespace, tools):
        members, name = tool.get("tools"), tool.get("name")
        named = isinstance(name, str) and isinstance(members, list)
        if not named or not all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in members):
            raise Refusal("A namespace has a `name` and a list of `tools`, each with a `name`.", param="tools")
        places += [(name, member["name"]) for member in members]
    taken.update(name for _, name in places)
    return {place: place[1] if taken[place[1]] == 1 else f"{place[0]}__{place[1]}" for place in places}


def _without_namespace(item: Any, shown: _Names) -> Any:
    if not isinstance(item, dict) or NAMESPACE not in item:
        return item
    plain = {name: value for name, value in item.items() if name != NAMESPACE}
    namespace, name = item[NAMESPACE], item.get("name")
    if isinstance(namespace, str) and isinstance(name, str):
        plain["name"] = shown.get((namespace, name), name)
    return plain


def _with_namespace(item: Item, declared: dict[str, tuple[str, str]]) -> Item:
    place = declared.get(str(item.get("name"))) if item.get("type") in ("function_call", "custom_tool_call") else None
    if place is None:
        return item
    namespace, name = place
    return {**item, "name": name, NAMESPACE: namespace}
