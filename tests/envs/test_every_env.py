"""What holds for every registered environment."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import yaml
from gymnasium.error import DependencyNotInstalled, InvalidAction
from gymnasium.utils.env_checker import check_env
from hostile import HostileActions
from hypothesis import given, settings
from hypothesis import strategies as st
from testing import ROOT, function_call, message, often, response

from gym_llm.core.compat import NemoCompatible
from gym_llm.core.registry.classes import env_class, known_arguments
from gym_llm.core.registry.ids import env_ids, parse_id
from gym_llm.core.tools.calls import run_calls
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.data import dumps, read_jsonl
from gym_llm.errors import InfrastructureError, UsageError

ENV_IDS = [env_id for env_id in env_ids() if gym.spec(env_id).entry_point.startswith("gym_llm.envs.")]
VERIFIER_IDS = [env_id for env_id in ENV_IDS if env_id != "gym_llm/Mixed-v0"]  # which plays the others
every_env = pytest.mark.parametrize("env_id", ENV_IDS)
every_verifier = pytest.mark.parametrize("env_id", VERIFIER_IDS)


def dry_run(env_id: str) -> dict[str, Any]:
    """Arguments with which it plays without any other model or service."""
    return env_class(env_id).dry_run_kwargs


def make(env_id: str, **kwargs: Any) -> VerifierEnv:
    return gym.make(env_id, **dry_run(env_id), **kwargs).unwrapped


def folder(env_id: str) -> Path:
    """The environment's folder, as it is installed."""
    module = gym.spec(env_id).entry_point.partition(":")[0]
    return Path(import_module(module).__file__).resolve().parent


def some_actions(env_id: str, steps: int = 150) -> list[Any]:
    """Calls, answers and nonsense that are Responses."""
    env = make(env_id)
    space, source = env.action_space, HostileActions(type(env), seed=7)
    actions = []
    for _ in range(steps):
        action = source.action()
        # Equality and deepcopy cannot go as deep as one of the hostile items does.
        if isinstance(action, list) and action in space and "web_search_call" not in (i.get("type") for i in action):
            actions.append(action)
    return actions


@every_env
def test_who_takes_conform_says_on_its_page_what_that_changes(env_id: str) -> None:
    takes_it = "conform" in known_arguments(env_class(env_id))
    assert takes_it == issubclass(env_class(env_id), NemoCompatible)
    assert takes_it == ("conform" in (folder(env_id) / "README.md").read_text("utf-8"))
    if takes_it:
        with pytest.raises(ValueError, match="conform"):
            make(env_id, conform="nemu")


def test_every_folder_is_an_environment_of_the_documentation() -> None:
    folders = {path.parent for path in (ROOT / "envs").glob("*/env.py")}
    assert {folder(env_id) for env_id in ENV_IDS} == folders and len(ENV_IDS) == len(folders)
    page = (ROOT / "docs" / "environments.md").read_text("utf-8")
    lines = [f"| [`{env_id}`](../envs/{folder(env_id).name}/README.md) | " for env_id in ENV_IDS]
    assert [line for line in lines if f"\n{line}" not in page] == [], "run `make environments`"


@every_env
def test_passes_the_environment_checker_without_a_warning(env_id: str, caplog: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)  # what earlier tests left is collected at any time
        env = gym.make(env_id, disable_env_checker=True, **dry_run(env_id)).unwrapped
        check_env(env, skip_render_check=False)
    assert not caplog.records


@every_env
def test_gym_make_plays_an_episode_without_a_warning(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)  # what earlier tests left is collected at any time
        env = gym.make(env_id, **dry_run(env_id))  # with Gymnasium's own passive checker
        observation, _ = env.reset(seed=1)
        terminated = truncated = False
        while not (terminated or truncated):
            assert observation in env.observation_space
            observation, reward, terminated, truncated, _ = env.step(response(*message("No idea.")))
        assert isinstance(reward, float) and not truncated
        env.close()


@every_env
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gymnasium_vectorises_it(env_id: str, mode: str) -> None:
    kwargs = {"shared_memory": False} if mode == "async" else {}
    envs = gym.make_vec(env_id, num_envs=2, vectorization_mode=mode, vector_kwargs=kwargs, **dry_run(env_id))
    try:
        observations, _ = envs.reset(seed=3)
        assert len(observations) == 2
        for _ in range(4):
            observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
            assert rewards.shape == terminations.shape == truncations.shape == (2,)
            assert all(observation in envs.single_observation_space for observation in observations)
        calls = (message("No idea."), [function_call("verify")])
        _, _, _, _, infos = envs.step(calls)
        assert infos["turn"].shape == (2,)
    finally:
        envs.close()


