"""The error for an environment that is not registered, with the nearest one that is."""

from __future__ import annotations

from gym_llm.did_you_mean import nearest
from gym_llm.errors import UsageError
from gym_llm.registration import env_ids, parse_id


def unknown_env(env_id: str) -> UsageError:
    """The error for an id that is not registered, with the nearest one that is.

    >>> print(unknown_env("arithmetic"))
    There is no environment 'arithmetic'. Did you mean gym_llm/Arithmetic-v0? `gym-llm list` names all.
    """
    names = {form: name for name in env_ids() for form in (parse_id(name)[1].lower(), name.lower())}
    near = nearest(env_id.lower(), names) or nearest(parse_id(env_id)[1].lower(), names)
    hint = f" Did you mean {names[near]}?" if near else ""
    return UsageError(f"There is no environment {env_id!r}.{hint} `gym-llm list` names all.")
