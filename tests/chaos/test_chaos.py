"""Faults on purpose: no fault becomes a reward, in any environment, and chaos sees it where one does."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import Counter
from typing import Any

import gymnasium as gym
import pytest
from chaos.campaign import attack
from chaos.faults import all_faults, choose
from chaos.faulty_server import SERVED, FaultyServer
from testing import row

from gym_llm import VerifierEnv
from gym_llm.author.scaffold import find_verifier, missing_package
from gym_llm.core.registry.classes import env_class
from gym_llm.core.registry.ids import env_ids
from gym_llm.engines.http import HTTPEngine
from gym_llm.errors import EngineError

PLACES = {"engine", "http", "setup", "respond", "verify", "teardown"}
PATIENCE = 1.5  # seconds for what hangs, unless the verifier itself waits for processes
IN_PROCESSES = {
    f"gym_llm/{name}-v0" for name in ("BigCodeBench", "BirdSQL", "CodeGen", "MathWithCode", "NewtonBench", "NSTools")
}
SLOW = {"gym_llm/Mixed-v0", "gym_llm/Harbor-v0", "gym_llm/SWEBench-v0"}
"""Environments whose steps take long on a busy machine."""


def one_of_each_kind() -> list[Any]:
    """A verifier for each choice of hooks and tools; `make chaos` plays them all."""
    kinds: dict[Any, str] = {}
    for env_id in env_ids():
        cls = env_class(env_id)
        hooks = [getattr(cls, name) for name in ("setup", "opening", "user_turn", "verify", "teardown")]
        asynchronous = [inspect.iscoroutinefunction(hook) for hook in hooks]
        own = [hook is not getattr(VerifierEnv, hook.__name__) for hook in hooks]
        kind = (*own[:3], own[4], *asynchronous, bool(cls.tool_schemas()), cls.executes_tools, bool(cls.dry_run_kwargs))
        if env_id in SLOW or cls.scores_groups:  # a fault changes the rewards of the group's other episodes
            continue
        if env_id.startswith("gym_llm/"):
            kinds.setdefault(kind, env_id)
    at_night = [pytest.param(env_id, marks=pytest.mark.nightly) for env_id in kinds.values() if env_id in IN_PROCESSES]
    return [env_id for env_id in kinds.values() if env_id not in IN_PROCESSES] + at_night


@pytest.mark.slow
@pytest.mark.parametrize("env_id", one_of_each_kind())
def test_no_fault_becomes_a_reward(env_id: str) -> None:
    patience = 20.0 if env_id in IN_PROCESSES else PATIENCE  # their steps wait for processes of other episodes
    report = attack(env_id, episodes=300, share=0.6, seed=11, step_timeout=patience)
    assert report.is_clean, report
    assert report.faults > 100 and report.outcomes[("", "none")]["scored"] > 80
    assert report.interruptions == {"cancelled": 2, "disk full": 2}
    assert all(any(row[0] == place for row in report.outcomes) for place in PLACES)


@pytest.mark.nightly
@pytest.mark.parametrize("env_id", env_ids())
def test_no_fault_becomes_a_reward_in_any_environment(env_id: str) -> None:
    if missing := missing_package(find_verifier(env_id)):
        pytest.skip(missing)
    if env_class(env_id).scores_groups:
        pytest.skip("It scores groups: a fault changes the rewards of other episodes.")
    report = attack(env_id, episodes=100, step_timeout=20.0 if env_id in IN_PROCESSES | SLOW else None)
    assert report.is_clean, report


@pytest.mark.nightly
@pytest.mark.xdist_group("ray")
def test_no_fault_becomes_a_reward_over_ray() -> None:
    report = attack("gym_llm/Counter-v0", episodes=200, share=0.5, seed=3, workers=2)
    assert report.is_clean, report
    assert report.faults > 40
    assert report.interruptions == {"cancelled": 1, "disk full": 1, "shard killed": 1, "raylet killed": 1}


def test_every_place_has_every_fault() -> None:
    chosen = Counter((fault.place, fault.kind) for n in range(20_000) if (fault := choose(n, 0, 0.9)))
    assert chosen.keys() == set(all_faults())
    assert {place for place, _ in chosen} == PLACES | {"tool"}


def test_faults_of_servers_come_from_a_real_one_and_are_named_by_what_it_did() -> None:
    answer = {"output": [], "status": "completed"}
    request: Any = {"input": [], "metadata": {"answer": json.dumps(answer), "fault": ""}}

    async def ask(url: str) -> dict[str, str]:
        kinds = {}
        async with HTTPEngine(url, api="responses", max_retries=0) as engine:
            assert (await engine.respond(request))["output"] == []
            for fault in SERVED:
                with pytest.raises(EngineError) as caught:
                    await engine.respond({**request, "metadata": {**request["metadata"], "fault": fault}})
                kinds[fault] = caught.value.failure_kind
        return kinds

    with FaultyServer() as server:
        assert asyncio.run(ask(server.url)) == SERVED


class SwallowsErrors(VerifierEnv):
    """Takes whatever goes wrong for a wrong answer, as eight projects did."""

    def setup(self, task: Any) -> None:
        verify = self.verify

        def quiet(task: Any, episode: Any) -> Any:
            try:
                return float(verify(task, episode))
            except BaseException:
                return 0.0

        self.verify = quiet  # type: ignore[method-assign]

    def verify(self, task: Any, episode: Any) -> float:
        return 1.0


gym.register("test/SwallowsErrors-v0", SwallowsErrors)


@pytest.mark.slow
def test_an_environment_that_makes_zeros_of_faults_is_found(tmp_path: Any) -> None:
    kwargs = {"tasks": [row()] * 5}
    report = attack("test/SwallowsErrors-v0", episodes=300, share=0.9, step_timeout=PATIENCE, env_kwargs=kwargs)
    assert not report.is_clean
    assert any("in verify: it is scored with reward 0.0, and should be masked" in sentence for sentence in report.wrong)
