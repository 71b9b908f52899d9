"""Small Python programs, drawn at random, whose output can be worked out by reading them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import numpy as np

_WORDS = (
    "amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "heron", "islet", "jetty", "kayak", "larch",
    "meadow", "nectar", "otter", "pebble", "quartz", "ridge", "sorrel", "tundra", "upland", "violet", "willow",
)  # fmt: skip


class Draw:
    """Numbers, words and choices from a generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def number(self, least: int, most: int) -> int:
        """Return a whole number, both ends included."""
        return int(self._rng.integers(least, most + 1))

    def numbers(self, count: int, least: int, most: int) -> list[int]:
        """Return this number of whole numbers."""
        return [self.number(least, most) for _ in range(count)]

    def words(self, count: int) -> list[str]:
        """Return this number of different words."""
        return [_WORDS[index] for index in self._rng.permutation(len(_WORDS))[:count]]

    def one_of(self, *choices: str) -> str:
        """Return one of the choices."""
        return choices[self.number(0, len(choices) - 1)]


def loops(draw: Draw) -> str:
    """Nested loops with a condition, and their variables afterwards."""
    condition = draw.one_of("(i * j) % 3 == 1", "(i + j) % 4 == 0", "i > j and (i - j) % 2 == 0", "i ^ j > 4")
    return f"""
        total = {draw.number(0, 9)}
        for i in range({draw.number(0, 2)}, {draw.number(5, 8)}):
            for j in range({draw.number(3, 6)}):
                if {condition}:
                    total += {draw.one_of("i * j", "i - 2 * j", "2 * i + j")}
                elif j > {draw.number(2, 4)}:
                    break
            if total > {draw.number(20, 60)}:
                total //= {draw.number(2, 4)}
        print(total)
        print(i, j)
    """


def while_loop(draw: Draw) -> str:
    """A loop that runs until a number is small."""
    return f"""
        n, steps, path = {draw.number(20, 400)}, 0, []
        while n > {draw.number(1, 4)} and steps < {draw.number(8, 14)}:
            if n % {draw.number(2, 3)} == 0:
                n //= {draw.number(2, 3)}
            else:
                n = n + {draw.number(1, 5)} if n % 5 else n - {draw.number(6, 9)}
            steps += 1
            if steps % {draw.number(2, 3)}:
                path.append(n)
        print(steps, n)
        print(path)
    """


def strings(draw: Draw) -> str:
    """Slices, counts and replacements in a text."""
    first, second, third = draw.words(3)
    return f"""
        text = "{first} {second} {third}"
        turned = text[{draw.number(1, 4)}::{draw.number(2, 3)}].{draw.one_of("upper", "title", "swapcase")}()
        print(turned)
        print("-".join(word[::-1][:{draw.number(2, 4)}] for word in text.split()))
        marks = [str(index) for index, letter in enumerate(text) if letter in "{draw.one_of("aeiou", "aer", "eilo")}"]
        print(len(marks), ":".join(marks[-{draw.number(2, 4)}:]))
        print(text.replace("{first[1]}", "{draw.one_of("_", "##", "")}").find("{second[:2]}"))
    """


def dicts(draw: Draw) -> str:
    """A dict that is filled, changed and sorted."""
    words = draw.words(draw.number(5, 7))
    pairs = list(zip(words, draw.numbers(len(words), 1, 30), strict=True))
    return f"""
        stock = {dict(pairs)!r}
        for name, count in [("{words[1]}", {draw.number(-9, 9)}), ("{draw.words(1)[0]}", {draw.number(1, 20)})]:
            stock[name] = stock.get(name, {draw.number(0, 5)}) + count
        groups = {{}}
        for name, count in stock.items():
            groups.setdefault({draw.one_of("len(name)", "name[-1]", "count % 3")}, []).append(count)
        stock.pop("{words[0]}")
        print(sorted(stock, key=lambda name: (stock[name] % {draw.number(4, 7)}, name))[:{draw.number(2, 4)}])
        print(max(groups.values(), key=sum), len(groups))
    """


