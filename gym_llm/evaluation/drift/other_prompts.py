"""Other prompts that a sampler may have read before a turn: other templates, requests, splits and special tokens."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gym_llm.evaluation.drift.drift_row import DriftRow
from gym_llm.tokens.prompt_tokens import PromptTokens
from gym_llm.types import Request

_SYSTEMS = (
    "You are a helpful assistant.",
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
)
_MOST_SPECIAL = 16
_SPLITS = {"word by word": r"\w+|\W", "digit by digit": r"\d|\D+", "letter by letter": r"(?s:.)"}

_JSON: dict[str, dict[str, Any]] = {
    "with spaces": {"ensure_ascii": False},
    "without spaces": {"ensure_ascii": False, "separators": (",", ":")},
    "in ASCII": {},
    "with sorted keys": {"ensure_ascii": False, "sort_keys": True},
}

Prompt = Callable[["Turn"], list[int]]
"""Returns the ids that the sampler may have read before a turn."""


@dataclass(frozen=True)
class Turn:
    """A run of sampled tokens.

    Attributes:
        row: Its row.
        number: Its index among the runs of the row.
        start: The index of its first id in the row.
        end: The index behind its last id.
        tokens: The indices of its tokens in the arrays of `SampledTokens`.
        before: The row of the same episode that ends with the turn before, where a new row begins with this one.
    """

    row: DriftRow
    number: int
    start: int
    end: int
    tokens: np.ndarray
    before: DriftRow | None = None

    @property
    def prompt(self) -> list[int]:
        """The ids of the row before the turn."""
        return self.row.ids[: self.start]

    @property
    def request(self) -> Request | None:
        """The request of the turn; None where it is unknown."""
        return self.row.requests[self.number] if self.row.requests else None


def other_prompts(prompts: Mapping[str, PromptTokens]) -> Iterator[tuple[str, str, Prompt]]:
    """Yield causes, sentences about them, and the prompts that the sampler read if they are true.

    A prompt of the same text as the row's is a matter of its tokens, whatever the cause says: see `context_hypotheses`.

    Args:
        prompts: The tokenizer and the template of the model under "", and other templates by their names.
    """
    own = prompts[""]

    def rendered(change: Callable[[Request], Request] = lambda request: request, by: PromptTokens = own) -> Prompt:
        return lambda turn: turn.prompt if turn.request is None else by.build(change(turn.request))

    def edited(change: Callable[[str], str]) -> Prompt:
        return lambda turn: own.encode(change(own.decode(turn.prompt)))

    def read(what: str) -> str:
        return f"The sampler read {what}, and the row does not have it so."

    yield "template drift", read("what the chat template makes of the request"), rendered()
    yield "retokenised turn", read("the text as the tokenizer splits it"), edited(lambda text: text)
    yield "retokenised turn", read("earlier turns as the tokenizer splits their text"), lambda turn: _resplit(turn, own)
    text = read("all of the turns before as they were sampled")
    yield "template drift", text, lambda turn: _after_the_turn_before(turn, own)
    for name, other in prompts.items():
        if name:
            yield "template drift", read(f"what the chat template {name} makes of the request"), rendered(by=other)
    for system in _SYSTEMS:
        given = functools.partial(_with_system, text=system)
        yield "template drift", read(f"the system message {system!r}"), rendered(given)
    lost = functools.partial(_with_system, text="")
    yield "template drift", read("the request without its system message"), rendered(lost)
    yield "template drift", read("the request without its tools"), rendered(lambda r: {**r, "tools": []})
    yield "template drift", read("the request without earlier reasoning"), rendered(_without_reasoning)
    yield "template drift", read("the messages without white space around their text"), rendered(_trimmed)
    for thinking in (True, False):
        text = read(f"a prompt with enable_thinking={thinking}".lower())
        yield "template drift", text, rendered(functools.partial(_with_thinking, thinking=thinking))
    for how, written in _JSON.items():
        prompt = functools.partial(_rewritten_calls, written=written, own=own)
        yield "template drift", read(f"the calls of earlier turns as JSON {how}"), prompt
    for text, change in _EDITS:
        yield "template drift", read(text), edited(change)
    for token in sorted(own.named_special_ids)[:_MOST_SPECIAL]:
        text = read(f"{own.decode([token])} at the beginning")
        yield "special tokens", text, functools.partial(lambda turn, first: [first, *turn.prompt], first=token)
    yield "special tokens", read("the first token twice"), lambda turn: [*turn.prompt[:1], *turn.prompt]
    text = "The sampler did not read the special token with which the row begins."
    yield (
        "special tokens",
        text,
        lambda turn: turn.prompt[1:] if turn.prompt[0] in own.special_token_ids else turn.prompt,
    )
    for how, pattern in _SPLITS.items():
        for which, is_last in (("all messages", False), ("the last message", True)):
            text = f"The sampler read the text of {which} {how}, and the row has other tokens."
            yield "retokenised turn", text, functools.partial(_split, pattern=pattern, is_last=is_last, own=own)


_EDITS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("a prompt without the line break at its end", lambda text: text.removesuffix("\n")),
    ("a prompt with one more line break at its end", lambda text: text + "\n"),
    ("a prompt with a space at its end", lambda text: text + " "),
    ("a prompt without white space at its end", str.rstrip),
    ("a prompt with white space removed at its beginning", str.lstrip),
    ("a prompt with a line break at its beginning", lambda text: "\n" + text),
    ("a prompt with thinking begun", lambda text: text + "<think>\n"),
)


def _rewritten_calls(turn: Turn, written: dict[str, Any], own: PromptTokens) -> list[int]:
    """The prompt with the JSON objects in the model's turns written in another way."""

    def rewritten(found: re.Match[str]) -> str:
        try:
            return json.dumps(json.loads(found.group()), **written)
        except (ValueError, RecursionError):
            return found.group()

    mark = own.turn_start(turn.request or {"input": []}).rstrip()
    if not mark:
        return turn.prompt
    stop = "|".join(re.escape(own.decode([token])) for token in sorted(own.stop_token_ids))
    first, *turns = own.decode(turn.prompt).split(mark)
    parts = [re.split(f"({stop})", text, maxsplit=1) for text in turns]
    changed = ["".join([re.sub(r"\{.*\}", rewritten, part[0]), *part[1:]]) for part in parts]
    text = mark.join([first, *changed])
    return turn.prompt if text == own.decode(turn.prompt) else own.encode(text)


