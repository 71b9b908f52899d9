"""Where agents can be named: runs, engines' specs, files, trainers, other processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agent_playing import WEATHER, Says, follows, play
from testing import row

from gym_llm import Part, RolloutSettings, Run, collect, make_engine
from gym_llm.agents import AgentEngine, AgentEpisode
from gym_llm.engines import WeightSync
from gym_llm.errors import EngineError, EngineUnavailable, UsageError
from gym_llm.rollouts.episode import play_episode
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.plan import Job
from gym_llm.trainers.shared.env_pool import EnvPool


def test_a_run_goes_on_with_the_same_agent_only(tmp_path: Path) -> None:
    output = tmp_path / "a.jsonl"

    async def other(episode: AgentEpisode) -> str:
        return "other"

    with Run("agent_tests/Two-v0", Says(), tasks=[row(), row()], output=output, agent=follows) as run:
        run.play()
    arguments: dict[str, Any] = {"tasks": [row(), row()], "output": output, "resume": True}
    with Run("agent_tests/Two-v0", Says(), **arguments, agent=follows) as run:
        assert run.remaining == 0 and run.as_dict()["settings"]["agent"].endswith("agent_playing:follows")
    for agent in (other, None):
        with pytest.raises(UsageError, match=r"agent was '.*follows' and is "):
            Run("agent_tests/Two-v0", Says(), **arguments, agent=agent)


def test_an_agent_is_an_engine_by_its_spec(tmp_path: Path) -> None:
    options = {"agent": follows, "engine": "pocket", "engine_options": {"max_new_tokens": 64}}
    records = collect(WEATHER, "agent", engine_options=options, limit=3, progress=False)
    assert all(record["trajectory"] and record["info"]["agent"]["model_calls"] for record in records)
    with pytest.raises(TypeError, match="agent is an async function"):
        make_engine("agent", agent=3)
    with pytest.raises(ValueError, match="engine_options"):
        AgentEngine(agent=follows, engine=Says(), engine_options={"seed": 1})
    with Run("agent_tests/Two-v0", "agent", engine_options=options, tasks=[row()], output=tmp_path / "a.jsonl") as run:
        assert run.play().episodes == 1 and run.model == "pocket"
        assert run.as_dict()["settings"]["engine_options"]["agent"].endswith("agent_playing:follows")
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


@pytest.mark.parametrize("code", ["1 / 0", "raise SystemExit(3)"])
def test_a_file_that_fails_as_it_is_read_is_a_sentence(code: str, tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(f"{code}\n\ndef agent(episode): ...\n")
    with pytest.raises(EngineUnavailable, match=r"failing.py:agent cannot be imported: (ZeroDivision|SystemExit)"):
        collect(WEATHER, "pocket", agent=f"{tmp_path}/failing.py:agent", limit=1)


def test_what_plays_single_episodes_for_a_trainer_takes_agents_too() -> None:
    async def main() -> Any:
        player = EnvPool(EnvFactory("agent_tests/Two-v0", tasks=[row()]))
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
