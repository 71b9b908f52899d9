"""The interface of engines, which answer Responses requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from gym_llm.engines.scores import Scores
from gym_llm.errors import EngineError
from gym_llm.types import Request, ResponseDict


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """Capabilities of an engine. Its class declares them, so they are known before a model is loaded.

    Attributes:
        token_ids: Responses carry token ids, whatever the engine's options are.
        tools: The model sees the request's tools.
        forced_calls: The engine follows a `tool_choice` that forces calls.
        weights: The engine is a `gym_llm.engines.weights.WeightSync`: its weights can be replaced.
        seed: Whether the engine has an option `seed` for all sampling. With `"always"` every run passes a seed. With
            `"optional"` a run passes one on request only, because sampling is faster without.
        loads_model: `start` loads a model into memory, so an unused engine is not started.
        shared: Processes share one engine in a Ray actor, instead of having one each.
        scores: The engine gives the log probabilities of given tokens (`Engine.score`).
        samples: Request fields such as `temperature` change the answers.
        compaction: The server compacts long histories itself (`context_management` of the Responses API).
    """

    token_ids: bool = False
    tools: bool = False
    forced_calls: bool = False
    weights: bool = False
    seed: Literal["", "optional", "always"] = ""
    loads_model: bool = False
    shared: bool = False
    scores: bool = False
    compaction: bool = False
    samples: bool = True


@dataclass(frozen=True, slots=True)
class EpisodeReport:
    """An engine's report on a finished episode, which goes into the record.

    Attributes:
        trajectory: The model's tokens in the form of `gym_llm.wrappers.TokenIdTracking`; None if the responses carry
            them all.
        info: Entries for the record's `info`; JSON values.
    """

    trajectory: list[dict[str, Any]] | None = None
    info: dict[str, Any] = field(default_factory=dict)


class Engine(ABC):
    """Produces actions. Used as an async context manager, from one event loop.

    Attributes:
        model: The name under which the answers are recorded.
        capabilities: What it can do; an instance may know better than its class.
        weight_version: The number of the weights that sample now: 0 for those of its start, and one more after each
            `update_weights`, unless that names another.
    """

    model: str
    capabilities: Capabilities = Capabilities()
    weight_version: int = 0

    @classmethod
    def gpus(cls, options: Mapping[str, Any]) -> int:
        """Return the number of GPUs that a shared engine with these options occupies."""
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

    @property
    def context_tokens(self) -> int | None:
        """The length of the model's context, once the engine is started; None if it is unknown."""
        return None

    def count_tokens(self, request: Request) -> int | None:
        """Return the number of tokens of a request's prompt; see `prompt_ids`. Called in a thread."""
        ids = self.prompt_ids(request)
        return None if ids is None else len(ids)

    def prompt_ids(self, request: Request) -> list[int] | None:
        """Return the token ids of a request's prompt; None if this engine does not make prompts.

        Called once the engine is started.

        Raises:
            EngineError: If the prompt cannot be made.
        """
        return None

    async def score(self, ids: Sequence[int], *, top_k: int = 0, adapter: str | None = None) -> Scores:
        """Return the log probability of each token of a row, given those before it.

        Rows that are scored at the same time (`asyncio.gather`) share batches.

        Args:
            ids: Token ids of the model's vocabulary, at least one and no more than its context.
            top_k: The number of likeliest tokens that `Scores.likeliest` has at each position, 0 to 20.
            adapter: A LoRA adapter of the model: the name under which a vLLM server has it, or for `transformers:` the
                folder that PEFT wrote. None for the model alone.

        Raises:
            EngineError: If this engine cannot score, cannot score this row, or has no such adapter.
            ValueError: If `top_k` is invalid, or an id is not a whole number.
        """
        raise EngineError(f"The engine of {self.model} scores no tokens: use transformers:, vllm: or a vLLM server.")

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
