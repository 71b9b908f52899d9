"""A verifier's `oracle` earns the full reward on the verifier's own rows."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

from gym_llm.author.attack.attack_play import Player
from gym_llm.author.attack.right_answers import oracle_turns
from gym_llm.core.registry.classes import env_class
from gym_llm.core.registry.ids import env_ids
from gym_llm.core.verifier_env import VerifierEnv

IDS = [env_id for env_id in env_ids() if gym.spec(env_id).entry_point.startswith("gym_llm.envs.")]
ROWS = 5

WITHOUT = {
    "AegisV4Safety": "a classifier finds it safe",
    "AgentIF": "it is any text that follows the constraints",
    "FalseStatementJudge": "a judge reads the proof",
    "Debate": "a judge prefers one side",
    "Negotiation": "the other seat decides what a proposal earns",
    "ProposerSolver": "the other seats decide what a problem earns",
    "KuhnPoker": "the other seats decide what a move earns",
    "TicTacToe": "the other seat decides what a move earns",
    "BBQ": "a judge finds out what it says",
    "GenRMCompare": "a judge prefers it to the other answers of its group",
    "Arena": "a judge prefers it to a baseline",
    "ArenaJudge": "a judge prefers it to a baseline",
    "ConversationalToolUse": "a judge grades a conversation for it",
    "HealthBench": "a judge has criteria for it",
    "IFBench": "it is any text that follows the instructions",
    "InstructionFollowing": "it is any text that follows the instructions",
    "JailbreakDetection": "a judge finds it safe and helpful",
    "MultiChallenge": "a judge has a rubric for it",
    "OverRefusal": "a judge finds it helpful",
    "ProofJudge": "it is a proof",
    "Sokoban": "it needs a search",
    "StructEval": "the row names only some paths of the document",
    "StructuredOutputs": "it is any document that fits the schema",
    "Tetris": "it needs a search",
    "VerifIF": "it is any text that follows the instructions",
    "XSTest": "a judge finds it helpful or a refusal",
}
"""Verifiers whose right answer cannot be built from the row, and why."""

FULL = {
    "GenerativeRewardModel": 0.0,  # minus the distance
    "GUICoordinate": 0.99,  # the middle of a box is rounded to whole pixels
    "ToolCallMultiReward": 2.0,  # the message that ends the episode costs the third component
}
"""The least reward, where it is not 1.0."""


def name_of(env_id: str) -> str:
    return env_id.removeprefix("gym_llm/").removesuffix("-v0")


def has_oracle(env_id: str) -> bool:
    return env_class(env_id).oracle is not VerifierEnv.oracle


@pytest.mark.parametrize("env_id", IDS)
def test_the_right_answer_earns_the_full_reward(env_id: str) -> None:
    name = name_of(env_id)
    assert has_oracle(env_id) == (name not in WITHOUT), "a verifier has an oracle, or a reason in WITHOUT"
    if name in WITHOUT:
        pytest.skip(WITHOUT[name])

    def make() -> Any:
        return gym.make(env_id, disable_env_checker=True, **env_class(env_id).dry_run_kwargs).unwrapped

    player = Player(make, 60.0)
    assert player.env.tasks is not None
    rewards = {}
    for index in range(min(ROWS, player.env.tasks.size or ROWS)):
        task = player.env.tasks[index]
        turns = oracle_turns(player.env, task)
        if turns is not None:
            played = player.play(index, task, turns)
            rewards[index] = played.reward if not played.error else 0.0
    player.env.close()
    assert rewards and all(float(reward or 0) >= FULL.get(name, 1.0) for reward in rewards.values()), rewards
