"""Giving a running engine other weights: the protocol, and the folder in which they travel."""

from __future__ import annotations

import asyncio
import os
import tempfile
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from gym_llm.errors import EngineError

if TYPE_CHECKING:
    import torch

Weights: TypeAlias = "str | os.PathLike[str] | Iterable[tuple[str, torch.Tensor]]"
"""A folder with a model's safetensors, or named tensors, as `model.state_dict().items()` gives them."""

UpdateMode: TypeAlias = Literal["wait", "keep", "recompute"]
"""What happens to the requests under way when the weights change.

- `wait`: they are answered with the old weights first, and new ones wait. Each answer has one version.
- `keep`: they pause between two tokens, and go on with the new weights and the keys and values of the old ones. That is
  fastest. The log probabilities of their later tokens are those of no single version.
- `recompute`: they pause between two tokens, and the new weights read the prompt and what was sampled again. The log
  probability of each token is the one that its version gives.
"""

_MEMORY = Path("/dev/shm")
_END_SECONDS = 0.5


@runtime_checkable
class WeightSync(Protocol):
    """An engine whose weights a trainer replaces while it runs, in this process or in a Ray actor.

    Of several calls at once each waits for the one before it.
    """

    async def update_weights(self, weights: Weights, *, mode: UpdateMode = "wait", version: int | None = None) -> None:
        """Replace the weights.

        Args:
            weights: Weights of the whole model. A folder must be readable where the engine computes; tensors are
                written to a folder on this machine first.
            mode: What happens to the requests under way.
            version: The number of the new weights, which tokens that they sample carry
                (`gym_llm.types.WEIGHT_VERSIONS`); None for one more than before.

        Raises:
            EngineError: If the weights do not fit the model: the engine then has some of them, stops, and answers again
                after another `start`. Or if the engine sleeps: then nothing has changed.
            FileNotFoundError: If the folder has no safetensors.
            ValueError: If the mode or the version is invalid.
            asyncio.CancelledError: If the call is cancelled; raised after the update, which is never left half done.
        """

    async def sleep(self, level: int = 1) -> None:
        """Free the GPU's memory for a trainer; requests wait until `wake_up`, those under way are aborted.

        Args:
            level: 1 keeps the weights in the CPU's memory, 2 drops them (`update_weights` after waking up), 0 only
                stops answering.
        """

    async def wake_up(self) -> None:
        """Go on after `sleep`."""


class Gate:
    """Lets requests through together, or an update alone. Of one event loop; made for an engine that starts."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()  # held by an update, by falling asleep and by waking up
        self._open = asyncio.Event()
        self._open.set()
        self._nobody = asyncio.Event()
        self._inside = 0
        self._asleep = False

    @asynccontextmanager
    async def request(self) -> AsyncIterator[None]:
        """Wait while there is an update or the engine sleeps, then keep both out."""
        while not self._open.is_set():
            await self._open.wait()
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._nobody.set()

    @asynccontextmanager
    async def alone(self, end: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator[None]:
        """Wait for the requests under way, and keep new ones out.

        Args:
            end: Ends the requests under way; called again, every half second, as long as there are any.

        Raises:
            EngineError: If the engine sleeps.
        """
        async with self.beside():
            try:
                await self._close(end)
                yield
            finally:
                self._open.set()

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Keep other updates out, and let requests go on.

        Raises:
            EngineError: If the engine sleeps.
        """
        async with self._one:
            if self._asleep:
                raise EngineError("The engine is asleep: `wake_up` comes before `update_weights`.")
            yield

    async def sleep(self) -> None:
        """Wait for the requests under way, and keep new ones out from now on."""
        async with self._one:
            self._asleep = True
            try:
                await self._close()
            except asyncio.CancelledError:
                self._asleep = False
                self._open.set()
                raise

    async def wake_up(self) -> None:
        """Let requests through again."""
        async with self._one:
            self._asleep = False
            self._open.set()

    def close(self) -> None:
        """Let requests through from now on, without waiting for an update or for `wake_up`: the engine ends."""
        self._open.set()

    async def _close(self, end: Callable[[], Awaitable[None]] | None = None) -> None:
        self._open.clear()
        while self._inside:
            self._nobody.clear()
            if end is not None:
                await end()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if end is None else _END_SECONDS):
                    await self._nobody.wait()


