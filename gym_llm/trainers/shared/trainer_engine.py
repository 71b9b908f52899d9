"""TrainerEngine: a trainer's own way of sampling as an engine, so that its episodes are played like all others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, NamedTuple, TypeAlias

from gym_llm.engines import Capabilities, Engine
from gym_llm.engines.engine_response import overflow_response, text_response
from gym_llm.engines.prompt_ids import build_prompt, prompt_tokens
from gym_llm.engines.sampling import sampling_arguments, stop_place
from gym_llm.engines.thoughts import settle_thought
from gym_llm.errors import EngineError
from gym_llm.tokens.prompt_tokens import History, PromptTokens
from gym_llm.tokens.weight_versions import runs_of
from gym_llm.types import Request, ResponseDict


class Sampled(NamedTuple):
    """The tokens that a trainer's model sampled in one turn.

    Attributes:
        token_ids: The sampled ids, with the one that ended the turn, if there is one.
        log_probs: The natural log of each id's probability; None if the trainer does not compute them. The record then
            has 0.0, and the adapter returns none.
        aborted: Whether the trainer cut the turn off, to change its weights for example; the turn is incomplete.
        stopped: Whether the trainer reports that the turn is complete, not cut off by a limit. Optional for turns that
            end with a stop token, or at a text of the request's `stop`.
        routed_experts: The experts of a mixture (`gym_llm.types.ROUTED_EXPERTS`); None without.
        versions: The version of the weights that sampled each id; None if all are 0.
    """

    token_ids: list[int]
    log_probs: list[float] | None
    aborted: bool = False
    stopped: bool = False
    routed_experts: str | None = None
    versions: list[int] | None = None


Generate: TypeAlias = Callable[[list[int], dict[str, Any], str], Awaitable[Sampled]]
"""Samples a turn from a prompt's ids, the arguments of `gym_llm.engines.sampling.sampling_arguments` (`max_tokens`,
`temperature`, `top_p`, `stop`, …; what the trainer sets, where the environment says nothing) and the episode's name."""


class TrainerEngine(Engine):
    """Makes a request's prompt as token ids, has the trainer sample, and answers with what was sampled.

    Args:
        generate: Samples.
        tokenizer: The model's, of transformers, with a chat template.
        model: The name to record.
        history: See `PromptTokens`: `"append"` keeps an episode in one segment.
        context: Tokens of prompt and answer together, at most: an episode whose prompt fills it ends, truncated. None
            for no limit here.
        stop_token_ids: What ends a turn, beside the tokenizer's own end token.
    """

    capabilities = Capabilities(token_ids=True, tools=True)

    def __init__(
        self,
        generate: Generate,
        tokenizer: Any,
        *,
        model: str = "the trainer's",
        history: History = "append",
        context: int | None = None,
        stop_token_ids: Collection[int] = (),
    ) -> None:
        self.model = model
        self._generate = generate
        self._context = context
        self._prompts: PromptTokens = prompt_tokens(
            tokenizer, list(stop_token_ids), history, what=f"tokenizer of {model}"
        )

    @property
    def stop_token_ids(self) -> frozenset[int]:
        """The tokens that end a turn."""
        return self._prompts.stop_token_ids

    def prompt_ids(self, request: Request) -> list[int] | None:
        """Return the ids of a request's prompt; see `Engine.prompt_ids`."""
        return build_prompt(self._prompts, request, conversation="", model=self.model)

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request; see `Engine.respond`. What `generate` raises masks the episode."""
        arguments = sampling_arguments(request)
        prompt = build_prompt(self._prompts, request, conversation=episode_id, model=self.model)
        if self._context is not None:
            left = self._context - len(prompt)
            if left < 1:
                return overflow_response(self.model, len(prompt))
            arguments["max_tokens"] = min(left, arguments["max_tokens"] or left)
        sampled = await self._generate(prompt, arguments, episode_id)
        token_ids, log_probs, aborted, stopped, experts, versions = sampled
        token_ids = [int(token) for token in token_ids]
        log_probs = [0.0] * len(token_ids) if log_probs is None else [float(each) for each in log_probs]
        if len(log_probs) != len(token_ids):
            raise EngineError(
                f"{self.model} sampled {len(token_ids)} tokens and reported {len(log_probs)} log probabilities.",
                failure_kind="agent_run_error",
            )
        text, ended = self._prompts.turn_text(token_ids)
        if not ended and (place := stop_place(text, arguments.get("stop"))) is not None:
            text, stopped = text[:place], True
        response = text_response(
            text,
            tokens=(prompt, token_ids, log_probs),
            model=self.model,
            incomplete=None if (ended or stopped) and not aborted else "max_output_tokens",
            is_constrained="structured_outputs" in arguments,
            weight_versions=None if versions is None else runs_of(versions),
            routed_experts=experts,
        )
        return settle_thought(response, prompt, self._prompts)
