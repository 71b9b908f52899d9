"""Runs a row's `check(candidate)`: the text of a cell after `forked_cell`, never imported outside."""

# ruff: noqa: F821
import types as _types


def _names(test: str) -> "set[str]":
    return {"check"}


def _outcome(module: "_types.ModuleType", name: str, test: bytes) -> "tuple[list[str], dict[str, str]]":
    """Return that the check succeeded, or the part that failed: `entry_point`, `test` or `check`."""
    if module.__dict__.get(name) is None:
        return [], {"entry_point": f"{name} is missing"}
    _wrap(module, name)  # type: ignore[name-defined]
    candidate, part = module.__dict__[name], "test"
    try:
        exec(compile(test, _TESTS, "exec", dont_inherit=True), module.__dict__)  # type: ignore[name-defined]
        part = "check"
        module.__dict__["check"](candidate)
    except BaseException as error:
        why = f"{type(error).__name__}: {error}"[:500]
        return [], {part: why.encode("utf-8", "replace").decode()}
    return ["check"], {}
