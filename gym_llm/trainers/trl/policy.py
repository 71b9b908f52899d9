"""Policies that play TRL's episodes: the trained model in its own process, or an engine that gets its weights.

One engine serves all trainer processes. The main process starts it, gives it the weights and serves it to the others.
Before each batch all processes take the same steps together:

1. Each reports whether its part of the weights may have changed. If no part has, the engine keeps its weights.
2. All gather sharded weights, tensor by tensor. The main process keeps them, the others drop them. Then the main
    process
   starts the engine, if it does not run, and gives it the weights.
3. The main process sends the others the engine's address, or the reason why no engine runs. They start to play only
    now.

Every episode is therefore played with the weights of this step. No episode is under way at the next update, because TRL
gathers the rewards of all processes in between.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any, cast

from gym_llm.engines import Engine, WeightSync, make_engine
from gym_llm.engines.served import EngineServer, ServedEngine
from gym_llm.engines.specs import seeded_options
from gym_llm.engines.weights import weights_folder
from gym_llm.errors import EngineError
from gym_llm.records.failures import reason
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.trainers.shared.full_weights import full_weights, is_sharded

if TYPE_CHECKING:
    from trl import GRPOTrainer


class OwnModel:
    """The trainer's own model, sampled in this process; each process samples its own.

    Args:
        pool: Runs the engine on its event loop.
        options: `TransformersEngine`'s.
    """

    def __init__(self, pool: EnvPool, options: dict[str, Any]) -> None:
        self._pool = pool
        self._options = options
        self._engine: Engine | None = None
        self._model: Any = None

    def current(self, trainer: GRPOTrainer) -> Engine:
        """Return a started engine that samples the model with its current weights.

        Raises:
            ValueError: If this process has only a part of the model.
        """
        from gym_llm.engines.transformers import TransformersEngine

        model = bare_model(trainer)
        if is_sharded(trained_model(trainer)):
            raise ValueError(
                "No process can sample with sharded weights (FSDP, ZeRO-3): use engine='vllm:MODEL', which gets all of "
                "them."
            )
        if self._engine is not None and self._model is not model:
            self.stop()  # another trainer's
        if self._engine is None:
            options = {"seed": process_seed(trainer), "max_batch_size": 256, **self._options}
            engine = TransformersEngine.of(model, tokenizer_of(trainer), **options)
            self._pool.run(engine.start())
            self._engine, self._model = engine, model
        return self._engine

    def distrust(self) -> None:
        """Stop the engine, which may be to blame; the next batch starts another."""
        self.stop()

    def stop(self) -> None:
        """Stop the engine; the next batch starts another."""
        engine, self._engine, self._model = self._engine, None, None
        if engine is not None:
            self._pool.run(engine.aclose())


class OneEngine:
    """An engine for all processes of a trainer, with the weights that are trained.

    Args:
        pool: Runs the engine on its event loop. If the pool is remote, the engine is a Ray actor.
        spec: The engine's spec.
        options: The engine's arguments.
        ray_address: A cluster's address; None to start Ray on this machine.
    """

    def __init__(self, pool: EnvPool, spec: str, options: dict[str, Any], *, ray_address: str | None = None) -> None:
        self._pool = pool
        self._spec = spec
        self._options = options
        self._ray_address = ray_address
        self._over_ray = pool.is_remote
        self._stack = AsyncExitStack()
        self._engine: Engine | None = None  # the main process's
        self._server: EngineServer | None = None  # the main process's
        self._address: tuple[str, str] | None = None  # that of its server, in the others
        self._playing: Engine | None = None
        self._weights: Any = None

    def current(self, trainer: GRPOTrainer) -> Engine:
        """An engine that answers with the trainer's current weights; over Ray not a started one, for the workers.

        Raises:
            ValueError: If adapters cannot be merged.
            EngineError: If the engine cannot be started or given the weights.
        """
        accelerator, model = trainer.accelerator, trained_model(trainer)
        weights = _state(model, trainer.state.global_step)
        said = of_all(accelerator, (weights != self._weights, socket.gethostname()))
        failure: Exception | None = None
        if any(changed for changed, _ in said):
            try:
                self._give(model, trainer)
                self._weights = weights
            except Exception as error:  # the others have to be told before it is raised
                failure = error
        if accelerator.num_processes > 1:
            failure = self._agree(accelerator, failure, {host for _, host in said})
        if failure is not None:
            try:
                self.stop()
            except Exception as error:  # often for the same reason, which must not hide the first
                failure.add_note(f"Nor could the engine be stopped: {reason(error)}")
            raise failure
        assert self._playing is not None
        return self._playing

    def distrust(self) -> None:
        """Give the weights again next time: the engine may have lost them with its process."""
        self._weights = None

    def stop(self) -> None:
        """Stop the engine; the next batch starts another."""
        stack, self._stack = self._stack, AsyncExitStack()
        self._engine = self._server = self._address = self._playing = self._weights = None
        self._pool.run(stack.aclose())

    def _give(self, model: Any, trainer: GRPOTrainer) -> None:
        """The second step."""
        is_main = trainer.accelerator.is_main_process
        if not is_main and not is_sharded(model):
            return
        weights = full_weights(model)
        try:
            if is_main:
                with weights_folder(weights) as folder:  # first: what cannot be merged shows before the engine starts
                    if self._engine is None:
                        self._pool.run(self._start(trainer))
                    self._pool.run(cast(WeightSync, self._engine).update_weights(folder))
        finally:
            deque(weights, maxlen=0)  # the others' gathering waits for this process, also if it has failed

    async def _start(self, trainer: GRPOTrainer) -> None:
        options = seeded_options(self._spec, self._options, trainer.args.seed)
        if self._over_ray:
            from gym_llm.rollouts.ray.shared_engine import shared_engine

            # The weights come in a folder of this machine's memory.
            shared = shared_engine(self._spec, options, ray_address=self._ray_address, on_this_machine=True)
            spec = await self._stack.enter_async_context(shared)
            self._engine = await self._stack.enter_async_context(make_engine(spec))
            self._playing = make_engine(spec)
        else:
            self._engine = await self._stack.enter_async_context(make_engine(self._spec, **options))
            self._playing = self._engine

    def _agree(self, accelerator: Any, failure: Exception | None, hosts: set[str]) -> Exception | None:
        """The third step; the failure, of this process or of the main one."""
        from accelerate.utils import broadcast_object_list

        if accelerator.is_main_process and failure is None and self._server is None:
            try:
                self._server = self._pool.run(self._serve(hosts))
            except EngineError as error:
                failure = error
        address = (self._server.url, self._server.token) if self._server is not None else None
        told = [(address, None if failure is None else reason(failure))]
        broadcast_object_list(told)
        address, why = told[0]
        if accelerator.is_main_process or failure is not None:
            return failure
        if address is None or why is not None:
            return EngineError(f"The main process has no engine: {why}")
        if address != self._address:
            weights = self._weights
            self.stop()
            self._weights = weights
            engine = ServedEngine(*address)
            if not self._over_ray:
                try:
                    self._pool.run(self._stack.enter_async_context(engine))
                except EngineError as error:
                    return error
            self._address, self._playing = address, engine
        return None

    async def _serve(self, hosts: set[str]) -> EngineServer:
        assert self._engine is not None
        if self._over_ray and self._ray_address is not None:  # whose workers may be on any of the cluster's machines
            import ray

            host = ray.util.get_node_ip_address()
        elif len(hosts) == 1:
            host = "127.0.0.1"
        else:  # under torchrun and accelerate the main process is where the processes have met
            host = os.environ.get("MASTER_ADDR", socket.gethostname())
        return await self._stack.enter_async_context(EngineServer(self._engine, host=host))


@contextmanager
def evaluating(trainer: GRPOTrainer) -> Iterator[None]:
    """The trained model in evaluation mode, where gradient checkpointing is off, too."""
    model = bare_model(trainer)
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def bare_model(trainer: GRPOTrainer) -> Any:
    """The model that is trained, without what wraps it as a whole."""
    return trainer.accelerator.unwrap_model(trainer.model_wrapped, keep_torch_compile=False)


def trained_model(trainer: GRPOTrainer) -> Any:
    """The model that is trained, as `full_weights` takes it.

    Raises:
        ValueError: If it is one that Megatron trains.
    """
    from torch.distributed.fsdp import FullyShardedDataParallel

    if trainer.accelerator.distributed_type.value == "MEGATRON_LM":
        raise ValueError("Weights that Megatron-LM has sharded cannot be sampled from here.")
    wrapped = trainer.model_wrapped
    return wrapped if isinstance(wrapped, FullyShardedDataParallel) else bare_model(trainer)


def process_seed(trainer: GRPOTrainer) -> int:
    """Each process has its own seed."""
    return cast(int, trainer.args.seed + trainer.accelerator.process_index)


def tokenizer_of(trainer: GRPOTrainer) -> Any:
    """The trainer's tokenizer; a ValueError if it has something else, for more than text."""
    from transformers import PreTrainedTokenizerBase

    if not isinstance(trainer.processing_class, PreTrainedTokenizerBase):
        raise ValueError(
            f"Only text can be trained on from here, but the trainer has a {type(trainer.processing_class).__name__}."
        )
    return trainer.processing_class


def _state(model: Any, step: int) -> Any:
    """What differs when a model's weights have changed.

    Not by the step alone: a training that begins anew counts from 0 again, and the best checkpoint is loaded without a
    step. Nor by the tensors alone: some optimizers write to their memory past torch's counter.
    """
    adapters = [getattr(model, name, None) for name in ("active_adapter", "_adapters_disabled")]
    parts = [tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in model.parameters()]
    return model, step, adapters, [(part.data_ptr(), part._version) for part in parts]


def of_all(accelerator: Any, said: Any) -> list[Any]:
    """Return the value of each process; all processes must call it."""
    if accelerator.num_processes == 1:
        return [said]
    from accelerate.utils import gather_object

    return list(gather_object([said]))