def _resplit(turn: Turn, own: PromptTokens) -> list[int]:
    """The prompt with earlier turns of the model split as the tokenizer splits their text."""
    ids, at = [], 0
    for start, end in turn.row.spans[: turn.number]:
        ids += turn.row.ids[at:start] + own.encode(own.decode(turn.row.ids[start:end]))
        at = end
    return ids + turn.row.ids[at : turn.start]


def _after_the_turn_before(turn: Turn, own: PromptTokens) -> list[int]:
    """The row that ends with the turn before, and what the prompt has behind that turn's end."""
    if turn.before is None or turn.number:
        return turn.prompt
    # Behind the end of the model's last turn there are at most the messages of tools or users, and its own beginning.
    mark = own.turn_start(turn.request or {"input": []}).rstrip()
    text = own.decode(turn.prompt)
    begins = [match.start() for match in re.finditer(re.escape(mark), text)] if mark else []
    if len(begins) < 2:
        return turn.prompt
    pieces = own.pieces(text[begins[-2] :])
    ends = [number for number, piece in enumerate(pieces) if piece in own.stop_token_ids]
    if not ends:
        return turn.prompt
    rest = [own.encode(piece) if isinstance(piece, str) else [piece] for piece in pieces[ends[0] + 1 :]]
    return [*turn.before.ids[: turn.before.spans[-1][1]], *itertools.chain.from_iterable(rest)]


def _split(turn: Turn, *, pattern: str, is_last: bool, own: PromptTokens) -> list[int]:
    """The prompt with the text of messages, behind the line of their role, split by a pattern."""
    pieces = own.pieces(own.decode(turn.prompt))
    # The last text is the beginning of the model's turn.
    texts = [n for n, piece in enumerate(pieces) if isinstance(piece, str) and piece.strip()][:-1]
    ids: list[int] = []
    for number, piece in enumerate(pieces):
        if isinstance(piece, int):
            ids.append(piece)
        elif number in texts and (not is_last or number == texts[-1]):
            role, line, said = piece.rpartition("\n") if piece.count("\n") == 1 else piece.partition("\n")
            ids += own.encode(role + line)
            ids += [token for part in re.findall(pattern, said) for token in own.encode(part)]
        else:
            ids += own.encode(piece)
    return ids


def _with_system(request: Request, text: str) -> Request:
    """The request with this system message, or without one."""
    rest = [item for item in request["input"] if item.get("role") not in ("system", "developer")]
    system: list[dict[str, Any]] = [{"role": "system", "content": text}] if text else []
    changed: Request = {**request, "input": [*system, *rest]}
    changed.pop("instructions", None)
    return changed


def _with_thinking(request: Request, thinking: bool) -> Request:
    return {**request, "chat_template_kwargs": {"enable_thinking": thinking}}


def _without_reasoning(request: Request) -> Request:
    return {**request, "input": [item for item in request["input"] if item.get("type") != "reasoning"]}


def _trimmed(request: Request) -> Request:
    """The request without white space around its texts: some templates trim them, such as Llama's."""

    def trimmed(value: Any) -> Any:
        if isinstance(value, str):
            return value.strip()
        if isinstance(value, list):
            return [{**part, "text": trimmed(part["text"])} if "text" in part else part for part in value]
        return value

    items = [{**item, "content": trimmed(item["content"])} if "content" in item else item for item in request["input"]]
    changed: Request = {**request, "input": items}
    return {**changed, "instructions": trimmed(request["instructions"])} if "instructions" in request else changed
