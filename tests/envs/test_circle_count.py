"""CircleCount: which number counts, and the pictures it draws."""

import gymnasium as gym
import pytest
from testing import message, row
from verifier_vectors import replay_all

CIRCLES = [{"color": "red"}, {"color": "blue", "x": 3, "y": 4, "radius": 2}, {"color": "red"}]


def play(text, **kwargs):
    """(reward, predicted count) of an answer where two circles are red."""
    env = gym.make("gym_llm/CircleCount-v0", **kwargs)
    env.reset(options={"task": row("How many?", circles=CIRCLES, target_color="red")})
    _, reward, terminated, _, info = env.step(message(text))
    assert terminated and info["expected_count"] == 2 and info["correct"] is (reward == 1.0)
    return reward, info.get("predicted_count")


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("circle_count")) >= 3


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (r"\boxed{2}", 2),
        (r"\boxed{3}, no: \boxed{2}", 2),
        (r"\boxed{ 02 }", 2),
        (r"\boxed{-2}", None),
        (r"\boxed{2.0}", 2),
        (r"\boxed{2 \text{ circles}}", 2),
        (r"\boxed{2}, put in \boxed{} as asked", 2),
        (r"\boxed{2.5}", None),
        (r"\boxed{two}", 2),
        (r"\boxed{}", None),
        (r"\boxed{" + "9" * 5_000 + "}", None),
        ("2", None),
    ],
)
def test_the_number_in_the_last_box_counts(text, count):
    assert play(text) == (float(count == 2), count)


def test_nemo_gym_reads_the_first_box_of_digits():
    text = r"\boxed{x} \boxed{3} \boxed{2}"
    assert play(text) == (1.0, 2)
    assert play(text, conform="nemo") == (0.0, 3)
    assert play(r"\boxed{" + "9" * 5_000 + "}", conform="nemo") == (0.0, None)


def test_a_color_that_is_not_there_is_counted_zero():
    env = gym.make("gym_llm/CircleCount-v0")
    env.reset(options={"task": row("How many?", circles=CIRCLES, target_color="green")})
    assert env.step(message(r"\boxed{0}"))[1] == 1.0