@every_verifier
def test_its_spec_survives_json(env_id: str) -> None:
    tasks = [row for _, row in read_jsonl(folder(env_id) / "data" / "example.jsonl")][:2]
    env = gym.make(env_id, tasks=tasks, max_turns=3, **dry_run(env_id))
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.spec == env.spec and again.unwrapped.max_turns == 3
    assert again.reset(options={"task_index": 1}) == env.reset(options={"task_index": 1})


@every_verifier
def test_it_can_be_pickled_in_the_middle_of_an_episode(env_id: str) -> None:
    env = gym.make(env_id, max_turns=4, **dry_run(env_id))
    env.reset(seed=5)
    env.step([function_call("no_such_tool") if env.unwrapped.executes_tools else {"type": "reasoning", "summary": []}])
    for again in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        expected = copy.deepcopy(env)
        assert again.step(message("7")) == expected.step(message("7"))
        assert again.reset() == expected.reset()


@every_env
def test_it_has_five_examples_a_readme_and_a_config(env_id: str) -> None:
    here = folder(env_id)
    rows = [row for _, row in read_jsonl(here / "data" / "example.jsonl")]
    assert len(rows) == 5 and len({json.dumps(row, sort_keys=True) for row in rows}) == 5
    assert make(env_id, tasks=str(here / "data" / "example.jsonl")).num_tasks == 5
    readme = (here / "README.md").read_text("utf-8")
    assert readme.startswith(f"# {parse_id(env_id)[1]}\n") and len(readme.splitlines()) > 3
    config = yaml.safe_load((here / "config.yaml").read_text("utf-8"))
    assert list(config) == [here.name]
    entry = config[here.name]
    assert entry["env"] == env_id and entry["domain"]
    gym.make(env_id, **{**dry_run(env_id), **entry["kwargs"]})
    example = next(dataset for dataset in entry["datasets"] if dataset["type"] == "example")
    assert example["jsonl_fpath"] == "data/example.jsonl"


@every_verifier
def test_the_same_seed_and_actions_give_the_same_episodes(env_id: str) -> None:
    actions = some_actions(env_id)

    def play() -> list[Any]:
        env, seen = make(env_id, max_turns=5), []
        seen.append(env.reset(seed=11))
        for action in actions:
            seen.append(env.step(action))
            if seen[-1][2] or seen[-1][3]:
                seen.append(env.reset())
        return seen

    assert play() == play()
    env = make(env_id)
    assert len({json.dumps(env.reset(seed=seed)[0]) for seed in range(30)}) > 1


@every_verifier
def test_observations_are_fresh_and_items_are_left_alone(env_id: str) -> None:
    actions = some_actions(env_id)
    env = make(env_id, max_turns=6)
    observation, _ = env.reset(seed=2)
    seen, copies = [observation], [copy.deepcopy(observation)]
    for action in actions[:60]:
        before = copy.deepcopy(action)
        observation, _, terminated, truncated, _ = env.step(action)
        assert action == before
        seen.append(observation)
        copies.append(copy.deepcopy(observation))
        if terminated or truncated:
            observation, _ = env.reset()
            seen.append(observation)
            copies.append(copy.deepcopy(observation))
    assert seen == copies, "an observation changed after it was given out"
    assert len({id(o) for o in seen}) == len({id(o["input"]) for o in seen}) == len(seen)
    task = env.episode.task_index
    seen[-1]["input"].clear()  # whoever plays may do as they like with what they were given
    seen[-1].clear()
    assert env.reset(options={"task_index": task})[0]["input"]


HOSTILE_ACTIONS = 1_000
"""Actions for each verifier, with another seed for each: together they are tens of thousands."""
_SLOW_TO_RESET = dict.fromkeys(("gym_llm/Harbor-v0", "gym_llm/SWEBench-v0"), often(100, HOSTILE_ACTIONS))  # containers


