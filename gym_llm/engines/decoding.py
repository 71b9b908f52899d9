"""Continuous batching for a Hugging Face causal language model: sequences join and leave between any two tokens.

Every sequence has a slot of one padded key-value cache. A step feeds each sequence's newest token at that sequence's
own position, so sequences may differ in length. A finished sequence gives its slot to the last one. A prompt is read
without its last token, which the next step feeds: sampling happens in one place.

A prompt may share a prefix with a sequence in the batch, or with one that joins at the same time. The prefix is then
read once and copied from slot to slot. The keys and values of finished sequences are kept for a while: the prompt of
the next turn begins with these tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from gym_llm.engines.grammar_masks import TokenMask
from gym_llm.engines.prefixes import BLOCK, KeptPrefix, KeptPrefixes, PrefixIndex, prefix_keys
from gym_llm.engines.slot_cache import SlotCache
from gym_llm.errors import EngineError

PREFILL_TOKENS = 16_384
"""Prompt tokens read in one forward pass, padding included, at most: what bounds its memory."""
KEPT_BYTES = 2**28
"""Keys and values of finished sequences, at most."""
_GREEDY_BELOW = 1e-5
CACHE_ARGUMENT = "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"
"""A model's argument for its cache: transformers 5.24 renamed it."""


@dataclass(slots=True, eq=False)
class TokenSequence:
    """A prompt and what is sampled after it.

    Attributes:
        prompt: Token ids, at least one.
        max_new_tokens: How many may be sampled, at least one.
        temperature: 0 takes the most probable token.
        top_p: Sample among the most probable tokens that together have this probability.
        random: One number is drawn from it for every token.
        owner: Whatever the caller wants to find with the sequence.
        mask: Which tokens may come next; None for all.
        top_log_probs: How many of the most likely tokens `likeliest` has at each position; None if unused.
        sampled: Token ids so far, a stop token included.
        weights: Versions of the weights that sampled it, each with the index of its first token.
        log_probs: Natural logs of their probabilities under the model itself: temperature 1, all tokens. Under a mask,
            all that it allows.
        likeliest: Of each position the most likely tokens with their log probabilities; empty without `top_log_probs`.
        failure: Why no more can be sampled under the mask; None if it can.
        stopped: Whether the last sampled token is a stop token.
        prefix_keys: See `gym_llm.engines.prefixes`.
    """

    prompt: list[int]
    max_new_tokens: int
    temperature: float
    top_p: float
    random: np.random.Generator
    owner: Any
    mask: TokenMask | None = None
    top_log_probs: int | None = None
    sampled: list[int] = field(default_factory=list)
    weights: list[tuple[int, int]] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    likeliest: list[list[tuple[int, float]]] = field(default_factory=list)
    failure: EngineError | None = None
    stopped: bool = False
    prefix_keys: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.prefix_keys = prefix_keys(self.prompt)

    @property
    def tokens(self) -> list[int]:
        """All token ids, read and sampled."""
        return self.prompt + self.sampled if self.sampled else self.prompt

    @property
    def finished(self) -> bool:
        """Whether nothing more is to be sampled."""
        return self.stopped or self.failure is not None or len(self.sampled) >= self.max_new_tokens


class _Reading(NamedTuple):
    """A prompt that is to be read.

    Attributes:
        sequence: Whose.
        source: A sequence with a slot, or a finished one, whose tokens begin alike; None if there is none.
        shared: How many tokens they share, not counting the last one.
    """

    sequence: TokenSequence
    source: TokenSequence | KeptPrefix | None
    shared: int


def _batches(readings: list[_Reading]) -> Iterator[list[_Reading]]:
    """Those of which equally much is shared, in batches whose memory is bounded."""
    batch: list[_Reading] = []
    for reading in sorted(readings, key=lambda one: (one.shared, len(one.sequence.tokens))):
        tokens = len(reading.sequence.tokens) * (len(batch) + 1)
        if batch and (reading.shared != batch[0].shared or tokens > PREFILL_TOKENS):
            yield batch
            batch = []
        batch.append(reading)
    if batch:
        yield batch


