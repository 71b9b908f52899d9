"""In PettingZoo's environment: its own test passes, and episodes are those of the environment."""

import json
import warnings
from typing import Any

import gymnasium as gym
from pettingzoo.test import api_test
from pettingzoo.utils import turn_based_aec_to_parallel

from gym_llm import Verdict, VerifierEnv
from gym_llm.core.spaces import AnyText, RequestSpace
from gym_llm.wrappers import PettingZooEnv, TextAction, TextObservation
from gym_llm.wrappers.pettingzoo_env import RequestDict, env

tested = ["gym_llm/Weather-v0", "gym_llm/Arithmetic-v0", "gym_llm/Blackjack-v0", "gym_llm/FollowUp-v0"]
for env_id in tested:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its advice: numbered names, arrays
        game = env(env_id=env_id)
        api_test(game, num_cycles=100)
        game.close()


def message(text: str) -> list[dict[str, Any]]:
    return [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]


def play(game: Any, actions: list[Any], **reset: Any) -> tuple[list[Any], float, dict[str, Any]]:
    """Play an episode by PettingZoo's loop."""
    game.reset(**reset)
    left, seen, total, info = list(actions), [], 0.0, {}
    for _ in game.agent_iter():
        observation, reward, terminated, truncated, info = game.last()
        seen.append(observation)
        total += reward
        game.step(None if terminated or truncated else left.pop(0))
    assert not left and game.agents == []
    return seen, total, info


# An episode has Gymnasium's observations and reward.
call = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city": "Rome"}'}
actions = [[call], message("It is cold in Rome.")]
own = gym.make("gym_llm/Weather-v0").unwrapped
first, _ = own.reset(seed=3, options={"task_index": 0})
expected, total = [first], 0.0
for action in actions:
    observation, reward, terminated, *_ = own.step(action)
    expected.append(observation)
    total += reward
assert terminated
game = env(env_id="gym_llm/Weather-v0", render_mode="ansi")
seen, reward, info = play(game, actions, seed=3, options={"task_index": 0, "render_fps": 3})
assert (seen, reward, info["turn"]) == (expected, total, 2) and "get_weather" in game.render()
assert game.observation_space("player_0") == RequestDict() and seen[0] in RequestSpace() and str(game) == own.spec.id
assert game.observation_space("player_0").sample() in game.observation_space("player_0")
game.close()

# Texts, by wrappers.
text = PettingZooEnv(TextObservation(TextAction(gym.make("gym_llm/Arithmetic-v0", disable_env_checker=True))))
assert isinstance(text.action_space("player_0"), AnyText)
seen, _, _ = play(text, ["7"], seed=0)
assert all(isinstance(each, str) for each in seen)

# A wrapper that truncates: the episode is scored.
limited = PettingZooEnv(gym.wrappers.TimeLimit(gym.make("gym_llm/Weather-v0", disable_env_checker=True).unwrapped, 1))
play(limited, actions[:1], seed=0)


class Raises(VerifierEnv):
    """Its verification fails."""

    def verify(self, task: Any, episode: Any) -> Verdict:
        raise RuntimeError("The verifier is broken.")


broken = PettingZooEnv(Raises([{"responses_create_params": {"input": "Hi"}}]))
broken.reset(seed=0)
try:
    broken.step(message("Hi"))
except RuntimeError as error:
    assert str(error) == "The verifier is broken."
else:
    raise AssertionError("the error of a hook was swallowed")
try:
    broken.reset()
    broken.step("text")
except gym.error.InvalidAction:
    assert broken.agents == ["player_0"]
else:
    raise AssertionError("an invalid action was accepted")


# Several seats: each sees its own card; rewards add up to 0, also that of the seat that does not end the game.
for opponents, agents in (
    (None, ["player_0", "player_1", "player_2"]),
    ({"player_1": "random"}, ["player_0", "player_2"]),
):
    game = env(env_id="gym_llm/KuhnPoker-v0", players=3, opponents=opponents)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        api_test(game, num_cycles=30)
    game.reset(seed=1, options={"task_index": 0})
    assert game.agents == agents
    totals, cards = dict.fromkeys(agents, 0.0), {}
    for agent in game.agent_iter():
        observation, reward, terminated, truncated, info = game.last()
        totals[agent] += reward
        shown = [item["content"] for item in observation["input"] if item["role"] == "user"]
        assert shown[0].startswith(f"You are {agent}.")
        cards[agent] = shown[0]
        assert not any(card in str(observation) for other, card in cards.items() if other != agent)
        game.step(None if terminated or truncated else message("bet"))
    assert len(cards) == len(agents) and set(totals.values()) <= {-2.0, 4.0, 3.0}, totals
    assert opponents or sum(totals.values()) == 0.0

# PettingZoo's own conversion plays it.
game = env(env_id="gym_llm/Arithmetic-v0").unwrapped
game.metadata["is_parallelizable"] = True
parallel = turn_based_aec_to_parallel(game)
observations, _ = parallel.reset(seed=0)
assert set(observations) == {"player_0"}
_, rewards, terminations, _, _ = parallel.step({"player_0": message("7")})
assert terminations == {"player_0": True} and set(rewards) == {"player_0"}
print(json.dumps({"passed": len(tested)}))
