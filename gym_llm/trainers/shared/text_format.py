"""A task's `text.format` where a trainer samples: for vLLM, or refused."""

from __future__ import annotations

from typing import Any

from gym_llm.errors import EngineError


def refuse_constraint(arguments: dict[str, Any]) -> None:
    """Refuse arguments of `sampling_arguments` that constrain the text, for trainers that would leave that out.

    Raises:
        EngineError: If there is a constraint.
    """
    if arguments.get("structured_outputs"):
        raise EngineError("This trainer's sampling cannot be constrained: the task's text.format cannot be followed.")


def for_vllm(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `sampling_arguments` as vLLM's `SamplingParams` takes them: a constraint is a class of its own.

    Raises:
        EngineError: If there is a constraint, and no vLLM in this environment.
    """
    constraint = arguments.get("structured_outputs")
    if not constraint:
        return arguments
    try:
        from vllm.sampling_params import StructuredOutputsParams
    except ImportError:
        refuse_constraint(arguments)
    return {**arguments, "structured_outputs": StructuredOutputsParams(**constraint)}
