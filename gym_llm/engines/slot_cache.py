"""SlotCache: the keys and values of sequences that are generated together, one slot for each."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Cache

_SPARE = 64
"""Positions beyond the prompts', so that answers which are short have room from the beginning."""


class SlotCache(Cache):
    """Keys and values of shape (slots, heads, positions, head size) per layer; slot i belongs to sequence i."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []
        self._first_slot: int | None = None
        self._start = 0
        self._at: Any = ()
        self._slots = self._longest = 0
        self._size = (0, 0)

    def prepare_prompts(self, first_slot: int, slots: int, start: int, positions: int) -> None:
        """Say that the next forward pass reads prompts from position `start` on into the slots from `first_slot` on."""
        self._first_slot, self._start = first_slot, start
        self._grow(slots, positions)

    def prepare_step(self, positions: list[int], device: torch.device) -> None:
        """Say that the next forward pass feeds one token to every slot, at these positions."""
        self._first_slot = None
        self._slots, self._longest = len(positions), max(positions) + 1
        if min(positions) == max(positions):  # a group's: many times faster than by tensors
            self._at = slice(self._slots), slice(None), positions[0]
        else:
            rows = torch.arange(self._slots, device=device)
            self._at = rows, slice(None), torch.tensor(positions, device=device)
        self._grow(self._slots, self._longest)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store a layer's new keys and values; called by the model's attention, which attends to what this returns."""
        if layer_idx == len(self.keys):
            slots, positions = self._size
            shape = (slots, key_states.shape[1], positions)
            self.keys.append(key_states.new_zeros(*shape, key_states.shape[3]))
            self.values.append(value_states.new_zeros(*shape, value_states.shape[3]))
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        if self._first_slot is not None:
            rows = slice(self._first_slot, self._first_slot + len(key_states))
            start, end = self._start, self._start + key_states.shape[2]
            keys[rows, :, start:end] = key_states
            values[rows, :, start:end] = value_states
            return (keys[rows, :, :end], values[rows, :, :end]) if start else (key_states, value_states)
        keys[self._at] = key_states[:, :, 0]
        values[self._at] = value_states[:, :, 0]
        return keys[: self._slots, :, : self._longest], values[: self._slots, :, : self._longest]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Zero: positions are always given explicitly."""
        return 0

    def move(self, source: int, target: int) -> None:
        """Copy a slot over another one."""
        for tensor in (*self.keys, *self.values):
            tensor[target] = tensor[source]

    def share(self, sources: list[int], first_slot: int, length: int) -> None:
        """Copy the first positions of some slots to as many slots from `first_slot` on."""
        for tensor in (*self.keys, *self.values):
            tensor[first_slot : first_slot + len(sources), :, :length] = tensor[sources, :, :length]

    @property
    def position_bytes(self) -> int:
        """The size of one position's keys and values in all layers."""
        return sum(tensor.shape[1] * tensor.shape[3] * tensor.element_size() for tensor in (*self.keys, *self.values))

    def cut(self, slot: int, length: int) -> list[torch.Tensor]:
        """Copy the first positions of a slot: of each layer keys, then of each layer values."""
        return [tensor[slot, :, :length].clone() for tensor in (*self.keys, *self.values)]

    def paste(self, cut: list[torch.Tensor], slot: int, length: int) -> None:
        """Write the first positions of what was cut into a slot."""
        if not self.keys:  # nothing has been read since the cache was made
            (slots, positions), half = self._size, len(cut) // 2
            self.keys, self.values = (
                [one.new_zeros(slots, one.shape[0], positions, one.shape[2]) for one in part]
                for part in (cut[:half], cut[half:])
            )
        for tensor, one in zip((*self.keys, *self.values), cut, strict=True):
            tensor[slot, :, :length] = one[:, :length]

    def _grow(self, slots: int, positions: int) -> None:
        """Make room, at least doubling, so that copying costs a constant time per token."""
        old_slots, old_positions = self._size
        if slots <= old_slots and positions <= old_positions:
            return
        self._size = (
            max(slots, 2 * old_slots) if slots > old_slots else old_slots,
            max(positions + _SPARE, 2 * old_positions) if positions > old_positions else old_positions,
        )
        for tensors in (self.keys, self.values):
            for index, old in enumerate(tensors):
                new = old.new_zeros(self._size[0], old.shape[1], self._size[1], old.shape[3])
                new[:old_slots, :, :old_positions] = old
                tensors[index] = new
