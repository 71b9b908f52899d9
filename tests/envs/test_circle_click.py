"""CircleClick: what is a hit, and that there is one click."""

import gymnasium as gym
import pytest
from testing import function_call, message, row
from verifier_vectors import replay_all

CIRCLES = [
    {"x": 100, "y": 100, "radius": 10, "color": "red"},
    {"x": 200, "y": 100, "radius": 10, "color": "blue"},
    {"x": 300, "y": 100, "radius": 10, "color": "red"},
]


def play(*items, **kwargs):
    """(reward, clicked x, clicked y) of a turn in which red is to be clicked."""
    env = gym.make("gym_llm/CircleClick-v0", **kwargs)
    env.reset(options={"task": row("Click.", circles=CIRCLES, target_color="red")})
    _, reward, terminated, _, info = env.step(list(items))
    assert terminated and info["hit"] is (reward == 1.0)
    return reward, info.get("clicked_x"), info.get("clicked_y")


def click(**arguments):
    return function_call("click", arguments)


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("circle_click")) >= 3


@pytest.mark.parametrize(
    ("x", "y", "reward"),
    [(100, 100, 1.0), (106, 108, 1.0), (107, 108, 0.0), (300, 110, 1.0), (200, 100, 0.0), (-100, -100, 0.0)],
)
def test_a_click_in_a_circle_of_the_color_hits(x, y, reward):
    assert play(click(x=x, y=y)) == (reward, x, y)


def test_only_the_first_click_counts():
    assert play(click(x=0, y=0), click(x=100, y=100)) == (0.0, 0, 0)
    assert play(click(x=0), click(x=100, y=100)) == (0.0, None, None)
    assert play(function_call("look"), click(x=100, y=100)) == (1.0, 100, 100)


@pytest.mark.parametrize(("x", "read"), [("100", 100), (" 100", 100), (100.9, 100), (True, 1)])
def test_numbers_are_read_however_they_are_written(x, read):
    assert play(click(x=x, y=100))[1] == read


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "[1, 2]",
        '{"x": [100, 3], "y": 100}',
        '{"x": "1e2", "y": 100}',
        '{"x": 1e300, "y": 100}',
        '{"x": NaN, "y": 1}',
        f'{{"x": {"9" * 5_000}, "y": 1}}',
        f'{{"x": "{"9" * 5_000}", "y": 1}}',
        "[" * 100_000,
    ],
)
def test_what_is_no_pixel_is_no_click(arguments):
    assert play(function_call("click", arguments)) == (0.0, None, None)


def test_nemo_gym_reports_x_where_y_is_no_number():
    assert play(click(x=100, y="a")) == (0.0, None, None)
    assert play(click(x=100, y="a"), conform="nemo") == (0.0, 100, None)


@pytest.mark.parametrize(
    ("arguments", "here", "nemo"),
    [
        ('{"x": 100, "y": 100, "zz": NaN}', None, 100),
        ('{"x": 100, "y": 100, "zz": -Infinity}', None, 100),
        ('{"x": 100, "y": 100, "zz": 1e999}', None, 100),
        ('{"x": " 100 ", "y": "1_00"}', 100, 100),
        ('{"x": NaN, "y": 100}', None, None),
        ('{"x": 1e999, "y": 100}', None, None),
        (f'{{"x": {"9" * 400}, "y": 100}}', None, 10**9),
    ],
)
def test_nemo_gym_reads_what_python_reads(arguments, here, nemo):
    assert play(function_call("click", arguments))[1] == here
    assert play(function_call("click", arguments), conform="nemo")[:2] == (float(nemo == 100), nemo)


def test_an_answer_in_words_is_no_click():
    assert play(*message("click(100, 100)")) == (0.0, None, None)


def test_nemo_gym_looks_at_the_first_circle_of_the_color():
    assert play(click(x=300, y=100)) == (1.0, 300, 100)
    assert play(click(x=300, y=100), conform="nemo") == (0.0, 300, 100)


def test_generated_tasks_can_be_hit():
    env = gym.make("gym_llm/CircleClick-v0").unwrapped
    for index in range(50):
        request, _ = env.reset(options={"task_index": index})
        task = env.tasks[index].task
        assert [tool["name"] for tool in request["tools"]] == ["click"]
        assert len({circle.color for circle in task.circles}) == len(task.circles) >= 3
        target = next(circle for circle in task.circles if circle.color == task.target_color)
        assert env.step([click(x=target.x, y=target.y)])[1] == 1.0
