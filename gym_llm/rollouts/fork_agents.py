"""Forks of an agent's episode: the agent runs again, and its first calls of the model are answered as recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from gym_llm.engines.around import EngineAround, conversation_of
from gym_llm.engines.engine import Engine, EpisodeReport
from gym_llm.engines.engine_response import REPLAYED, text_response
from gym_llm.engines.sampling import stop_place
from gym_llm.errors import CannotFork
from gym_llm.rollouts.durable.durable_episode import EpisodeDiverged
from gym_llm.rollouts.plan import Job
from gym_llm.tokens.weight_versions import runs_of
from gym_llm.types import Request, ResponseDict, Rollout

if TYPE_CHECKING:
    from gym_llm.rollouts.fork import Fork


class RecordedCall(NamedTuple):
    """A call of an agent: the ids from `start` to `end` of a segment of its record's trajectory."""

    segment: dict[str, Any]
    start: int
    end: int

    def answers(self, prompt: list[int]) -> bool:
        """Whether these are the ids of its prompt."""
        return len(prompt) == self.start and self.segment["input_ids"][: self.start] == prompt

    def sampled(self, column: str) -> list[Any]:
        """Return a column's values for the sampled ids; an empty list if the segment does not have it."""
        return list((self.segment.get(column) or ())[self.start : self.end])


def recorded_calls(record: Rollout) -> list[RecordedCall]:
    """Return the calls of an agent's record whose tokens are in its trajectory, in the order of the requests.

    Raises:
        CannotFork: If the record does not say which tokens are of which call.
    """
    try:
        calls = [
            RecordedCall(record["trajectory"][branch], start, end)  # type: ignore[index]
            for branch, start, end in record["info"]["agent"]["calls"]
        ]
        if all(0 <= call.start < call.end <= len(call.segment["logprobs"]) for call in calls):
            return calls
    except (LookupError, TypeError, ValueError):
        pass
    raise CannotFork("The agent's record does not say which tokens are of which call, or has no tokens: play it again.")


class ReplayingCalls(EngineAround):
    """Answers the first calls of each fork's agent from its record, and has the engine answer the others.

    A call is found by the token ids of its prompt. An agent may make several calls at once, in any order. The engine
    answers a call that is not among them: the record has no tokens of it, for example because its prompt did not fit.

    Args:
        engine: A started engine that makes prompts.
        forks: The forks, by the task index of their episodes. The turn of each is the number of calls that it keeps.

    Attributes:
        diverged: Why a fork's agent did not do what it did before, by the fork's place.
    """

    def __init__(self, engine: Engine, forks: Sequence[Fork]) -> None:
        super().__init__(engine)
        self._forks = forks
        self._calls = [recorded_calls(fork.record) for fork in forks]
        self._left: dict[int, list[RecordedCall]] = {}
        self._strays: set[int] = set()  # places of forks with calls that are not in their records
        self.diverged: dict[int, str] = {}

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request; see `Engine.respond`."""
        episode = conversation_of(episode_id)
        place = int(episode.partition("-")[0])
        fork = self._forks[place]
        left = self._left.setdefault(place, self._calls[place][: fork.turn])
        if left:
            prompt = self.prompt_ids(request)
            if prompt is None:
                self.diverged[place] = f"The engine of {self.model} makes no prompts, which say which call is which."
                raise EpisodeDiverged(self.diverged[place])
            if (call := next((call for call in left if call.answers(prompt)), None)) is not None:
                left.remove(call)
                return self._answer(call, request)
            if not any(call.answers(prompt) for call in self._calls[place][fork.turn :]):
                self._strays.add(place)
        return await self.engine.respond(request, episode_id=fork.job.episode_id + episode_id[len(episode) :])

    async def end_episode(
        self, episode_id: str, *, rewards: Sequence[float] = (), failed: bool = False
    ) -> EpisodeReport | None:
        """Let go of an episode; see `Engine.end_episode`."""
        place = int(episode_id.partition("-")[0])
        fork = self._forks[place]
        left = self._left.pop(place, self._calls[place][: fork.turn])
        if left and (not failed or place in self._strays):
            name = Job(**fork.record["rollout_id"]).episode_id
            self.diverged[place] = (
                f"The agent of episode {name} is not deterministic: of its first {fork.turn} calls, {len(left)} differ."
            )
        self._strays.discard(place)
        return await self.engine.end_episode(fork.job.episode_id, rewards=rewards, failed=failed)

    def _answer(self, call: RecordedCall, request: Request) -> ResponseDict:
        ids, log_probs = call.sampled("input_ids"), call.sampled("logprobs")
        text, ended = self.turn_text(ids)
        if not ended and (place := stop_place(text, request.get("stop"))) is not None:
            text, ended = text[:place], True
        response = text_response(
            text,
            tokens=(call.segment["input_ids"][: call.start], ids, log_probs),
            model=self.model,
            incomplete=None if ended else "max_output_tokens",
            is_constrained=any(call.sampled("constrained")),
            weight_versions=runs_of(call.sampled("weight_versions")),
        )
        return cast(ResponseDict, {**response, REPLAYED: True})
