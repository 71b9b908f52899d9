"""MathVerify: the math-verify library's verdicts, in processes that can be killed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import DependencyNotInstalled
from gymnasium.utils.env_checker import check_env
from testing import scored

import gym_llm  # noqa: F401 - registers the ids
from gym_llm.errors import DataError

pytest.importorskip("math_verify")
VECTORS = Path(os.environ.get("GYM_LLM_VECTORS") or Path(__file__).parents[3] / "shared" / "vectors")


def play(expected: str, text: str, **kwargs: Any) -> tuple[float, dict[str, Any]]:
    """(reward, info) of an episode in which the model says `text`."""
    env = gym.make("gym_llm/MathVerify-v0", **kwargs)
    env.reset(options={"task": {"responses_create_params": {"input": "?"}, "expected_answer": expected}})
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    _, reward, terminated, _, info = env.step([message])
    assert terminated
    return float(reward), info


@pytest.mark.parametrize(
    ("expected", "text", "reward"),
    [
        ("12", r"so \boxed{12}.", 1.0),
        (r"\(12\)", r"\boxed{12}", 1.0),
        ("$12$", "The final answer is 12. I hope it is correct.", 1.0),
        ("$$12$$", "The answer is $12$", 1.0),
        (r"\frac{1}{2}", r"\boxed{0.5}", 1.0),
        (r"\frac{1}{2}", r"\boxed{2/4}", 1.0),
        (r"\{2, 3\}", r"\boxed{3, 2}", 1.0),
        ("x^2+1", r"\boxed{1+x^2}", 1.0),
        ("720", r"\boxed{6!}", 1.0),
        ("12", r"\boxed{12} no, \boxed{13}", 0.0),
        ("12", r"\boxed{21}", 0.0),
        ("12", "I do not know", 0.0),
        ("12", "", 0.0),
        ("12", r"\boxed{NaN}", 0.0),
        ("12", "\\boxed{\ud800}", 0.0),
        ("12", "\\boxed{\x00", 0.0),
        ("12", "{" * 300 + r"\boxed{" + "}" * 200, 0.0),
    ],
)
def test_answers_are_compared_as_mathematics(expected: str, text: str, reward: float) -> None:
    got, info = play(expected, text)
    assert (got, info["timed_out"]) == (reward, False)


@pytest.mark.parametrize(
    ("expected", "text", "reward", "nemo"),
    [
        ("70", r"\boxed{70\%}", 0.0, 0.0),
        ("70", "70%", 0.0, 1.0),  # math-verify 0.8.0 compares the digits, too
        ("70", "The answer is 70 percent.", 0.0, 1.0),
        ("12.5", r"\boxed{12.5\%}", 0.0, 0.0),
        ("0.7", r"\boxed{70\%}", 1.0, 1.0),
        (r"\{5, 70\}", r"\boxed{5, 70\%}", 0.0, 0.0),
        (r"70\%", r"\boxed{70}", 1.0, 0.0),
        (r"12.5\%", r"\boxed{12.5}", 1.0, 0.0),
        (r"70\%", r"\boxed{0.7}", 1.0, 1.0),
        (r"70\%", r"\boxed{70\%}", 1.0, 1.0),
        ("3.5", "3.5.0", 0.0, 1.0),
        ("0", r"\boxed{3.5.0}", 0.0, 1.0),
        ("3.5", "It is 3.5.", 1.0, 1.0),
        ("3.5", r"In version 3.5.0 it is \boxed{3.5}.", 1.0, 1.0),
    ],
)
def test_a_percentage_equals_its_number_only_where_one_is_expected(
    expected: str, text: str, reward: float, nemo: float
) -> None:
    task = {"responses_create_params": {"input": "?"}, "expected_answer": expected, "question": "?"}
    as_theirs, _ = scored("gym_llm/MathWithJudge-v0", text, {"conform": "nemo"}, **task)
    assert (play(expected, text)[0], as_theirs) == (reward, nemo)


def test_details_say_what_was_found() -> None:
    _, info = play("12", r"\boxed{\frac{24}{2}}")
    assert info["extracted_answer"] == r"\frac{24}{2}"
    assert info["math_verify_version"]
    assert play("12", "Who knows?")[1]["extracted_answer"] is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hang", "answer"),
    [
        (r"\boxed{9^{9^{9^{9}}}}", "9^{9^{9^{9}}}"),
        (r"\boxed{(10^{10})!}", "(10^{10})!"),
        ("10**10**10", "10**10**10"),
        ("1 " * 500_000, None),
    ],
    ids=["a tower", "a factorial", "a power", "many numbers"],
)
def test_what_hangs_sympy_costs_the_deadline_and_the_answer_is_kept_if_it_was_found(
    hang: str, answer: str | None
) -> None:
    play("12", r"\boxed{12}", deadline=1.0, workers=1)  # the worker is up
    reward, info = play("12", hang, deadline=1.0, workers=1)
    assert (reward, info["timed_out"], info["extracted_answer"]) == (0.0, True, answer)
    assert play("12", r"\boxed{12}", deadline=1.0, workers=1)[0] == 1.0


def test_the_limit_is_the_same_as_nemo_gyms_for_reading_and_comparing_together() -> None:
    assert gym.make("gym_llm/MathVerify-v0").unwrapped.deadline == 10.0  # type: ignore[attr-defined]


def test_the_shortcuts_for_numbers_give_what_the_library_gives() -> None:
    script = """
