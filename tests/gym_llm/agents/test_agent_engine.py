"""An agent as a policy: it plays beside the environment, its model's tokens are kept, and its end is the episode's."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from openai import AsyncOpenAI
from testing import function_call, message_item, response, row

import gym_llm
from gym_llm import Part, RolloutSettings, Run, VerifierEnv, collect, make_engine, tool
from gym_llm.agents import AgentEngine, AgentEpisode, EpisodeOver
from gym_llm.engines import Engine, WeightSync
from gym_llm.engines.token_response import overflow_response, token_response
from gym_llm.errors import EngineError, EngineUnavailable, UsageError
from gym_llm.rollout.episode import play_episode
from gym_llm.rollout.factory import EnvFactory
from gym_llm.rollout.plan import Job
from gym_llm.trainers.player import EpisodePlayer

WEATHER = "gym_llm/Weather-v0"
FOLLOW_UP = "gym_llm/FollowUp-v0"


class Says(Engine):
    """Says a text, with token ids: those of the prompt's length, then one."""

    model = "says"

    def __init__(self, text: str = "four", fails: list[EngineError | None] | None = None) -> None:
        self.text, self.fails, self.requests = text, fails or [], []

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        self.requests.append(request)
        if self.fails and (error := self.fails.pop(0)) is not None:
            raise error
        prompt = list(range(len(request["input"])))
        return token_response(self.model, self.text, prompt=prompt, sampled=[7], log_probs=[-0.5])


class Two(VerifierEnv):
    """Two tools; its reward is how many calls were made in the largest turn, and the answer is in the info."""

    default_max_turns = 4

    def setup(self, task: Any) -> list[str]:
        return []

    @tool
    def left(self, state: list[str], number: int = 0) -> str:
        """Go left."""
        state.append(f"left {number}")
        return f"went left {number}"

    @tool
    async def right(self) -> str:
        """Go right."""
        await asyncio.sleep(0)
        return "went right"

    def verify(self, task: Any, episode: Any) -> Any:
        turns = [0]
        for item in episode.items:
            turns[-1:] = [turns[-1] + 1] if item.get("type") == "function_call" else [turns[-1], 0]
        return gym_llm.Verdict(float(max(turns)), {"answer": episode.answer})


@pytest.fixture(autouse=True)
def _registered() -> Any:
    gym.register("agent_tests/Two-v0", Two)
    yield
    del gym.registry["agent_tests/Two-v0"]


def play(agent: Any, engine: Any = None, env_id: str = "agent_tests/Two-v0", **more: Any) -> Any:
    """One episode's record."""
    tasks = None if env_id == WEATHER else more.pop("tasks", [row("Which way?")])
    engine = engine or Says()

    async def collected() -> list[Any]:
        return [record async for record in gym_llm.rollout(env_id, engine, agent=agent, tasks=tasks, **more)]

    (record,) = asyncio.run(collected())
    return record


async def follows(episode: AgentEpisode) -> None:
    """Does exactly what the model says."""
    request: Any = episode.request
    while request is not None:
        request = await episode.step(await episode.respond(request))


@pytest.mark.parametrize("env_id", [WEATHER, FOLLOW_UP, "gym_llm/Arithmetic-v0"])
def test_an_agent_that_does_what_the_model_says_gives_the_same_episodes_as_the_model(env_id: str) -> None:
    how: dict[str, Any] = {"limit": 5, "repeats": 2, "seed": 3, "progress": False}
    plain, agents = collect(env_id, **how), collect(env_id, agent=follows, **how)
    for one, other in zip(plain, agents, strict=True):
        assert [one[name] for name in ("rollout_id", "reward", "outcome")] == [  # type: ignore[literal-required]
            other[name]  # type: ignore[literal-required]
            for name in ("rollout_id", "reward", "outcome")
        ]
        assert [text_of(item) for item in one["response"]["output"]] == [
            text_of(item) for item in other["response"]["output"]
        ]
        assert one["response"]["usage"] == other["response"]["usage"]
        segments = list(zip(one["trajectory"] or [], other["trajectory"] or [], strict=True))
        assert segments
        for segment, branch in segments:
            assert segment["input_ids"] == branch["input_ids"] and segment["loss_mask"] == branch["loss_mask"]
            assert branch["logprobs"] == pytest.approx(segment["logprobs"], abs=1e-4)  # batches are rounded otherwise
        calls = sum(item["type"] != "function_call_output" and "role" in item for item in other["response"]["output"])
        assert calls and other["info"]["agent"]["branches"] == len(segments)
        assert {**other["info"], "agent": None} == {**one["info"], "agent": None}


