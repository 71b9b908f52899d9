import pytest

from gym_llm.engines.sampling import sampling_arguments
from gym_llm.errors import EngineError


def test_nulls_and_fields_that_are_not_about_sampling_are_left_out():
    request = {"input": [], "temperature": None, "stop": None, "metadata": {"a": "b"}, "user": "u", "store": True}
    assert sampling_arguments(request) == {"max_tokens": None, "logprobs": 0}


@pytest.mark.parametrize(("limit", "expected"), [(None, 7), (3, 3), (1, 1)])
def test_the_requests_limit_wins(limit, expected):
    assert sampling_arguments({"max_output_tokens": limit}, max_new_tokens=7)["max_tokens"] == expected


def test_formats_become_structured_outputs():
    schema = {"type": "object"}
    formats = {
        "text": None,
        "json_object": {"json_object": True},
        "json_schema": {"json": schema},
    }
    for kind, expected in formats.items():
        arguments = sampling_arguments({"text": {"format": {"type": kind, "schema": schema}}})
        assert arguments.get("structured_outputs") == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": "hot"},
        {"top_p": True},
        {"max_output_tokens": 1.5},
        {"seed": 1 << 63},
        {"stop": [5]},
        {"stop_token_ids": ["5"]},
        {"ignore_eos": 1},
        {"text": {"format": {"type": "json_schema"}}},
    ],
)
def test_a_value_that_vllm_would_not_survive_is_refused(fields):
    with pytest.raises(EngineError):
        sampling_arguments(fields)
