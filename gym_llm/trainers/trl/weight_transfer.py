"""WeightTransfer: how a RolloutWorker's engine in this process comes by the weights that AsyncGRPOTrainer trains."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gym_llm.engines.weights import weights_folder

if TYPE_CHECKING:
    import torch

    from gym_llm.trainers.trl.async_worker import RolloutWorker


class WeightTransfer:
    """TRL's `WeightTransferProtocol`, for an engine in this process.

    Args:
        worker: Whose engine it is.
    """

    def __init__(self, worker: RolloutWorker) -> None:
        self._worker = worker

    def init_weight_transfer(self) -> None:
        """Start the engine."""
        self._worker.start_engine()

    def pause(self) -> None:
        """Nothing: the engine waits for what it is answering when it gets its weights."""

    def send_weights(self, iterator: Iterator[tuple[str, torch.Tensor]]) -> None:
        """Give the engine these weights, those of the whole model, if it takes any."""
        # Sharded ones are gathered as the iterator goes on, in this thread and in the trainer's other processes, which
        # go to its end: one tensor after the other leaves the trainer's device.
        try:
            if self._worker.takes_weights:
                with weights_folder(iterator) as folder:
                    self._worker.update_weights(folder)
        finally:
            deque(iterator, maxlen=0)

    def resume(self) -> None:
        """Nothing: see `pause`."""

    def destroy(self) -> None:
        """Nothing: the worker closes its engine."""
