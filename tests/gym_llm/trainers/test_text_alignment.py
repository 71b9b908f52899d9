"""Teachers whose tokenizer is another one than the rows'."""

from __future__ import annotations

from typing import Any

import pytest
from testing import POCKET, in_loop
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from gym_llm.engines import Capabilities, Engine
from gym_llm.engines.scores import Scores
from gym_llm.trainers.shared.scored_rows import with_scores
from gym_llm.trainers.shared.text_alignment import TextAlignment
from gym_llm.trainers.shared.token_rows import TokenRow

TEXT = "<|im_start|>user\nWhat is 12 + 30?<|im_end|>\nThe answer is 42, café 🎉 indeed."


def trained(texts: list[str], size: int, **special: str) -> Any:
    """A tokenizer of bytes that is trained here."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    names = list(special.values())
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, special_tokens=names)
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


POCKETS = AutoTokenizer.from_pretrained(POCKET)
BYTES = trained([], 256)
WORDS = trained([TEXT] * 20, 400)


class ByByte(Engine):
    """Gives each byte a log probability of -1, however its tokenizer splits the text."""

    model = "by byte"
    capabilities = Capabilities(scores=True)

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.rows: list[list[int]] = []

    async def respond(self, request: Any, *, episode_id: str = "") -> Any: ...

    async def score(self, ids: Any, *, top_k: int = 0, adapter: str | None = None) -> Scores:
        self.rows.append(list(ids))
        pieces = self.tokenizer.convert_ids_to_tokens(ids)  # a character for each byte
        return Scores([-float(len(piece)) for piece in pieces[1:]])


def sampled(ids: list[int], start: int = 1) -> TokenRow:
    mask = [0] * start + [1] * (len(ids) - start)
    return TokenRow(ids, mask, [-0.5] * len(ids), [0.0] * len(ids), 1.0, start)


@in_loop
async def test_finer_tokens_add_up_and_all_are_aligned() -> None:
    row = sampled(WORDS.encode(TEXT), 4)
    (scored,) = await with_scores([row], teacher=ByByte(BYTES), tokenizers=(WORDS, BYTES))
    assert scored.teacher_mask == row.loss_mask
    lengths = [-float(len(piece)) for piece in WORDS.convert_ids_to_tokens(row.input_ids)]
    assert scored.teacher_logprobs == pytest.approx([0.0] * 4 + lengths[4:])
    assert min(lengths) < -4 and scored.input_ids is row.input_ids


@in_loop
async def test_tokens_within_a_coarser_one_are_masked() -> None:
    row = sampled(BYTES.encode(TEXT))
    (scored,) = await with_scores([row], teacher=ByByte(WORDS), tokenizers=(BYTES, WORDS))
    assert scored.teacher_mask is not None and scored.teacher_logprobs is not None
    alone = [0, *[len(piece) == 1 for piece in WORDS.convert_ids_to_tokens(WORDS.encode(TEXT))][1:]]
    assert 0 < sum(scored.teacher_mask) == sum(alone) < len(row.input_ids) / 4
    assert scored.teacher_logprobs == [-float(each) for each in scored.teacher_mask]


@in_loop
async def test_pockets_own_rows_with_markers_of_its_template() -> None:
    row = sampled(POCKETS.encode(TEXT, add_special_tokens=False), 9)
    (scored,) = await with_scores([row], teacher=ByByte(BYTES), tokenizers=(POCKETS, BYTES))
    assert scored.teacher_mask == row.loss_mask
    tail = POCKETS.decode(row.input_ids[9:]).encode()
    assert sum(scored.teacher_logprobs or ()) == -len(tail)


@in_loop
async def test_a_teacher_that_begins_with_a_token_scores_the_first_one_too() -> None:
    from tokenizers.processors import TemplateProcessing

    begun = trained([], 257, bos_token="<s>")
    pairs = [("<s>", begun.bos_token_id)]
    begun.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=pairs)
    engine, row = ByByte(begun), sampled(WORDS.encode("Yes indeed"), 0)
    (scored,) = await with_scores([row], teacher=engine, tokenizers=(WORDS, begun))
    assert engine.rows[0][0] == begun.bos_token_id and scored.teacher_mask == [1] * len(row.input_ids)
    assert sum(scored.teacher_logprobs or ()) == -len("Yes indeed")
    (without,) = await with_scores([row], teacher=ByByte(BYTES), tokenizers=(WORDS, BYTES))
    assert without.teacher_mask == [0] + [1] * (len(row.input_ids) - 1)  # the first byte has no probability


def test_beyond_a_broken_character_nothing_is_aligned() -> None:
    ids = BYTES.encode("ab 🎉 cd")
    broken = [*ids[:4], *ids[5:]]  # the second of four bytes is lost
    alignment = TextAlignment(BYTES, BYTES)
    theirs = alignment.teacher_ids(broken)
    found = alignment.align(broken, theirs, [None, *[-1.0] * (len(theirs) - 1)])
    assert found.mask[:3] == [0, 1, 1] and not any(found.mask[3:])


@in_loop
async def test_tokenizers_without_a_teacher_are_refused() -> None:
    with pytest.raises(ValueError, match="give the teacher"):
        await with_scores([], tokenizers=(POCKETS, BYTES))
