"""The calls of an agent as a graph: each continues the one whose tokens its prompt begins with."""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from zlib import crc32

from gym_llm.types import Item, Request, ResponseDict

CallStatus: TypeAlias = Literal["asked", "answered", "failed", "abandoned"]
"""Of a call: the model works; its answer was handed over; it has none; whoever asked left before it was handed over."""

_ID_BYTES = 4


@dataclass(slots=True, eq=False)
class Sample:
    """What was sampled after a prompt: a node of the graph. A call has one; of an engine without token ids, none.

    Attributes:
        call: Whose it is.
        start: How many ids the prompt has.
        size: How many bytes the ids of prompt and sample take, four each.
        checksum: Of these bytes.
        log_probs: Of each sampled id, the natural log of its probability as the engine reported it.
        parent: The sample, prompt and all, that this one's prompt begins with, the longest such; None for a root.
        children: How many samples have this one as their parent.
    """

    call: Call
    start: int
    size: int
    checksum: int
    log_probs: array[float]
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
        """How many ids are in memory for it, beside those that its parent would have by itself."""
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
    """One call of a model.

    Attributes:
        index: Its place among its session's calls, in the order in which they were asked.
        model: The name of the engine's model.
        is_policy: Whether the model is the one that is trained. Others' calls have no samples, and are not recalled.
        dialect: The API by which it was asked; "" for none, in this process.
        request: What the engine was asked. Its items are shared with other calls', so they are never changed.
        previous: The last call of which a turn came back in this one's prompt; None if none did.
        line: The name of its conversation: "" for the first; a call that continues another has the same, unless that
            one was continued already. Engines sample for each line apart.
        state: A hash of all that was said in the prompt; see `gym_llm.agents.capture.token_recall`.
        started: Unix time in seconds.
        ended: The same, of its end; None before.
        status: See `CallStatus`.
        response: The answer without token ids; None without one.
        error: Why it failed, one sentence.
        samples: What it sampled. Engines that sample several times for one answer have one for each time.
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
        """The items that the model said, without token ids."""
        return [] if self.response is None else self.response["output"]

    @property
    def parent(self) -> Call | None:
        """The call that this one continues, token by token; None for a root, and without token ids."""
        parent = self.samples[0].parent if self.samples else None
        return None if parent is None else parent.call


class CallGraph:
    """Links calls by token prefix, as they are answered.

    A prompt that begins with all ids of an earlier call, prompt and sample, continues that one; the longest, if it
    begins with several. So retries and parallel calls are siblings, and whatever changes what was said before
    (compaction, edits, dropped reasoning, another system prompt) begins a root, or a branch of what it left as it was.

    Attributes:
        samples: All of them, in the order in which they were added.
        has_tokens: Whether a call had token ids.
    """

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.has_tokens = False
        self._sizes: list[int] = []
        self._by_end: dict[int, dict[int, list[Sample]]] = {}

    def add(self, call: Call, prompt: list[int], sampled: list[int], log_probs: list[float]) -> Sample | None:
        """Add what a call sampled after a prompt; None if that is nothing.

        Raises:
            ValueError: If these are no token ids and log probabilities.
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
        sample = Sample(call, len(prompt), len(asked) + len(said), crc32(said, checksum), numbers, parent)
        sample.own(asked + said)
        if (ends := self._by_end.get(sample.size)) is None:
            ends = self._by_end[sample.size] = {}
            insort(self._sizes, sample.size)
        ends.setdefault(sample.checksum, []).append(sample)
        self.samples.append(sample)
        call.samples.append(sample)
        return sample

    def remove(self, call: Call) -> None:
        """Take out what a call sampled, unless another call continues it."""
        while call.samples and not call.samples[-1].children:
            sample = call.samples.pop()
            sample.leave()
            self.samples.remove(sample)
            ends = self._by_end[sample.size]
            ends[sample.checksum].remove(sample)

    def trajectory(self) -> list[dict[str, Any]] | None:
        """What a trainer takes: one entry for each call that none continues, with all that came before it.

        An entry has `input_ids`, `loss_mask` and `logprobs`, as `gym_llm.wrappers.TokenIdTracking` describes them. Of
        what several branches have in common the first has the sampled ids' mask and log probabilities; in others they
        are context. So each sampled id counts once. None if no call had token ids.
        """
        if not self.has_tokens:
            return None
        counted: set[int] = set()
        return [self._branch(leaf, counted) for leaf in self.samples if not leaf.children]

    def _branch(self, leaf: Sample, counted: set[int]) -> dict[str, Any]:
        input_ids = _integers(leaf.ids)
        loss_mask = [0] * len(input_ids)
        logprobs = [0.0] * len(input_ids)
        sample: Sample | None = leaf
        while sample is not None and id(sample) not in counted:
            end = sample.size // _ID_BYTES
            loss_mask[sample.start : end] = [1] * (end - sample.start)
            logprobs[sample.start : end] = sample.log_probs.tolist()
            counted.add(id(sample))
            sample = sample.parent
        return {"input_ids": input_ids, "loss_mask": loss_mask, "logprobs": logprobs}

    def _longest(self, prompt: bytes, likely: Call | None) -> tuple[Sample | None, int]:
        """The longest sample that a prompt begins with, and the prompt's checksum; the likely call's before its like.

        One pass over the prompt, whatever the number of samples: at each size that some have, the checksum says which.
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
