"""What `VLLMParser` does without vLLM; tests/vllm has the rest."""

import importlib.util
import json

import gymnasium as gym
import pytest

import gym_llm  # noqa: F401 - registers the environments
from gym_llm.tokens.parsers.vllm_parsers import lost_words, markup_words
from gym_llm.wrappers import VLLMParser


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_the_error_says_how_to_install_it() -> None:
    with pytest.raises(gym.error.DependencyNotInstalled, match=r"VLLMParser needs vLLM: pip install -e '.*\[vllm\]'"):
        VLLMParser(gym.make("gym_llm/Weather-v0"), "pocket", "qwen3")


def test_a_parser_has_to_be_named() -> None:
    with pytest.raises(ValueError, match="Give a reasoning_parser, a tool_call_parser, or both"):
        VLLMParser(gym.make("gym_llm/Weather-v0"), "pocket")


@pytest.mark.parametrize(
    ("text", "kept", "lost"),
    [
        ("", [], []),
        ("It rains.", ["It", "rains"], []),
        ("It rains and rains.", ["It rains and."], ["rains"]),
        ("<function=f> x </function>[TOOL_CALLS]", ["f", '{"x": 1}'], []),
        ('{"name": "f", "arguments": {"x": 3.50}}', ["f", '{"x": 3.5}'], []),
        ("f(x=True, y=None)", ["f", '{"x": true, "y": null}'], []),
        ("f(x='Å\nb')", ["f", json.dumps({"x": "Å\nb"})], []),
        ("f(x='Å\nb')", ["f", json.dumps({"x": ["Å"]})], ["b"]),
        ("section 4 begin: f", ["f"], ["section"]),
        ("f " + '{"a":' * 9000, ["f", '{"a":' * 9000 + "\\"], []),
    ],
)
def test_words_that_a_parser_lost(text: str, kept: list[str], lost: list[str]) -> None:
    assert lost_words(text, kept, markup_words(["<|begin|>"])) == lost
