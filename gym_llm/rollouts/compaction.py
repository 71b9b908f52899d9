"""Compaction: the player rewrites the history that it sends when the next prompt would fill the context."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from gym_llm.engines.around import EngineAround
from gym_llm.engines.engine import Engine, EpisodeReport
from gym_llm.errors import UsageError
from gym_llm.protocols.responses.actions import output_items
from gym_llm.rollouts.history import SUMMARY_PROMPT, is_models, size_of, split, summarized, trimmed, without_results
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.tokens.segments import Segments, Turn, tokens_of
from gym_llm.types import Item, Request, ResponseDict, message_text, sum_usage

_THINKING = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
_SUMMARY_SHARE = 8
"""A summary has at most this part of the context."""


class _History:
    """An episode's history as it was last sent.

    Attributes:
        covered: The number of the observation's items that `start` stands for.
        start: What is sent in their place.
        seen: The number of the observation's items in the last prompt.
        tokens: Length of the last prompt and its answer; 0 before the first answer.
        bytes_per_token: Of the last prompt.
        compactions: Rewritings so far.
        steps: For each answer, the tokens of the summaries made before it, and its own.
    """

    __slots__ = ("bytes_per_token", "compactions", "covered", "seen", "start", "steps", "tokens")

    def __init__(self) -> None:
        self.covered = self.seen = self.tokens = self.compactions = 0
        self.bytes_per_token = 3.0
        self.start: list[Item] = []
        self.steps: list[tuple[list[Turn], list[Turn]]] = []


class CompactingEngine(EngineAround):
    """An engine that sends a shorter history when the next prompt would pass a share of the context.

    The environment's observation stays whole. Later prompts begin with the rewritten history and go on with what was
    said since, so a compaction begins a new segment of the trajectory. The record's info counts `compactions`.

    The length of a prompt is what the engine's usage says, and what came since. Near the limit the engine's tokenizer
    counts it; without one it is estimated from bytes. A prompt that turns out to be too long is compacted, too.

    Args:
        engine: The engine, started.
        settings: `compact`, `compact_at` and `compact_context` are used.

    Raises:
        UsageError: If the length of the context is unknown, or the engine has no compaction of its own for `native`.
    """

    def __init__(self, engine: Engine, settings: RolloutSettings) -> None:
        super().__init__(engine)
        if settings.compact == "native" and not engine.capabilities.compaction:
            raise UsageError(
                "compact='native' needs a server with the Responses API (api=responses): use summary, trim or "
                "tool-results."
            )
        context = settings.compact_context or engine.context_tokens
        if context is None:
            raise UsageError("compact needs the context's length, which the engine does not say: give compact_context.")
        self._strategy = settings.compact
        self._context = context
        self._limit = max(1, int(context * settings.compact_at))
        self._histories: dict[str, _History] = {}

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request; see `Engine.respond`."""
        history = self._histories.get(episode_id) or self._histories.setdefault(episode_id, _History())
        if self._strategy == "native":
            return await self._natively(request, episode_id, history)
        sent, summaries = self._sent(request, history), list[ResponseDict]()
        size = await self._size(request, sent, history)
        compact = partial(self._compact, request, sent, episode_id, history, summaries)
        has_compacted = size >= self._limit and await compact(size)
        sent = self._sent(request, history)
        response = await self.engine.respond(sent, episode_id=episode_id)
        is_too_long = (response.get("incomplete_details") or {}).get("reason") == "context_length_exceeded"
        if is_too_long and not has_compacted and await compact(self._context):  # the estimate was wrong
            sent = self._sent(request, history)
            response = await self.engine.respond(sent, episode_id=episode_id)
        self._note(request, sent, response, history, summaries)
        return response

    async def end_episode(
        self, episode_id: str, *, rewards: Sequence[float] = (), failed: bool = False
    ) -> EpisodeReport | None:
        """Let go of an episode; the record gets its trajectory with the summaries. See `Engine.end_episode`."""
        report = await self.engine.end_episode(episode_id, rewards=rewards, failed=failed)
        history = self._histories.pop(episode_id, None)
        if history is None or not history.compactions:
            return report
        report = report or EpisodeReport()
        trajectory = report.trajectory if self._strategy != "summary" else _trajectory(history, rewards)
        return EpisodeReport(trajectory, {**report.info, "compactions": history.compactions})

    def _sent(self, request: Request, history: _History) -> Request:
        if not history.covered:
            return request
        return {**request, "input": [*history.start, *request["input"][history.covered :]]}

    async def _size(self, request: Request, sent: Request, history: _History) -> int:
        """The length of the next prompt in tokens; only roughly where it is far from the limit."""
        said = sent["input"]
        if history.tokens:
            said = [item for item in request["input"][history.seen :] if not is_models(item)]
        added = size_of(said)
        if not history.tokens:
            added += len(str(request.get("tools") or "")) + len(str(request.get("instructions") or ""))
        if history.tokens + added < self._limit:  # a token has a byte or more
            return history.tokens + added
        exact = await asyncio.to_thread(self.engine.count_tokens, sent)
        return history.tokens + int(added / history.bytes_per_token) if exact is None else exact

    async def _compact(
        self,
        request: Request,
        sent: Request,
        episode_id: str,
        history: _History,
        summaries: list[ResponseDict],
        size: int,
    ) -> bool:
        """Rewrite the history to half of the limit; False if there is nothing to leave out."""
        items, share = sent["input"], self._limit / 2 / max(size, 1)
        shorter = None
        if self._strategy == "tool-results":
            shorter = without_results(items, share)
        elif self._strategy == "summary":
            shorter = await self._summarized(sent, episode_id, summaries)
        if shorter is None and self._strategy != "tool-results":
            shorter = trimmed(items, share)
        if shorter is None:
            return False
        history.start, history.covered = shorter, len(request["input"])
        history.compactions += 1
        return True

    async def _summarized(self, sent: Request, episode_id: str, summaries: list[ResponseDict]) -> list[Item] | None:
        """The history with a summary by the model; None if it wrote no text.

        The last turn stays, so the model sums up what is before it: a prompt that fitted already, and this one more.
        """
        _, turns = split(sent["input"])
        if len(turns) < 2:
            return None
        before = sent["input"][: -len(turns[-1])]
        prompt: Item = {"type": "message", "role": "user", "content": SUMMARY_PROMPT}
        request: Request = {**sent, "input": [*before, prompt], "tool_choice": "none"}
        request["max_output_tokens"] = max(1, self._context // _SUMMARY_SHARE)
        request.pop("text", None)
        response = await self.engine.respond(request, episode_id=episode_id)
        summaries.append(response)
        text = _THINKING.sub("", message_text(output_items(response))).strip()
        return summarized(sent["input"], text) if text else None

    def _note(
        self, request: Request, sent: Request, response: ResponseDict, history: _History, summaries: list[ResponseDict]
    ) -> None:
        """Note the prompt's length; add the summaries' tokens to the response's usage and to the trajectory."""
        history.seen = len(request["input"])
        usage = response.get("usage")
        if isinstance(usage, dict):
            counts = sum_usage(None, cast("dict[str, Any]", usage))
            history.tokens = counts["input_tokens"] + counts["output_tokens"]
            if counts["input_tokens"]:
                history.bytes_per_token = max(1.0, size_of(sent["input"]) / counts["input_tokens"])
        if self._strategy == "summary":
            said = [turn for each in summaries for turn in tokens_of(output_items(each))]
            history.steps.append((said, tokens_of(output_items(response))))
        for each in summaries:
            if isinstance(theirs := each.get("usage"), dict):
                total = sum_usage(None, cast("dict[str, Any]", response.get("usage") or {}))
                response["usage"] = sum_usage(total, cast("dict[str, Any]", theirs))

    async def _natively(self, request: Request, episode_id: str, history: _History) -> ResponseDict:
        """Let the server compact, and send what follows its latest compaction item."""
        items = request["input"]
        latest = max((n for n, item in enumerate(items) if item.get("type") == "compaction"), default=0)
        management = [{"type": "compaction", "compact_threshold": self._limit}]
        sent = cast(Request, {**request, "input": items[latest:], "context_management": management})
        response = await self.engine.respond(sent, episode_id=episode_id)
        history.compactions += sum(item.get("type") == "compaction" for item in response["output"])
        return response


def _trajectory(history: _History, rewards: Sequence[float]) -> list[dict[str, Any]] | None:
    """The segments of all turns, summaries included, as `gym_llm.wrappers.TokenIdTracking` has them."""
    segments = Segments()
    for number, (summaries, turns) in enumerate(history.steps):
        segments.add(summaries)
        segments.add(turns)
        if number < len(rewards) and rewards[number]:
            segments.pay(float(rewards[number]), turns, number == len(rewards) - 1)
    return segments.trajectory()
