"""The environment classes of other frameworks: one for each file in `peers/`, made when it is first asked for."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, get_type_hints

from pydantic import create_model

from gym_llm.envs.theirs.foreign_env import ForeignEnv
from gym_llm.envs.theirs.foreign_game import ForeignGame
from gym_llm.envs.theirs.frameworks import frameworks
from gym_llm.envs.theirs.room import load


@cache
def _class_of(name: str) -> type[ForeignEnv]:
    framework = next((each for each in frameworks().values() if each.env_id.partition("/")[2] == f"{name}-v0"), None)
    if framework is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = load(framework.name)
    base = ForeignGame if getattr(module, "SEATS", False) or framework.engines else ForeignEnv
    hints = get_type_hints(module.Peer.__init__)
    fields: dict[str, Any] = {
        parameter.name: (hints.get(parameter.name, Any), parameter.default)
        for parameter in list(inspect.signature(module.Peer.__init__).parameters.values())[1:]
    }
    members = {
        "__module__": __name__,
        "__doc__": f"{framework.summary}\n\n{inspect.getdoc(module.Peer)}",
        "framework": framework,
        "main_argument": next(iter(fields)),
        "Config": create_model("Config", __base__=base.Config, __module__=__name__, **fields),
        "default_max_turns": getattr(module, "MAX_TURNS", base.default_max_turns),
        "shared_arguments": set(base.Config.model_fields),
    }
    return type(name, (base,), members)


def __getattr__(name: str) -> Any:
    return _class_of(name)
