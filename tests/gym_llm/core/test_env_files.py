from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import gym_llm
from gym_llm.cli import main
from gym_llm.core.registry.env_files import env_spec, find_env

SUM = """
import gymnasium as gym
from gym_llm import VerifierEnv

class _Base(VerifierEnv):
    def generate(self, rng):
        a, b = map(int, rng.integers(1, 9, 2))
        return {"responses_create_params": {"input": f"What is {a} + {b}?"}}

    def verify(self, task, episode):
        return 0.5
"""
ONE = "\nclass Sum(_Base):\n    pass\n"
TWO = ONE + "\nclass Other(_Base):\n    pass\n"
REGISTERED = ONE + "\ngym.register('mine/Sum-v3', entry_point=Sum)\n"
LAMBDA = ONE + "\ngym.register('mine/Made-v1', entry_point=lambda **given: Sum(max_turns=7, **given))\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes a file of a name that no other test has; forgets what loading it did."""
    monkeypatch.chdir(tmp_path)
    path, modules, registry = [*sys.path], {*sys.modules}, dict(gym.registry)

    def write_file(name: str, text: str) -> Path:
        file = tmp_path / name
        file.write_text(SUM + text)
        return file

    yield write_file
    sys.path[:] = path
    for name in sys.modules.keys() - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    gym.registry.clear()
    gym.registry.update(registry)


@pytest.mark.parametrize(
    ("text", "name", "env_id"),
    [
        (ONE, "file_a.py", "file_a/Sum-v0"),
        (ONE, "./file_a.py", "file_a/Sum-v0"),
        (TWO, "file_a.py:Other", "file_a/Other-v0"),
        (TWO, "file_a.py:file_a/Sum-v0", "file_a/Sum-v0"),
        (REGISTERED, "file_a.py", "mine/Sum-v3"),
        (REGISTERED, "file_a.py:mine/Sum-v3", "mine/Sum-v3"),
        (REGISTERED, "file_a:mine/Sum-v3", "mine/Sum-v3"),
        (LAMBDA, "file_a.py:Made", "mine/Made-v1"),
    ],
)
def test_a_file_is_played_by_its_name(write, text: str, name: str, env_id: str) -> None:
    write("file_a.py", text)
    env = gym.make(find_env(name)).unwrapped
    assert env.spec.id == env_id and env.reset(seed=0)[0]["input"]
    assert env.max_turns == (7 if text is LAMBDA else 32)


def test_what_stands_for_a_file_can_be_made_in_any_process(write) -> None:
    path = write("file_b.py", LAMBDA)
    spec = pickle.dumps(env_spec(str(path)))
    code = f"import gymnasium, pickle; print(gymnasium.make(pickle.loads({spec!r})).unwrapped.max_turns)"
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, timeout=60)
    assert done.stdout == "7\n", done.stderr


def test_a_file_may_import_its_neighbours_and_be_called_like_a_module_of_pythons(write) -> None:
    write("neighbour_c.py", REGISTERED)
    path = write("random.py", "\nfrom neighbour_c import Sum\n\nclass Quiz(Sum):\n    pass\n")
    assert env_spec(str(path)).id == "random/Quiz-v0"
    import random

    assert random.__file__ != str(path)


def test_what_a_file_imports_and_registers_is_played_where_it_has_nothing_of_its_own(write) -> None:
    write("neighbour_d.py", REGISTERED)
    (path := write("file_d.py", "")).write_text("import neighbour_d\n")
    assert env_spec(str(path)).id == "mine/Sum-v3"


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        (
            TWO,
            "file_e.py",
            "file_e.py has several environments; say which: file_e.py:file_e/Sum-v0, file_e.",
        ),
        (TWO, "file_e.py:Othr", "file_e.py has no environment 'Othr'. Did you mean Other?"),
        (ONE, "file_f.py", "There is no file 'file_f.py'. Did you mean file_e.py?"),
        (ONE, "no/such/file.py", "There is no file 'no/such/file.py'."),
        (ONE + "\nraise OSError('no disk')\n", "file_e.py", "file_e.py, line 16: OSError: no disk"),
        (ONE + "\nraise SystemExit(3)\n", "file_e.py", "file_e.py, line 16: SystemExit: 3"),
        ("\nx = (", "file_e.py", "file_e.py: SyntaxError: '(' was never closed"),
        ("", "file_e.py", "file_e.py has no environment: a class that derives from gym_llm.VerifierEnv."),
        (
            REGISTERED,
            "mine/Sum-v3",
            "There is no environment 'mine/Sum-v3' yet: file_e.py here may register it; gi",
        ),
        (ONE, "file_g:mine/Sum-v3", "There is no module 'file_g': it is not installed, and no file_g.py lies in this"),
        (ONE, "file_e:file_e/Smu-v0", "file_e.py has no environment 'file_e/Smu-v0'. Did you mean file_e/Sum-v0?"),
    ],
)
def test_what_cannot_be_played_is_one_sentence(write, text: str, name: str, sentence: str, capsys) -> None:
    write("file_e.py", text)
    assert main(["rollout", name, "--output", "out.jsonl"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"gym-llm: {sentence}") and error.count("\n") == 1
    assert not Path("out.jsonl").exists()


def test_a_file_is_rolled_out_and_resumed_like_a_registered_environment(write, capsys) -> None:
    write("file_h.py", REGISTERED)
    command = ["rollout", "./file_h.py", "--episodes", "3", "--output", "out.jsonl", "--quiet"]
    assert main(command) == 0 and main([*command[:3], "6", *command[4:], "--resume"]) == 0
    records = gym_llm.collect("file_h.py", episodes=2)
    assert {record["env_id"] for record in records} == {"mine/Sum-v3"}
    assert len(Path("out.jsonl").read_text().splitlines()) == 6


def test_workers_load_the_file_themselves(write, ray) -> None:
    path = write("file_i.py", LAMBDA)
    records = gym_llm.collect(f"{path}:Made", episodes=4, workers=2)
    assert [record["reward"] for record in records] == [0.5] * 4
    assert {record["env_id"] for record in records} == {"mine/Made-v1"}
