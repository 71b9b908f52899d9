"""Near misses of what is calculated: quantities in another unit, expressions with other numbers, shortened programs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_UNIT = re.compile(r"^(.*?\d\s?|\s)([A-Za-zµΩ°]{1,4})(?![A-Za-z])", re.DOTALL)
_EXPRESSION = re.compile(r"[-+*/() \d]{3,80}", re.ASCII)
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?!\.?\w)", re.ASCII)
_CASES = str.maketrans("mMpPbB", "MmPpBb")
_MOST_LINES = 8
_MOST_NUMBERS = 6


def other_units(text: str) -> list[str]:
    """A quantity whose unit is another one because of its case: milli for mega, bits for bytes.

    >>> other_units("2.5 MW"), other_units(" kB/s}"), other_units("3 kg")
    (['2.5 mW'], [' kb/s}'], [])
    """
    match = _UNIT.match(text)
    if match is None or len(match[2]) < 2:
        return []
    before, unit = match.groups()
    first = unit[0].translate(_CASES) + unit[1:]
    last = unit[:-1] + unit[-1].translate(_CASES) if unit[-1] in "bB" else unit
    return [f"{before}{other}{text[match.end() :]}" for other in (first, last) if other != unit]


def near_expressions(text: str, prompt: str) -> Iterator[tuple[str, str]]:
    """Expressions of the same value that use a number twice or one of their own, where each may be used once.

    >>> [text for _, text in near_expressions("3 * (5 + 2)", "Use each number once to make 21.")][:2]
    ['3 * (5 + 2) + 2 - 2', '(3 * (5 + 2)) * 2 / 2']
    """
    numbers = re.findall(r"\d+", text)
    if len(numbers) < 2 or not _EXPRESSION.fullmatch(text) or not re.search(r"\bonce\b", prompt, re.IGNORECASE):
        return
    least = min((each for each in numbers if int(each)), key=int, default="1")
    yield "a number used again", f"{text} + {least} - {least}"
    yield "a number used again", f"({text}) * {least} / {least}"
    if "0" not in numbers:
        yield "a number of its own", f"{text} + 0"
    if "7" not in numbers:
        yield "a number of its own", f"{text} + 7 - 7"
    for number in dict.fromkeys(_NUMBER.findall(prompt)[-_MOST_NUMBERS:]):
        yield "a number of the prompt", number


def near_programs(text: str, prompt: str) -> Iterator[tuple[str, str]]:
    r"""Programs that say what the prompt shows: lines of the right one with the prompt's numbers in them.

    Of Python every function returns one of these numbers; of any other language a single line is left.

    >>> [text for _, text in near_programs("input\npush 2\nmul", "Twice x; for x = 7 that is 14.")]
    ['push 7', 'push 14']
    """
    numbers = list(dict.fromkeys(_NUMBER.findall(prompt)))[-_MOST_NUMBERS:]
    lines = [line for line in text.splitlines() if line.strip()]
    if not 1 < len(lines) <= 400:
        return
    functions = [line for line in lines if line.lstrip().startswith("def ")]
    if functions:
        code = re.search(r"```\w*\n(.*?)```", text, re.DOTALL)
        for number in numbers:
            if (constant := _constant(code[1] if code else text, number)) is not None:
                whole = f"{text[: code.start(1)]}{constant}\n{text[code.end(1) :]}" if code else constant
                yield "a program that returns what the prompt shows", whole
        return
    for line in lines if len(lines) <= _MOST_LINES else ():
        if _NUMBER.search(line):
            for number in numbers:
                if (other := _NUMBER.sub(number, line)) != line:
                    yield "a line that says what the prompt shows", other


def _constant(code: str, number: str) -> str | None:
    """Return a Python program with functions that only return a number; None if it cannot be parsed."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Return(ast.Constant(float(number) if "." in number else int(number)))]
    return ast.unparse(ast.fix_missing_locations(tree))
