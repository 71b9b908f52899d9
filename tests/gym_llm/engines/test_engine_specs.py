"""Engines named by strings."""

import subprocess
import sys

import pytest

from gym_llm.engines import make_engine
from gym_llm.engines.http import HTTPEngine
from gym_llm.engines.replay import ReplayEngine
from gym_llm.errors import EngineUnavailable


def test_urls_name_http_engines() -> None:
    engine = make_engine("http://a:1/v1,https://b/v1/", model="m", api="responses")
    assert isinstance(engine, HTTPEngine)
    assert repr(engine) == "HTTPEngine('http://a:1/v1,https://b/v1', model='m', api='responses')"


def test_replay_takes_a_file() -> None:
    engine = make_engine("replay:runs/a:b.jsonl")
    assert isinstance(engine, ReplayEngine)
    assert str(engine.path) == "runs/a:b.jsonl"


@pytest.mark.parametrize(
    ("spec", "near"),
    [
        ("transformer:Qwen/Qwen3-4B", "transformers:MODEL"),
        ("transformers", "transformers:MODEL"),
        ("transformers:", "transformers:MODEL"),
        ("poket", "pocket"),
        ("pocket:large", "pocket"),
        ("htp://localhost", "http://HOST:PORT/v1"),
        ("reply:x.jsonl", "replay:FILE"),
    ],
)
def test_unknown_specs_name_the_nearest(spec: str, near: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {near}"):
        make_engine(spec)


@pytest.mark.parametrize("spec", ["", "gpt-4o", "localhost:8000/v1"])
def test_unknown_specs_name_what_there_is(spec: str) -> None:
    with pytest.raises(ValueError, match="pocket, transformers:MODEL, vllm:MODEL, http://HOST:PORT/v1, replay:FILE"):
        make_engine(spec)


def test_specs_are_strings() -> None:
    with pytest.raises(TypeError, match="got int"):
        make_engine(3)  # type: ignore[arg-type]


def test_vllm_that_is_not_installed_says_how_to_install_it() -> None:
    with pytest.raises(EngineUnavailable, match=r"pip install 'gym-llm\[vllm\]'"):
        make_engine("vllm:Qwen/Qwen3-4B")


@pytest.mark.parametrize("spec", ["http://a/v1", "replay:x.jsonl", "transformers:some/model", "pocket"])
def test_options_that_an_engine_does_not_have_are_refused(spec: str) -> None:
    with pytest.raises(TypeError, match=r"^\w+ has no option 'temprature'; its options are "):
        make_engine(spec, temprature=1)


def test_the_spec_is_no_option() -> None:
    with pytest.raises(TypeError, match="no option 'base_urls'"):
        make_engine("http://a/v1", base_urls="http://b/v1")


def test_option_values_are_checked_at_once() -> None:
    with pytest.raises(ValueError, match="api is"):
        make_engine("http://a/v1", api="soap")


def test_importing_engines_loads_none() -> None:
    code = (
        "import sys, gym_llm.engines; "
        "print([m for m in ('torch', 'transformers', 'aiohttp', 'vllm') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