class Decoder:
    """The sequences being generated, and the steps that generate them. Belongs to one thread.

    Args:
        model: A model with full attention in every layer, in evaluation mode, loaded with SDPA attention.
        stop_tokens: Ids that end a sequence.
        keeps: Whether keys and values are kept while the batch is empty. Without, the weights may change meanwhile, and
            the memory is free for a trainer.
    """

    def __init__(self, model: PreTrainedModel, stop_tokens: Collection[int], *, keeps: bool = False) -> None:
        self.sequences: list[TokenSequence] = []
        self._model = model
        self._stop_tokens = stop_tokens
        self._cache = SlotCache()
        self._keeps = keeps
        self._kept = KeptPrefixes(KEPT_BYTES)
        self.version = 0

    @torch.inference_mode()
    def add(self, sequences: list[TokenSequence]) -> None:
        """Read prompts; their sequences take part in the next step."""
        if not sequences:
            return
        for sequence in sequences:
            sequence.weights.append((self.version, len(sequence.sampled)))
        read = PrefixIndex(self.sequences)
        while sequences:
            before: PrefixIndex[TokenSequence] = PrefixIndex()
            now: list[_Reading] = []
            later = []
            for sequence in sequences:
                source: TokenSequence | KeptPrefix | None
                source, length = read.longest(sequence)
                kept, kept_length = self._kept.longest(sequence)
                if kept_length > length:
                    source, length = kept, kept_length
                if before.longest(sequence)[1] > length:  # it waits for that one
                    later.append(sequence)
                else:
                    now.append(_Reading(sequence, source, length))
                    before.add(sequence)
            for batch in _batches(now):
                self._read(batch)
            for reading in now:
                read.add(reading.sequence)
            sequences = later

    def change_weights(self, version: int, *, recompute: bool) -> None:
        """Go on after the model's weights have changed.

        Args:
            version: The version of the new weights.
            recompute: Read all tokens again with them. Without, the keys and values of the old weights stay.
        """
        self.version = version
        self._kept.clear()
        if recompute:
            sequences, self.sequences = self.sequences, []
            self._cache = SlotCache()
            try:
                self.add(sequences)
            except BaseException:
                self.sequences = sequences  # the worker fails them, and so answers their callers
                raise
        else:
            for sequence in self.sequences:
                sequence.weights.append((version, len(sequence.sampled)))
                sequence.prefix_keys = []  # its keys and values are those of the old weights: no other may take them

    @torch.inference_mode()
    def step(self) -> list[TokenSequence]:
        """Sample one token for every sequence; returns those that are finished now, and not in `sequences` any more."""
        device = self._model.device
        tokens = [s.sampled[-1] if s.sampled else s.prompt[-1] for s in self.sequences]
        at = [len(s.prompt) + len(s.sampled) - 1 for s in self.sequences]
        positions = torch.tensor(at, device=device)
        self._cache.prepare_step(at, device)
        visible = torch.arange(max(at) + 1, device=device)[None] <= positions[:, None]
        logits = self._forward(torch.tensor(tokens, device=device)[:, None], positions[:, None], visible[:, None, None])
        self._sample(logits)
        finished = []
        for slot, sequence in enumerate(self.sequences):
            if sequence.finished:
                finished.append(sequence)
                self._keep(slot, sequence)
        self.drop(finished)
        return finished

    @torch.inference_mode()
    def drop(self, sequences: list[TokenSequence]) -> None:
        """Forget some of `self.sequences`."""
        dropped_ids = set(map(id, sequences))
        for slot in range(len(self.sequences) - 1, -1, -1):
            if id(self.sequences[slot]) in dropped_ids:
                last = self.sequences.pop()
                if slot < len(self.sequences):
                    self.sequences[slot] = last
                    self._cache.move(len(self.sequences), slot)
        if not self.sequences:
            self._cache = SlotCache()  # its memory is for whoever uses the device between two batches: a trainer
            if not self._keeps:
                self._kept.clear()

    def _keep(self, slot: int, sequence: TokenSequence) -> None:
        """Keep the keys and values of a finished sequence, which has none of its last token."""
        tokens = sequence.tokens
        size = (len(tokens) - 1) * self._cache.position_bytes
        if len(tokens) > BLOCK and sequence.prefix_keys and sequence.failure is None and self._kept.make_room(size):
            self._kept.add(sequence, tokens, self._cache.cut(slot, len(tokens) - 1), size)

    def _read(self, batch: list[_Reading]) -> None:
        """Read prompts of which the same number of tokens is shared."""
        sequences, shared = [reading.sequence for reading in batch], batch[0].shared
        first_slot = len(self.sequences)
        slots = {id(sequence): slot for slot, sequence in enumerate(self.sequences)}
        self.sequences += sequences
        tokens = [sequence.tokens for sequence in sequences]
        end = max(map(len, tokens)) - 1
        self._cache.prepare_prompts(first_slot, len(self.sequences), shared, end + 1)
        if shared:
            self._share(batch, first_slot, shared, slots)
        if end == shared:
            return
        device = self._model.device
        ids = np.zeros((len(sequences), end - shared), np.int64)
        for row, known in zip(ids, tokens, strict=True):
            row[: len(known) - 1 - shared] = known[shared:-1]
        positions = torch.arange(shared, end, device=device)
        causal = torch.arange(end, device=device)[None] <= positions[:, None]
        # Padding is on the right: no token before it sees it, and what it left in the cache is overwritten or masked.
        self._forward(
            torch.from_numpy(ids).to(device),
            positions[None].expand(len(sequences), -1),
            causal[None, None].expand(len(sequences), 1, -1, -1),
        )

    def _share(self, batch: list[_Reading], first_slot: int, shared: int, slots: dict[int, int]) -> None:
        """Copy what the prompts share with others: from slots where all do that, else one by one."""
        kept = [reading.source for reading in batch if isinstance(reading.source, KeptPrefix)]
        if not kept:
            self._cache.share([slots[id(reading.source)] for reading in batch], first_slot, shared)
            return
        for slot, reading in enumerate(batch, first_slot):
            if isinstance(reading.source, KeptPrefix):
                self._cache.paste(reading.source.data, slot, shared)
            else:
                self._cache.share([slots[id(reading.source)]], slot, shared)

    def _forward(self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Logits after the last token, float32, of shape (rows, vocabulary)."""
        output = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{CACHE_ARGUMENT: self._cache},
        )
        return output.logits[:, -1].float()

    def _sample(self, logits: torch.Tensor) -> None:
        """Append a token to every sequence by inverting the cumulative distribution at its random number."""
        sequences = self.sequences
        for slot, sequence in enumerate(sequences):
            if sequence.mask is not None:
                try:
                    allowed = torch.from_numpy(sequence.mask.allowed()).to(logits.device)
                except EngineError as error:
                    sequence.failure = error
                    continue
                logits[slot].masked_fill_(~allowed, -torch.inf)
        log_probs = logits.log_softmax(-1)
        temperatures = torch.tensor(
            [s.temperature if s.temperature >= _GREEDY_BELOW else 1.0 for s in sequences], device=logits.device
        )
        probabilities = (logits / temperatures[:, None]).softmax(-1)
        nucleus = [slot for slot, s in enumerate(sequences) if s.top_p < 1]
        if nucleus:
            limits = torch.tensor([sequences[slot].top_p for slot in nucleus], device=logits.device)
            probabilities[nucleus] = _only_top_p(probabilities[nucleus], limits)
        cumulative = probabilities.double().cumsum(-1)
        draws = torch.tensor([s.random.random() for s in sequences], dtype=torch.float64, device=logits.device)
        tokens = torch.searchsorted(cumulative, draws[:, None] * cumulative[:, -1:], right=True)[:, 0]
        tokens = tokens.clamp(max=logits.shape[1] - 1)
        greedy = [slot for slot, s in enumerate(sequences) if s.temperature < _GREEDY_BELOW]
        if greedy:
            tokens[greedy] = logits[greedy].argmax(-1)
        chosen = log_probs.gather(1, tokens[:, None])[:, 0].tolist()
        for sequence, token, log_prob in zip(sequences, tokens.tolist(), chosen, strict=True):
            sequence.sampled.append(token)
            sequence.log_probs.append(log_prob)
            sequence.stopped = token in self._stop_tokens
            if sequence.mask is not None:
                sequence.mask.accept(token)
        for slot, sequence in enumerate(sequences):
            if sequence.top_log_probs:
                top = log_probs[slot].topk(min(sequence.top_log_probs, log_probs.shape[1]))
                pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
                sequence.likeliest.append([pair for pair in pairs if pair[1] > -torch.inf])


def _only_top_p(probabilities: torch.Tensor, limits: torch.Tensor) -> torch.Tensor:
    """Zero all but the smallest set of most probable tokens whose probability reaches the row's limit."""
    ordered, order = probabilities.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    outside = before >= limits[:, None]
    outside[:, 0] = False
    return probabilities.masked_fill(outside.scatter(1, order, outside), 0.0)
