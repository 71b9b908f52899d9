"""WeightFiles: a folder of weights for engine actors on any machine, as objects in Ray's object store."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gym_llm.engines.weights import roomy
from gym_llm.rollouts.ray.connection import ray_module

Files: TypeAlias = dict[str, npt.NDArray[np.uint8]]
"""Files by name, as bytes."""


class WeightFiles:
    """The weights of one update.

    An actor on this machine reads the folder, which is in memory where there is room. For others the files are put
    into the object store once: each machine gets one copy, which its processes share.

    Args:
        folder: It has safetensors, and stays until the update has ended.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._putting: asyncio.Task[Any] | None = None

    async def put(self) -> Any:
        """Return the reference of `Files` in the object store."""
        if self._putting is None:
            self._putting = asyncio.create_task(asyncio.to_thread(self._put))
        return await self._putting

    def _put(self) -> Any:
        files = {path.name: np.fromfile(path, np.uint8) for path in Path(self.folder).glob("*.safetensors")}
        return ray_module().put(files)


@contextmanager
def written(files: Files) -> Iterator[str]:
    """A folder with these files, while the context lasts."""
    size = sum(content.nbytes for content in files.values())
    with tempfile.TemporaryDirectory(prefix="gym_llm_weights_", dir=roomy(size)) as folder:
        for name, content in files.items():
            content.tofile(Path(folder, name))
        yield folder
