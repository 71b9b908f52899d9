"""Hypotheses about drift that need no more scores: other logarithms, temperatures, vocabularies, places and rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gym_llm.evaluation.drift.recompute import Floats, SampledTokens
from gym_llm.evaluation.drift.renormalise import Range, at_temperature, kept_mass

_MOST = 5.0  # nats that one token counts, at most
_OWN = 0.05  # of its drift that a row may keep where its values are another's
_TEMPERATURES = np.round(np.geomspace(0.1, 4.0, 60), 3)
_TOP_PS = np.round([*np.arange(0.3, 0.96, 0.05), 0.97, 0.98, 0.99, 0.995], 3)
_MOST_SWAPPED = 0.8  # share of the rows with drift
_MOST_IDS = 64
_FEWEST = 2  # tokens of a turn that show where its values belong
_SHOWS = 0.05  # nats
_FITS = 0.3  # of its drift that a turn may keep then: its ends have no neighbour


class Hypothesis(NamedTuple):
    """A cause, and the drift that is left if it is true.

    Attributes:
        cause: One of `gym_llm.evaluation.drift.causes.CAUSES`.
        detail: The value that fits best, as a sentence.
        residuals: Recorded minus computed log probability of each token, computed as the cause says.
    """

    cause: str
    detail: str
    residuals: Floats


def loss(residuals: Floats) -> float:
    """Return the mean absolute residual; a token counts no more than 5 nats, however unlikely it is."""
    return float(np.minimum(np.abs(residuals), _MOST).mean())


def expected(tokens: SampledTokens) -> Range:
    """Return the log probabilities that a trainer computes: at the temperature of the request, among all tokens."""
    return at_temperature(tokens, tokens.temperature)


def arithmetic(tokens: SampledTokens, drift: Floats) -> Iterator[Hypothesis]:
    """Yield hypotheses about how log probabilities were computed from the logits.

    Args:
        tokens: The tokens.
        drift: Their residuals if nothing is wrong.
    """
    middle = expected(tokens).middle
    recorded = tokens.recorded
    for name, values in (
        ("to base 2", middle / np.log(2)),
        ("to base 10", middle / np.log(10)),
        ("with the opposite sign", -middle),
    ):
        yield Hypothesis("log base", f"The recorded values are logarithms {name}.", recorded - values)
    text = "The recorded values are probabilities, not their logarithms."
    yield Hypothesis("log base", text, recorded - np.exp(middle))
    temperature, left = _best_temperature(tokens, drift)
    yield Hypothesis("temperature", _temperature_text(tokens, temperature), left)
    for power in dict.fromkeys((1.0, 1 / float(np.median(tokens.temperature)), 1 / temperature)):
        yield from _truncations(tokens, drift, power)


def _best_temperature(tokens: SampledTokens, drift: Floats) -> tuple[float, Floats]:
    def left(temperature: float) -> Floats:
        return _within(at_temperature(tokens, temperature), tokens, drift)

    losses = {float(each): loss(left(float(each))) for each in (*_TEMPERATURES, 1.0)}
    best = min(losses, key=losses.__getitem__)
    for width in (0.03, 0.01, 0.003, 0.001):
        near = {float(each): loss(left(float(each))) for each in best * np.linspace(1 - width, 1 + width, 9)}
        best = min([best, *near], key=lambda each: near.get(each, losses.get(each, np.inf)))
        losses |= near
    rounded = round(best, 2)
    if loss(left(rounded)) <= losses[best] * 1.05:
        best = rounded
    return best, left(best)


def _within(found: Range, tokens: SampledTokens, drift: Floats) -> Floats:
    """Residuals from a range; a range that is too wide explains nothing."""
    is_wide = found.high - found.low > 0.25 * np.abs(drift)
    return np.where(is_wide & (np.abs(drift) > 0), drift, found.distance(tokens.recorded))


def _temperature_text(tokens: SampledTokens, found: float) -> str:
    asked = float(np.median(tokens.temperature))
    return f"The recorded log probabilities are those at temperature {found:.3g}; the requests say {asked:.3g}."


def _truncations(tokens: SampledTokens, drift: Floats, power: float) -> Iterator[Hypothesis]:
    base = at_temperature(tokens, 1 / power).middle
    at = "" if np.isclose(power, 1.0) else f" at temperature {1 / power:.3g}"
    for cause, name, options in (
        ("top-k renormalisation", "top-k", [{"top_k": count} for count in range(1, tokens.top.shape[1] + 1)]),
        ("top-p renormalisation", "top-p", [{"top_p": float(value)} for value in _TOP_PS]),
    ):
        best: tuple[float, Floats, str] | None = None
        for option in options:
            kept = kept_mass(tokens, power=power, **option)  # type: ignore[arg-type]
            left = np.where(np.isnan(kept), drift, tokens.recorded - (base - kept))
            if best is None or loss(left) < best[0]:
                best = loss(left), left, f"{next(iter(option.values())):g}"
        if best is not None:
            text = f"The recorded log probabilities are among the tokens of {name} {best[2]}{at}; a trainer has all."
            yield Hypothesis(cause, text, best[1])


def vocabulary(tokens: SampledTokens, drift: Floats) -> Iterator[Hypothesis]:
    """Yield hypotheses about tokens that the sampler did not have: all from an id on, or some single ones."""
    power = 1 / tokens.temperature
    middle = expected(tokens).middle
    scaled = np.exp(tokens.top * power[:, None] - (tokens.scored * power - middle)[:, None])
    scaled = np.where(tokens.top_ids >= 0, scaled, 0.0)
    lost = np.clip(1 - np.exp(-np.maximum(drift, 0.0)), 0.0, 1.0)
    candidates = np.unique(tokens.top_ids[scaled > 1e-4])
    highest = int(tokens.ids.max())

    def left(removed: np.ndarray) -> Floats:
        mass = np.where(np.isin(tokens.top_ids, removed), scaled, 0.0).sum(1)
        return drift + np.log(np.clip(1 - mass, 1e-12, 1.0))

    above = candidates[candidates > highest]
    starts = np.unique(above[np.linspace(0, len(above) - 1, _MOST_IDS).astype(int)]) if len(above) else above
    for start in starts.tolist():
        text = f"The sampler had no token ids from about {start} on."
        yield Hypothesis("truncated vocabulary", text, left(above[above >= start]))
    # A token that the sampler did not have cannot be more likely at any position than what was lost there.
    is_possible = scaled <= (lost * 1.05 + 1e-4)[:, None]
    impossible = np.unique(tokens.top_ids[~is_possible])
    removed = np.setdiff1d(candidates, np.concatenate([impossible, np.unique(tokens.ids)]))
    if len(removed):
        shown = ", ".join(map(str, removed[:5].tolist()))
        text = f"The sampler did not have {len(removed)} token ids, e.g. {shown}."
        yield Hypothesis("truncated vocabulary", text, left(removed))


def places(tokens: SampledTokens, drift: Floats) -> Iterator[Hypothesis]:
    """Yield hypotheses about log probabilities that belong to another place of the row, or to another row."""
    for by in (-2, -1, 1, 2):
        left = _moved(tokens, drift, by)
        side = "before" if by < 0 else "after"
        text = f"log probabilities are those of {abs(by)} token{'s' * (abs(by) > 1)} {side} theirs."
        yield Hypothesis("mask off by one", f"The recorded {text}", left)
        some, turns = _in_some_turns(tokens, drift, left)
        if turns:
            yield Hypothesis("mask off by one", f"In {turns:,} turns the recorded {text}", some)
    if (swapped := _other_rows(tokens, drift)) is not None:
        text = "The recorded log probabilities of many rows are those of other rows."
        yield Hypothesis("shuffled rows", text, swapped)


def _moved(tokens: SampledTokens, drift: Floats, by: int) -> Floats:
    """Residuals if each log probability is that of the token this number of places further on."""
    left, middle, count = drift.copy(), expected(tokens).middle, len(tokens)
    for index, (row, place) in enumerate(zip(tokens.row.tolist(), tokens.place.tolist(), strict=True)):
        other = index + by
        if 0 <= other < count and tokens.row[other] == row and tokens.place[other] == place + by:
            left[index] = tokens.recorded[index] - middle[other]  # sampled too, so known at the temperature
        elif tokens.temperature[index] == 1 and 1 <= place + by < len(tokens.every[row]):
            left[index] = tokens.recorded[index] - tokens.every[row][place + by]
    return left


def _in_some_turns(tokens: SampledTokens, drift: Floats, left: Floats) -> tuple[Floats, int]:
    """The residuals `left` in the turns that they fit, the others' drift, and the number of these turns."""
    turn = np.unique(np.stack([tokens.row, tokens.turn]), axis=1, return_inverse=True)[1].reshape(-1)
    before, after = (np.bincount(turn, np.minimum(np.abs(each), _MOST)) for each in (drift, left))
    # Certain tokens fit certain neighbours anywhere: only a value that is not near 0 shows where it belongs.
    shows = (np.minimum(np.abs(drift), np.abs(tokens.recorded)) > _SHOWS) & (np.abs(left) < _FITS * np.abs(drift))
    fits = (np.bincount(turn, shows) >= _FEWEST) & (after < _FITS * before)
    return np.where(fits[turn], left, drift), int(fits.sum())


