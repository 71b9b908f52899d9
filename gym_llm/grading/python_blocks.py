r"""Which of an answer's blocks of Python is the answer: not the usage example or the test behind it."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from textwrap import dedent

from gym_llm.grading.fences import fences
from gym_llm.tokens.parsers.thinking import without_cut_thought

PYTHON = frozenset({"python", "py", "python3", "py3", "python2", "py2", "ipython", "ipython3"})
"""What a fenced block of Python is called."""

_MOST_BLOCKS = 50  # the last ones
_MOST_CHARACTERS = 100_000  # of a block that is parsed: some 100 ms
_READS = re.compile(r"\binput\b|\bstdin\b|\bopen\(\s*0|\bfileinput\b|\bread\(\s*0")
_PRINTS = re.compile(r"\bprint\b|\bstdout\b|\bwrite\b")
_FEEDS = re.compile(r"\bstdin\s*=\s*(?:io\.)?StringIO|\bsubprocess\b")
_INERT = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assert)
_STATEMENT = re.compile(
    r"(?:async\s+def|def|class)\s+\w+\s*[(:]|import\s+[\w., ]+$|from\s+[\w.]+\s+import\b|@\w+|\w+\s*=[^=]"
)
_INVISIBLE = {0xFEFF: None, 0x200B: None, 0x2060: None, 0xA0: " "}
_MOST_CUTS = 4
_BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__"}


@dataclass(frozen=True)
class _Block:
    """A block with what a program of its own and the earlier blocks would do."""

    code: str
    earlier: Sequence[_Block] = field(repr=False)

    @cached_property
    def tree(self) -> ast.Module | None:
        """The parsed code; None for what is not Python, such as a session."""
        if len(self.code) > _MOST_CHARACTERS:
            return None
        try:
            return ast.parse(self.code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    @cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        """The statements at the top level that bind names, by name."""
        statements = self.tree.body if self.tree else ()
        return {name: statement for statement in statements for name in _bound(statement)}

    @cached_property
    def needed(self) -> list[tuple[_Block, ast.stmt]]:
        """The statements of earlier blocks that define what this block uses and does not define, in order."""
        if not self.earlier or self.tree is None:
            return []
        found: dict[int, tuple[int, _Block, ast.stmt]] = {}
        missing = _missing([self.tree])
        while missing:
            name = missing.pop()
            for number, block in reversed(list(enumerate(self.earlier))):
                if (statement := block.definitions.get(name)) is not None:
                    if id(statement) not in found:
                        found[id(statement)] = number, block, statement
                        missing |= _missing([statement])
                    break
        ordered = sorted(found.values(), key=lambda one: (one[0], one[2].lineno))
        return [(block, statement) for _, block, statement in ordered]

    @cached_property
    def program(self) -> str:
        """The code behind the definitions of earlier blocks that it uses."""
        parts = [
            "\n".join(block.code.splitlines()[_first_line(statement) - 1 : statement.end_lineno])
            for block, statement in self.needed
        ]
        return "\n".join([*parts, self.code])

    def rank(self) -> tuple[bool, bool, bool, bool]:
        """Return how much the block looks like a whole program that reads its input and prints."""
        statements = self.tree.body if self.tree else []
        acts = any(not isinstance(one, _INERT) and not _is_constant(one) for one in statements)
        prints = acts and bool(_PRINTS.search(self.program)) and not _FEEDS.search(self.code)
        return prints and bool(_READS.search(self.program)), prints and not self.needed, prints, self.tree is not None


def python_code(text: str, entry_point: str | None = None) -> str | None:
    r"""Return the code of the last closed block of Python that is the answer, or None without code.

    With an entry point this is the last block that defines it. Without one it is the last program: one that reads and
    prints, else one that prints. Without such a block it is the last one. Blocks in no language or another one count if
    no block is Python's, or none of Python's defines the entry point. Functions, classes, imports and constants of
    earlier blocks, if the block uses them and does not define them, are put before it. Nothing else of them runs.
    Without any closed block the code is in a block that is left open, or bare with prose around it.

    Args:
        text: What the model wrote.
        entry_point: The function or class that the task names, or a method of `Solution`.

    >>> python_code("```python\nprint(1)\n```\nprints\n```\n1\n```")
    'print(1)'
    >>> python_code("```python\ndef f(): return 1\n```\nUse:\n```python\nprint(f())\n```", "f")
    'def f(): return 1'
    >>> python_code("```py\nimport re\n```\nand\n```py\ndef f(): return re\n```", "f")
    'import re\ndef f(): return re'
    """
    pythons, others = _bodies(text)
    if not pythons and not others:
        return _bare_code(without_cut_thought(text), entry_point)
    if entry_point is not None:
        for bodies in (pythons, others):
            if (number := _defining(bodies, entry_point)) is not None:
                return _blocks(bodies[: number + 1])[-1].program
        return python_fragment(text, entry_point)
    blocks = _blocks(pythons or others)
    if len(blocks) < 2:
        return blocks[0].code if blocks else None
    return max(blocks, key=lambda block: (*block.rank(), len(block.earlier))).program


def _bare_code(text: str, entry_point: str | None) -> str | None:
    """Return code that no closed block holds, if it defines the entry point, or is its body, or prints; else None."""
    sought = ("print", "stdout", "write") if entry_point is None else (entry_point, "return")
    if not any(word in text for word in sought):
        return None
    opened = next((fence for fence in fences(text) if not fence.closed), None)
    if opened is not None and opened.language not in (*PYTHON, ""):
        return None
    lines = (text.rpartition("</think>")[2] if opened is None else opened.body).split("\n")
    first = next((number for number, line in enumerate(lines) if _STATEMENT.match(line)), 0)
    for start in dict.fromkeys((0, first)):
        block = _Block(_until_prose(lines[start:]), ())
        if block.rank()[2] if entry_point is None else entry_point in block.definitions:
            return block.code
    body = "\n".join(lines).strip("\r\n")
    is_body = entry_point is not None and body[:1] in (" ", "\t") and "return" in body
    return body if is_body and _Block(f"def f():\n{body}", ()).tree else None


def _until_prose(lines: list[str]) -> str:
    """Return the lines as code, up to the first that is none."""
    for _ in range(_MOST_CUTS):
        code = "\n".join(lines).strip("\r\n")
        try:
            if len(code) <= _MOST_CHARACTERS:
                ast.parse(code)
            return code
        except SyntaxError as error:
            lines = code.split("\n")[: max((error.lineno or 1) - 1, 0)]
        except (ValueError, RecursionError, MemoryError):
            return ""
    return ""


def python_fragment(text: str, entry_point: str | None) -> str | None:
    r"""Return the last closed block of Python that does not only use or test the entry point, unchanged, or None.

    It may be a part of the function, such as its indented body.

    >>> python_fragment("```py\n    return 1\n```\nso\n```py\nassert f() == 1\n```", "f")
    '    return 1'
    """
    pythons, others = _bodies(text)
    bodies = pythons or others
    if not bodies:
        return None
    name = re.escape(entry_point or "") or "(?!)"
    definition = re.compile(rf"^(?:async[ \t]+)?(?:def|class)[ \t]+{name}\b", re.MULTILINE)
    use = re.compile(rf"^(?!async\b|def\b|class\b|@)(?:\S.*\W)?{name}\(|^>>> |^assert\b", re.MULTILINE)
    test = re.compile(r"^(?:async|def|class|import|from)\b", re.MULTILINE)
    mention = re.compile(rf"\b{name}\(")
    answers = (
        body
        for body in reversed(bodies)
        if definition.search(body) or not (use.search(body) or (mention.search(body) and test.search(body)))
    )
    return next(answers, bodies[-1])


def _bodies(text: str) -> tuple[list[str], list[str]]:
    """Return the closed blocks of Python, and all others."""
    closed = [fence for fence in fences(without_cut_thought(text)) if fence.closed][-_MOST_BLOCKS:]
    pythons = [_visible(fence.body) for fence in closed if fence.language in PYTHON]
    return pythons, [_visible(fence.body) for fence in closed if fence.language not in PYTHON]


def _visible(code: str) -> str:
    """Return code without invisible characters, and with plain blanks, if it is no Python with them."""
    if code.isascii() or (shown := code.translate(_INVISIBLE)) == code or _Block(code, ()).tree:
        return code
    return shown if _Block(shown, ()).tree else code


def _blocks(bodies: Sequence[str]) -> list[_Block]:
    blocks: list[_Block] = []
    for body in bodies:
        blocks.append(_Block(_dedented(body), blocks[:]))
    return blocks


def _dedented(code: str) -> str:
    """Return a program that is indented as a whole without the indentation."""
    return dedent(code) if code.lstrip("\r\n")[:1] in (" ", "\t") else code


def _defining(bodies: Sequence[str], name: str) -> int | None:
    """Return the number of the last block that defines a name; a function goes before an assignment."""
    word = re.escape(name)
    function = re.compile(rf"^(?:async[ \t]+)?(?:def|class)[ \t]+{word}\b", re.MULTILINE)
    method = re.compile(rf"^[ \t]+(?:async[ \t]+)?def[ \t]+{word}\b", re.MULTILINE)
    assignment = re.compile(rf"^{word}[ \t]*(?::[^=\n]{{1,200}})?=(?!=)", re.MULTILINE)
    codes = list(map(_dedented, bodies))
    for defines in (
        lambda code: function.search(code) or ("class Solution" in code and method.search(code)),
        lambda code: assignment.search(code) or method.search(code),
    ):
        for number in reversed(range(len(codes))):
            if defines(codes[number]):
                return number
    return None


def _first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", ()))])


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement at the top level defines; nothing for one that does anything else."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name.partition(".")[0]) for alias in statement.names)
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


def _missing(trees: Sequence[ast.AST]) -> set[str]:
    """Return the names that code uses and nowhere binds."""
    loaded: set[str] = set()
    bound: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                (loaded if isinstance(node.ctx, ast.Load) else bound).add(node.id)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                bound.add(node.name)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, ast.alias):
                bound.add(node.asname or node.name.partition(".")[0])
            elif isinstance(node, ast.ExceptHandler) and node.name:
                bound.add(node.name)
    return loaded - bound - _BUILTINS