def recursion(draw: Draw) -> str:
    """A function that calls itself, sometimes twice."""
    return f"""
        def walk(n, depth=0):
            if n <= {draw.number(1, 3)}:
                return n + depth
            if n % 2:
                return walk(n - {draw.number(2, 3)}, depth + 1) + {draw.number(1, 4)}
            half = walk(n // 2, depth + {draw.number(1, 2)})
            return {draw.number(1, 2)} * half - walk(n - {draw.number(4, 6)}, depth)

        for n in ({draw.number(5, 9)}, {draw.number(10, 16)}, {draw.number(17, 24)}):
            print(n, walk(n))
    """


def classes(draw: Draw) -> str:
    """A class, its subclass, and an attribute that they share."""
    first, second = draw.words(2)
    return f"""
        class Account:
            opened = 0

            def __init__(self, owner, balance={draw.number(5, 20)}):
                self.owner, self.balance = owner, balance
                Account.opened += 1

            def pay(self, amount):
                if amount > self.balance:
                    return False
                self.balance -= amount
                return True

            def __repr__(self):
                return f"<{{self.owner}} {{self.balance}}>"

        class Saver(Account):
            def pay(self, amount):
                done = super().pay(amount + {draw.number(1, 3)})
                self.balance += 0 if done else {draw.number(1, 6)}
                return done

        accounts = [Account("{first}"), Saver("{second}", {draw.number(8, 25)})]
        results = [account.pay(amount) for amount in {draw.numbers(3, 3, 14)!r} for account in accounts]
        print(accounts, Account.opened)
        print("".join("{draw.one_of("ny", ".x", "01")}"[result] for result in results))
    """


def generators(draw: Draw) -> str:
    """A generator that two readers consume, and a closure."""
    return f"""
        def ticks(start, step):
            while True:
                start = (start * {draw.number(2, 5)} + step) % {draw.number(17, 41)}
                yield start

        def counter():
            seen = []
            def note(value):
                seen.append(value)
                return len(seen) * value
            return note, seen

        source = ticks({draw.number(1, 9)}, {draw.number(1, 9)})
        note, seen = counter()
        first = [note(next(source)) for _ in range({draw.number(3, 5)})]
        second = [note(value) for value, _ in zip(source, range({draw.number(2, 3)}))]
        print(first, second)
        print(seen[{draw.number(-3, -1)}], next(source))
    """


def exceptions(draw: Draw) -> str:
    """Exceptions that are caught at two levels, with `finally` and `else`."""
    values = [str(value) for value in draw.numbers(3, 0, 6)]
    values.insert(draw.number(0, 3), draw.one_of("'x'", "None", "'7'"))
    return f"""
        log = []
        def share(value):
            try:
                return {draw.number(20, 90)} // (value - {draw.number(0, 6)})
            except ZeroDivisionError:
                log.append("zero")
                return {draw.number(-5, 5)}
            finally:
                log.append(str(value))

        total = 0
        for value in [{", ".join(values)}]:
            try:
                total += share(value)
            except TypeError as error:
                log.append(type(error).__name__)
            else:
                total *= {draw.number(1, 2)}
        print(total)
        print(" ".join(log))
    """


PROGRAMS: dict[str, Callable[[Draw], str]] = {
    maker.__name__: maker for maker in (loops, while_loop, strings, dicts, recursion, classes, generators, exceptions)
}
"""The functions that draw programs, by kind."""


def program(rng: np.random.Generator, kinds: tuple[str, ...], parts: int) -> str:
    """Draw a program of `parts` short ones, each of one of the kinds."""
    draw = Draw(rng)
    drawn = [PROGRAMS[draw.one_of(*kinds)](draw) for _ in range(parts)]
    return "\n".join(textwrap.dedent(part).strip() + "\n" for part in drawn)


def output_of(code: str) -> str:
    """Run a drawn program in this process and return its output. Never pass it any other program."""
    lines: list[str] = []
    exec(code, {"print": lambda *values: lines.append(" ".join(map(str, values)) + "\n")})  # noqa: S102
    return "".join(lines)
