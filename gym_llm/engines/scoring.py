"""Scoring rows of tokens with a Hugging Face causal language model."""

from __future__ import annotations

import copy
from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from gym_llm.engines.decoding import CACHE_ARGUMENT
from gym_llm.engines.scores import Scores
from gym_llm.errors import EngineError
from gym_llm.records.failures import reason

_LOGITS = 1 << 28
"""Logits that are in memory at the same time, at most: 1 GiB as float32."""

_ADAPTERS = 4  # that are kept in memory


class Adapters:
    """The adapters of a model, each read once. They share the model's weights, which are not copied and may change.

    Args:
        model: The model without adapters.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._known: OrderedDict[tuple[str, int], Any] = OrderedDict()

    def model_with(self, adapter: str) -> PreTrainedModel:
        """Return the model with an adapter; one that was saved again since is read again.

        Args:
            adapter: A folder that `PeftModel.save_pretrained` wrote.

        Raises:
            EngineError: If PEFT is not installed, or the adapter cannot be read or is another model's.
        """
        try:
            saved = max(path.stat().st_mtime_ns for path in Path(adapter).iterdir())
        except (OSError, ValueError):
            raise EngineError(f"There is no folder {adapter!r} with an adapter.") from None
        if (found := self._known.pop((adapter, saved), None)) is None:
            try:
                from peft import PeftModel
            except ImportError:
                raise EngineError("An adapter needs PEFT: pip install peft.") from None
            tensors = (*self._model.parameters(), *self._model.buffers())
            shared = copy.deepcopy(self._model, {id(tensor): tensor for tensor in tensors})
            try:
                found = PeftModel.from_pretrained(shared, adapter).eval().get_base_model()
            except Exception as error:  # of several libraries, depending on what is wrong with the files
                raise EngineError(f"Cannot read the adapter {adapter}: {reason(error)}") from error
        self._known[adapter, saved] = found
        while len(self._known) > _ADAPTERS:
            self._known.popitem(last=False)
        return found  # type: ignore[no-any-return]


@torch.inference_mode()
def score_rows(model: PreTrainedModel, rows: list[tuple[list[int], int]]) -> list[Scores]:
    """Return the scores of some rows, which are read together.

    The logits of a position are as many as the vocabulary has tokens, so the rows are read in pieces.

    Args:
        model: In evaluation mode.
        rows: Token ids, each row with the number of likeliest tokens that is asked for.
    """
    device = model.device
    longest, top_k = max(len(ids) for ids, _ in rows), max(top_k for _, top_k in rows)
    padded = torch.zeros((len(rows), longest), dtype=torch.long)  # on the right, where no other token sees it
    for row, (ids, _) in zip(padded, rows, strict=True):
        row[: len(ids)] = torch.tensor(ids)
    padded = padded.to(device)
    piece = max(1, _LOGITS // (len(rows) * model.config.get_text_config().vocab_size))
    cache = DynamicCache(config=model.config) if piece < longest - 1 else None
    chosen, top = [], []
    for start in range(0, longest - 1, piece):
        end = min(start + piece, longest - 1)
        positions = torch.arange(start, end, device=device)[None].expand(len(rows), -1)
        output = model(
            input_ids=padded[:, start:end],
            position_ids=positions,
            use_cache=cache is not None,
            **({} if cache is None else {CACHE_ARGUMENT: cache}),
        )
        log_probs = output.logits.float().log_softmax(-1)
        chosen.append(log_probs.gather(2, padded[:, start + 1 : end + 1, None])[..., 0].cpu())
        if top_k:
            values, indices = log_probs.topk(min(top_k, log_probs.shape[-1]), dim=-1)
            top.append((values.cpu(), indices.cpu()))
    found = torch.cat(chosen, 1).tolist() if chosen else [[] for _ in rows]
    scores = []
    for index, (ids, wanted) in enumerate(rows):
        likeliest = None
        if wanted:
            values = [each for piece_values, _ in top for each in piece_values[index, :, :wanted].tolist()]
            indices = [each for _, piece_ids in top for each in piece_ids[index, :, :wanted].tolist()]
            pairs = zip(indices[: len(ids) - 1], values, strict=False)
            likeliest = [list(zip(one, other, strict=True)) for one, other in pairs]
        scores.append(Scores(found[index][: len(ids) - 1], likeliest))
    return scores
