"""GrammarMasks: the grammar of a constrained turn, and which tokens may come next in it (llguidance).

Engines that sample themselves read the masks. `vllm:` gives the grammar to vLLM, which makes the same masks of it.

A grammar is compiled lazily: a mask costs what its step explores, and limits bound each step, the automaton and the
grammar. So no schema or regular expression takes time or memory without end; one that reaches a limit is an error of
its request alone.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gym_llm.engines.constraints import constraint_of
from gym_llm.engines.turn_shape import Piece, TurnShape, turn_shape
from gym_llm.errors import EngineError, EngineUnavailable
from gym_llm.tokens.prompt_tokens import PromptTokens
from gym_llm.types import Request
from gym_llm.utils.extras import install
from gym_llm.utils.text import excerpt

_KEPT = 32
_KEPT_CHARACTERS = 1 << 20
_SCHEMA_ERROR = "failed to compile JSON schema: "


class TokenMask:
    """The tokens that may come next in one turn. Belongs to one thread.

    Args:
        matcher: llguidance's matcher of the turn's grammar.
        vocabulary: The number of token ids.
        grammar: The turn's grammar in llguidance's Lark syntax.
    """

    def __init__(self, matcher: Any, vocabulary: int, grammar: str) -> None:
        self.grammar = grammar
        self._matcher = matcher
        self._vocabulary = vocabulary

    def allowed(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return whether each token may come next, of shape (vocabulary,).

        Raises:
            EngineError: If the constraint has become too complex.
        """
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        allowed = np.unpackbits(bits, bitorder="little")[: self._vocabulary].astype(bool)
        if not allowed.any():
            raise EngineError("No text follows the request's schema: it contradicts itself.")
        return allowed

    def accept(self, token: int) -> None:
        """Take the token that was sampled, one of the allowed."""
        self._matcher.consume_token(token)

    def accept_turn(self, tokens: list[int]) -> None:
        """Take the tokens that another sampler sampled for the whole turn, without the one that ended it.

        Raises:
            EngineError: If they end before the constraint is met: vLLM ends a turn where it can follow no further.
        """
        self._matcher.consume_tokens(tokens)
        self._check()
        if not self._matcher.is_accepting():
            raise EngineError("The schema cannot be followed to its end: it contradicts itself, or is too complex.")

    def _check(self) -> None:
        if self._matcher.is_error():
            raise EngineError(f"The schema cannot be followed: {_why(self._matcher.get_error())}")


class GrammarMasks:
    """Compiles constraints to masks for one model, each once, in a thread of its own.

    Args:
        prompts: The model's prompts.
        tokenizer: The model's `transformers` tokenizer.
        vocabulary: The number of ids that the model has probabilities for.
        model: The model's name in errors.
    """

    def __init__(self, prompts: PromptTokens, tokenizer: Any, vocabulary: int, *, model: str) -> None:
        self._prompts = prompts
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._model = model
        self._tokens: Any = None
        self._compiled: OrderedDict[str, Any] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gym_llm grammars")

    async def of(self, request: Request) -> TokenMask | None:
        """Return the mask for the turn that answers a request; None if any turn will do.

        Raises:
            EngineError: If the request's tools or format are invalid, cannot be followed, or are too complex.
            EngineUnavailable: If llguidance is not installed.
        """
        if (constraint := constraint_of(request)) is None:
            return None
        shape = turn_shape(constraint, request, self._prompts, model=self._model)
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._mask, shape)

    def close(self) -> None:
        """Compile no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _mask(self, shape: TurnShape) -> TokenMask:
        grammar = lark(shape, sorted(self._prompts.stop_token_ids))
        matcher = self._compiled.get(grammar)
        if matcher is None:
            matcher = self._compile(grammar)
            self._compiled[grammar] = matcher
            while len(self._compiled) > _KEPT or sum(map(len, self._compiled)) > _KEPT_CHARACTERS:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(grammar)
        return TokenMask(matcher.deep_copy(), self._vocabulary, grammar)

    def _compile(self, grammar: str) -> Any:
        try:
            import llguidance
            from llguidance.hf import from_tokenizer
        except ImportError:
            raise EngineUnavailable(f"Constrained answers need llguidance: {install('local')}.") from None
        if self._tokens is None:
            ends: Collection[int] = sorted(self._prompts.stop_token_ids)
            try:
                self._tokens = from_tokenizer(self._tokenizer, self._vocabulary, list(ends))
            except (ValueError, RuntimeError) as error:
                raise EngineError(f"{self._model}'s tokenizer cannot be constrained: {_why(str(error))}") from None
        matcher = llguidance.LLMatcher(self._tokens, grammar, log_level=0)
        if matcher.is_error():
            _, _, reason = matcher.get_error().rpartition(_SCHEMA_ERROR)
            raise EngineError(f"The schema cannot be followed: {_why(reason)}")
        return matcher


def lark(shape: TurnShape, ends: Collection[int]) -> str:
    """Return a shape as a grammar in llguidance's Lark syntax; `ends` are the tokens that may end the turn.

    vLLM's matcher knows one such token, the tokenizer's own, so the grammar names them all.
    """
    constraint = shape.constraint
    rules = []
    bodies = []
    if shape.calls is not None:
        start, middle, end, between = shape.calls
        quoted = bool(start) and str(start[-1]).endswith('"')
        names = [json.dumps(name)[1:-1] if quoted else name for name, _ in constraint.tools]
        each = [f"call_{number}" for number in range(len(names))]
        more = "" if between is None else f"({_text(between)} call)* "
        bodies.append("calls")
        rules.append(f"calls: {_text(start)} call {more}{_text(end)}")
        rules.append(f"call: {' | '.join(each)}")
        for rule, name, (_, schema) in zip(each, names, constraint.tools, strict=True):
            rules += [f"{rule}: {_text([name, *middle])} {rule}_arguments", f"{rule}_arguments: %json {schema}"]
    if constraint.answer is not None:
        bodies.append("answer")
        rules.append(f"answer: %json {constraint.answer}")
    body = f"({' | '.join(bodies)})"
    opening, closing = shape.tags
    if shape.thinking == "never":
        beginning = ""
    elif isinstance(closing[0], int):
        beginning = f"thought {_text(closing)} SPACE"
        rules.append("thought: /(?s:.*)/")
    else:
        beginning = "thought SPACE"
        rules.append(f"thought[suffix={json.dumps(''.join(map(str, closing)))}]: /(?s:.*)/")
    if beginning:
        rules.append(r"SPACE: /[ \n]{0,2}/")
    if shape.thinking == "maybe":
        beginning = f"({_text(opening)} {beginning})?"
    last = " | ".join(f"<[{token}]>" for token in ends)
    return "\n".join([f"start: {beginning} {body} ({last})?", *rules])


def _text(pieces: list[Piece]) -> str:
    return " ".join(f"<[{piece}]>" if isinstance(piece, int) else json.dumps(piece) for piece in pieces)


def _why(reason: str) -> str:
    """The line of one of llguidance's messages that says what is wrong."""
    lines = reason.strip().splitlines() or [""]
    line = lines[-1].strip().removeprefix("error: ") if "regex parse error" in lines[0] else lines[0]
    return excerpt(line, 80) if " " in line else "it contradicts itself."
