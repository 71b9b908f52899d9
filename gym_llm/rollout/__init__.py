"""Whole episodes, many at once: `async for record in gym_llm.rollout(...)`, because this module is callable.

The package and the public function have the same name, and Python keeps a subpackage as an attribute of its parent:
whoever writes `gym_llm.rollout(...)` gets the function either way.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType

from gym_llm.rollout.play import collect, rollout

__all__ = ["collect", "rollout"]


class _CallableModule(ModuleType):
    __call__ = staticmethod(rollout)
    __signature__ = inspect.signature(rollout)  # inspect would take the first parameter for `self`


sys.modules[__name__].__class__ = _CallableModule
