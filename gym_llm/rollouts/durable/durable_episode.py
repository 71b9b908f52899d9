"""DurableEpisode: an episode that a kill interrupts, and that goes on at the turn and the request where it was.

An episode is a function of its row, its seed, and what it was answered. Its journal has the answers, so playing it
again restores it. Hooks run again. Whatever they and the driver ask is answered from the journal, until that ends.

1. The engine is asked for one turn after the other. The n-th request must be the n-th of the journal, by its key. If it
   is not, a hook is not deterministic or something outside has changed: the episode has diverged. It is played again
   from its beginning, with a warning.
2. Requests to others (`gym_llm.concurrency.answered_once`) come in any order, several at a time. Each is looked up by
   its key. One that is missing was under way when the process was killed, and is asked.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any, cast

from gym_llm.concurrency.answered_once import is_failure, request_key
from gym_llm.engines.around import EngineAround, conversation_of
from gym_llm.engines.engine import Engine
from gym_llm.errors import EngineError
from gym_llm.protocols.responses.token_fields import without_tokens
from gym_llm.rollouts.durable.journal import Journal
from gym_llm.rollouts.durable.left_journals import LeftEpisode, Place
from gym_llm.rollouts.durable.lines import BEGIN, SAMPLED, Line, pack_line
from gym_llm.rollouts.durable.token_codec import TokenCodec
from gym_llm.rollouts.plan import Job
from gym_llm.types import Item, Request, ResponseDict
from gym_llm.utils.json_codec import dumps, loads
from gym_llm.utils.secrets import redacted_logger

REPEATABLE = ("run", "cell", "command")
"""Requests that may be missing: what a sandbox has compiled for one episode serves others, too."""
_CALL = "agent_call"
_LARGEST = 4 << 20
_SAID = ("function_call", "reasoning")
logger = redacted_logger(__name__)


class EpisodeDiverged(EngineError):
    """Raised when a restored episode asks for something else than it did before."""


class DurableEpisode:
    """The memory of one episode: it answers the turns that were sampled before in place of the engine.

    Args:
        journal: The journal of the worker that plays it.
        job: Which episode it is.

    Attributes:
        attempt: The number of the attempt that is under way, from 1: failed episodes are played again.
        has_diverged: Whether it asked for something else than before.
        replayed: The number of turns that were answered from the journal.
    """

    def __init__(self, journal: Journal, job: Job) -> None:
        self._journal = journal
        self.job = job
        self._left = journal.take_left(job)
        self._generation = 0 if self._left is None else self._left.generation
        self.attempt = 1 if self._left is None else self._left.attempt
        self._kept: list[Line] | None = None
        self._places: list[Place] = []
        self._reset([])

    def begin(self) -> None:
        """Begin to play it: from the journal that was left or `keep_for_retry` has written, or from its first turn."""
        left, self._left = self._left, None
        kept, self._kept = self._kept, None
        if kept is not None:
            self._reset(kept)
        else:
            self._write_generation([] if left is None else left.lines())

    def keep_for_retry(self) -> None:
        """After a failure that may pass: keep all answers but the failure itself, for another attempt.

        A failure before the last turn was caught by a hook, so it is an answer, too. If this attempt added nothing, one
        of these failures may be the cause, and all are asked again.
        """
        if self.has_diverged or self._journal.is_broken:
            return
        try:
            lines = LeftEpisode(self._generation, places=self._places).lines()
        except OSError as error:
            logger.error(
                "The journal of episode %s cannot be read: %s. The episode begins again.", self.job.episode_id, error
            )
            return
        turns = [number for number, line in enumerate(lines) if line.kind == SAMPLED]
        caught = turns[-1] if turns and len(lines) > self._begun_with else 0
        self._kept = [line for number, line in enumerate(lines) if number < caught or not is_failure(line.body)]
        if len(self._kept) < len(lines):
            self._write_generation(self._kept)
        else:  # an engine that is down fails all episodes at once: only the number of the attempt is new
            self._journal.begin(self.job, self._generation, self.attempt)

    def _write_generation(self, lines: list[Line]) -> None:
        self._generation += 1
        self._reset(lines)
        self._places = self._journal.begin(self.job, self._generation, self.attempt, lines)

    def begin_anew(self) -> None:
        """Begin it from its first turn after it has diverged."""
        logger.warning(
            "Episode %s cannot be restored: after %d turns it asked for something else than before it was interrupted. "
            "It is played again from its beginning.",
            self.job.episode_id,
            self.replayed,
        )
        self.begin()

    def _reset(self, lines: list[Line]) -> None:
        self.has_diverged = self._has_warned = False
        self.replayed = 0
        self._begun_with = len(lines)
        self._turns = deque(line for line in lines if line.kind == SAMPLED)
        self._answers: dict[str, deque[bytes]] = defaultdict(deque)
        for line in lines:
            if line.kind not in (SAMPLED, BEGIN):
                self._answers[line.key].append(line.body)
        self._seen: dict[str, int] = {}
        self._tokens: dict[str, TokenCodec] = {}

    # -- the engine's turns -----------------------------------------------------------------------------------------

    async def respond(self, engine: Engine, request: Request, episode_id: str) -> ResponseDict:
        """Return the next turn: the one of the journal, or one that the engine samples and the journal gets first.

        Raises:
            EpisodeDiverged: If the journal's next turn answers another request.
            EngineError: If the engine cannot answer.
        """
        key = self._key(request, episode_id)
        codec = self._tokens.get(episode_id) or self._tokens.setdefault(episode_id, TokenCodec())
        if self._turns:
            turn = self._turns.popleft()
            if turn.key != key:
                self.has_diverged = True
                raise EpisodeDiverged("The episode asked for something else than before it was interrupted.")
            self.replayed += 1
            return codec.decode(loads(turn.body))
        if self.has_diverged:
            raise EpisodeDiverged("The episode has diverged.")
        response = await engine.respond(request, episode_id=episode_id)
        self._add(SAMPLED, key, dumps(codec.encode(response))[:-1])
        return response

    async def answer(self, engine: Engine, request: Request, episode_id: str) -> ResponseDict:
        """Return the answer to an agent's call: the one that an equal call had before, or one that is sampled now.

        An agent is a program that is started again, and it may ask for several things at once. So its calls are found
        by what they ask, like those of the environment.
        """
        key = request_key(episode_id, {**request, "input": [without_tokens(item) for item in request["input"]]})
        outcome = self.recall(_CALL, key)
        if outcome is not None:
            self.replayed += 1
            return cast(ResponseDict, outcome[1])
        if self.unused and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "The agent of episode %s asks for something else than before it was interrupted: %d answers of its "
                "journal are left, and the model is asked now.",
                self.job.episode_id,
                self.unused,
            )
        response = await engine.respond(request, episode_id=episode_id)
        self.keep(_CALL, key, ["answer", response])
        return response

    def _key(self, request: Request, episode_id: str) -> str:
        """Return the key of a request: of what is new in it since the request before."""
        items: list[Item] = request["input"]
        seen = self._seen.get(episode_id, 0)
        fields: dict[str, Any] = dict(request)
        del fields["input"]
        self._seen[episode_id] = len(items)
        if 0 < seen <= len(items):
            fields.pop("tools", None)
            items = items[seen:]
        return request_key(episode_id, [seen, fields, [given for item in items if (given := _given(item))]])

    # -- what the outside answers -----------------------------------------------------------------------------------

    def recall(self, kind: str, key: str) -> list[Any] | None:
        """See `gym_llm.concurrency.answered_once.Memory`."""
        answers = self._answers.get(key)
        if answers:
            outcome: list[Any] = loads(answers.popleft())
            return outcome
        if self._turns and kind not in REPEATABLE:
            logger.warning(
                "Episode %s asks for a %s that its journal does not have; it is asked now.", self.job.episode_id, kind
            )
        return None

    def keep(self, kind: str, key: str, outcome: list[Any]) -> None:
        """See `gym_llm.concurrency.answered_once.Memory`."""
        body = dumps(outcome)[:-1]
        if len(body) <= _LARGEST or kind not in REPEATABLE:
            self._add(f"outside:{kind.replace(' ', '_')}", key, body)

    @property
    def unused(self) -> int:
        """Answers of the journal that have not been asked for yet."""
        return sum(map(len, self._answers.values()))

    def _add(self, kind: str, key: str, body: bytes) -> None:
        self._places += self._journal.add(self.job, pack_line(self.job, self._generation, kind, key, body))


class DurableModel(EngineAround):
    """The model's engine in a durable run; the journal of the episode that asks answers first.

    Args:
        engine: The engine, started and closed by its owner.
        episodes: The episodes under way, by their ids.
        in_order: Whether an episode asks for one turn after the other; the programs of agents may not.
    """

    def __init__(self, engine: Engine, episodes: Mapping[str, DurableEpisode], *, in_order: bool) -> None:
        super().__init__(engine)
        self._episodes, self._in_order = episodes, in_order

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Answer one request; see `Engine.respond`."""
        episode = self._episodes.get(episode_id) or self._episodes.get(conversation_of(episode_id))
        if episode is None:
            return await self.engine.respond(request, episode_id=episode_id)
        ask = episode.respond if self._in_order else episode.answer
        return await ask(self.engine, request, episode_id)


def _given(item: Item) -> Any:
    """Return what an item says that the model did not say itself; None for what it did."""
    kind = item.get("type", "message")
    if kind in _SAID or item.get("role") == "assistant":
        return None
    return item.get("output") if kind == "function_call_output" else item
