"""Refusal of verifier classes whose hooks would never run: misspelt, called as elsewhere, or with other parameters."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

HOOKS = {
    "generate": ("rng",),
    "setup": ("task",),
    "opening": ("task", "state"),
    "user_turn": ("task", "episode"),
    "verify": ("task", "episode"),
    "verify_group": ("task", "episodes"),
    "teardown": ("task", "episode"),
    "oracle": ("task",),
    "near_misses": ("task",),
    "fork_state": ("state",),
}
"""The hooks, with what each is called with."""

_ATTRIBUTES = (
    *("Task", "Config", "metrics", "executes_tools", "dry_run_kwargs", "default_max_turns", "reverify_mode"),
    "accepted_findings",
)
"""What else a class declares: those whose near misses are not words that authors use themselves."""

_ELSEWHERE = {
    "setup_state": "setup",  # verifiers
    "seed_session": "setup",  # NeMo Gym
    "on_reset": "setup",
    "initial_observation": "opening",  # Tinker
    "env_response": "user_turn",  # verifiers
    "respond": "user_turn",
    "on_message": "user_turn",
    "on_turn": "user_turn",
    "on_response": "user_turn",
    "on_close": "teardown",
    "near_miss": "near_misses",
    "group_reward": "verify_group",
    "score_group": "verify_group",  # verifiers
    "max_turns": "default_max_turns",
}
"""Names that other frameworks have for a hook or an attribute."""

_SCORING = (
    *("reward", "score", "grade", "evaluate", "compute_reward", "compute_score", "get_reward", "reward_fn"),
    *("reward_func", "check_answer", "score_response", "verifier"),
)
"""Names that other frameworks have for `verify`. Helpers have them, too: they only count where `verify` is missing."""


def check_hook_names(cls: type, base: type) -> None:
    """Raise TypeError if a class defines a hook under a wrong name, or with parameters that it is not called with.

    A method is a helper if its name begins with `_` or a parent has it. So is one that the code of the class or of a
    parent mentions, and one in a class that defines the hook itself.

    Args:
        cls: A subclass of `VerifierEnv`.
        base: `VerifierEnv`.
    """
    for name, value in vars(cls).items():
        if name in HOOKS and isinstance(value, FunctionType):
            _check_parameters(cls, name, value)
        elif not (name.startswith("_") or any(name in vars(parent) for parent in cls.__mro__[1:])):
            meant = _meant(name, value)
            if meant is not None and meant not in vars(cls) and not _mentions(cls, base, name):
                kind = "run" if meant in HOOKS else "be read"
                raise TypeError(
                    f"{cls.__name__}.{name} would never {kind}. Did you mean {meant}? Name a helper _{name}."
                )


def missing_verify(cls: type) -> str:
    """Return the error for a class without `verify`, with the method that may be meant to be it."""
    other = next((name for name in _SCORING if callable(getattr(cls, name, None))), None)
    advice = f"Rename its {other}." if other else "Define it."
    return f"{cls.__name__} has no verify(self, task, episode), which scores the episode. {advice}"


def _check_parameters(cls: type, name: str, function: FunctionType) -> None:
    names = [*inspect.signature(function).parameters]
    wanted = ("self", *HOOKS[name])
    try:
        inspect.signature(function).bind(None, *HOOKS[name])
        is_wrong = any(given in wanted and given != right for given, right in zip(names, wanted, strict=False))
        is_wrong = is_wrong or any(_names_episode(function, given) for given in names[1:2])
    except TypeError:
        is_wrong = True
    if is_wrong:
        text = f"{name}({', '.join(wanted)}), but takes ({', '.join(names)})"
        raise TypeError(f"{cls.__name__}.{name} is called as {text}.") from None


def _names_episode(function: FunctionType, parameter: str) -> bool:
    """Return whether the first parameter, which is a task or a generator, is annotated as an episode."""
    annotation = function.__annotations__.get(parameter)
    return str(getattr(annotation, "__name__", annotation)).partition("[")[0].rpartition(".")[2] == "Episode"


def _meant(name: str, value: Any) -> str | None:
    """Return the hook or attribute that a name nearly is; None if it is near to none."""
    is_method = isinstance(value, (FunctionType, staticmethod, classmethod))
    if hasattr(value, "__gym_llm_tool__") or isinstance(value, property):
        return None
    meant = _ELSEWHERE.get(name)
    if meant is not None and (meant in HOOKS) == is_method:
        return meant
    return next((known for known in (HOOKS if is_method else _ATTRIBUTES) if _is_near(_bare(name), _bare(known))), None)


def _bare(name: str) -> str:
    return name.replace("_", "").lower()


def _is_near(one: str, other: str) -> bool:
    """Return whether one letter more, less, changed or swapped with the next makes a name of the other.

    >>> [_is_near(name, "verify") for name in ("verify", "verfy", "verfiy", "verifyy", "verifies")]
    [True, True, True, True, False]
    """
    if len(one) > len(other):
        one, other = other, one
    if len(other) - len(one) > 1:
        return False
    start = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    if len(one) < len(other):
        return one[start:] == other[start + 1 :]
    swapped = one[start : start + 2] == other[start : start + 2][::-1] and one[start + 2 :] == other[start + 2 :]
    return one[start + 1 :] == other[start + 1 :] or swapped


def _mentions(cls: type, base: type, name: str) -> bool:
    parents = cls.__mro__[: cls.__mro__.index(base)]
    return any(name in code.co_names for parent in parents for value in vars(parent).values() for code in _codes(value))


def _codes(value: Any) -> Iterator[CodeType]:
    """The code of a class's member: of a function and those inside it, also behind decorators."""
    value = inspect.unwrap(getattr(value, "fget", None) or getattr(value, "__func__", value))
    waiting = [value.__code__] if isinstance(value, FunctionType) else []
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
