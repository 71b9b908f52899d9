"""Prompts of a wanted length: the haystack's size is estimated once, and every prompt is measured."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

Item = TypeVar("Item")

LENGTHS = {f"{thousands}k": thousands << 10 for thousands in (4, 8, 16, 32, 64, 128, 256)}
"""The most tokens of RULER's prompts, by the variant's name."""
SAMPLES = 100
"""The number of samples of each subset, as NeMo Gym draws them."""
SEED = 42
"""The seed of each subset, as upstream."""

_MARGIN = 0.99  # of the estimated size: a prompt that is too long costs a second drawing
_ROUNDS = 4
_MISFITS = 20


@dataclass(frozen=True)
class Draft:
    """A prompt and its references.

    Attributes:
        prompt: The user's message.
        answers: The references.
        prefix: The beginning of the answer, which a prompt for completion ends with.
    """

    prompt: str
    answers: list[str]
    prefix: str = ""


Count: TypeAlias = Callable[[str], int]
"""Returns the number of tokens in a text."""
Draw: TypeAlias = Callable[[random.Random, int, int], Draft]
"""Returns a draft, from a random generator, the sample's number and the size of the haystack."""


def size_of(draw: Draw, rng: random.Random, budget: int, count: Count, least: int) -> tuple[int, float]:
    """Estimate the largest haystack that fits, by a straight line through two measured drafts.

    Args:
        draw: Makes a draft.
        rng: The subset's random generator.
        budget: The most tokens of a prompt with its prefix.
        count: Counts tokens.
        least: The smallest size.

    Returns:
        The size, and the tokens of one unit.

    Raises:
        ValueError: If not even the smallest haystack fits.
    """

    def tokens_at(size: int) -> int:
        return _tokens(draw(rng, 0, size), count)

    smallest = tokens_at(least)
    if smallest > budget:
        raise ValueError(f"the shortest prompt has {smallest} tokens, and {budget} are wanted")
    size, slope = 2 * least, 0.0
    for _ in range(_ROUNDS):
        slope = (tokens_at(size) - smallest) / (size - least)
        size = max(least + 1, least + int(_MARGIN * (budget - smallest) / slope))
    return size, slope


def fitting(
    draw: Draw, rng: random.Random, samples: Iterable[int], budget: int, count: Count, *, size: int, slope: float = 1.0
) -> Iterator[tuple[int, Draft, int]]:
    """Yield a draft for each sample, drawn again with a smaller haystack while it is too long.

    Args:
        draw: Makes a draft.
        rng: The subset's random generator.
        samples: The samples' numbers.
        budget: The most tokens of a prompt with its prefix.
        count: Counts tokens.
        size: The first size of each haystack.
        slope: The tokens of one unit.

    Yields:
        The sample's number, the draft, and its tokens.

    Raises:
        ValueError: If a prompt is too long without a haystack.
    """
    for number in samples:
        tried = size
        while True:
            draft = draw(rng, number, tried)
            tokens = _tokens(draft, count)
            if tokens <= budget:
                break
            tried -= max(1, math.ceil((tokens - budget) / slope))
            if tried <= 0:
                raise ValueError(f"sample {number} does not fit into {budget} tokens")
        yield number, draft, tokens


def filling(items: Iterable[Item], cost: Callable[[Item, int], int], room: int) -> list[Item]:
    """Return the first items that fit into a room.

    Args:
        items: The items in the order of their choice; may be endless.
        cost: Returns an item's tokens; the second argument is the number of items already taken.
        room: The most tokens of all.
    """
    taken: list[Item] = []
    misfits = 0
    for item in items:
        needed = cost(item, len(taken))
        if needed <= room:
            taken.append(item)
            room -= needed
            misfits = 0
        else:
            misfits += 1
        if misfits == _MISFITS or room <= 0:
            break
    return taken


def endless(rng: random.Random, number: int, most: int, first_without: Iterable[int] = ()) -> Iterator[int]:
    """Yield indices in random order, each once, then all of them again.

    Args:
        rng: The subset's random generator.
        number: The number of indices.
        most: The number that is taken at most; a longer first round is not drawn.
        first_without: Indices that the first round leaves out.
    """
    excluded = set(first_without)
    enough = min(number, most + len(excluded))
    yield from (index for index in rng.sample(range(number), enough) if index not in excluded)
    while number:
        yield from rng.sample(range(number), number)


def _tokens(draft: Draft, count: Count) -> int:
    return count(draft.prompt + draft.prefix)