@pytest.mark.slow
@every_verifier
def test_hostile_actions_raise_nothing_and_call_no_method(env_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = make(env_id, max_turns=6, render_mode="ansi")
    tools = set(env._tools)
    running_tools = False
    real_run = run_calls

    def run(*args: Any) -> Any:
        nonlocal running_tools
        running_tools = True
        try:
            return real_run(*args)
        finally:
            running_tools = False

    def spy(name: str, method: Any) -> Any:
        def spied(*args: Any, **kwargs: Any) -> Any:
            assert not running_tools, f"a tool call reached {name}"
            return method(*args, **kwargs)

        return spied

    monkeypatch.setattr("gym_llm.core.verifier_env.run_calls", run)
    for name in set(dir(env)) - tools:
        if name not in ("unwrapped", "np_random", "np_random_seed", "num_tasks", "shared") and not name.startswith(
            "__"
        ):
            member = getattr(env, name)
            if callable(member) and not isinstance(member, type):
                monkeypatch.setattr(env, name, spy(name, member))

    source = HostileActions(type(env), seed=20_000 + VERIFIER_IDS.index(env_id))
    env.reset(seed=0)
    refused = ended = 0
    actions = _SLOW_TO_RESET.get(env_id, HOSTILE_ACTIONS)
    for n in range(actions):
        action = source.action()
        episode, seat = env.episode, env.agent_selection
        turn, said = episode.turn, len(episode.items)
        try:
            observation, reward, terminated, truncated, info = env.step(action)
        except InvalidAction as error:
            refused += 1
            assert 10 < len(str(error)) < 400
            assert (episode.turn, len(episode.items)) == (turn, said), "a refused action changed the episode"
            continue
        assert reward.__class__ is float and terminated.__class__ is truncated.__class__ is bool
        shown = observation if seat is None else env.observe(seat)  # the next observation may be another seat's
        new = shown["input"][len(episode.request["input"]) + said :]
        calls = [item for item in new if item.get("type") == "function_call"]
        answers = [item for item in new if item.get("type") == "function_call_output"]
        if answers:
            assert env.executes_tools
            assert [item["call_id"] for item in calls] == [item["call_id"] for item in answers]
            for call, answer in zip(calls, answers, strict=True):
                assert call["name"] in tools or "There is no tool named" in answer["output"]
        if n % 50 == 0:
            assert isinstance(env.render(), str)
        if terminated or truncated:
            ended += 1
            dumps(info)
            env.reset()
    assert min(refused, ended) > actions / 20


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_text = st.text(st.characters(), max_size=20) | st.sampled_from(["\\boxed{B}", "\\boxed{", "Answer: C", "\ud800"])
_items = st.one_of(
    st.fixed_dictionaries({"type": st.just("message"), "role": st.just("assistant"), "content": _text | _json}),
    st.fixed_dictionaries(
        {
            "type": st.just("function_call"),
            "name": _text | st.sampled_from(["verify", "increment_counter", "get_weather", "extract_synonym_values"]),
            "arguments": _text | _json.map(lambda value: json.dumps(value)),
            "call_id": _text,
        }
    ),
    st.dictionaries(st.sampled_from(["type", "role", "content", "output", "name"]), _json | _text, max_size=4),
)
_actions = (
    st.lists(_items, max_size=3)
    | st.fixed_dictionaries({"output": st.lists(_items, max_size=3)}, optional={"status": _json, "usage": _json})
    | _json
)


@cache
def json_actions() -> list[Any]:
    """Examples of any JSON value: drawn once, which takes a hundred times what a verifier does with them."""
    drawn = []

    @settings(max_examples=often(100, 150), deadline=None, database=None)
    @given(action=_actions)
    def draw(action: Any) -> None:
        drawn.append(action)

    draw()
    return drawn


@pytest.mark.slow
@every_verifier
def test_any_json_value_is_played_or_refused(env_id: str) -> None:
    env = make(env_id, max_turns=3)
    space = env.action_space
    for action in json_actions():
        observation, _ = env.reset(seed=0)
        if action in space:
            observation, *_ = env.step(action)
            assert observation in env.observation_space
        else:
            with pytest.raises(InvalidAction):
                env.step(action)


def test_a_caller_mistake_names_what_was_expected() -> None:
    env = make(VERIFIER_IDS[0])
    env.reset(seed=0)
    with pytest.raises(InvalidAction, match="TextAction"):
        env.step("just text")


@pytest.mark.slow
@every_env
def test_a_fork_with_the_same_answer_is_the_same_episode(env_id: str):
    env = make(env_id)
    task = {} if env.tasks is None else {"task_index": 0}
    try:
        env.reset(seed=1, options=task)
    except (InfrastructureError, DependencyNotInstalled, UsageError) as error:
        pytest.skip(str(error))
    forks = env.fork(2, randomness="same")
    results = []
    for one in (forks[0], env, forks[1]):
        try:
            results.append(one.step(message("A")))
        except InfrastructureError as error:
            results.append(type(error))
        one.close()
    assert results[0] == results[1] == results[2]
