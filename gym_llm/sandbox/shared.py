"""The sandboxes, and compilers in them, that environments of one event loop share."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.sandbox.backends import BACKENDS, Mounts, bubblewrap_path, own_python
from gym_llm.sandbox.languages import Compiler, mounts_for
from gym_llm.sandbox.sandbox import Sandbox


def check_backend(name: str) -> str:
    """Return the name of a back end after checking it. Only its first use shows whether this machine has it.

    Raises:
        ValueError: If the name is unknown.
    """
    if name not in BACKENDS:
        raise ValueError(f"sandbox is one of {', '.join(BACKENDS)}; got {name!r}.")
    return name


def check_sandbox(name: str) -> str:
    """Return the name of a back end after checking it, and that this machine has bubblewrap. Nothing is started.

    Raises:
        ValueError: If the name is unknown.
        SandboxUnavailable: If it is bubblewrap, and that is not installed.
    """
    check_backend(name)
    if name == "bubblewrap":
        bubblewrap_path()
    return name


async def sandbox_for(
    env: VerifierEnv, backend: str = "bubblewrap", *, mounts: Mounts | None = None, preload: Sequence[str] = ()
) -> Sandbox:
    """Return the sandbox of this kind, started; it is closed with the last environment of the event loop that uses it.

    Args:
        env: The environment that asks.
        backend: Its name; see `Sandbox`.
        mounts: What is shown of this machine; this interpreter and its packages by default.
        preload: Modules that Python programs find imported already.

    Raises:
        SandboxUnavailable: If it cannot be started here.
    """
    name = json.dumps(["sandbox", backend, repr(mounts), *preload])
    sandbox: Sandbox = await env.shared(name, lambda: Sandbox(backend, mounts=mounts, preload=preload))
    return sandbox


async def compiler_for(env: VerifierEnv, language: str, backend: str = "bubblewrap") -> Compiler:
    """Return the compiler of a language, in a sandbox that shows it; its users share what it has compiled.

    Args:
        env: The environment that asks.
        language: Its name; see `gym_llm.sandbox.languages`.
        backend: As of `sandbox_for`.

    Raises:
        ValueError: If the language is unknown.
        SandboxUnavailable: If the compiler is not on this machine, or the sandbox cannot be started here.
    """
    mounts = mounts_for(language)
    shown = None if mounts == own_python() else mounts  # most need nothing but what every sandbox shows
    sandbox = await sandbox_for(env, backend, mounts=shown)
    compiler: Compiler = await env.shared(json.dumps(["compiler", backend, repr(shown)]), lambda: Compiler(sandbox))
    return compiler
