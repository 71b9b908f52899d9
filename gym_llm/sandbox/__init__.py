"""Sandboxes for code that a model wrote: without a network, with limits, and with nothing to read or break."""

from gym_llm.sandbox.backends import Mounts, own_python
from gym_llm.sandbox.python_session import CellResult, PythonSession
from gym_llm.sandbox.python_tool import PythonTool
from gym_llm.sandbox.run_limits import Limits
from gym_llm.sandbox.sandbox import RunResult, Sandbox
from gym_llm.sandbox.sandboxed_env import SandboxedEnv
from gym_llm.sandbox.shared import check_backend, check_sandbox, compiler_for, sandbox_for
from gym_llm.utils.limits import check_seconds

__all__ = [
    "CellResult",
    "Limits",
    "Mounts",
    "PythonSession",
    "PythonTool",
    "RunResult",
    "Sandbox",
    "SandboxedEnv",
    "check_backend",
    "check_sandbox",
    "check_seconds",
    "compiler_for",
    "own_python",
    "sandbox_for",
]
