"""Splitting a test in two: the calls of the solution, and the judgement of the returned values.

A test of SciCode is Python. It calls the solution's functions and asserts something about the results and `target`. In
one process with the solution, a solution could pass it by ending the process, changing `np.allclose` or reading
`target`. So the test is split, by the names that the author gave (the functions' headers):

- The calls run in the solution's process. They are the statements of the test, without anything that uses `target`. Of
  an assertion only the calls of the solution's functions remain, each in `__note__(site, …)`.
- The judgement runs in a process without the solution. It is the whole test, with `__returned__(site)` in place of
  these calls.

The result of a call is passed as data. Objects that cannot be passed, and changes of arguments, are lost.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

_DEFINED = re.compile(r"^[ \t]*(?:async[ \t]+)?(def|class)[ \t]+(\w+)", re.MULTILINE)
_LAZY = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_TARGETS = ("target", "targets")


@dataclass(frozen=True, slots=True)
class Split:
    """The two halves of a test, as source."""

    calls: str
    judgement: str


def defined_names(sources: Iterable[str], kinds: tuple[str, ...] = ("def", "class")) -> set[str]:
    """The functions and classes that these sources, or headers, define."""
    return {name for source in sources for kind, name in _DEFINED.findall(source) if kind in kinds}


def first_defined(header: str) -> str | None:
    r"""Return the function or class that a header begins with; None for any other text.

    >>> first_defined("class A:\n    def f(self):")
    'A'
    """
    match = _DEFINED.search(header)
    return match[2] if match else None


def split_test(source: str, names: Iterable[str], number: int = 0, *, classes: Iterable[str] = ()) -> Split:
    r"""Split a test.

    Args:
        source: The test.
        names: The names that the solution defines, given by the author.
        number: The test's number, so that the sites of several tests differ.
        classes: The names that are classes.

    Raises:
        ValueError: If it is not Python, or cannot be split.

    >>> split_test("x = 2\nassert np.allclose(f(x), target)", ["f"])
    Split(calls="x = 2\n__note__('0.0', f(x))", judgement="x = 2\nassert np.allclose(__returned__('0.0'), target)")
    """
    try:
        tree, other = ast.parse(source), ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"a test is not Python: {error}") from None
    names, instances = _also_named(tree, set(names), set(classes))
    judged = _Judgement(names, instances, number).visit(other)
    calls = _Calls(names, instances, number)
    noted: ast.Module = calls.visit(tree)  # type: ignore[assignment]
    if calls.is_tainted(noted):
        raise ValueError("a test has statements with `target` inside that are neither assertions nor assignments")
    return Split(ast.unparse(ast.fix_missing_locations(noted)), ast.unparse(ast.fix_missing_locations(judged)))


def _also_named(tree: ast.AST, names: set[str], classes: set[str]) -> tuple[set[str], set[str]]:
    """The names with those that a test gives to the same functions, and those of objects of the solution's classes."""
    instances: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            stored = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if isinstance(node.value, ast.Name) and node.value.id in names:
                names |= stored
            if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
                instances |= stored if node.value.func.id in classes else set()
    return names, instances


class _Sites(ast.NodeTransformer):
    """Finds the outermost calls that need the solution, in the same order on both sides."""

    def __init__(self, names: set[str], instances: set[str], number: int) -> None:
        self._names = names
        self._instances = instances
        self._number = number
        self._count = 0

    def _replaced(self, node: ast.expr, site: ast.Constant) -> ast.expr:
        raise NotImplementedError

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace it if it calls the solution, or hands one of its functions to somebody who does."""
        return self._replaced(node, self._site()) if self._needs_solution(node) else self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace what an object of the solution has."""
        is_one = isinstance(node.value, ast.Name) and node.value.id in self._instances
        return self._replaced(node, self._site()) if is_one and _loads(node) else self.generic_visit(node)

    def _site(self) -> ast.Constant:
        self._count += 1
        return ast.Constant(f"{self._number}.{self._count - 1}")

    def _needs_solution(self, node: ast.expr) -> bool:
        while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
            if isinstance(node, ast.Call):
                handed = [*node.args, *(keyword.value for keyword in node.keywords)]
                if any(isinstance(one, ast.Name) and one.id in self._names for one in handed):
                    return True
            node = node.func if isinstance(node, ast.Call) else node.value
        return isinstance(node, ast.Name) and node.id in self._names | self._instances


class _Judgement(_Sites):
    def _replaced(self, node: ast.expr, site: ast.Constant) -> ast.expr:
        return _called("__returned__", site)


class _Calls(_Sites):
    def __init__(self, names: set[str], instances: set[str], number: int) -> None:
        super().__init__(names, instances, number)
        self._tainted = set(_TARGETS)
        self._noted: list[ast.expr] = []

    def _replaced(self, node: ast.expr, site: ast.Constant) -> ast.expr:
        if self.is_tainted(node):
            raise ValueError(f"a test calls the solution with its target, which it must not know: {ast.unparse(node)}")
        note = _called("__note__", site, node)
        self._noted.append(note)
        return note

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        """Leave nothing but its calls of the solution."""
        self._noted = []
        lazy = [one for one in ast.walk(node.test) if isinstance(one, _LAZY)]
        if any(isinstance(call, ast.Name) and call.id in self._names for one in lazy for call in ast.walk(one)):
            raise ValueError(f"a test calls the solution within a comprehension of an assertion: {ast.unparse(node)}")
        self.generic_visit(node)
        return [ast.Expr(note) for note in self._noted]

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:  # type: ignore[override]
        """Leave of what has to do with the target nothing but its calls of the solution."""
        simple = isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.ImportFrom, ast.Import))
        if simple and _imports_scicode(node):
            return []
        if simple and self.is_tainted(node):
            self._tainted |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and _stores(one)}
            self._noted = []
            self.generic_visit(node)
            return [ast.Expr(note) for note in self._noted]
        visited: ast.AST = super().visit(node)
        if isinstance(getattr(visited, "body", None), list) and not isinstance(visited, ast.Module):
            visited.body = visited.body or [ast.Pass()]  # type: ignore[attr-defined]
        return visited

    def is_tainted(self, node: ast.AST) -> bool:
        """Whether it has to do with the target."""
        return any(isinstance(one, ast.Name) and one.id in self._tainted for one in ast.walk(node))


def _stores(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _loads(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _called(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _imports_scicode(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")[0] == "scicode"
    return isinstance(node, ast.Import) and any(name.name.split(".")[0] == "scicode" for name in node.names)