import math_verify.parser, random
library = math_verify.parser.parse_latex_cached.__wrapped__
from gym_llm.envs.math_verify.grading import parse_number
from sympy import srepr
rng = random.Random(0)
numbers = [0, 1, 7, 10, 100, 10**15 - 1] + [rng.randrange(10 ** rng.randint(1, 15)) for _ in range(60)]
texts = [f"{n}" for n in numbers] + [f"-{n}" for n in numbers if n]
texts += [f"\\\\frac{{{n}}}{{{d}}}" for n, d in zip(numbers, numbers[1:] + [3]) if d]
for text in texts:
    assert parse_number(text) is not None, text
    assert srepr(parse_number(text)) == srepr(library(text)), text
for text in ["", "-0", "007", "1.5", "1,000", "x", "12x", "\\\\frac{1}{0}", "\\\\frac{1}{2}x", "1" * 16]:
    assert parse_number(text) is None, text
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_parent_process_never_imports_sympy() -> None:
    code = (
        "import sys, gymnasium, gym_llm; env = gymnasium.make('gym_llm/MathVerify-v0'); env.reset(seed=0);"
        "env.step([{'type': 'message', 'role': 'assistant', 'content': [{'type': 'output_text', 'text': '1'}]}]);"
        "assert 'sympy' not in sys.modules and 'math_verify' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_wrong_settings_and_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for kwargs in ({"deadline": 0}, {"deadline": "5"}, {"workers": 0}):
        with pytest.raises(ValueError, match="got"):
            gym.make("gym_llm/MathVerify-v0", **kwargs)
    for expected in ("", " ", "$$", r"\(\)"):
        with pytest.raises(DataError, match="expected_answer is empty"):
            play(expected, "1")
    for expected in ("$", " $ ", "$ $$"):
        with pytest.raises(DataError, match="is not an expression"):
            play(expected, "1")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DependencyNotInstalled, match=r"pip install -e '.*\[math\]'"):
        gym.make("gym_llm/MathVerify-v0")


def test_an_expected_answer_that_the_library_cannot_read_is_no_reward() -> None:
    with pytest.raises(RuntimeError, match="math-verify cannot read the expected answer"):
        play(r"\text{}", "1")  # in a rollout this masks the episode


def test_recorded_episodes_replay_exactly() -> None:
    path = VECTORS / "math_verify.jsonl"
    if not path.exists():
        pytest.skip(f"no vectors in {VECTORS}")
    for line in path.read_text().splitlines():
        vector = json.loads(line)
        # One of them takes 4 to 8 s of CPU time: a slow machine is not to decide whether they are right.
        env = gym.make("gym_llm/MathVerify-v0", tasks=[vector["task"]], deadline=120.0)
        env.reset(options={"task_index": 0})
        assert env.step(vector["output"])[1] == vector["library_reward"], vector["source"]


def test_the_example_tasks_are_five_and_pass_gymnasiums_checker() -> None:
    env = gym.make("gym_llm/MathVerify-v0").unwrapped
    assert env.num_tasks == 5  # type: ignore[attr-defined]
    check_env(env, skip_render_check=True)
