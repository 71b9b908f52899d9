"""PettingZooEnv: our environments by PettingZoo's AEC interface. It needs the package pettingzoo."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.error import DependencyNotInstalled

from gym_llm.core.driver import Driver
from gym_llm.core.spaces import RequestSpace
from gym_llm.judge.multi_agent_env import MultiAgentEnv

try:
    from pettingzoo import AECEnv
    from pettingzoo.utils.wrappers import OrderEnforcingWrapper
except ImportError:
    raise DependencyNotInstalled("PettingZooEnv needs pettingzoo: pip install 'gym-llm[pettingzoo]'.") from None

_OPTIONS = ("task", "task_index")
_ONLY = "player_0"


class RequestDict(RequestSpace, gym.spaces.Dict):  # type: ignore[misc]
    """The space of requests as a `Dict`: PettingZoo's `api_test` asks for the dtype of all observations but dicts."""

    seed = gym.Space.seed  # type: ignore[assignment]

    def __init__(self) -> None:
        gym.spaces.Dict.__init__(self, {})


class PettingZooEnv(AECEnv):  # type: ignore[misc]
    """A PettingZoo environment with an agent for each seat that the caller plays.

    A `MultiAgentEnv` has its seats as agents; those who act at the same time are asked one after another. Any other
    environment has one agent, `player_0`. If a hook fails, `step` raises its error.

    Observations and actions are those of the environment: requests and responses, or texts with `TextObservation` and
    `TextAction`.

    Args:
        env: A `VerifierEnv` with its wrappers.

    Attributes:
        possible_agents: The names of all agents.
        agents: Those for whom the episode goes on.
        agent_selection: The agent whose turn it is.

    Raises:
        TypeError: If the environment is not a `VerifierEnv`.

    Example:
        >>> import pytest; _ = pytest.importorskip("pettingzoo")
        >>> from gym_llm.wrappers.pettingzoo_env import env
        >>> game = env(env_id="gym_llm/KuhnPoker-v0")
        >>> game.reset(seed=0)
        >>> game.agents
        ['player_0', 'player_1']
    """

    agent_selection: str

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__()
        self._env, self._driver = env, Driver(env)
        verifier = self._driver.verifier
        self._several = verifier if isinstance(verifier, MultiAgentEnv) else None
        self.possible_agents = [_ONLY] if self._several is None else list(self._several.possible_agents)
        self.render_mode = verifier.render_mode
        self.metadata = {"name": verifier.env_id, "render_modes": ["ansi"], "is_parallelizable": False}
        is_request = isinstance(env.observation_space, RequestSpace)
        self._observation_space = RequestDict() if is_request else env.observation_space

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin an episode.

        Args:
            seed: Seeds the choice of the task.
            options: `{"task_index": 3}` or `{"task": row}`, as for every environment. Others are ignored: PettingZoo
                passes one set of options to all kinds of environments.
        """
        ours = {name: value for name, value in (options or {}).items() if name in _OPTIONS}
        self._observation, info = self._driver.reset(seed=seed, options=ours or None)
        self.agents = [_ONLY] if self._several is None else self._several.policy_seats
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._skip_agent_selection = None
        self._take_over(0.0, False, False, info)

    def step(self, action: Any) -> None:
        """Take the action of `agent_selection`; None for an agent whose episode is over.

        Raises:
            InvalidAction: If the action is invalid. The episode is unchanged.
            Exception: The exception of a hook. The episode is over.
        """
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._observation, *outcome = self._driver.step(action)
        self._cumulative_rewards[agent] = 0.0
        self._take_over(*outcome)
        self._deads_step_first()

    def observe(self, agent: str) -> Any:
        """Return the next request to an agent."""
        if self._several is None or agent == self._several.agent_selection:
            return self._observation
        observation: Any = self._several.observe(agent)
        wrappers, env = [], self._env
        while isinstance(env, gym.Wrapper):
            wrappers.append(env)
            env = env.env
        for wrapper in reversed(wrappers):
            if isinstance(wrapper, gym.ObservationWrapper):
                observation = wrapper.observation(observation)
        return observation

    def observation_space(self, agent: str) -> gym.Space[Any]:
        """Return the space of an agent's observations."""
        return self._observation_space

    def action_space(self, agent: str) -> gym.Space[Any]:
        """Return the space of an agent's actions."""
        return self._env.action_space

    def render(self) -> Any:
        """Return the episode so far as a transcript, with `render_mode="ansi"`."""
        return self._env.render()

    def close(self) -> None:
        """End the episode under way and release shared resources."""
        self._env.close()

    def __str__(self) -> str:
        return str(self.metadata["name"])

    def _take_over(self, reward: Any, terminated: Any, truncated: Any, info: Any) -> None:
        """Note the results of a step for each agent."""
        env = self._several
        rewards, infos = ({_ONLY: reward}, {_ONLY: info}) if env is None else (env.rewards, env.infos)
        self.rewards = {agent: float(rewards.get(agent, 0.0)) for agent in self.agents}
        self.infos = {agent: infos.get(agent, {}) for agent in self.agents}
        self.terminations = dict.fromkeys(self.agents, bool(terminated))
        self.truncations = dict.fromkeys(self.agents, bool(truncated))
        self._accumulate_rewards()
        self.agent_selection = (env and env.agent_selection) or self.agents[0]


def env(env_id: str, **kwargs: Any) -> Any:
    """Make an environment as PettingZoo's modules do: `pettingzoo_env.env(env_id="gym_llm/Weather-v0")`.

    Args:
        env_id: A registered id.
        **kwargs: Arguments of the environment.

    Raises:
        gymnasium.error.Error: If the id is unknown.
    """
    return OrderEnforcingWrapper(PettingZooEnv(gym.make(env_id, disable_env_checker=True, **kwargs)))
