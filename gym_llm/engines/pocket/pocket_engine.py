"""The engine that needs no download: the packaged pocket model."""

from __future__ import annotations

from gym_llm.engines.pocket import MODEL_PATH
from gym_llm.engines.transformers import TransformersEngine
from gym_llm.tokens.prompt_tokens import History


class PocketEngine(TransformersEngine):
    """The pocket model, a Qwen3 of about a million parameters trained by `examples/pocket/`.

    It adds and subtracts in `<think>`, calls the tools it was taught, and makes mistakes; see README.md. The arguments
    are `TransformersEngine`'s.
    """

    def __init__(
        self,
        *,
        max_batch_size: int = 128,
        max_new_tokens: int = 512,
        seed: int = 0,
        history: History = "template",
    ) -> None:
        super().__init__(
            MODEL_PATH,
            device="cpu",
            max_batch_size=max_batch_size,
            max_new_tokens=max_new_tokens,
            threads=1,
            seed=seed,
            history=history,
        )
        self.model = "pocket"
