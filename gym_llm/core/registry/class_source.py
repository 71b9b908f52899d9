"""What a class's source says of it, read without importing it: its docstring, its tools, whether it makes tasks.

Importing sixty environments takes seconds, for what stands in a few lines of each. What cannot be told from the source
(a base that is computed, a class decorator, tools that are assigned) is None: whoever asks imports the class then.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_ROOT = ("gym_llm.core.verifier_env", "VerifierEnv")
_ROOT_NAMES = {_ROOT, ("gym_llm", "VerifierEnv")}
_PLAIN = {"property", "classmethod", "staticmethod", "cached_property", "setter", "override", "abstractmethod"}
"""Decorators that make no tool."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class ClassSource(NamedTuple):
    """What is known of a class."""

    doc: str
    """Its docstring, or that of the nearest base that has one."""
    tools: list[str]
    """In the order of `gym_llm.core.tools.tools_of`."""
    generates: bool
    """Whether it makes tasks."""
    file: Path


def read_class(module: str, name: str) -> ClassSource | None:
    """Read a class of a module; None where its source does not tell."""
    cls = _class(module, name)
    file = _file(module)
    if cls is None or file is None:
        return None
    tools: dict[str, None] = {}
    for base in reversed(cls.__mro__[:-1]):
        for member, is_tool in base.members.items():
            if is_tool:
                tools[member] = None
            else:
                tools.pop(member, None)
    members = {member for base in cls.__mro__[:-1] for member in base.members}
    if "tool_schemas" in members:
        return None
    docs = (base.doc for base in cls.__mro__[:-1])
    return ClassSource(next((doc for doc in docs if doc), ""), list(tools), "generate" in members, file)


@cache
def _class(module: str, name: str, heirs: tuple[tuple[str, str], ...] = ()) -> Any:
    """A class with the bases of the one in the source, so that Python gives it the same order of inheritance."""
    if (module, name) in _ROOT_NAMES:
        return type(name, (), {"doc": "", "members": {}})
    if (module, name) in heirs:  # in a circle
        return None
    heirs = (*heirs, (module, name))
    names = _names(module)
    found = names.get(name) if names is not None else None
    if isinstance(found, tuple):
        return _class(*found, heirs)
    if not isinstance(found, ast.ClassDef) or found.decorator_list or found.keywords:
        return None
    members: dict[str, bool] = {}
    for node in found.body:
        if isinstance(node, _FUNCTIONS):
            if not all(_is_tool(each) or _name_of(each) in _PLAIN for each in node.decorator_list):
                return None
            members[node.name] = any(_is_tool(decorator) for decorator in node.decorator_list)
        elif isinstance(node, ast.Assign) and not (isinstance(node.value, ast.Call) and _is_tool(node.value)):
            members.update({target.id: False for target in node.targets if isinstance(target, ast.Name)})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            members[node.target.id] = False
        elif not isinstance(node, (ast.Expr, ast.ClassDef, ast.Pass)):
            return None
    bases = [_class(module, base.id, heirs) if isinstance(base, ast.Name) else None for base in found.bases]
    if None in bases:
        return None
    try:
        return type(name, tuple(filter(None, bases)), {"doc": ast.get_docstring(found) or "", "members": members})
    except TypeError:  # the order of the bases is impossible
        return None


def _is_tool(decorator: ast.expr) -> bool:
    return _name_of(decorator) == "tool"


def _name_of(decorator: ast.expr) -> str | None:
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    name: str | None = getattr(decorator, "id", getattr(decorator, "attr", None))
    return name


@cache
def _names(module: str) -> dict[str, ast.ClassDef | tuple[str, str]] | None:
    """The classes at the top of a module, and where what it imports is from."""
    file = _file(module)
    try:
        tree = ast.parse(file.read_bytes()) if file else None
    except (OSError, SyntaxError, ValueError):
        return None
    if file is None or tree is None:
        return None
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    names: dict[str, ast.ClassDef | tuple[str, str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names[node.name] = node
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            above = ".".join(parents[: len(parents) - node.level + 1]) if node.level else ""
            source = ".".join(filter(None, (above, node.module)))
            names.update({alias.asname or alias.name: (source, alias.name) for alias in node.names})
    return names


@cache
def _file(module: str) -> Path | None:
    """Where a module is; no package is imported for it."""
    top, *inner = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # `__main__` has none
        return None
    if spec is None:
        return None
    if not inner and spec.origin:
        return Path(spec.origin)
    for location in spec.submodule_search_locations or ():
        path = Path(location, *inner)
        for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
            if file.is_file():
                return file.resolve()
    return None


def first_line(doc: str | None) -> str:
    """A docstring's first line."""
    return inspect.cleandoc(doc or "").partition("\n")[0]
