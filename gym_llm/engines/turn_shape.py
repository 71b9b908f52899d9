"""TurnShape: a constraint in the format of one model, with its thinking, its markup and its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from gym_llm.engines.constraints import Constraint
from gym_llm.errors import EngineError
from gym_llm.tokens.call_format import CallFormat

if TYPE_CHECKING:
    from gym_llm.tokens.prompt_tokens import PromptTokens
    from gym_llm.types import Request

Piece: TypeAlias = int | str
"""A token of the model's markup by its id, or a text that any tokens may write."""
Thinking: TypeAlias = Literal["never", "maybe", "begun"]
"""Whether a turn has thinking: it cannot have any, it may begin with some, or the prompt has opened it."""

THINK, END_THINK = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class TurnShape:
    """The form of a turn, from the first sampled token to the one that ends it.

    Attributes:
        constraint: What it has to be.
        thinking: See `Thinking`.
        tags: The pieces that open and close thinking.
        calls: The pieces before the first name, after a name, after the last arguments, and between two calls. The
            last are None if a turn has one call.
    """

    constraint: Constraint
    thinking: Thinking
    tags: tuple[list[Piece], list[Piece]]
    calls: tuple[list[Piece], list[Piece], list[Piece], list[Piece] | None] | None


def turn_shape(constraint: Constraint, request: Request, prompts: PromptTokens, *, model: str) -> TurnShape:
    """Return the shape of a constraint for a model.

    Raises:
        EngineError: If the model writes calls in a format that cannot be forced.
    """
    calls = None
    if constraint.tools:
        form: CallFormat | None = prompts.call_format
        if form is None:
            raise EngineError(f"The chat template of {model} writes no calls with JSON: use tool_choice auto.")
        between = form.between if constraint.several else None
        calls = (
            prompts.pieces(form.start),
            prompts.pieces(form.middle),
            prompts.pieces(form.end),
            None if between is None else prompts.pieces(between),
        )
    return TurnShape(constraint, _thinking(request, prompts), (prompts.pieces(THINK), prompts.pieces(END_THINK)), calls)


def _thinking(request: Request, prompts: PromptTokens) -> Thinking:
    if not prompts.thinks:
        return "never"
    start = prompts.turn_start(request).rstrip()
    if start.endswith(THINK):
        return "begun"
    return "never" if start.endswith(END_THINK) else "maybe"
