"""The calls of an agent as a graph: each continues the one whose tokens its prompt begins with."""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from zlib import crc32

from gym_llm.tokens.segments import token_columns
from gym_llm.types import ROUTED_EXPERTS, Item, Request, ResponseDict

CallStatus: TypeAlias = Literal["asked", "answered", "failed", "abandoned"]
"""The status of a call.

- `asked`: the model works;
- `answered`: its answer was delivered;
- `failed`: the engine raised an error;
- `abandoned`: the client disconnected before its answer was delivered.
"""

_ID_BYTES = 4


@dataclass(slots=True, eq=False)
class Sample:
    """A node of the graph: the ids that were sampled after a prompt. A call has one; none without token ids.

    Attributes:
        call: The call.
        start: The number of ids in the prompt.
        size: The number of bytes of the ids of prompt and sample, four each.
        checksum: The CRC-32 of these bytes.
        log_probs: The natural log of each sampled id's probability, as the engine reported it.
        is_constrained: Whether it was sampled under a constraint (`gym_llm.types.CONSTRAINED`).
        versions: The version of the weights that sampled each id; None if all are 0.
        experts: The experts of prompt and sample, as the engine gave them (`gym_llm.types.ROUTED_EXPERTS`).
        parent: The longest sample with whose ids, prompt included, this prompt begins; None for a root.
        children: The number of samples whose parent this is.
    """

    call: Call
    start: int
    size: int
    checksum: int
    log_probs: array[float]
    is_constrained: bool = False
    versions: list[int] | None = None
    experts: str | None = None
    parent: Sample | None = None
    children: int = 0
    # A sample that is continued has its ids in the one that continues it: a conversation has one buffer, of its end.
    _buffer: bytes = b""
    _heir: Sample | None = None

    @property
    def ids(self) -> memoryview:
        """The ids of the prompt and of what was sampled, as bytes."""
        owner = self
        while owner._heir is not None:
            owner = owner._heir
        return memoryview(owner._buffer)[: self.size]

    @property
    def prompt_ids(self) -> list[int]:
        """The ids of the prompt, in a fresh list."""
        return _integers(self.ids[: self.start * _ID_BYTES])

    @property
    def sampled_ids(self) -> list[int]:
        """The sampled ids, in a fresh list."""
        return _integers(self.ids[self.start * _ID_BYTES :])

    def own(self, ids: bytes) -> None:
        """Keep the ids, for the parent, too."""
        self._buffer = ids
        if self.parent is not None:
            self.parent.children += 1
            if self.parent._heir is None:
                self.parent._heir, self.parent._buffer = self, b""

    @property
    def ids_kept(self) -> int:
        """The number of ids that are in memory for this sample, besides those that its parent keeps."""
        shared = self.parent.size if self.parent is not None and self.parent._heir is self else 0
        return (self.size - shared) // _ID_BYTES

    def leave(self) -> None:
        """Be the parent's child no more."""
        if self.parent is not None:
            self.parent.children -= 1
            if self.parent._heir is self:
                self.parent._heir, self.parent._buffer = None, bytes(self.parent.ids)


@dataclass(slots=True, eq=False)
class Call:
    """A call of a model.

    Attributes:
        index: Its index among its session's calls, in the order of their requests.
        model: The name of the engine's model.
        is_policy: Whether the model is the one that is trained. Others' calls have no samples, and are not recalled.
        dialect: The API of the request; "" for a call in this process.
        request: The request to the engine. Calls share its items, so they are never changed.
        previous: The last call whose answer came back in this prompt; None without one.
        line: The name of its conversation: "" for the first. A call that continues another has the same line, unless
            that one was continued already. Engines sample each line with a seed of its own.
        state: A hash of the whole prompt; see `gym_llm.agents.capture.token_recall`.
        started: The Unix time of its request, in seconds.
        ended: The Unix time of its end; None before.
        status: See `CallStatus`.
        response: The answer without token ids; None without one.
        error: The error in one sentence; None without one.
        samples: Its samples; several if the engine sampled several times for one answer.
        is_continued: Whether another call has its line.
    """

    index: int
    model: str
    is_policy: bool
    dialect: str
    request: Request
    previous: Call | None
    line: str
    state: int
    started: float
    ended: float | None = None
    status: CallStatus = "asked"
    response: ResponseDict | None = None
    error: str | None = None
    samples: list[Sample] = field(default_factory=list)
    is_continued: bool = False

    @property
    def output(self) -> list[Item]:
        """The items of the model's answer, without token ids."""
        return [] if self.response is None else self.response["output"]

    @property
    def parent(self) -> Call | None:
        """The call that this one continues, token by token; None for a root, and without token ids."""
        parent = self.samples[0].parent if self.samples else None
        return None if parent is None else parent.call


