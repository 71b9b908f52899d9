"""Every wrapper with Gymnasium's machinery: make, specs, pickling, other wrappers, the environment checker."""

import copy
import pickle
import subprocess
import sys
import warnings
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec, WrapperSpec
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import Autoreset, OrderEnforcing, RecordEpisodeStatistics, TimeLimit, TransformReward

import gym_llm  # noqa: F401 - registers the environments
from gym_llm import wrappers
from gym_llm.wrappers import (
    HarmonyParser,
    ParseActions,
    ReasoningParser,
    RecordRollouts,
    TextAction,
    TextObservation,
    ToolCallParser,
)

WRAPPERS: list[tuple[Any, dict[str, Any]]] = [
    (ReasoningParser, {"start": "<think>", "end": "</think>"}),
    (ToolCallParser, {"format": "hermes"}),
    (TextAction, {}),
    (TextObservation, {"format": "plain", "tokenizer": None}),
    (RecordRollouts, {"path": "rollouts.jsonl"}),
    (HarmonyParser, {}),
    (ParseActions, {"name": "reasoning", "start": "<think>"}),
]
EACH = pytest.mark.parametrize(("wrapper", "kwargs"), WRAPPERS, ids=[wrapper.__name__ for wrapper, _ in WRAPPERS])
STACK = (ToolCallParser, ReasoningParser, TextAction, TextObservation)
ANSWER = '<think>Hm.</think><tool_call>{"name": "get_counter_value"}</tool_call>'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make(wrapper: Any, **kwargs: Any) -> gym.Env:
    """The environment to put a wrapper on; text has its tool calls parsed."""
    env = gym.make("gym_llm/Counter-v0", **kwargs)
    return ToolCallParser(env) if wrapper is TextAction else env


def answer(env: gym.Env) -> Any:
    """A turn with a tool call, so that the episode goes on."""
    if env.action_space == wrappers.AnyText():
        return ANSWER
    call = {"type": "function_call", "call_id": "c", "name": "get_counter_value", "arguments": "{}"}
    return [{"type": "message", "role": "assistant", "content": "<think>Hm.</think>"}, call]


def with_wrappers(*specs: WrapperSpec) -> EnvSpec:
    spec = copy.deepcopy(gym.spec("gym_llm/Counter-v0"))  # gym.spec gives the registry's own
    spec.additional_wrappers = specs
    return spec


def play(env: gym.Env) -> list[Any]:
    observation, info = env.reset(seed=5)
    return [observation, info, env.step(answer(env))]


@EACH
def test_make_with_additional_wrappers_and_spec_round_trip(wrapper, kwargs):
    spec = with_wrappers(wrapper.wrapper_spec(**kwargs))
    env = gym.make(spec)
    assert type(env) is wrapper
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert str(again) == str(env)
    assert again.spec == env.spec
    assert again.spec.additional_wrappers[-1].kwargs == kwargs
    assert play(again) == play(env)


@EACH
def test_pickled_in_the_middle_of_an_episode(wrapper, kwargs):
    env = wrapper(make(wrapper), **kwargs)
    play(env)
    twin = pickle.loads(pickle.dumps(env))
    assert twin.step(answer(env)) == env.step(answer(env))


@EACH
def test_around_and_inside_gymnasiums_wrappers(wrapper, kwargs):
    env = make(wrapper, max_episode_steps=2)
    env = TransformReward(RecordEpisodeStatistics(OrderEnforcing(env)), lambda reward: reward - 1)
    env = TransformReward(TimeLimit(wrapper(env, **kwargs), 3), lambda reward: reward * 2)
    *_, first = play(env)
    second = env.step(answer(env))
    assert (first[1], first[3], second[1], second[3]) == (-2.0, False, -2.0, True)
    assert second[4]["episode"]["l"] == 2


@EACH
def test_inside_autoreset(wrapper, kwargs):
    env = Autoreset(wrapper(make(wrapper, max_turns=1), **kwargs))
    env.reset(seed=0)
    assert env.step(answer(env))[3]
    assert env.step(answer(env))[4]["turn"] == 0


@EACH
@pytest.mark.parametrize("env_id", ["gym_llm/Counter-v0", "gym_llm/FollowUp-v0"])
def test_passes_the_environment_checker(wrapper, kwargs, env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version")  # it is wrapped
        env = wrapper(gym.make(env_id, disable_env_checker=True), **kwargs)
        check_env(env)


def test_all_of_them_at_once():
    record = RecordRollouts.wrapper_spec(path="rollouts.jsonl")
    spec = with_wrappers(*(wrapper.wrapper_spec() for wrapper in STACK), record)
    env = gym.make(EnvSpec.from_json(gym.make(spec).spec.to_json()))
    observation, _, result = play(env)
    assert observation.endswith("assistant:")
    assert "call: get_counter_value({})" in result[0]
    assert env.step("Done.")[2]


def test_actions_can_be_vectorized():
    layers = list(STACK)
    for mode, kwargs in (("sync", {}), ("async", {"shared_memory": False})):
        envs = gym.make_vec(
            "gym_llm/Counter-v0", num_envs=2, vectorization_mode=mode, vector_kwargs=kwargs, wrappers=layers
        )
        observations, _ = envs.reset(seed=0)
        assert len(observations) == 2
        observations, *_ = envs.step((ANSWER, "Done."))
        assert "get_counter_value" in observations[0]
        envs.close()


def test_everything_public_is_exported_and_cheap():
    assert set(wrappers.__all__) == {wrapper.__name__ for wrapper, _ in WRAPPERS} | {
        "AnyText",
        "PettingZooEnv",
        "TokenIdTracking",
        "VLLMParser",
        "parser_wrappers",
    }
    code = "import sys, gym_llm.wrappers; print({'torch', 'transformers'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
