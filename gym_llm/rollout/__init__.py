"""Whole episodes, many at once: `await`able as `gym_llm.rollout(...)`, because this module is callable.

The package and the public function have the same name, and Python keeps a subpackage as an attribute of its parent:
whoever writes `gym_llm.rollout(...)` gets the function either way.
"""

from __future__ import annotations

import sys
from types import ModuleType

from gym_llm.rollout.play import collect, rollout

__all__ = ["collect", "rollout"]


class _CallableModule(ModuleType):
    __call__ = staticmethod(rollout)


sys.modules[__name__].__class__ = _CallableModule