class CallGraph:
    """Links calls by token prefix, as they are answered.

    A prompt that begins with all ids of an earlier call, prompt and sample, continues that call; of several it
    continues the longest. So retries and parallel calls are siblings. A change of the history begins a new root, or a
    branch at the last unchanged call. Such changes are compaction, edits, dropped reasoning and another system prompt.

    Attributes:
        samples: All samples, in the order in which they were added.
        has_tokens: Whether a call had token ids.
    """

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.has_tokens = False
        self._sizes: list[int] = []
        self._by_end: dict[int, dict[int, list[Sample]]] = {}

    def add(
        self,
        call: Call,
        prompt: list[int],
        sampled: list[int],
        log_probs: list[float],
        *,
        is_constrained: bool = False,
        versions: list[int] | None = None,
        experts: str | None = None,
    ) -> Sample | None:
        """Add a call's prompt and sampled ids; return None if nothing was sampled.

        Raises:
            ValueError: If the ids or the log probabilities are invalid.
        """
        if len(sampled) != len(log_probs):
            raise ValueError(f"there are {len(sampled)} sampled tokens but {len(log_probs)} log probabilities")
        try:
            asked, said, numbers = array("i", prompt).tobytes(), array("i", sampled).tobytes(), array("d", log_probs)
        except (TypeError, OverflowError) as error:
            raise ValueError(f"token ids are integers below 2**31, log probabilities are numbers ({error})") from None
        self.has_tokens = True
        if not said:
            return None
        parent, checksum = self._longest(asked, call.previous)
        size, checksum = len(asked) + len(said), crc32(said, checksum)
        sample = Sample(call, len(prompt), size, checksum, numbers, is_constrained, versions, experts, parent)
        sample.own(asked + said)
        if (ends := self._by_end.get(sample.size)) is None:
            ends = self._by_end[sample.size] = {}
            insort(self._sizes, sample.size)
        ends.setdefault(sample.checksum, []).append(sample)
        self.samples.append(sample)
        call.samples.append(sample)
        return sample

    def remove(self, call: Call) -> None:
        """Remove a call's samples, unless another call continues them."""
        while call.samples and not call.samples[-1].children:
            sample = call.samples.pop()
            sample.leave()
            self.samples.remove(sample)
            ends = self._by_end[sample.size]
            ends[sample.checksum].remove(sample)

    def trajectory(self) -> list[dict[str, Any]] | None:
        """Return the trajectory: one entry for each call that no call continues, with all that came before it.

        An entry has `input_ids`, `loss_mask` and `logprobs`, as `gym_llm.wrappers.TokenIdTracking` describes them. If
        several branches share a part, the first has the mask and log probabilities of its sampled ids, and in the
        others they are context. So each sampled id counts once. If a call was constrained, all entries have
        `constrained`, too. If one was sampled by weights that the engine was given, all have `weight_versions`. An
        entry has `routed_experts` if its last call has. None if no call had token ids.
        """
        if not self.has_tokens:
            return None
        more = {
            "has_constraints": any(each.is_constrained for each in self.samples),
            "has_versions": any(each.versions is not None for each in self.samples),
        }
        found = []
        for leaf, counted in self._branches():
            samples = ((each.start, each.log_probs.tolist(), each.is_constrained, each.versions) for each in counted)
            columns = token_columns(_integers(leaf.ids), samples, **more)
            if leaf.experts is not None:
                columns[ROUTED_EXPERTS] = leaf.experts
            found.append(columns)
        return found

    def homes(self) -> list[tuple[int, Sample]]:
        """Return each sample that counts and the index of its branch in `trajectory`, in the order of the requests."""
        found: list[tuple[int, Sample]] = []
        for index, (_, counted) in enumerate(self._branches()):
            found += [(index, sample) for sample in counted]
        return sorted(found, key=lambda place: (place[1].call.index, place[1].start))

    def _branches(self) -> Iterator[tuple[Sample, list[Sample]]]:
        """Yield the last sample of each branch, and its samples that are in no branch before it, the last one first."""
        seen: set[int] = set()
        for leaf in self.samples:
            if leaf.children:
                continue
            counted: list[Sample] = []
            sample: Sample | None = leaf
            while sample is not None and id(sample) not in seen:
                seen.add(id(sample))
                counted.append(sample)
                sample = sample.parent
            yield leaf, counted

    def _longest(self, prompt: bytes, likely: Call | None) -> tuple[Sample | None, int]:
        """Return the longest sample that a prompt begins with, and the prompt's checksum; the likely call wins a tie.

        This is one pass over the prompt, for any number of samples: at each size of a sample the checksum finds the
        match.
        """
        longest, checksum, at = None, 0, 0
        if likely is not None and likely.samples:
            last = likely.samples[-1]
            if last.size <= len(prompt) and prompt.startswith(last.ids):
                longest, checksum, at = last, last.checksum, last.size
        view = memoryview(prompt)
        for index in range(bisect_right(self._sizes, at), len(self._sizes)):
            size = self._sizes[index]
            if size > len(prompt):
                break
            checksum, at = crc32(view[at:size], checksum), size
            for sample in reversed(self._by_end[size].get(checksum, ())):
                if prompt.startswith(sample.ids):
                    longest = sample
                    break
        return longest, crc32(view[at:], checksum)


def _integers(ids: memoryview) -> list[int]:
    numbers = array("i")
    numbers.frombytes(ids)
    return numbers.tolist()
