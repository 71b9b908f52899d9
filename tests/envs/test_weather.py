import gymnasium as gym
import pytest
from testing import ROOT, function_call, message, outputs, replay, row, vectors

from gym_llm.envs.weather.env import Weather


def ask(*calls, expected="New York"):
    env = gym.make("gym_llm/Weather-v0")
    env.reset(options={"task": row("What is the weather?", expected_city=expected)})
    observation = env.step(list(calls))[0] if calls else None
    _, reward, terminated, _, info = env.step(message("It is cold."))
    assert terminated
    return reward, info["tool_errors"], outputs(observation) if observation else []


@pytest.mark.parametrize("vector", vectors("weather"), ids=lambda vector: vector["source"])
def test_recorded_episodes_replay_exactly(vector):
    # They are of August's NeMo Gym, which pays answers without a call, too; 0.7.0 does not.
    is_called = any(item["type"] == "function_call" for item in vector["output"])
    replay("gym_llm/Weather-v0", vector | {"reward": float(is_called)})


@pytest.mark.parametrize("city", ["New York", "new york", "  NEW YORK\n"])
def test_looking_up_the_expected_city_is_worth_one(city):
    reward, errors, _ = ask(function_call("get_weather", {"city": city}))
    assert (reward, errors) == (1.0, 0)


def test_the_tool_answers_as_nemo_gym_does():
    _, _, texts = ask(function_call("get_weather", {"city": "Zürich"}))
    assert texts == ['{"city":"Zürich","weather_description":"The weather in Zürich is cold."}']


@pytest.mark.parametrize(
    "calls",
    [
        (),
        (function_call("get_weather", {"city": "York"}),),
        (function_call("get_weather", {"town": "New York"}),),
        (function_call("get_weather", "New York"),),
        (function_call("get_weather", '["New York"]'),),
        (function_call("get_weather", "[" * 100_000),),
        (function_call("verify", {"city": "New York"}),),
    ],
)
def test_anything_else_is_worth_nothing(calls):
    assert ask(*calls)[0] == 0.0


def test_one_right_call_among_several_is_enough():
    calls = [function_call("get_weather", {"city": city}, city) for city in ("Boston", "New York")]
    assert ask(*calls)[0] == 1.0


def test_without_an_expectation_any_call_is_worth_one_and_none_nothing():
    env = gym.make("gym_llm/Weather-v0")
    for name, reward in (("get_weather", 1.0), ("get_wether", 0.0), (None, 0.0)):
        env.reset(options={"task": row("Hello?")})
        if name is not None:
            env.step([function_call(name, {"city": "Oslo"})])
        assert env.step(message("Which city?"))[1] == reward


def test_generated_tasks_name_their_city():
    env = Weather()
    assert env.num_tasks is None
    cities = set()
    for index in range(1000):
        task = env.tasks[index]
        assert task.task.expected_city in task.request["input"][0]["content"]
        assert [tool["name"] for tool in task.request["tools"]] == ["get_weather"]
        cities.add(task.task.expected_city)
    assert len(cities) > 50


def test_example_tasks_name_their_city():
    env = Weather(tasks=str(ROOT / "envs/weather/data/example.jsonl"))
    assert env.num_tasks == 5
    assert all(env.tasks[i].task.expected_city in env.tasks[i].request["input"][0]["content"] for i in range(5))
