"""RolloutSettings: how the episodes of a run are played."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any, Literal, Protocol, Self, TypedDict, cast, get_args

import gymnasium as gym

from gym_llm.agents.agent_episode import AGENT_SECONDS, Agent
from gym_llm.agents.agent_specs import AgentIn, agent_name, check_agent_in, parse_agent_spec
from gym_llm.engines.engine import Engine, EpisodeReport
from gym_llm.engines.engine_response import SPENT
from gym_llm.engines.sampling import PASSED_ON, check_sampling
from gym_llm.errors import EngineError
from gym_llm.rollouts.factory import Wrap
from gym_llm.rollouts.plan import Job
from gym_llm.stats.prices import read_prices
from gym_llm.types import Request, ResponseDict, Rollout
from gym_llm.utils.limits import check_seconds
from gym_llm.utils.text import did_you_mean
from gym_llm.wrappers import ReasoningParser, TokenIdTracking, ToolCallParser

DEFAULT_WRAPPERS: tuple[Wrap, ...] = (ToolCallParser, ReasoningParser, TokenIdTracking)
"""Innermost first: reasoning is taken out of the text before tool calls are looked for in what is left.

`TokenIdTracking` does nothing where the engine reports no token ids.
"""

Compact = Literal["summary", "trim", "tool-results", "native"]
BUDGETS = tuple(SPENT.values())
"""The budgets of an episode."""

RuntimeEnv = dict[str, Any] | Sequence[dict[str, Any] | None]
PriceTable = str | Mapping[str, Mapping[str, float]] | None


class EpisodeTrace(Protocol):
    """A trace of one episode, which is asked in place of the engine."""

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Ask the engine."""

    async def end_episode(
        self, episode_id: str, *, rewards: Sequence[float] = (), failed: bool = False
    ) -> EpisodeReport | None:
        """End the episode at the engine."""

    def end(self, record: Rollout) -> None:
        """The episode's record is made."""


class Tracing(Protocol):
    """An observer of episodes."""

    def episode(self, env: gym.Env[Any, Any], engine: Engine, job: Job) -> EpisodeTrace:
        """An episode is about to be played; is asked by it in place of the engine."""

    def flush(self) -> None:
        """The last episode is over; may block."""


class SettingOptions(TypedDict, total=False):
    """The fields of `RolloutSettings`, as keyword arguments."""

    wrappers: Sequence[Wrap] | None
    concurrency: int
    seed: int
    sampling: dict[str, Any] | None
    step_timeout: float | None
    retries: int
    workers: int
    ray_address: str | None
    runtime_env: RuntimeEnv | None
    on_waiting: Callable[[dict[str, int]], None] | None
    tracing: Tracing | None
    agent: str | Agent | None
    agent_timeout: float
    durable: bool | str
    max_tokens: int | None
    max_seconds: float | None
    max_dollars: float | None
    prices: PriceTable
    compact: Compact | None
    compact_at: float
    compact_context: int | None
    agent_in: AgentIn
    agent_image: str