def text_of(item: Any) -> Any:
    return {name: value for name, value in item.items() if name not in ("id", "call_id", "status") and "_" not in name}


def test_two_hundred_episodes_at_once_keep_their_calls_apart() -> None:
    async def agent(episode: AgentEpisode) -> str:
        number = episode.prompt.split()[-1]
        said = await asyncio.gather(*(episode.call_tool("left", {"number": int(number)}) for _ in range(2)))
        await episode.respond(episode.request)
        return f"{said[0]} of {number}"

    tasks = [row(f"Go to {number}") for number in range(200)]
    records = collect("agent_tests/Two-v0", Says(), agent=agent, tasks=tasks, concurrency=200, progress=False)
    assert [record["info"]["answer"] for record in records] == [f"went left {n} of {n}" for n in range(200)]
    assert {record["reward"] for record in records} == {2.0}
    assert {len(record["trajectory"] or ()) for record in records} == {1}


def test_calls_made_at_once_are_one_turn_and_others_are_not() -> None:
    async def together(episode: AgentEpisode) -> str:
        said = await asyncio.gather(episode.call_tool("left", '{"number": 3}'), episode.call_tool("right", {}))
        return " and ".join(said)

    async def apart(episode: AgentEpisode) -> str:
        return " and ".join([await episode.call_tool("left", {"number": 3}), await episode.call_tool("right", {})])

    records = [play(together), play(apart)]
    assert [record["info"]["answer"] for record in records] == ["went left 3 and went right"] * 2
    assert [(record["reward"], record["info"]["turn"]) for record in records] == [(2.0, 2), (1.0, 3)]


def test_the_models_calls_keep_their_ids_and_are_waited_for_together() -> None:
    class Calls(Engine):
        model = "calls"

        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            return response(function_call("left", {"number": 1}, "call_a"), function_call("right", {}, "call_b"))

    async def agent(episode: AgentEpisode) -> str:
        calls = (await episode.respond(episode.request))["output"]

        async def one(call: Any, delay: float) -> str:
            await asyncio.sleep(delay)  # as over HTTP: not in the same moment
            return await episode.call_tool(call["name"], f" {call['arguments']}")

        return ", ".join(await asyncio.gather(one(calls[1], 0.0), one(calls[0], 0.004)))

    record = play(agent, Calls())
    assert record["info"]["answer"] == "went right, went left 1" and record["info"]["turn"] == 2
    ids = [item["call_id"] for item in record["response"]["output"] if item["type"] == "function_call"]
    assert ids == ["call_b", "call_a"]


def test_what_tools_object_to_is_told_to_the_agent() -> None:
    async def agent(episode: AgentEpisode) -> str:
        return await episode.call_tool("up", {}) + await episode.call_tool("left", "no JSON {")

    record = play(agent)
    assert "no tool named 'up'" in record["info"]["answer"] and record["info"]["tool_errors"] == 2


def test_submit_returns_what_the_user_says_next() -> None:
    heard: list[Any] = []

    async def agent(episode: AgentEpisode) -> None:
        heard.append(episode.prompt)
        heard.append(await episode.submit("first"))
        heard.append(episode.request["input"][-1]["content"])
        heard.append(await episode.submit([message_item("It is 9.")]))
        with pytest.raises(EpisodeOver):
            await episode.submit("too late")
        heard.append(episode.is_over)

    task = row("1+1?", follow_ups=["And 4+5?"], expected_answer="9")
    record = play(agent, env_id=FOLLOW_UP, tasks=[task])
    assert heard == ["1+1?", "And 4+5?", "And 4+5?", None, True] and record["reward"] == 1.0


def test_an_agent_that_has_ended_is_started_again_when_the_user_asks_on() -> None:
    prompts: list[str] = []
    waiting: list[Any] = []

    def returns(episode: Any) -> str:  # in a thread
        prompts.append(episode.prompt)
        return f"{episode.respond(episode.request)['model']}: {9 * episode.prompt.count('4+5')}"

    async def submits(episode: AgentEpisode) -> None:
        prompts.append(episode.prompt)
        waiting.append(asyncio.ensure_future(episode.submit("9" if "4+5" in episode.prompt else "2")))
        await asyncio.sleep(0)

    for agent in (returns, submits):
        prompts.clear()
        task = row("1+1?", follow_ups=["And 4+5?"], expected_answer="9")
        record = play(agent, env_id=FOLLOW_UP, tasks=[task])
        assert record["reward"] == 1.0, record["error"]
        assert prompts[0] == "1+1?" and prompts[1].startswith("User: 1+1?\n\nAssistant: ")


