"""Time a step of other frameworks' environments beside the frameworks' own step.

Usage: python benchmarks/foreign_envs.py [--episodes N]. In this process: FrozenLake of Gymnasium, whose own step is
timed in turn with ours. In children: tic-tac-toe of OpenSpiel, 64 episodes at once, beside its own step. Prints one
JSON object last; times are medians in microseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import time

import gymnasium as gym

import gym_llm
from gym_llm.envs.theirs.environments import python_of
from gym_llm.envs.theirs.frameworks import frameworks
from gym_llm.envs.theirs.peer_process import PeerProcess, RemotePlay

_MOVE = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "left"}]}]
_LEFT = 0
_STEPS = 20
_SESSIONS = 64
_OWN = """
import json, statistics, time, random, pyspiel
game, times = pyspiel.load_game("tic_tac_toe"), []
for _ in range(300):
    state = game.new_initial_state()
    while not state.is_terminal():
        began = time.perf_counter()
        names = {state.action_to_string(0, move): move for move in state.legal_actions()}
        state.information_state_string(state.current_player())
        state.apply_action(random.choice(list(names.values())))
        times.append(time.perf_counter() - began)
print(json.dumps(statistics.median(times) * 1e6))
"""


def here(episodes: int) -> tuple[float, float]:
    """Microseconds of FrozenLake's own step, and of ours."""
    own_env = gym.make("FrozenLake-v1", render_mode="ansi")
    our_env = gym.make("gym_llm/Gymnasium-v0", env="FrozenLake-v1", disable_env_checker=True).unwrapped
    own, ours = [], []
    for seed in range(episodes):
        own_env.reset(seed=seed)
        began = time.perf_counter()
        for _ in range(_STEPS):
            own_env.step(_LEFT)
            own_env.render()
        own.append((time.perf_counter() - began) / _STEPS)
        our_env.reset(options={"task": {"responses_create_params": {"input": []}, "seed": seed}})
        began = time.perf_counter()
        for _ in range(_STEPS):
            if our_env.step(_MOVE)[2]:
                break
        else:
            ours.append((time.perf_counter() - began) / _STEPS)
    our_env.close()
    return statistics.median(own) * 1e6, statistics.median(ours) * 1e6


async def apart(episodes: int) -> float:
    """Microseconds of a step of tic-tac-toe in children, 64 episodes at once."""
    framework = frameworks()["open_spiel"]
    processes = PeerProcess(framework.name, python_of(framework), 60.0)

    async def play(number: int) -> int:
        steps = 0
        for seed in range(episodes // _SESSIONS + 1):
            play = RemotePlay(processes, {"game": "tic_tac_toe"})
            turn = await play.reset(1_000 * number + seed)
            while not turn.get("terminated"):
                turn = await play.step({"text": turn["legal"][seed % len(turn["legal"])], "calls": []})
                steps += 1
            await play.close()
        return steps

    try:
        await asyncio.gather(*(play(number) for number in range(2)))  # the children start
        began = time.perf_counter()
        steps = sum(await asyncio.gather(*(play(number) for number in range(_SESSIONS))))
        return (time.perf_counter() - began) / steps * 1e6
    finally:
        await processes.aclose()


def main() -> None:
    """Time both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=300)
    episodes = parser.parse_args().episodes
    own, ours = here(episodes)
    python = python_of(frameworks()["open_spiel"])
    own_apart = float(subprocess.run([python, "-c", _OWN], capture_output=True, text=True, check=True).stdout)
    ours_apart = asyncio.run(apart(episodes))
    figures = {
        "version": gym_llm.__version__,
        "here_own_us": own,
        "here_ours_us": ours,
        "here_over_us": ours - own,
        "apart_own_us": own_apart,
        "apart_ours_us": ours_apart,
        "apart_over_us": ours_apart - own_apart,
        "sessions": _SESSIONS,
    }
    print(json.dumps({name: round(each, 1) if isinstance(each, float) else each for name, each in figures.items()}))


if __name__ == "__main__":
    main()
