"""GUICoordinate: how a point is read, and what a distance is worth."""

from functools import partial

import gymnasium as gym
import pytest
from testing import cpu_seconds, message, row
from verifier_vectors import replay_all

from gym_llm.envs.gui_coordinate.env import _read_point
from gym_llm.errors import DataError


def play(text, expected="0.5,0.5", max_dist=0.15, **kwargs):
    env = gym.make("gym_llm/GUICoordinate-v0", **kwargs)
    env.reset(options={"task": row("Where?", expected_answer=expected, max_dist=max_dist)})
    _, reward, terminated, _, info = env.step(message(text))
    assert terminated
    return reward, info["extracted_x"], info["extracted_y"], info["distance"]


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("gui_coordinate")) >= 3


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("<point>(630, 610)</point>", (0.63, 0.61)),
        ("<point>[(630,610)]</point>", (0.63, 0.61)),
        ("<point> [ ( 630 , 610 ) ] </point>", (0.63, 0.61)),
        ("<point>(1, 1)</point> or <point>(630, 610)</point>", (0.63, 0.61)),
        ("<point>(630, 610)</point> <point>(630, 1610)</point>", (0.63, 0.61)),
        ("<point>(630, 610)</point> <point>(1, 2</point>", (0.63, 0.61)),
        ("<point>(6.5, 610)</point>", None),
        ("<point>630, 610</point>", None),
        ("<point>(-630, 610)</point>", None),
        ("(630, 610)", None),
    ],
)
def test_the_last_point_in_the_picture_is_read(text, point):
    assert _read_point(text, conform=False) == point


def test_the_reward_falls_to_zero_at_the_distance_that_is_worth_nothing():
    assert play("<point>(500, 500)</point>") == (1.0, 0.5, 0.5, 0.0)
    reward, x, y, distance = play("<point>(530, 540)</point>")
    assert (x, y) == (0.53, 0.54) and distance == pytest.approx(0.05) and reward == pytest.approx(4 / 9)
    assert play("<point>(750, 500)</point>", max_dist=0.25)[0] == 0.0
    assert play("<point>(500, 500)</point>", max_dist=0.0)[0] == 0.0
    assert play("In the middle.") == (0.0, None, None, None)


def test_nemo_gym_reads_the_first_point_wherever_it_is():
    text = "<point>(2000, 0)</point> <point>(500, 500)</point>"
    assert play(text)[1:3] == (0.5, 0.5)
    assert play(text, conform="nemo")[1:3] == (2.0, 0.0)


@pytest.mark.parametrize("expected", ["", "0.5", "0.5,0.5,0.5", "a,b", "nan,0.5", "inf,0"])
def test_a_place_that_is_none_is_the_authors_mistake(expected):
    with pytest.raises(DataError, match="expected_answer is two numbers"):
        play("<point>(1, 1)</point>", expected=expected)


@pytest.mark.parametrize("unit", ["<point>", "<point>(", "<point>(1, 1", "<point>(1, 1)", "<point> ", "<point>[("])
def test_hostile_texts_cost_little(unit):
    text = unit * (1_000_000 // len(unit))
    assert all(cpu_seconds(partial(_read_point, conform=conform), text) < 1.0 for conform in (False, True))


def test_generated_tasks_are_answered_by_their_place():
    env = gym.make("gym_llm/GUICoordinate-v0").unwrapped
    for index in range(20):
        env.reset(options={"task_index": index})
        x, y = env.tasks[index].task.expected_answer
        assert env.step(message(f"<point>({x * 1000:.0f}, {y * 1000:.0f})</point>"))[1] > 0.98