def check_update(mode: UpdateMode, version: int | None, before: int) -> int:
    """Return the version of weights that replace those of the version `before`.

    Raises:
        ValueError: If the mode or the version is invalid.
    """
    if mode not in get_args(UpdateMode):
        raise ValueError(f"mode is wait, keep or recompute; got {mode!r}.")
    if version is None:
        return before + 1
    if type(version) is not int or not 0 <= version < 1 << 53:
        raise ValueError(f"version is a whole number, 0 or more; got {version!r}.")
    return version


def update_options(mode: UpdateMode, version: int | None) -> dict[str, Any]:
    """Return the arguments of `update_weights` that are not its defaults: an engine need not know the others."""
    given: dict[str, Any] = {} if mode == "wait" else {"mode": mode}
    return given if version is None else {**given, "version": version}


def load_weights(model: torch.nn.Module, folder: str) -> None:
    """Replace a model's weights, in their place, by those of a folder's safetensors; all or none.

    Raises:
        EngineError: If they cannot be read, do not fit, or some are missing. A tensor is not missing if it shares its
            memory with one of them.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    own = model.state_dict()
    files = sorted(Path(folder).glob("*.safetensors"))
    try:
        given = {name: tensor for file in files for name, tensor in load_file(file).items()}
    except SafetensorError as error:
        raise EngineError(f"The weights in {folder} are not safetensors: {error}.") from None
    for name, tensor in given.items():
        if name not in own or own[name].shape != tensor.shape:
            there = f"there it is {tuple(own[name].shape)}" if name in own else "which has no such tensor"
            raise EngineError(f"The weights do not fit the model: {name} is {tuple(tensor.shape)}, {there}.")
    replaced = {own[name].data_ptr() for name in given}
    if missing := [name for name, tensor in own.items() if tensor.data_ptr() not in replaced]:
        raise EngineError(
            f"The weights are not those of the whole model: {len(missing)} are missing, e.g. {missing[0]}."
        )
    with torch.no_grad():
        for name, tensor in given.items():
            own[name].copy_(tensor)


async def to_its_end(work: Awaitable[Any]) -> None:
    """Wait for work that must not be left half done: a cancellation is raised when it has ended."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    failure = task.exception()
    if error := cancelled or failure:
        raise error


async def all_of(*work: Awaitable[Any]) -> list[Any]:
    """Wait for all, and then raise the first failure."""
    results = await asyncio.gather(*work, return_exceptions=True)
    if failure := next((result for result in results if isinstance(result, BaseException)), None):
        raise failure
    return results


@contextmanager
def weights_folder(weights: Weights) -> Iterator[str]:
    """A folder that holds the weights as safetensors: the given one, or a temporary one in memory where there is room.

    Tensors that share memory (tied embeddings) are written once.

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
    sources: dict[tuple[int, tuple[int, ...]], weakref.ref[torch.Tensor]] = {}
    copies: set[tuple[int, tuple[int, ...]]] = set()
    for name, tensor in weights:
        copy = tensor.detach().contiguous().cpu()  # the same memory, if it was there
        source_place, copy_place = _place(tensor), _place(copy)
        if copy_place in copies or (source_place in sources and sources[source_place]() is not None):
            continue
        sources[source_place] = weakref.ref(tensor)
        copies.add(copy_place)
        tensors[name] = copy
    size = sum(tensor.nbytes for tensor in tensors.values())
    with tempfile.TemporaryDirectory(prefix="gym_llm_weights_", dir=roomy(size)) as name:
        save_file(tensors, str(Path(name) / "model.safetensors"), metadata={"format": "pt"})
        yield name


def _place(tensor: torch.Tensor) -> tuple[int, tuple[int, ...]]:
    return tensor.data_ptr(), tuple(tensor.shape)


def roomy(size: int) -> Path | None:
    """Return the folder for this number of bytes: in memory if half of it stays free; None for the default."""
    if not _MEMORY.is_dir():
        return None
    space = os.statvfs(_MEMORY)
    return _MEMORY if 2 * size < space.f_bavail * space.f_frsize else None
