"""The pocket model's tokenizer: byte-level BPE over the corpus, one token per digit, Qwen3's special tokens."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from corpus import Conversation

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

TEMPLATE = Path(str(resources.files("gym_llm.engines.pocket") / "model" / "chat_template.jinja"))
"""The chat template, which lies next to the weights that are there."""
CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Never part of a text: `skip_special_tokens` drops them."""
TAG_TOKENS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
"""One token each, but text: decoding keeps them, as Qwen3's tokenizer does."""

# Qwen3's pattern with one change: a capitalised word never takes the space in front of it, so that a name has the same
# tokens in a sentence and in JSON and a tiny model can copy it.
PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Ll}\p{Lo}]+|\p{Lu}+\p{Ll}*|\p{L}|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train_tokenizer(corpus: Iterable[Conversation], vocab_size: int, context: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer; any text can be encoded, whatever the corpus contains.

    Args:
        corpus: Conversations.
        vocab_size: Tokens in all, the 256 bytes and the special tokens included.
        context: The model's context length in tokens.

    Returns:
        The tokenizer with its chat template.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    from transformers.utils.chat_template_utils import render_jinja_template

    template = TEMPLATE.read_text(encoding="utf-8")
    texts = (
        render_jinja_template([messages], tools=tools or None, chat_template=template)[0][0]
        for messages, tools in corpus
    )
    specials = [AddedToken(token, special=True, normalized=False) for token in CONTROL_TOKENS]
    specials += [AddedToken(token, special=False, normalized=False) for token in TAG_TOKENS]
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(specials),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens(specials)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = template
    return fast


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write `tokenizer.json`, `tokenizer_config.json` and the chat template.

    Args:
        tokenizer: What `train_tokenizer` returned.
        folder: Where to.
    """
    tokenizer.save_pretrained(folder)
    target = folder / "chat_template.jinja"
    if target.resolve() != TEMPLATE.resolve():
        shutil.copyfile(TEMPLATE, target)
