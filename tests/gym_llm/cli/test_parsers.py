"""`--reasoning-parser` and `--tool-call-parser` where vLLM is not needed; tests/vllm has the rest."""

import importlib.util
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gym_llm.cli import main
from gym_llm.errors import UsageError
from gym_llm.rollouts.workload import Part
from gym_llm.tokens.parsers import vllm_parsers as vllm_parser
from gym_llm.utils.extras import install
from gym_llm.wrappers import (
    HarmonyParser,
    ParseActions,
    ReasoningParser,
    TokenIdTracking,
    ToolCallParser,
    VLLMParser,
)

ENV = "gym_llm/Arithmetic-v0"


def wrappers(
    reasoning: str | None, calls: str | None, engine: str = "vllm:org/name", **options: Any
) -> Sequence[Any] | None:
    return Part(ENV, engine, engine_options=options).wrappers(reasoning, calls)


def named(wrap: Any) -> Any:
    return (wrap.func, wrap.keywords) if isinstance(wrap, partial) else wrap


@pytest.mark.parametrize(
    ("engine", "options", "model"),
    [
        ("vllm:org/name", {}, "org/name"),
        ("transformers:org/name", {}, "org/name"),
        ("pocket", {}, "pocket"),
        ("http://host/v1", {"model": "org/name"}, "org/name"),
        ("http://host/v1", {"model": "alias", "tokenizer": "org/name"}, "org/name"),
    ],
)
def test_a_named_parser_takes_the_place_of_ours(
    monkeypatch: pytest.MonkeyPatch, engine: str, options: dict[str, Any], model: str
) -> None:
    checked = []
    monkeypatch.setattr(vllm_parser, "parser_class", lambda *names: checked.append(names))
    both = wrappers("qwen3", "hermes", engine, **options)
    keywords = {"model": model, "reasoning_parser": "qwen3", "tool_call_parser": "hermes"}
    assert list(map(named, both or ())) == [(VLLMParser, keywords), TokenIdTracking]
    only_calls = wrappers(None, "hermes", engine, **options)
    keywords = {"model": model, "reasoning_parser": None, "tool_call_parser": "hermes"}
    assert list(map(named, only_calls or ())) == [(VLLMParser, keywords), ReasoningParser, TokenIdTracking]
    only_reasoning = wrappers("qwen3", None, engine, **options)
    keywords = {"model": model, "reasoning_parser": "qwen3", "tool_call_parser": None}
    assert list(map(named, only_reasoning or ())) == [ToolCallParser, (VLLMParser, keywords), TokenIdTracking]
    assert checked == [(model, "qwen3", "hermes"), (model, None, "hermes"), (model, "qwen3", None)]


def test_without_names_all_is_as_usual() -> None:
    assert wrappers(None, None) is None


def test_gpt_oss_has_a_parser_of_its_own() -> None:
    pytest.importorskip("openai_harmony")
    for names in (("openai_gptoss", "openai"), ("openai_gptoss", None), (None, "openai"), ("harmony", None)):
        assert wrappers(*names, engine="http://host/v1") == [HarmonyParser, TokenIdTracking]


def test_registered_parsers_are_named_like_vllms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_parser, "parser_class", lambda *names: None)
    reasoning, calls = (ParseActions, {"name": "reasoning"}), (ParseActions, {"name": "tool_calls"})

    def layers(*names: str | None) -> list[Any]:
        return list(map(named, wrappers(*names) or ()))

    assert layers("reasoning", None) == [ToolCallParser, reasoning, TokenIdTracking]
    assert layers(None, "tool_calls") == [calls, ReasoningParser, TokenIdTracking]
    assert layers("reasoning", "tool_calls") == [calls, reasoning, TokenIdTracking]
    assert layers("reasoning", "reasoning") == [reasoning, TokenIdTracking]  # a parser that finds both
    keywords = {"model": "org/name", "reasoning_parser": "qwen3", "tool_call_parser": None}
    assert layers("qwen3", "tool_calls") == [calls, (VLLMParser, keywords), TokenIdTracking]
    keywords = {"model": "org/name", "reasoning_parser": None, "tool_call_parser": "hermes"}
    assert layers("reasoning", "hermes") == [(VLLMParser, keywords), reasoning, TokenIdTracking]


def test_a_parser_that_needs_options_cannot_be_named() -> None:
    with pytest.raises(UsageError, match=r"has to be given options cannot be named here: .*'model'"):
        wrappers("vllm", None)


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_a_misspelt_name_without_vllm_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"VLLMParser needs vLLM: .* Did you mean tool_calls\?"):
        wrappers(None, "tool_cals")


def test_the_model_has_to_be_known() -> None:
    with pytest.raises(UsageError, match="the tokenizer of the model that http://host/v1 serves: give --model"):
        wrappers("qwen3", None, "http://host/v1")


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_the_command_says_how_to_install_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.jsonl"
    assert main(["rollout", ENV, "--output", str(output), "--tool-call-parser", "hermes"]) == 2
    assert capsys.readouterr().err.startswith(f"gym-llm: VLLMParser needs vLLM: {install('vllm')}")
    assert not output.exists()


def test_a_run_is_not_resumed_with_other_parsers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("openai_harmony")
    output = str(tmp_path / "out.jsonl")
    command = ["rollout", ENV, "--output", output, "--limit", "2", "--quiet", "--max-output-tokens", "4"]
    assert main([*command, "--reasoning-parser", "openai_gptoss"]) == 0
    assert main([*command, "--reasoning-parser", "openai_gptoss", "--resume"]) == 0
    assert main([*command, "--resume"]) == 2
    assert "other settings (reasoning_parser was" in capsys.readouterr().err
