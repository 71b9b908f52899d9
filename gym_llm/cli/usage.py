"""What the commands share in telling a user what is wrong."""

from __future__ import annotations

import difflib

from gym_llm.errors import UsageError
from gym_llm.registration import env_ids, parse_id


def unknown_env(env_id: str) -> UsageError:
    """The error for an id that is not registered, with the nearest one that is.

    >>> print(unknown_env("arithmetic"))
    There is no environment 'arithmetic'. Did you mean gym_llm/Arithmetic-v0? `gym-llm list` names all.
    """
    names = {form: name for name in env_ids() for form in (_bare(name), name.lower())}
    near = difflib.get_close_matches(env_id.lower(), names, n=1) or difflib.get_close_matches(_bare(env_id), names, n=1)
    hint = f" Did you mean {names[near[0]]}?" if near else ""
    return UsageError(f"There is no environment {env_id!r}.{hint} `gym-llm list` names all.")


def _bare(name: str) -> str:
    return parse_id(name)[1].lower()
