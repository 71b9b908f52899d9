"""A model's weights in a folder that an engine's processes can read."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_MEMORY = Path("/dev/shm")


@contextmanager
def weights_folder(weights: str | os.PathLike[str] | Iterable[tuple[str, torch.Tensor]]) -> Iterator[str]:
    """A folder that holds the weights as safetensors: the given one, or a temporary one in memory where there is room.

    Args:
        weights: A folder, or named tensors. Tensors that share memory (tied embeddings) are written once.

    Raises:
        FileNotFoundError: If the folder does not exist or holds no safetensors.
    """
    if isinstance(weights, (str, os.PathLike)):
        folder = Path(weights)
        if not any(folder.glob("*.safetensors")):
            raise FileNotFoundError(f"There are no safetensors in {folder}: give a folder that save_pretrained wrote.")
        yield str(folder)
        return
    from safetensors.torch import save_file

    tensors: dict[str, torch.Tensor] = {}
    # An address says something only as long as what had it lives: another tensor may get it afterwards.
    given: dict[tuple[int, tuple[int, ...]], weakref.ref[torch.Tensor]] = {}
    kept: set[tuple[int, tuple[int, ...]]] = set()
    for name, tensor in weights:
        here = tensor.detach().contiguous().cpu()  # the same memory, if it was there
        identity, copied = _place(tensor), _place(here)
        if copied in kept or (identity in given and given[identity]() is not None):
            continue
        given[identity] = weakref.ref(tensor)
        kept.add(copied)
        tensors[name] = here
    size = sum(tensor.nbytes for tensor in tensors.values())
    with tempfile.TemporaryDirectory(prefix="gym_llm_weights_", dir=_roomy(size)) as name:
        save_file(tensors, str(Path(name) / "model.safetensors"), metadata={"format": "pt"})
        yield name


def _place(tensor: torch.Tensor) -> tuple[int, tuple[int, ...]]:
    return tensor.data_ptr(), tuple(tensor.shape)


def _roomy(size: int) -> Path | None:
    """Where to put so many bytes: in memory if that leaves half of what is free there; None for the usual place."""
    if not _MEMORY.is_dir():
        return None
    space = os.statvfs(_MEMORY)
    return _MEMORY if 2 * size < space.f_bavail * space.f_frsize else None
