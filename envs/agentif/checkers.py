"""The programs of AgentIF's rows, `check_following(response)`: their text for the sandbox, and what they return."""

from __future__ import annotations

import ast
import re

_DEFINED = re.compile(r"^\s*def\s+check_following\s*\(", re.MULTILINE)
_CALLED = re.compile(r"^(\s*)(?=check_following\s*\()", re.MULTILINE)
_IMPORTS = re.compile(r"^\s*(import\s+\S+|from\s+\S+\s+import\s+\S+)", re.MULTILINE)
_WRAPPER = """
def _as_verdict(check):
    def verdict(text):
        value = check(text)
        return value if value is None or isinstance(value, str) else bool(value)
    return verdict
_verdict = _as_verdict(check_following)
"""
FUNCTION = "_verdict"
"""The function of the program that returns True, False, None or a text."""


def program(source: str) -> str:
    r"""Return the program of a checker; some rows forget the word `def`.

    >>> program("check_following(response):\n    return True").partition("(")[0]
    'def check_following'
    """
    source = source if _DEFINED.search(source) else _CALLED.sub(r"\1def ", source, count=1)
    return f"{source}\n{_WRAPPER}"


def imports(source: str, *, conform: bool = False) -> str | None:
    r"""Return the imports of a program, which all of its functions see; None if it is not Python, as in some rows.

    >>> imports("def check_following(text):\n    import re, json").split("\n")[1].strip()
    'import re, json'
    """
    try:
        nodes = list(ast.walk(ast.parse(program(source))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if conform:
        return "\n".join(_IMPORTS.findall(source))  # of `import re, json` NeMo Gym runs `import re,`, which fails
    lines = [
        ast.unparse(node)
        for node in nodes
        if isinstance(node, ast.Import)
        or (isinstance(node, ast.ImportFrom) and node.module != "__future__" and node.names[0].name != "*")
    ]
    return "\n".join(f"try:\n    {line}\nexcept ImportError:\n    pass" for line in lines)
