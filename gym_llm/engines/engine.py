"""What an engine is: something that answers a Responses request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from gym_llm.types import Request, ResponseDict


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What an engine can do, as its class declares it: known from a spec, before anything is loaded.

    Attributes:
        token_ids: Its answers carry token ids, whatever its options are.
        tools: The model is shown the request's tools.
        forced_calls: A `tool_choice` that forces calls is followed, not refused.
        weights: It is a `gym_llm.engines.weights.WeightSync`: its weights can be replaced.
        seed: Whether it has an option `seed`, of all sampling: one that is `"always"` given, or `"optional"`, which is
            given only if somebody asks for one, because sampling is faster without.
        loads_model: Its `start` loads a model into memory, so it is not started where nobody asks it.
        shared: Processes share one, in a Ray actor, instead of having one each.
    """

    token_ids: bool = False
    tools: bool = False
    forced_calls: bool = False
    weights: bool = False
    seed: Literal["", "optional", "always"] = ""
    loads_model: bool = False
    shared: bool = False


@dataclass(frozen=True, slots=True)
class EpisodeReport:
    """What an engine knows of an episode when it is over, and the environment does not.

    Attributes:
        trajectory: What the model has read and said, as `gym_llm.wrappers.TokenIdTracking` has it; None if there is
            nothing to add to what the answers said.
        info: Entries for the record's `info`; JSON values.
    """

    trajectory: list[dict[str, Any]] | None = None
    info: dict[str, Any] = field(default_factory=dict)


class Engine(ABC):
    """Produces actions. Used as an async context manager, from one event loop.

    Attributes:
        model: The name under which the answers are recorded.
        capabilities: What it can do; an instance may know better than its class.
    """

    model: str
    capabilities: Capabilities = Capabilities()

    @classmethod
    def gpus(cls, options: Mapping[str, Any]) -> int:
        """How many GPUs an engine with these options takes for itself where it is shared."""
        return 0

    async def start(self) -> None:  # noqa: B027 - not every engine has something to start
        """Load or connect; called once, before the first `respond`.

        Raises:
            EngineUnavailable: If no request could ever be answered.
        """

    @abstractmethod
    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request. Called concurrently, for as many episodes as there are.

        Args:
            request: An observation. Not changed.
            episode_id: The same string for all turns of one episode (cache affinity, reproducible sampling). An episode
                that is played again after a failure that may pass begins anew under it.

        Returns:
            The response: a fresh dict that the caller may keep.

        Raises:
            EngineError: If this request cannot be answered, after the engine's own retries.
        """

    async def end_episode(
        self, episode_id: str, *, rewards: Sequence[float] = (), failed: bool = False
    ) -> EpisodeReport | None:
        """Let go of an episode: it is over, and nothing is asked under this name before it begins anew.

        Called once for every episode that is played, on every way out.

        Args:
            episode_id: As for `respond`.
            rewards: What the environment's steps came to, one for each answer.
            failed: Whether it did not come to its end: there is nothing to wait for.

        Returns:
            What the engine knows of the episode; None if that is nothing more than its answers said.
        """
        return None

    async def aclose(self) -> None:  # noqa: B027 - nor to close
        """Release everything. Safe to call twice."""

    async def __aenter__(self) -> Self:
        """Start the engine."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the engine."""
        await self.aclose()
