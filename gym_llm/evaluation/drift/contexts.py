"""Hypotheses about other token ids: the sampler read another prompt, or sampled other ids of the same text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gym_llm.engines.engine import Engine
from gym_llm.errors import EngineError
from gym_llm.evaluation.drift.drift_row import DriftRow
from gym_llm.evaluation.drift.hypotheses import Hypothesis, expected, loss
from gym_llm.evaluation.drift.recompute import Floats, SampledTokens, recompute
from gym_llm.tokens.prompt_tokens import PromptTokens
from gym_llm.types import Request

_MOST_TURNS = 16
_ENOUGH = 0.02  # of the drift is left: no other prompt has to be tried
_SAME = 1e-3  # residual of a token before the first that was split otherwise
_SYSTEMS = (
    "You are a helpful assistant.",
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
)

Prompt = Callable[["_Turn"], list[int]]


@dataclass(frozen=True)
class _Turn:
    """A run of sampled tokens: its row, its place, and the places of its tokens in the arrays."""

    row: DriftRow
    number: int
    start: int
    end: int
    tokens: np.ndarray

    @property
    def prompt(self) -> list[int]:
        return self.row.ids[: self.start]

    @property
    def request(self) -> Request | None:
        return self.row.requests[self.number] if self.row.requests else None


async def context_hypotheses(
    tokens: SampledTokens, drift: Floats, engine: Engine, prompts: Mapping[str, PromptTokens]
) -> list[Hypothesis]:
    """Return hypotheses about what the sampler read; the turns that drift most are scored after other prompts.

    Args:
        tokens: The tokens.
        drift: Their residuals.
        engine: The engine that scored them.
        prompts: The tokenizer and the template of the model under "", and other templates by their names.

    Raises:
        EngineError: If the engine cannot score.
    """
    turns = _drifting(tokens, drift)
    found = []
    for cause, detail, prompt in _candidates(prompts):
        other = await _after(tokens, turns, prompt, engine)
        if other is not None:
            left = drift.copy()
            mine = np.concatenate([turn.tokens for turn in turns])
            left[mine] = other
            # Turns that were not scored again keep the same share of their drift.
            rest = np.setdiff1d(np.arange(len(drift)), mine)
            left[rest] = drift[rest] * min(loss(other) / max(loss(drift[mine]), 1e-12), 1.0)
            found.append(Hypothesis(cause, detail, left))
            if loss(left) < _ENOUGH * loss(drift):
                return found
    if (split := await _split_otherwise(tokens, drift, turns, engine, prompts[""])) is not None:
        found.append(split)
    return found


def _drifting(tokens: SampledTokens, drift: Floats) -> list[_Turn]:
    """The turns with the most drift, of any row."""
    _, groups = np.unique(np.stack([tokens.row, tokens.turn]), axis=1, return_inverse=True)
    groups = groups.reshape(-1)
    order = np.argsort(groups, kind="stable")
    turns = []
    for mine in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        row, number = tokens.rows[tokens.row[mine[0]]], int(tokens.turn[mine[0]])
        start, end = row.spans[number]
        if len(mine) == end - start:
            turns.append(_Turn(row, number, start, end, mine))
    return sorted(turns, key=lambda turn: -loss(drift[turn.tokens]) * len(turn.tokens))[:_MOST_TURNS]


def _candidates(prompts: Mapping[str, PromptTokens]) -> Iterator[tuple[str, str, Prompt]]:
    own = prompts[""]

    def rendered(change: Callable[[Request], Request] = lambda request: request, by: PromptTokens = own) -> Prompt:
        return lambda turn: turn.prompt if turn.request is None else by.build(change(turn.request))

    def edited(change: Callable[[str], str]) -> Prompt:
        return lambda turn: own.encode(change(own.decode(turn.prompt)))

    def read(what: str) -> str:
        return f"The sampler read {what}, and the row does not have it so."

    yield "template drift", read("what the chat template makes of the request"), rendered()
    yield "retokenised turn", read("earlier turns as the tokenizer splits their text"), lambda turn: _resplit(turn, own)
    for name, other in prompts.items():
        if name:
            yield "template drift", read(f"what the chat template {name} makes of the request"), rendered(by=other)
    for system in _SYSTEMS:
        given = functools.partial(_with_system, text=system)
        yield "template drift", read(f"the system message {system!r}"), rendered(given)
    yield (
        "template drift",
        read("the request without its system message"),
        rendered(functools.partial(_with_system, text="")),
    )
    yield "template drift", read("the request without its tools"), rendered(lambda r: {**r, "tools": []})
    yield "template drift", read("the request without earlier reasoning"), rendered(_without_reasoning)
    for thinking in (True, False):
        text = read(f"a prompt with enable_thinking={thinking}".lower())
        yield "template drift", text, rendered(functools.partial(_with_thinking, thinking=thinking))
    for text, change in _EDITS:
        yield "template drift", read(text), edited(change)
    bos = own.decode(own.encode(""))
    if bos:
        yield "special tokens", read(f"{bos} at the beginning"), edited(lambda text: bos + text)


_EDITS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("a prompt without the line break at its end", lambda text: text.removesuffix("\n")),
    ("a prompt with one more line break at its end", lambda text: text + "\n"),
    ("a prompt with a space at its end", lambda text: text + " "),
    ("a prompt without white space at its end", str.rstrip),
    ("a prompt with white space removed at its beginning", str.lstrip),
    ("a prompt with a line break at its beginning", lambda text: "\n" + text),
    ("a prompt with thinking begun", lambda text: text + "<think>\n"),
)


def _resplit(turn: _Turn, own: PromptTokens) -> list[int]:
    """The prompt with earlier turns of the model split as the tokenizer splits their text."""
    ids, at = [], 0
    for start, end in turn.row.spans[: turn.number]:
        ids += turn.row.ids[at:start] + own.encode(own.decode(turn.row.ids[start:end]))
        at = end
    return ids + turn.row.ids[at : turn.start]


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


async def _after(tokens: SampledTokens, turns: Sequence[_Turn], prompt: Prompt, engine: Engine) -> Floats | None:
    """Residuals of the turns' tokens after other prompts; None if no prompt differs or one cannot be made."""
    try:
        others = [prompt(turn) for turn in turns]
        if all(other == turn.prompt for other, turn in zip(others, turns, strict=True)) or not all(others):
            return None
        rows = [
            _row(turn, other, turn.row.ids[turn.start : turn.end], tokens)
            for turn, other in zip(turns, others, strict=True)
        ]
        found = await recompute(rows, engine, with_top=False)
    except EngineError:  # too long with that prompt, or not a request that the template can show
        return None
    except Exception as error:
        if type(error).__module__.startswith("jinja2"):
            return None  # the template objects to the changed request
        raise
    return expected(found).distance(found.recorded) if len(found) == sum(len(t.tokens) for t in turns) else None


