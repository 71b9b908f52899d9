"""Scoring rows of tokens with vLLM, alone or with a LoRA adapter."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_llm.engines.scores import Scores
from gym_llm.errors import EngineError

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM


class Adapters:
    """The LoRA adapters that a vLLM has read, by their folders."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, int], Any] = {}

    async def request(self, llm: AsyncLLM, adapter: str) -> Any:
        """Return what vLLM's requests name an adapter by; one that was saved again since is read again.

        Raises:
            EngineError: If vLLM cannot read it.
        """
        from vllm.lora.request import LoRARequest

        try:
            saved = max(path.stat().st_mtime_ns for path in Path(adapter).iterdir())
        except (OSError, ValueError):
            raise EngineError(f"There is no folder {adapter!r} with an adapter.") from None
        if (found := self._requests.get((adapter, saved))) is None:
            number = len(self._requests) + 1
            found = LoRARequest(f"{adapter}#{number}", number, adapter)
            try:
                await llm.add_lora(found)  # a request that names what cannot be read would end vLLM
            except Exception as error:  # what a worker raised, as vLLM hands it on
                raise EngineError(f"vLLM cannot read the adapter {adapter}: {str(error)[:300]}") from error
            self._requests[adapter, saved] = found
        return found


async def score_row(llm: AsyncLLM, row: list[int], top_k: int, name: str, lora: Any) -> Scores:
    """Return the scores of a row.

    Args:
        llm: A started vLLM, whose context has room for one token more.
        row: Token ids.
        top_k: The number of likeliest tokens at each position.
        name: Of the request.
        lora: A `LoRARequest`; None for the model alone.

    Raises:
        EngineError: If vLLM does not score.
    """
    from vllm import SamplingParams
    from vllm.exceptions import VLLMError

    params = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=top_k, detokenize=False, flat_logprobs=True)
    given: Any = {"type": "token", "prompt_token_ids": row}
    try:
        async with aclosing(llm.generate(given, params, name, lora_request=lora)) as answers:
            async for answer in answers:
                found: Any = answer.prompt_logprobs
    except (VLLMError, ValueError) as error:
        raise EngineError(f"vLLM did not score: {str(error)[:300]}") from error
    starts, ends = found.start_indices, found.end_indices
    likeliest = None
    if top_k:  # each position has the given token, then the likeliest
        pairs = list(zip(found.token_ids, found.logprobs, strict=True))
        likeliest = [pairs[starts[n] + 1 : ends[n]][:top_k] for n in range(1, len(row))]
    return Scores([found.logprobs[starts[n]] for n in range(1, len(row))], likeliest)
