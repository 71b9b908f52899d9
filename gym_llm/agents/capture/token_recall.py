"""Recall: find the calls whose answers come back in an agent's next request, which has them as text only.

An agent sends its history in its own format. It has no token ids, its texts are often stripped, its arguments are
rewritten, and the reasoning may be missing. If the engine templated that text again, the ids would differ from the
sampled ones, and the trajectory would break. So recall replaces the answers by the call's own items:

1. The request is split into stretches: each turn of the model, and each other item.
2. A running hash is taken over the stretches; after each turn of the model it stands for the whole history so far.
3. This state is looked up among those of the session's calls, each hashed together with its answer. A call is found
   only if its whole history matches, which also separates calls with the same words.
4. The found call's items, with their ids, replace the agent's. `CallGraph` then links the new call to it.

This takes one pass over the request, and one look-up for each turn.

The hash ignores changes that frameworks make without a change of meaning. These are white space around the model's
texts, the spelling of its arguments' JSON, the ids of its calls, and missing reasoning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from gym_llm.agents.capture.call_graph import Call
from gym_llm.protocols.responses.token_fields import without_tokens
from gym_llm.types import TOKEN_FIELDS, Item, Request
from gym_llm.utils.json_codec import dumps

_LOOKED_AT = 64  # calls with the same history and the same words: retries
_RANKS = {"reasoning": 0, "message": 1, "function_call": 2}
_SHOWN = ("instructions", "tools", "reasoning", "chat_template_kwargs")
"""Fields that a chat template may show besides the items. A `tool_choice` is not shown, but "none" hides the tools."""


@dataclass(slots=True)
class _Stretch:
    """Items of a request that are hashed together: a turn of the model, or one other item.

    Attributes:
        start: The index of the first item.
        end: The index after the last item.
        state: The hash of all items up to `end`.
        is_models: Whether it is a turn of the model.
    """

    start: int
    end: int
    state: int
    is_models: bool


class Recall:
    """The answers of a session's calls, by the hash of the conversation up to their end."""

    def __init__(self) -> None:
        self._by_state: dict[int, list[tuple[Call, int]]] = {}

    def give_back(self, request: Request) -> tuple[Request, Call | None, int]:
        """Replace a request's model turns by the turns that were sampled.

        A turn that is found gets the items of its call, with their exact texts and arguments. Reasoning that the agent
        left out stays out. If the agent changed the reasoning, the turn stays unchanged. The last turn that is found
        gets its token fields, which `PromptTokens` continues, if its text is unchanged. Token fields from a client are
        removed: only engines give ids.

        Args:
            request: The client's request; not changed.

        Returns:
            The request for the engine with a new list of items, the call of the last turn that was found, and the
            request's hash.
        """
        items = [without_tokens(item) for item in request["input"]]
        stretches = list(_stretches(items, _hash_of_frame(request)))
        state = stretches[-1].state if stretches else _hash_of_frame(request)
        previous = expected = None
        has_tokens = False
        number = len(stretches) - 1
        while number >= 0:
            stretch = stretches[number]
            found = self._by_state.get(stretch.state) if stretch.is_models else None
            if not found:
                number -= 1
                continue
            call, count = _choice(found, expected, stretches, number, items)
            number = max(0, number - count + 1)
            start = stretches[number].start
            own = _own_items(call, items[start : stretch.end], with_tokens=not has_tokens)
            if own is not None:
                items[start : stretch.end] = own
                has_tokens = True
            previous, expected = previous or call, call.previous
            number -= 1
        return {**request, "input": items}, previous, state

    def remember(self, call: Call) -> None:
        """Add a call that was answered."""
        for state, count in _ends(call):
            self._by_state.setdefault(state, []).append((call, count))

    def forget(self, call: Call) -> None:
        """Remove a call."""
        for state, count in _ends(call):
            calls = self._by_state.get(state, [])
            if (call, count) in calls:
                calls.remove((call, count))


def _choice(
    found: list[tuple[Call, int]], expected: Call | None, stretches: list[_Stretch], number: int, items: list[Item]
) -> tuple[Call, int]:
    """Of calls with the same answer and history, return the one in the later turn's prompt, or the most similar one.

    If nothing separates them, it is the latest that is not continued yet: conversations that are alike have a branch
    each.

    Args:
        found: The calls, each with the number of stretches of its turn.
        expected: The call that the later turn's call continues.
        stretches: The request's stretches.
        number: The index of the turn's last stretch.
        items: The request's items.
    """
    if len(found) == 1:
        return found[0]
    latest = found[: -_LOOKED_AT - 1 : -1]
    for call, count in latest:
        if call is expected:
            return call, count

    def likeness(candidate: tuple[Call, int]) -> tuple[bool, ...]:
        call, count = candidate
        turn = items[stretches[max(0, number - count + 1)].start : stretches[number].end]
        ids, reasoning = _call_ids(turn), _reasoning(turn)
        has_ids = bool(ids) and _call_ids(call.output)[-len(ids) :] == ids
        has_thoughts = not reasoning or reasoning == _reasoning(call.output)
        return has_ids, has_thoughts, _words(turn) == _words(call.output), not call.is_continued

    return max(latest, key=likeness)