@dataclass(frozen=True, kw_only=True)
class RolloutSettings:
    """The settings of `gym_llm.rollout`, `Run`, the vector environments and the command line.

    Attributes:
        wrappers: What each environment is wrapped with, innermost first; None for `DEFAULT_WRAPPERS`.
        concurrency: Episodes at once.
        seed: Chooses generated tasks, the environments' randomness, and the sampling of engines that run here.
        sampling: Request fields to set over the tasks' own, e.g. `{"temperature": 0.7, "max_output_tokens": 64}`.
        step_timeout: Seconds that a reset or step of an environment may wait; its episode fails when it takes longer.
            None for no limit. Code that blocks is interrupted in workers only; see
            `gym_llm.rollouts.ray.loop_watchdog`.
        retries: How often an episode is played again that failed for a temporary reason, after a pause of 1, 2, 4, …
            seconds. `gym_llm.records.failures.TRANSIENT` lists them: a server or a judge is down, a process has died.
        workers: Number of Ray processes; 0 for this process alone. With workers, the engine must be a spec.
        ray_address: A cluster's address; None for a Ray of this machine's own.
        runtime_env: Ray's `runtime_env` of the workers, e.g. `{"pip": ["math-verify==0.7.0"]}`, or a list: one for each
            worker, None for this process's packages.
        on_waiting: Called once a second with how many episodes wait for what: `engine`, a phase of their environment
            (`gym_llm.types.Phase`), or `env` for anything else.
        tracing: Sees every episode, e.g. a `gym_llm.evaluation.tracking.otel.Tracing`; goes to the workers, too.
        agent: The agent that plays and calls the engine's model. A function of a `gym_llm.agents.AgentEpisode` (async
            or not), `"module:function"`, `"file.py:function"`, or a command such as `"python my_agent.py"`. None for
            the model itself. `sampling` applies to every call of the agent.
        agent_timeout: Seconds that the agent may take for an episode, without the environment's own time.
        durable: Whether episodes survive a kill of their process. All that is sampled and answered is then written into
            a journal before it is used. True is for a `Run`, whose journal lies beside its output. Elsewhere give a
            folder.
        max_tokens: Tokens, given to the model and generated, after which an episode is truncated and scored.
        max_seconds: Seconds since its first request after which an episode is truncated and scored.
        max_dollars: The price of its tokens after which an episode is truncated and scored; needs `prices`.
        prices: Prices of tokens by model, or the YAML file that has them; see `gym_llm.stats.prices`.
        compact: How the player shortens a history that fills the context, or None. `"trim"` drops the oldest turns.
            `"tool-results"` drops old tool outputs. `"summary"` asks the model for one. `"native"` is the server's own.
            See `gym_llm.rollouts.compaction`.
        compact_at: The share of the context that the next prompt has to reach.
        compact_context: The context in tokens; None for what the engine says.
        agent_in: Where an agent that is a program runs. On the `host` it has this process's rights; the `machine` of
            its episode has no network.
        agent_image: The image of machines for tasks without one: `host` for this machine's /usr, or a folder, a tar or
            an image archive.

    Raises:
        TypeError: If the agent is of another type.
        ValueError: If a value is invalid.
    """

    wrappers: Sequence[Wrap] | None = None
    concurrency: int = 64
    seed: int = 0
    sampling: dict[str, Any] | None = None
    step_timeout: float | None = 600.0
    retries: int = 1
    workers: int = 0
    ray_address: str | None = None
    runtime_env: RuntimeEnv | None = None
    on_waiting: Callable[[dict[str, int]], None] | None = None
    tracing: Tracing | None = None
    agent: str | Agent | None = None
    agent_timeout: float = AGENT_SECONDS
    durable: bool | str = False
    max_tokens: int | None = None
    max_seconds: float | None = None
    max_dollars: float | None = None
    prices: PriceTable = None
    compact: Compact | None = None
    compact_at: float = 0.8
    compact_context: int | None = None
    agent_in: AgentIn = "host"
    agent_image: str = "host"

    def __post_init__(self) -> None:
        for name, least in (("concurrency", 1), ("seed", 0), ("retries", 0), ("workers", 0)):
            if (value := getattr(self, name)) < least:
                raise ValueError(f"{name} is {least} or more, got {value}.")
        if self.step_timeout is not None and not self.step_timeout > 0:
            raise ValueError(f"step_timeout is a positive number of seconds, or None; got {self.step_timeout}.")
        if self.runtime_env is not None and not self.workers:
            raise ValueError("runtime_env is for other processes: give the number of `workers`, too.")
        if isinstance(self.runtime_env, Sequence) and not (
            len(self.runtime_env) == self.workers and all(isinstance(each, dict | None) for each in self.runtime_env)
        ):
            raise ValueError("A list of runtime_env has one dict, or None, for each of the `workers`.")
        if self.sampling:
            _check_sampling(self.sampling)
        check_seconds("agent_timeout", self.agent_timeout)
        check_budgets(vars(self), (*BUDGETS, "compact_context"))
        if self.compact is not None and self.compact not in get_args(Compact):
            raise ValueError(f"compact is one of {', '.join(get_args(Compact))}, or None; got {self.compact!r}.")
        if self.compact is not None and self.agent is not None:
            raise ValueError("compact is for the model itself: an agent keeps its own history.")
        if not 0 < self.compact_at < 1:
            raise ValueError(f"compact_at is a share of the context between 0 and 1; got {self.compact_at!r}.")
        object.__setattr__(self, "prices", read_prices(self.prices) or None)
        if self.max_dollars is not None and not self.prices:
            raise ValueError("max_dollars needs prices: a table of models, or a YAML file.")
        if isinstance(self.agent, str) or (self.agent is not None and not callable(self.agent)):
            object.__setattr__(
                self, "agent", parse_agent_spec(self.agent)
            )  # here: a command's paths are this process's
        check_agent_in(self.agent_in, cast("Agent | None", self.agent))

    @classmethod
    def of(cls, settings: Self | None = None, /, **values: Any) -> Self:
        """Return the settings, or make them of these values.

        Raises:
            TypeError: If there are both, or there is no setting of a name; with the nearest there is.
            ValueError: If a value makes no sense.
        """
        if settings is not None and values:
            raise TypeError(f"Give `settings`, or settings one by one ({', '.join(values)}), not both.")
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise TypeError(
                    f"There is no setting {name!r}.{did_you_mean(name, known)} See `help(gym_llm.RolloutSettings)`."
                )
        return settings or cls(**values)

    @property
    def env_wrappers(self) -> tuple[Wrap, ...]:
        """Wrappers of each environment."""
        return DEFAULT_WRAPPERS if self.wrappers is None else tuple(self.wrappers)

    @property
    def agent_name(self) -> str | None:
        """The agent's name in a run's files; None without an agent."""
        return None if self.agent is None else agent_name(cast(Agent, self.agent))

    @property
    def compaction(self) -> dict[str, Any] | None:
        """The settings of the compaction; None without."""
        if self.compact is None:
            return None
        return {"compact": self.compact, "compact_at": self.compact_at, "compact_context": self.compact_context}

    @property
    def budgets(self) -> dict[str, Any] | None:
        """The budgets of an episode, and the prices of what they limit; None without any."""
        limits = {name: value for name in BUDGETS if (value := getattr(self, name)) is not None}
        return {**limits, **({"prices": self.prices} if "max_dollars" in limits else {})} or None

    @property
    def agent_machine(self) -> str | None:
        """The image of the agent's machines, for a run's files; None for an agent on the host, or without one."""
        return self.agent_image if self.agent is not None and self.agent_in == "machine" else None

    def for_workers(self) -> RolloutSettings:
        """Return the settings that another process needs."""
        return replace(self, wrappers=None, on_waiting=None, workers=0, runtime_env=None)


def check_budgets(values: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise a ValueError if one of these budgets is neither a positive number nor None; tokens are whole."""
    for name in names:
        value = values[name]
        kinds = int if name.endswith(("tokens", "context")) else (int, float)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < inf):
            raise ValueError(f"{name} is a positive number, or None for no limit; got {value!r}.")


def _check_sampling(sampling: dict[str, Any]) -> None:
    """Refuse what no engine takes, and names that are nearly right; others are for a server to know."""
    from gym_llm.protocols.responses import ResponseCreateParams

    known = {*ResponseCreateParams.model_fields, *PASSED_ON}
    for name in sampling:
        if name not in known and (hint := did_you_mean(name, known, cutoff=0.8)):
            raise ValueError(f"A request has no field {name!r}.{hint}")
    try:
        check_sampling(cast(Request, sampling))
    except EngineError as error:
        raise ValueError(f"sampling: {error}") from None
