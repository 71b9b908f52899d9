"""Starting vLLM's `AsyncLLM`, and the processes that it computes in."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gym_llm.engines.prompt_ids import check_folder
from gym_llm.errors import EngineUnavailable
from gym_llm.utils.extras import INSTALL_VLLM as INSTALL
from gym_llm.utils.text import nearest

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM

_QUIET = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "LLGUIDANCE_LOG_LEVEL": "0",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "PYTHONWARNINGS": "ignore",
}
_NO_COMPILER = {"TORCH_COMPILE_DISABLE": "1"}
"""For the pocket model: compiling one kernel of the sampler takes longer than it ever saves."""


def make_llm(model: str, engine_args: Mapping[str, Any]) -> tuple[AsyncLLM, str]:
    """Start vLLM.

    Args:
        model: The engine's name for its model.
        engine_args: vLLM's engine arguments.

    Returns:
        vLLM's engine, and the method of its workers that reloads weights.

    Raises:
        EngineUnavailable: If vLLM has no such argument, cannot start, or cannot load the model.
    """
    with _environment({**_QUIET, **(_NO_COMPILER if model == "pocket" else {})}):
        try:
            from vllm import AsyncEngineArgs
            from vllm.config import StructuredOutputsConfig
            from vllm.platforms import current_platform
            from vllm.v1.engine.async_llm import AsyncLLM
        except ImportError as error:
            raise EngineUnavailable(f"vLLM is installed but cannot be imported ({error}): {INSTALL}.") from error
        check_folder(model)
        names = [field.name for field in dataclasses.fields(AsyncEngineArgs)]
        for name in engine_args:
            if name not in names:
                similar = nearest(name, names)
                hint = f"did you mean {similar}?" if similar else "`vllm serve --help` names all."
                raise EngineUnavailable(f"vLLM has no engine argument {name!r}: {hint}")
        defaults: dict[str, Any] = {"disable_log_stats": True, "use_tqdm_on_load": False}
        # Without it the first constraint chooses vLLM's one backend, and JSON chooses another than grammars.
        defaults["structured_outputs_config"] = StructuredOutputsConfig(backend="guidance")
        reload = "reload_weights"
        if current_platform.is_cpu():
            # A prompt read in pieces, by a request with a seed, ends vLLM on a CPU (seen in 0.32).
            defaults["enable_chunked_prefill"] = False
            defaults["gpu_memory_utilization"] = _free_memory()
            if "worker_extension_cls" not in engine_args:
                defaults["worker_extension_cls"] = "gym_llm.engines.vllm_worker.CPUReload"
                reload = "reload_weights_and_head"
        try:
            return AsyncLLM.from_engine_args(AsyncEngineArgs(**{**defaults, **engine_args})), reload
        except Exception as error:  # whatever the model, the device or the arguments led to
            raise EngineUnavailable(f"vLLM cannot start with {model}: {first_line(error)}") from error


def _free_memory() -> float:
    """Half of the free memory, as a part of all: with vLLM's own default, nearly all, it starts on few CPU machines."""
    import psutil

    memory = psutil.virtual_memory()
    return max(0.01, round(0.5 * memory.available / memory.total, 2))


def first_line(error: Exception) -> str:
    """Return the sentence of an error of vLLM that says most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # pydantic puts what is wrong on its third line: "1 validation error for ModelConfig", place, message
    line = next((line for line in lines if line.startswith("Value error, ")), lines[0] if lines else "no details")
    return line.removeprefix("Value error, ").partition(" [type=")[0][:300]


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables that are not set, for vLLM and the processes that it starts meanwhile."""
    ours = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