def _own_items(call: Call, theirs: list[Item], *, with_tokens: bool) -> list[Item] | None:
    """Return a call's own items in place of an agent's; None to keep the agent's."""
    if not call.samples:
        return None
    reasoning = _reasoning(theirs)
    if reasoning and reasoning != _reasoning(call.output):
        return None
    ids = iter(_call_ids(theirs))
    own: list[Item] = []
    for item in call.output:
        kind = item.get("type")
        if kind == "reasoning" and not reasoning:
            continue
        if kind == "function_call":
            # The outputs name the ids that the agent gave.
            call_id = next(ids, item.get("call_id"))
            item = item if call_id == item.get("call_id") else {**item, "call_id": call_id}
        own.append(item)
    own = own or list(theirs)
    if with_tokens:
        sample = call.samples[-1]
        tokens = sample.prompt_ids, sample.sampled_ids, sample.log_probs.tolist()
        own[-1] = {**own[-1], **dict(zip(TOKEN_FIELDS, tokens, strict=True))}
    return own


def _ends(call: Call) -> Iterator[tuple[int, int]]:
    """The hashes under which a call is found, and how many stretches its turn is in each."""
    stretches = list(_stretches(call.output, call.state))
    if stretches:
        yield stretches[-1].state, len(stretches)
    if len(stretches) != 1:
        # A chat has one message for all of a turn's texts; and some turns, of thoughts alone, are an empty one there.
        yield hash((call.state, *_said(call.output))), 1


def _stretches(items: list[Item], state: int) -> Iterator[_Stretch]:
    """The stretches of items, after what has the hash `state`."""
    start, rank = 0, -1
    numbers: dict[Any, int] = {}  # of calls, by their ids, which others may spell in another way
    for index, item in enumerate(items):
        kind = item.get("type") or "message"
        is_models = kind in ("reasoning", "function_call") or (kind == "message" and item.get("role") == "assistant")
        its_rank = _RANKS[kind] if is_models else -1
        if start < index and (not is_models or its_rank < rank or its_rank == rank == 1):
            state = hash((state, *_said(items[start:index])))
            yield _Stretch(start, index, state, True)
            start, rank = index, -1
        if is_models:
            rank = its_rank
            if kind == "function_call":
                numbers[_key(item)] = len(numbers)
        else:
            state = hash((state, numbers.get(_key(item)), *_told(item, kind)))
            yield _Stretch(index, index + 1, state, False)
            start = index + 1
    if start < len(items):
        yield _Stretch(start, len(items), hash((state, *_said(items[start:]))), True)


def _key(item: Item) -> str:
    call_id = item.get("call_id")
    return call_id if isinstance(call_id, str) else ""


def _hash_of_frame(request: Request) -> int:
    return hash(dumps([request.get("tool_choice") == "none", *(request.get(name) for name in _SHOWN)]))


def _said(turn: list[Item]) -> tuple[Any, ...]:
    texts: list[str] = []
    calls: list[Any] = []
    for item in turn:
        kind = item.get("type") or "message"
        if kind == "function_call":
            calls += (item.get("name"), _canonical(item.get("arguments")))
        elif kind == "message":
            texts.append(_text(item.get("content")))
            if "tool_calls" in item:
                texts.append(dumps(item["tool_calls"]).decode())
    return "".join(texts).strip(), *calls


def _words(turn: list[Item]) -> str:
    return "".join(_text(item.get("content")) for item in turn if (item.get("type") or "message") == "message")


def _told(item: Item, kind: str) -> tuple[Any, ...]:
    if kind == "message":
        role = item.get("role")
        return "system" if role == "developer" else role, _text(item.get("content"))
    if kind == "function_call_output":
        return kind, _text(item.get("output"))
    return (dumps({name: value for name, value in item.items() if name != "id"}),)


def _text(content: Any) -> str:
    """Return a content's text, its parts joined; other parts as JSON."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else dumps(content).decode()
    texts = []
    for part in content:
        text = part.get("text", part.get("refusal")) if isinstance(part, dict) else None
        texts.append(text if isinstance(text, str) else dumps(part).decode())
    return texts[0] if len(texts) == 1 else "".join(texts)


def _canonical(arguments: Any) -> Any:
    """Return arguments as bytes that do not depend on their JSON's spelling; unchanged if they are not JSON."""
    if not isinstance(arguments, str):
        return dumps(arguments)
    try:
        return orjson.dumps(orjson.loads(arguments or "{}"), option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return arguments.strip()


def _call_ids(turn: list[Item]) -> list[Any]:
    return [item.get("call_id") for item in turn if item.get("type") == "function_call"]


def _reasoning(turn: list[Item]) -> str:
    thoughts = []
    for item in turn:
        if item.get("type") == "reasoning":
            parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
            thoughts.append("".join(_text([part]) for part in parts) or "\0")
    return "".join("".join(thoughts).split())
