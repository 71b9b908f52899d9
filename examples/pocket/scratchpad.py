"""Sums worked out on paper, column by column, with mistakes if wanted: the thinking that the pocket model learns."""

from __future__ import annotations

from random import Random

PLACES = ("Ones", "Tens", "Hundreds", "Thousands", "Ten thousands")


def work_out(numbers: list[int], signs: list[str], rng: Random, slip: float) -> tuple[list[str], int]:
    r"""Work out `numbers[0] signs[0] numbers[1] ...` from left to right, one sum or difference after the other.

    Args:
        numbers: Not negative.
        signs: One `"+"` or `"-"` between each two numbers.
        rng: Where mistakes come from.
        slip: Probability of a mistake in each column.

    Returns:
        The lines written down and the result they arrive at.

    >>> print("\n".join(work_out([27, 58], ["+"], Random(0), slip=0)[0]))
    27+58
    Ones: 7+8=15, carry 1
    Tens: 2+5+1=8, carry 0
    =85
    """
    lines, value = [], numbers[0]
    for sign, number in zip(signs, numbers[1:], strict=True):
        lines.append(f"{value}{sign}{number}")
        if value < 0 and sign == "-":
            lines.append(f"{-value}+{number}, negative")
            work, result = _add(-value, number, rng, slip)
            result = -result
        elif value < 0:
            work, result = _subtract(number, -value, rng, slip)
        else:
            work, result = (_add if sign == "+" else _subtract)(value, number, rng, slip)
        lines += [*work, f"={result}"]
        value = result
    return lines, value


def _add(a: int, b: int, rng: Random, slip: float) -> tuple[list[str], int]:
    lines, total, carry = [], 0, 0
    for place in range(max(len(str(a)), len(str(b)))):
        x, y = a // 10**place % 10, b // 10**place % 10
        column = x + y + carry
        if rng.random() < slip:
            column = min(19, max(0, column + rng.choice((-2, -1, 1, 2))))
        carried = "+1" if carry else ""
        carry, digit = divmod(column, 10)
        lines.append(f"{PLACES[place]}: {x}+{y}{carried}={column}, carry {carry}")
        total += digit * 10**place
    return lines, total + carry * 10 ** len(lines)


def _subtract(a: int, b: int, rng: Random, slip: float) -> tuple[list[str], int]:
    if a < b:
        lines, difference = _subtract(b, a, rng, slip)
        return [f"{a}<{b}: {b}-{a}, negative", *lines], -difference
    lines, difference, borrow = [], 0, 0
    for place in range(len(str(a))):
        x, y = a // 10**place % 10, b // 10**place % 10
        borrowed = "-1" if borrow else ""
        digit = x - y - borrow
        borrow = int(digit < 0)
        top = x + 10 * borrow
        digit += 10 * borrow
        if rng.random() < slip:
            digit = min(9, max(0, digit + rng.choice((-2, -1, 1, 2))))
        lines.append(f"{PLACES[place]}: {top}-{y}{borrowed}={digit}, borrow {borrow}")
        difference += digit * 10**place
    return lines, difference
