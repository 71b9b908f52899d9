"""An extension of vLLM's workers, which load it by name in their processes."""

from __future__ import annotations

from typing import Any


class CPUReload:
    """Mixed into vLLM's CPU workers (the engine argument `worker_extension_cls`)."""

    model_runner: Any
    reload_weights: Any

    def reload_weights_and_head(self, weights_path: str) -> None:
        """`reload_weights`, and the packed copy of the output layer's weights.

        On a CPU vLLM multiplies by packed copies of the weights. Reloading renews the copies of layers that have their
        own weights in the checkpoint. An output layer that shares the embedding's weights would keep its old copy (seen
        in vLLM 0.32).
        """
        from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm
        from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

        self.reload_weights(weights_path=weights_path)
        for module in self.model_runner.get_model().modules():
            if isinstance(module, ParallelLMHead):
                dispatch_cpu_unquantized_gemm(module, remove_weight=False)