def _other_rows(tokens: SampledTokens, drift: Floats) -> Floats | None:
    """Residuals if each row has the log probabilities of the row that fits best; None if few fit better."""
    scored = expected(tokens).middle
    slices = [np.flatnonzero(tokens.row == row) for row in np.unique(tokens.row)]
    left, drifting = drift.copy(), 0
    givers: list[int] = []  # each row has its values from one other, and no other row has the same
    for own in slices:
        before = loss(drift[own])
        if before < 1e-3:
            continue
        drifting += 1
        best, chosen = before * _OWN, None
        giver = -1
        for number, other in enumerate(slices):
            count = min(len(own), len(other))
            if other is own or count < len(own) / 2:
                continue
            residuals = tokens.recorded[own[:count]] - scored[other[:count]]
            if loss(residuals) < best:
                best, chosen, giver = loss(residuals), residuals, number
        if chosen is not None:
            givers.append(giver)
            left[own] = 0.0  # what lies beyond the other row says nothing
            left[own[: len(chosen)]] = chosen
    return left if drifting > 1 and len(set(givers)) > _MOST_SWAPPED * drifting else None


def is_rounded(recorded: Floats) -> str:
    """Return the name of the half-precision format that recorded values are rounded to; "" if neither."""
    values = np.unique(recorded[recorded < -1e-3])
    if len(values) < 30:
        return ""
    single = values.astype(np.float32)
    if np.array_equal(single.view(np.uint32) & 0xFFFF, np.zeros(len(single), np.uint32)):
        return "bfloat16"
    return "float16" if np.array_equal(values.astype(np.float16).astype(np.float64), values) else ""