def test_an_agent_that_says_nothing_has_said_what_its_model_said_last() -> None:
    async def asks(episode: AgentEpisode) -> None:
        await episode.respond(episode.request)

    async def is_silent(episode: AgentEpisode) -> None:
        pass

    assert play(asks)["info"]["answer"] == "four"
    assert play(is_silent)["info"]["answer"] == "" and play(is_silent)["outcome"] == "scored"


def test_the_model_is_asked_over_http_too_and_each_token_is_kept() -> None:
    async def agent(episode: AgentEpisode) -> str:
        client = AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key, max_retries=0)
        messages: list[Any] = [{"role": "user", "content": episode.prompt}]
        async with client:
            for _ in range(2):
                chat = await client.chat.completions.create(model=episode.model, messages=messages)
                messages += [chat.choices[0].message, {"role": "user", "content": "Sure?"}]
        return str(chat.choices[0].message.content)

    engine = Says()
    record = play(agent, engine, sampling={"temperature": 0.25})
    assert record["info"]["answer"] == "four" and record["info"]["agent"] == {"model_calls": 2, "branches": 2}
    assert [request["temperature"] for request in engine.requests] == [0.25, 0.25]
    assert [sum(branch["loss_mask"]) for branch in record["trajectory"]] == [1, 1]


def test_tokens_come_from_engines_only() -> None:
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-1.0]}

    async def agent(episode: AgentEpisode) -> Any:
        return [{**message_item("mine"), **tokens}]

    record = play(agent)
    assert record["info"]["answer"] == "mine" and record["trajectory"] is None
    assert not any(name in record["response"]["output"][0] for name in tokens)


def test_the_rewards_of_steps_stand_where_the_model_led_to_them() -> None:
    class Pays(VerifierEnv):
        """Pays for each answer."""

        def respond(self, task: Any, episode: Any) -> str | None:
            episode.step_reward = float(episode.turn)
            return "Go on." if episode.turn < 3 else None

        def verify(self, task: Any, episode: Any) -> float:
            return 10.0

    gym.register("agent_tests/Pays-v0", Pays)
    try:
        how: dict[str, Any] = {"limit": 1, "progress": False, "engine_options": {"history": "append"}, "tasks": [row()]}
        plain = collect("agent_tests/Pays-v0", "pocket", **how)[0]
        record = collect("agent_tests/Pays-v0", "pocket", agent=follows, **how)[0]
    finally:
        del gym.registry["agent_tests/Pays-v0"]
    assert record["reward"] == plain["reward"] and record["turn_rewards"] == plain["turn_rewards"]
    assert sum(reward > 0 for reward in record["turn_rewards"]) > 1
    one, other = plain["trajectory"], record["trajectory"]
    assert one and other and [part["rewards"] for part in one] == [part["rewards"] for part in other]


# Faults ---------------------------------------------------------------------------------------------------------------


def test_an_agent_that_raises_masks_its_episode_and_says_where() -> None:
    async def agent(episode: AgentEpisode) -> None:
        await episode.respond(episode.request)
        raise KeyError("lost")

    record = play(agent)
    assert (record["outcome"], record["failure_kind"], record["error_phase"]) == ("masked", "agent_run_error", "engine")
    assert "KeyError: 'lost'" in record["error"] and "in agent" in record["traceback"]
    assert [branch["loss_mask"] for branch in record["trajectory"]] == [[0, 1]]
    assert record["info"]["agent"] == {"model_calls": 1, "branches": 1}


@pytest.mark.parametrize("wrong", [3, {"no": "answer"}, [message_item("x") | {"role": "user"}], [3]])
def test_an_answer_that_is_none_masks_the_episode(wrong: Any) -> None:
    async def agent(episode: AgentEpisode) -> Any:
        return wrong

    assert play(agent)["failure_kind"] == "agent_run_error"


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit()])
def test_an_agent_that_ends_itself_oddly_costs_no_other_episode(error: BaseException) -> None:
    async def agent(episode: AgentEpisode) -> str:
        if episode.prompt == "odd":
            raise error
        return "fine"

    tasks = [row("odd"), row("even")]
    with pytest.warns(UserWarning, match="1 of 2 episodes is masked"):
        odd, even = collect("agent_tests/Two-v0", Says(), agent=agent, tasks=tasks, progress=False)
    assert odd["outcome"] == "masked" and even["info"]["answer"] == "fine"


def test_an_agent_that_takes_too_long_masks_its_episode() -> None:
    async def agent(episode: AgentEpisode) -> None:
        await episode.call_tool("right", {})
        await asyncio.sleep(60)

    start = time.monotonic()
    record = play(agent, agent_timeout=0.2)
    assert record["failure_kind"] == "agent_timeout" and "0.2 seconds" in record["error"]
    assert record["info"]["turn"] == 1 and time.monotonic() - start < 10


