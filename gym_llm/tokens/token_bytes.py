"""The bytes of single tokens: a character may be spread over several tokens, and then none of them has a text."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE = "\u2581"  # which SentencePiece writes for a space


class TokenBytes:
    """The bytes of a tokenizer's tokens, of which the bytes of a text are put together.

    Knows tokenizers of bytes (GPT-2's, with those of Llama 3 and Qwen) and SentencePiece's with bytes (Llama 2, Gemma).
    Of another one a token has the bytes of the text that it decodes to.

    Args:
        tokenizer: A `transformers` tokenizer.

    >>> from pathlib import Path
    >>> import gym_llm
    >>> from transformers import AutoTokenizer
    >>> folder = Path(gym_llm.__file__).parent / "engines" / "pocket" / "model"
    >>> tokens = TokenBytes(AutoTokenizer.from_pretrained(str(folder)))
    >>> b"".join(map(tokens.of, [19, 1017]))
    b'4<|im_end|>'
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._added: dict[int, Any] = getattr(tokenizer, "added_tokens_decoder", {})
        decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
        kinds = set() if decoder is None else _kinds(json.loads(decoder.__getstate__()))
        self._is_bytes = "ByteLevel" in kinds
        self._is_pieces = "ByteFallback" in kinds

    def of(self, token: int) -> bytes:
        """Return the bytes of a token, which need not be whole characters."""
        if token not in self._added and (self._is_bytes or self._is_pieces):
            piece = self._tokenizer.convert_ids_to_tokens(token)
            if isinstance(piece, str):
                if self._is_bytes and _byte_of().keys() >= set(piece):
                    return bytes(map(_byte_of().__getitem__, piece))
                if self._is_pieces:
                    byte = _BYTE.fullmatch(piece)
                    return bytes([int(byte[1], 16)]) if byte else piece.replace(_SPACE, " ").encode()
        text: str = self._tokenizer.decode([token], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text.encode(errors="replace")


def _kinds(decoder: dict[str, Any]) -> set[str]:
    parts = decoder.get("decoders") or ()
    return {decoder["type"]}.union(*map(_kinds, parts))


@functools.cache
def _byte_of() -> dict[str, int]:
    """The byte for which each character of a tokenizer of bytes stands (openai/gpt-2, `bytes_to_unicode`)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    characters = {chr(byte): byte for byte in printable}
    return characters | {chr(0x100 + place): byte for place, byte in enumerate(others)}
