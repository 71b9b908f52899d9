"""Parsers by name: ours, and another package's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gym_llm.tokens.parsers import make_parser, parser_names
from gym_llm.tokens.parsers.reasoning import Reasoning

THEIRS = '''
print("imported")
from gym_llm.tokens.parsers.parser import MessageParser, Thought, WrittenCall

class Stars(MessageParser):
    """Thinking stands between stars, and what begins with an exclamation mark is a call."""

    def __init__(self, star="*"):
        self.star = star

    def concerns(self, text):
        return self.star in text

    def read(self, message, text, turn):
        before, thought, after = text.split(self.star)
        return [before, Thought(thought), WrittenCall(after[1:], "{}") if after.startswith("!") else after]
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with an installed package that has a parser."""
    info = tmp_path / "their_parsers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-parsers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[gym_llm.parsers]\nstars = their_parsers:Stars\nharmony = their_parsers:Stars\n"
    )
    (tmp_path / "their_parsers.py").write_text(THEIRS)
    return tmp_path


def run(package: Path, code: str) -> list[str]:
    """What Python code prints where the package is installed."""
    paths = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=package,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_another_packages_parser_is_found_by_its_entry_point(package: Path) -> None:
    code = """if True:
        import sys
        import gym_llm, gymnasium
        from gym_llm.tokens.parsers import make_parser, parser_names
        from gym_llm.wrappers import ParseActions
        assert parser_names() == ["harmony", "reasoning", "stars", "tool_calls", "vllm"]
        assert "their_parsers" not in sys.modules
        env = ParseActions(gymnasium.make("gym_llm/Weather-v0"), "stars", star="#")
        again = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
        for made in (env, again):
            made.reset(seed=0)
            observation, *_ = made.step([{"role": "assistant", "content": "So.#Hm.#!get_weather"}])
            print([item.get("type") for item in observation["input"][-4:]])
        try:
            make_parser("stars", stra="#")
        except TypeError as error:
            print(error)
    """
    assert run(package, code) == [
        "imported",
        *["[None, 'reasoning', 'function_call', 'function_call_output']"] * 2,
        "The parser stars has no option 'stra'. Did you mean star? Its options: star.",
    ]


def test_our_names_stay_ours(package: Path) -> None:
    code = (
        "import sys; from gym_llm.tokens.parsers import make_parser; print(type(make_parser('reasoning')).__module__)"
    )
    assert run(package, code) == ["gym_llm.tokens.parsers.reasoning"]
    pytest.importorskip("openai_harmony")
    assert run(package, code.replace("'reasoning'", "'harmony'")) == ["gym_llm.tokens.parsers.harmony"]


@pytest.mark.slow
def test_the_command_line_takes_its_name(package: Path) -> None:
    code = """if True:
        from gym_llm.cli import main
        common = ["rollout", "gym_llm/FollowUp-v0", "--limit", "1", "--quiet", "--max-output-tokens", "4"]
        assert main([*common, "--output", "a.jsonl", "--reasoning-parser", "stars"]) == 0
        assert main([*common, "--output", "b.jsonl", "--tool-call-parser", "stars"]) == 0
        assert main([*common, "--output", "c.jsonl", "--tool-call-parser", "star"]) == 2
    """
    assert run(package, code) == ["imported"]
    for file in ("a.jsonl", "b.jsonl"):
        assert json.loads((package / file).read_text())["error"] is None
    assert not (package / "c.jsonl").exists()


def test_nothing_heavy_is_imported_until_it_is_used() -> None:
    code = (
        "import sys, gym_llm.tokens.parsers as p\n"
        "p.parser_names(); p.make_parser('reasoning'); p.make_parser('tool_calls')\n"
        "heavy = {'vllm', 'openai_harmony', 'torch', 'gym_llm.engines', 'gym_llm.tokens.parsers.vllm_parsers'}\n"
        "print(heavy & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60) == "set()\n"


def test_unknown_names_and_options_name_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"^There is no parser 'harmoni'\. Did you mean harmony\? There are harmony, "):
        make_parser("harmoni")
    with pytest.raises(TypeError, match=r"no option 'strat'\. Did you mean start\? Its options: start, end\.$"):
        make_parser("reasoning", strat="<think>")
    with pytest.raises(TypeError, match="'model'"):
        make_parser("vllm")


def test_options_are_the_parsers() -> None:
    parser = make_parser("reasoning", start="[THINK]", end="[/THINK]")
    assert isinstance(parser, Reasoning) and (parser.start, parser.end) == ("[THINK]", "[/THINK]")
    with pytest.raises(ValueError, match="'yaml'"):
        make_parser("tool_calls", format="yaml")
    assert parser_names() == sorted(parser_names())