DOWN = EngineError("The server is down.", failure_kind="provider_quota_exhausted")


def test_a_failure_of_the_models_engine_keeps_its_kind_whatever_the_agent_makes_of_it() -> None:
    async def falls(episode: AgentEpisode) -> None:
        await episode.respond(episode.request)

    async def wraps(episode: AgentEpisode) -> None:
        async with AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key, max_retries=0) as client:
            await client.responses.create(model=episode.model, input=episode.prompt)

    async def swallows(episode: AgentEpisode) -> str:
        try:
            await episode.respond(episode.request)
        except EngineError:
            pass
        return "I do not know."

    async def retries(episode: AgentEpisode) -> str:
        await swallows(episode)
        return (await episode.respond(episode.request))["output"][0]["content"][0]["text"]

    for agent in (falls, wraps, swallows):
        record = play(agent, Says(fails=[DOWN]), retries=0)
        assert record["failure_kind"] == "provider_quota_exhausted", record["error"]
        assert "The server is down." in record["error"]
    assert play(retries, Says(fails=[DOWN]))["info"]["answer"] == "four"
    again = play(falls, Says(fails=[DOWN]), retries=1)
    assert again["outcome"] == "scored" and again["attempts"] == 2


def test_a_conversation_longer_than_the_context_cuts_the_episode_short() -> None:
    class Full(Says):
        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            return overflow_response(self.model, 9)

    async def agent(episode: AgentEpisode) -> None:
        async with AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key, max_retries=0) as client:
            await client.responses.create(model=episode.model, input=episode.prompt)

    assert play(agent, Full())["outcome"] == "truncated"


def test_the_end_of_the_episode_ends_the_agent() -> None:
    ends: list[str] = []

    async def goes_on(episode: AgentEpisode) -> None:
        try:
            while True:
                await episode.call_tool("right", {})
        except EpisodeOver:
            ends.append("over")
            with pytest.raises(Exception, match="over"):
                await episode.respond(episode.request)
            ends.append("refused")
            raise

    async def ignores(episode: AgentEpisode) -> None:
        try:
            await asyncio.gather(episode.submit("done"), asyncio.sleep(60))
        finally:
            ends.append("cancelled")

    record = play(goes_on)
    assert record["outcome"] == "truncated" and record["info"]["turn"] == 4 and ends[0] == "over"
    ends.clear()
    start = time.monotonic()
    assert play(ignores)["info"]["answer"] == "done"
    assert ends == ["cancelled"] and time.monotonic() - start < 9


def test_a_run_that_is_cancelled_ends_its_agents() -> None:
    ends: list[str] = []

    async def agent(episode: AgentEpisode) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ends.append(episode.prompt)

    async def main() -> None:
        rollouts = gym_llm.rollout("agent_tests/Two-v0", Says(), agent=agent, tasks=[row("a"), row("b")])
        task = asyncio.ensure_future(anext(rollouts))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await rollouts.aclose()

    asyncio.run(main())
    assert sorted(ends) == ["a", "b"]


# Where agents can be named --------------------------------------------------------------------------------------------


def test_a_run_goes_on_with_the_same_agent_only(tmp_path: Path) -> None:
    output = tmp_path / "a.jsonl"

    async def other(episode: AgentEpisode) -> str:
        return "other"

    with Run("agent_tests/Two-v0", Says(), tasks=[row(), row()], output=output, agent=follows) as run:
        run.play()
    arguments: dict[str, Any] = {"tasks": [row(), row()], "output": output, "resume": True}
    with Run("agent_tests/Two-v0", Says(), **arguments, agent=follows) as run:
        assert run.remaining == 0 and run.as_dict()["settings"]["agent"].endswith("test_agent_engine:follows")
    for agent in (other, None):
        with pytest.raises(UsageError, match=r"agent was '.*follows' and is "):
            Run("agent_tests/Two-v0", Says(), **arguments, agent=agent)


