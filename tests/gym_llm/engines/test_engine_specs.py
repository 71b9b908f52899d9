"""Engines named by strings."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gym_llm.engines import WeightSync, capabilities, engine_class, make_engine
from gym_llm.engines.http import HTTPEngine
from gym_llm.engines.replay import ReplayEngine
from gym_llm.errors import EngineUnavailable

OURS = ["pocket", "transformers:some/model", "vllm:some/model", "http://a/v1", "replay:x.jsonl", "actor:x"]


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
        ("localhost:8000/v1", "http://localhost:8000/v1"),
    ],
)
def test_unknown_specs_name_the_nearest(spec: str, near: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {near}"):
        make_engine(spec)


@pytest.mark.parametrize("spec", ["", "gpt"])
def test_unknown_specs_name_what_there_is(spec: str) -> None:
    with pytest.raises(ValueError, match="pocket, transformers:MODEL, vllm:MODEL, http://HOST:PORT/v1, replay:FILE"):
        make_engine(spec)


def test_specs_are_strings() -> None:
    with pytest.raises(TypeError, match="got int"):
        make_engine(3)  # type: ignore[arg-type]


def test_vllm_that_is_not_installed_says_how_to_install_it() -> None:
    with pytest.raises(EngineUnavailable, match=r"pip install -e '.*\[vllm\]'"):
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


# -- what they can do --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", OURS)
def test_an_engine_can_do_what_its_class_declares(spec: str) -> None:
    declared, made_by = capabilities(spec), engine_class(spec)
    # Only the instances of HTTPEngine know whether their servers take weights (`takes_weights`).
    assert declared.weights == (issubclass(made_by, WeightSync) and not spec.startswith("http"))
    assert bool(declared.seed) == ("seed" in inspect.signature(made_by).parameters)


def test_what_an_engine_can_do_is_known_without_loading_anything() -> None:
    code = (
        "import sys, gym_llm.engines as engines\n"
        f"print([engines.capabilities(spec).loads_model for spec in {OURS}])\n"
        "print([m for m in ('torch', 'transformers', 'vllm', 'ray') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["[True, True, True, False, False, False]", "[]"]


def test_what_a_server_can_do_depends_on_how_it_is_asked() -> None:
    chat = make_engine("http://a/v1", model="m").capabilities
    assert (chat.token_ids, chat.forced_calls) == (False, True)
    assert make_engine("http://a/v1", model="m", token_ids=True).capabilities.token_ids
    completions = make_engine("http://a/v1", model="m", api="completions").capabilities
    assert (completions.token_ids, completions.forced_calls) == (True, False)


@pytest.mark.parametrize(
    ("options", "gpus"),
    [
        ({}, 1),
        ({"tensor_parallel_size": 2, "data_parallel_size": 3}, 6),
        ({"tensor_parallel_size": 2, "distributed_executor_backend": "ray"}, 0),
    ],
)
def test_vllm_takes_as_many_gpus_as_its_ranks_need(options: dict[str, object], gpus: int) -> None:
    assert engine_class("vllm:x").gpus(options) == gpus
    assert engine_class("pocket").gpus(options) == 0


# -- other packages' ---------------------------------------------------------------------------------------------------

THEIRS = """
import os
from gym_llm.engines import Capabilities, Engine

class Parrot(Engine):
    capabilities = Capabilities(shared=True, seed="always")

    def __init__(self, word, *, volume=1, seed=0):
        self.model, self.says = f"parrot:{word}", word * volume

    async def start(self):
        with open(os.environ["PARROTS"], "a") as file:
            file.write("one\\n")

    async def respond(self, request, *, episode_id=""):
        message = {"type": "message", "role": "assistant", "content": self.says}
        return {"id": "r", "object": "response", "created_at": 0.0, "model": self.model, "output": [message]}
"""


def with_theirs(tmp_path: Path, code: str) -> str:
    """What a process prints in whose environment their package is installed."""
    info = tmp_path / "their_engines-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-engines\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[gym_llm.engines]\nparrot = their_engines:Parrot\nbroken = their_engines_missing:Engine\n"
    )
    (tmp_path / "their_engines.py").write_text(THEIRS)
    (tmp_path / "main.py").write_text(code)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "PARROTS": str(tmp_path / "parrots")}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "main.py")], capture_output=True, text=True, timeout=240, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_another_packages_engine_is_found_by_its_entry_point(tmp_path: Path) -> None:
    code = """
import sys
from gym_llm.engines import capabilities, make_engine

def refused(*args, **options):
    try:
        make_engine(*args, **options)
    except Exception as error:
        print(type(error).__name__, error)

refused("parot:hi")
assert "their_engines" not in sys.modules
print(make_engine("parrot:hi", volume=2).says, capabilities("parrot:hi").seed)
refused("parrot")
refused("parrot:hi", loud=True)
refused("parrot:hi", word="no")
refused("broken:x")
refused("zzz")
"""
    printed = with_theirs(tmp_path, code).splitlines()
    forms = (
        "pocket, transformers:MODEL, vllm:MODEL, http://HOST:PORT/v1, replay:FILE, random, actor:NAME, "
        "actors:NAME,NAME, constant:TEXT, agent, scripted:TEXT, broken, faulty, parrot"
    )
    assert printed == [
        "ValueError Unknown engine 'parot:hi': did you mean parrot?",
        "hihi always",
        "ValueError Unknown engine 'parrot': did you mean parrot:WORD?",
        "TypeError parrot has no option 'loud'; its options are volume, seed.",
        "TypeError parrot has no option 'word'; its options are volume, seed.",
        "EngineUnavailable The engine broken cannot be imported: No module named 'their_engines_missing'.",
        f"ValueError Unknown engine 'zzz'. Engines are {forms}.",
    ]


@pytest.mark.slow
def test_another_packages_engine_plays_from_the_command_line_and_is_shared_by_workers_if_it_says_so(
    tmp_path: Path,
) -> None:
    code = """
import os, sys
import gym_llm
from gym_llm.cli import main

if __name__ == "__main__":
    argv = ["rollout", "gym_llm/Arithmetic-v0", "--engine", "parrot:4", "--limit", "1", "--seed", "5", "--quiet"]
    assert main([*argv, "--output", os.environ["PARROTS"] + ".jsonl"]) == 0
    records = gym_llm.collect("gym_llm/Arithmetic-v0", "parrot:4", limit=4, workers=2, engine_options={"volume": 3})
    print([(record["error"], record["response"]["output"][0]["content"]) for record in records])
"""
    assert with_theirs(tmp_path, code) == f"{[(None, '444')] * 4}\n"
    assert (tmp_path / "parrots").read_text() == "one\n" * 2  # here, and one for both workers