def _row(turn: _Turn, prompt: list[int], sampled: list[int], tokens: SampledTokens) -> DriftRow:
    recorded = tokens.recorded[turn.tokens][: len(sampled)].tolist()
    ids, mask = [*prompt, *sampled], [0] * len(prompt) + [1] * len(sampled)
    values = [0.0] * len(prompt) + recorded
    return DriftRow(ids, mask, values, temperature=turn.row.temperature, top_p=turn.row.top_p)


async def _split_otherwise(
    tokens: SampledTokens, drift: Floats, turns: Sequence[_Turn], engine: Engine, own: PromptTokens
) -> Hypothesis | None:
    """The hypothesis that other ids of the same text were sampled.

    The tokens of such a turn agree up to the first that was split otherwise. There the recorded log probability is that
    of a token whose text is the beginning of the text that follows.
    """
    rows, owners = [], []
    for index, turn in enumerate(turns):
        apart = np.flatnonzero(np.abs(drift[turn.tokens]) > 10 * _SAME)
        if not len(apart) or np.abs(drift[turn.tokens[: apart[0]]]).max(initial=0.0) > _SAME:
            continue
        first = int(apart[0])
        place = turn.start + first
        for token in _beginnings(turn.row.ids[place : place + 4], own):
            rows.append(
                DriftRow(
                    [*turn.row.ids[:place], token],
                    [0] * place + [1],
                    [0.0] * place + [float(tokens.recorded[turn.tokens[first]])],
                    temperature=turn.row.temperature,
                )
            )
            owners.append(index)
    if not rows:
        return None
    found = await recompute(rows, engine, with_top=False)
    residuals = expected(found).distance(found.recorded)
    hits = {owners[n] for n in np.flatnonzero(np.abs(residuals) < _SAME * (1 + np.abs(found.recorded)))}
    if len(hits) < 2 or len(hits) < len(turns) / 3:
        return None
    left = drift.copy()
    for index in hits:
        left[turns[index].tokens] = 0.0
    mine = np.concatenate([turn.tokens for turn in turns])
    rest = np.setdiff1d(np.arange(len(drift)), mine)
    left[rest] = drift[rest] * min(loss(left[mine]) / max(loss(drift[mine]), 1e-12), 1.0)
    text = f"In {len(hits)} of {len(turns)} turns the sampler split the text into other tokens than the row has."
    return Hypothesis("retokenised turn", text, left)


def _beginnings(ids: list[int], own: PromptTokens) -> list[int]:
    """The single tokens, other than the first of these ids, with which their text can begin."""
    texts = {own.decode(ids[:count]) for count in range(2, len(ids) + 1)}
    first = own.decode(ids[:1])
    texts |= {first[:cut] for cut in range(1, len(first))}
    single = (own.encode(text) for text in texts)
    return sorted({each[0] for each in single if len(each) == 1 and each != ids[:1]})