def test_an_agent_is_an_engine_by_its_spec(tmp_path: Path) -> None:
    options = {"agent": follows, "engine": "pocket", "engine_options": {"max_new_tokens": 64}}
    records = collect(WEATHER, "agent", engine_options=options, limit=3, progress=False)
    assert all(record["trajectory"] and record["info"]["agent"]["model_calls"] for record in records)
    with pytest.raises(TypeError, match="agent is an async function"):
        make_engine("agent", agent=3)
    with pytest.raises(ValueError, match="engine_options are for"):
        AgentEngine(agent=follows, engine=Says(), engine_options={"seed": 1})
    with Run("agent_tests/Two-v0", "agent", engine_options=options, tasks=[row()], output=tmp_path / "a.jsonl") as run:
        assert run.play().episodes == 1 and run.model == "pocket"
        assert run.as_dict()["settings"]["engine_options"]["agent"].endswith("test_agent_engine:follows")
    with pytest.raises(UsageError):
        Run([Part("agent_tests/Two-v0", "agent", [row()], engine_options={"agent": 3})]).play()
    with pytest.raises(TypeError, match="got int"):
        RolloutSettings(agent=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="agent_timeout"):
        RolloutSettings(agent=follows, agent_timeout=0)


def test_agents_are_named_by_module_and_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_agents.py").write_text("async def says(episode):\n    return 'named'\n")
    monkeypatch.chdir(tmp_path)
    for name in ("my_agents:says", "./my_agents.py:says", f"{tmp_path}/my_agents.py:says"):
        assert play(name)["info"]["answer"] == "named"
    settings = RolloutSettings(agent="my_agents.py:says")
    assert settings.agent_name == "my_agents.py:says"
    with pytest.raises(EngineUnavailable, match=r"no function say\. Did you mean"):
        play("my_agents:say")
    with pytest.raises(EngineUnavailable, match="cannot be imported"):
        play("no_such_module_of_ours:say")
    with pytest.raises(ValueError, match="There is no file"):
        RolloutSettings(agent="no_such_file.py:says")
    with pytest.raises(ValueError, match="cannot be read"):
        RolloutSettings(agent="python 'my_agent.py")


def test_what_plays_single_episodes_for_a_trainer_takes_agents_too() -> None:
    async def main() -> Any:
        player = EpisodePlayer(EnvFactory("agent_tests/Two-v0", tasks=[row()]))
        try:
            return await player.play(Job(0, 0), Says(), RolloutSettings(agent=follows))
        finally:
            await player.aclose()

    record = asyncio.run(main())
    assert record["info"]["answer"] == "four" and record["info"]["agent"]["model_calls"] == 1


def test_weights_reach_the_model() -> None:
    class Trained(Says):
        capabilities = make_engine("pocket").capabilities
        weights: Any = None

        async def update_weights(self, weights: Any) -> None:
            self.weights = weights

        async def sleep(self, level: int = 1) -> None: ...

        async def wake_up(self) -> None: ...

    async def main() -> None:
        engine = Trained()
        agents = AgentEngine(agent=follows, engine=engine)
        assert isinstance(agents, WeightSync) and agents.capabilities.weights and agents.model == "says"
        await agents.update_weights("folder")
        await agents.sleep()
        await agents.wake_up()
        assert engine.weights == "folder"
        with pytest.raises(EngineError, match="cannot be replaced"):
            await AgentEngine(agent=follows, engine=Says()).update_weights("folder")

    asyncio.run(main())


def test_an_episode_that_begins_anew_under_its_name_has_a_new_agent() -> None:
    begun: list[int] = []

    async def agent(episode: AgentEpisode) -> None:
        begun.append(1)
        await follows(episode)

    async def main() -> None:
        env = EnvFactory("agent_tests/Two-v0", tasks=[row()]).make()
        async with AgentEngine(agent=agent, engine=Says()) as engine:
            for _ in range(2):
                observation, _ = env.reset(options={"task_index": 0})
                answer = await engine.respond(observation, episode_id="x")
                assert answer["output"][0]["content"][0]["text"] == "four"
            record = await play_episode(env, engine, Job(0, 0), RolloutSettings())
            assert record["outcome"] == "scored"
            with pytest.raises(EngineError, match="episode_id"):
                await engine.respond(observation)

    asyncio.run(main())
    assert len(begun) == 3


@pytest.mark.slow
def test_agents_play_in_other_processes() -> None:
    async def agent(episode: AgentEpisode) -> None:
        request: Any = episode.request
        while request is not None:
            request = await episode.step(await episode.respond(request))

    how: dict[str, Any] = {"limit": 4, "repeats": 2, "progress": False}
    here, there = collect(WEATHER, **how, agent=agent), collect(WEATHER, **how, agent=agent, workers=2)
    spec = collect(WEATHER, "agent", **how, engine_options={"agent": agent, "engine": "pocket"}, workers=1)
    for records in (there, spec):
        assert [record["reward"] for record in records] == [record["reward"] for record in here]
        assert [record["trajectory"][0]["input_ids"] for record in records] == [
            record["trajectory"][0]["input_ids"] for record in here
        ]
