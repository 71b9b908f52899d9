"""The public set of holes: each exploit is paid by the verifier that has the hole, and not by the sound one."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import warnings
from typing import Any

import gymnasium as gym
import pytest
from attack_set.holes import HOLES, TOLD, Hole, Play
from gymnasium.utils.env_checker import check_env
from testing import ROOT, cpu_seconds, message, outputs

from gym_llm.env import VerifierEnv
from gym_llm.env_files import dry_run_kwargs, env_spec

NAMES = [name for hole in HOLES for name in (hole.holed, hole.sound)]
every_hole = pytest.mark.parametrize("hole", HOLES, ids=[hole.id for hole in HOLES])
every_verifier = pytest.mark.parametrize("name", NAMES)


def make(name: str) -> VerifierEnv:
    env: Any = gym.make(name, disable_env_checker=True, **dry_run_kwargs(name)).unwrapped
    return env


def play(env: VerifierEnv, episode: Play) -> float:
    """The reward of an episode; where the turns of it are not enough `Done.` is said."""
    observation, _ = env.reset(options={"task_index": episode.task})
    turns = list(episode.turns)
    while True:
        turn = turns.pop(0) if turns else "Done."
        if isinstance(turn, str):
            numbers = re.findall(r"\d+", "".join(outputs(observation)[-1:]))
            turn = message(turn.replace(TOLD, "".join(numbers[-1:])))
        observation, reward, terminated, truncated, _ = env.step(turn)
        if terminated or truncated:
            return float(reward)


def exploited(name: str, hole: Hole) -> float:
    """What a verifier pays for a hole's exploit."""
    env = make(name)
    try:
        for episode in hole.before:
            play(env, episode)
        return play(env, hole.exploit)
    finally:
        env.close()


def test_there_are_forty_pairs_of_at_least_twenty_five_kinds() -> None:
    assert len(HOLES) == 40 and len(set(NAMES)) == 80
    assert len({hole.kind for hole in HOLES}) >= 25
    assert len({hole.id for hole in HOLES}) == 40


@every_hole
def test_the_exploit_is_paid_by_the_holed_one_alone(hole: Hole) -> None:
    assert exploited(hole.sound, hole) == pytest.approx(hole.deserves)
    if hole.shows != "by hash seed":
        assert exploited(hole.holed, hole) == pytest.approx(hole.pays)
    assert hole.pays > hole.deserves or hole.shows == "in time"


@every_hole
def test_the_two_differ_by_what_the_holed_one_overrides(hole: Hole) -> None:
    holed, sound = type(make(hole.holed)), type(make(hole.sound))
    assert holed.__mro__[1] is sound and holed.rows is sound.rows and sound.__doc__


def oracle(env: VerifierEnv, index: int) -> list[Any]:
    """The turns of a task's oracle: said again where the user asks on, and once if its calls are run."""
    env.reset(options={"task_index": index})
    answer = env.oracle(env._task)
    runs_calls = env.executes_tools and isinstance(answer, list)
    return [answer] if runs_calls else [answer] * 5


@every_verifier
def test_an_oracle_gets_full_marks_for_every_task(name: str) -> None:
    env = make(name)
    tasks = env.num_tasks
    assert tasks is not None and 3 <= tasks <= 5
    for index in range(tasks):
        assert play(env, Play(index, oracle(env, index))) == pytest.approx(1.0), index
    env.close()


@pytest.mark.parametrize("name", [hole.sound for hole in HOLES])
def test_a_sound_one_pays_no_full_marks_for_the_answer_to_another_task(name: str) -> None:
    env = make(name)
    for index, other in itertools.permutations(range(env.num_tasks or 0), 2):
        assert play(env, Play(index, oracle(env, other))) < 1.0, (index, other)
    env.close()


@every_verifier
def test_gymnasium_has_nothing_to_say(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(name), skip_render_check=False)
        assert env_spec(name).entry_point == name
    assert not caplog.records


@pytest.mark.parametrize("name", [hole.sound for hole in HOLES])
def test_a_sound_one_pays_nothing_for_what_anybody_may_say(name: str) -> None:
    env = make(name)
    for index in range(env.num_tasks or 0):
        prompt = env.tasks[index].request["input"][-1]["content"]
        for text in ("", " ", "I do not know.", "Answer:", "Answer: nan", "Answer: the", "[]", "{}", "null", prompt):
            assert play(env, Play(index, [text] * 10)) <= 0.0, (index, text)
    env.close()


@pytest.mark.slow
def test_a_verdict_of_the_hole_by_hash_depends_on_the_process() -> None:
    (hole,) = (hole for hole in HOLES if hole.shows == "by hash seed")
    code = (
        "import json, sys, gymnasium as gym, gym_llm\n"
        "texts, index, names = json.loads(sys.argv[1])\n"
        "said = [[{'type': 'message', 'role': 'assistant', 'content': text}] for text in texts]\n"
        "envs = [gym.make(name).unwrapped for name in names]\n"
        "for env in envs: env.reset(options={'task_index': index})\n"
        "print(json.dumps([float(env.step(said[0])[1]) for env in envs]))\n"
    )
    arguments = json.dumps([hole.exploit.turns, hole.exploit.task, [hole.holed, hole.sound]])
    seen = set()
    for seed in range(40):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        done = subprocess.run(
            [sys.executable, "-c", code, arguments], capture_output=True, text=True, env=environment, cwd=ROOT
        )
        assert done.returncode == 0, done.stderr
        holed, sound = json.loads(done.stdout)
        assert sound == hole.deserves
        seen.add(holed)
        if len(seen) == 2:
            break
    assert seen == {0.0, hole.pays}


def test_the_hole_in_time_costs_many_times_more_than_the_sound_one() -> None:
    (hole,) = (hole for hole in HOLES if hole.shows == "in time")
    holed, sound = (min(cpu_seconds(exploited, name, hole) for _ in range(2)) for name in (hole.holed, hole.sound))
    assert holed > 5 * sound
