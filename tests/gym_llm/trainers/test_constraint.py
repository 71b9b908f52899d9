"""A task's `text.format` is followed or refused, never left out."""

import importlib.util

import pytest

from gym_llm.engines.sampling import sampling_arguments
from gym_llm.errors import EngineError
from gym_llm.trainers.shared.text_format import for_vllm, refuse_constraint

FREE = sampling_arguments({"input": [], "temperature": 0.5})
CONSTRAINED = sampling_arguments({"input": [], "text": {"format": {"type": "json_object"}}})


def test_a_constraint_is_refused_and_nothing_else():
    refuse_constraint(FREE)
    with pytest.raises(EngineError, match="cannot be constrained: the task's text"):
        refuse_constraint(CONSTRAINED)


def test_vllm_has_a_class_for_a_constraint():
    assert for_vllm(FREE) is FREE
    if importlib.util.find_spec("vllm") is None:
        with pytest.raises(EngineError, match="cannot be constrained"):
            for_vllm(CONSTRAINED)
    else:
        assert for_vllm(CONSTRAINED)["structured_outputs"].json_object is True
