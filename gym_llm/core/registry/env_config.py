"""What the `config.yaml` beside an environment's module says of the environment."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml

from gym_llm.core.registry.ids import verifier_folder

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def nemo_gym_names(env_id: str) -> tuple[str, ...]:
    """What NeMo Gym calls an environment."""
    return own_values(env_id, "nemo_gym")


def domain_of(env_id: str) -> str | None:
    """What an environment is about, e.g. `math`; None where it does not say."""
    named = (section.get("domain") for section in _own_sections(env_id))
    return next((domain for domain in named if isinstance(domain, str)), None)


@cache
def own_values(env_id: str, key: str) -> tuple[str, ...]:
    """What is listed under a key in an environment's own sections; nothing where the file cannot be read."""
    listed = (section.get(key) for section in _own_sections(env_id))
    return tuple(name for names in listed if isinstance(names, list) for name in names)


@cache
def _own_sections(env_id: str) -> tuple[dict[str, Any], ...]:
    folder = verifier_folder(env_id)
    try:
        sections = yaml.load((folder / "config.yaml").read_bytes(), _Loader) if folder else {}
    except (OSError, ValueError, yaml.YAMLError):
        return ()
    values = sections.values() if isinstance(sections, dict) else ()
    return tuple(section for section in values if isinstance(section, dict) and section.get("env") == env_id)
