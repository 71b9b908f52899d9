"""Counting the tokens of a task's input with a tokenizer."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from gym_llm.errors import TokenizerUnavailable
from gym_llm.records.failures import reason
from gym_llm.utils.extras import install

DEFAULT_TOKENIZER = "o200k_base"
NO_TOKENIZER = "none"
WORDS_ONLY = "none (words only)"
"""What metrics name as their token counter when there is none."""

CountTokens = Callable[[str], int]

_DOWNLOAD_SECONDS = 30.0
_CACHE_BYTES = 24 << 20
_WORD_BYTES = 110  # what a cached word of one character takes

# A space with no white space on either side: where every tokenizer below parts its text.
_LONE_SPACE = re.compile(r"(?<=\S) (?=\S)")
_OTHER_SPACE = re.compile(r"[\t\r\v\f\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")

# The patterns by which tokenizers cut text into words, of which none can match across a lone space: within a word they
# allow a space only as its first character, or in a run of white space. (GPT-2's is built into `ByteLevel`.)
_WORD_PATTERNS = {
    # Qwen 2 to 3
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    # Llama 3
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
}
_TIKTOKEN_BY_WORD = frozenset({"gpt2", "r50k_base", "p50k_base", "p50k_edit", "cl100k_base", "o200k_base"})


@functools.cache
def load_tokenizer(name: str) -> tuple[str, CountTokens]:
    """Load a tokenizer by name.

    Args:
        name: An encoding of tiktoken, such as `o200k_base`. Or a `tokenizer.json`, a folder with one, or a model on the
            Hugging Face hub.

    Returns:
        Its name in metrics, and the function that counts a text's tokens without special tokens.

    Raises:
        TokenizerUnavailable: If it cannot be loaded.
    """
    path = Path(name)
    if path.is_dir():
        path = path / "tokenizer.json"
    if path.is_file():
        return f"tokenizers:{name}", _count_with_tokenizers(path)
    if name in _tiktoken_names():
        return f"tiktoken:{name}", _count_with_tiktoken(name)
    return f"tokenizers:{name}", _count_with_tokenizers(name)


def try_tokenizer(name: str) -> str | TokenizerUnavailable:
    """Return the name of a tokenizer in metrics, or the reason why it cannot be loaded."""
    try:
        return load_tokenizer(name)[0]
    except TokenizerUnavailable as error:
        return error


def input_text(params: dict[str, Any]) -> str:
    r"""The text a model is given with a request: instructions, messages, calls and their outputs, tools as JSON.

    What a chat template puts around them is not in it: it differs from model to model.

    >>> input_text({"instructions": "Be brief.", "input": [{"role": "user", "content": "2+2?"}]})
    'Be brief.\n2+2?'
    """
    items = params["input"]
    if type(items) is str:
        items = [{"content": items}]
    texts = [params.get("instructions") or ""]
    for item in items:
        for name in ("name", "arguments", "output", "content", "summary"):
            value = item.get(name)
            if type(value) is str:
                texts.append(value)
            elif type(value) is list:
                texts += (part["text"] for part in value if type(part) is dict and type(part.get("text")) is str)
    if tools := params.get("tools"):
        texts.append(orjson.dumps(tools).decode())
    return "\n".join(text for text in texts if text)


class WordCache:
    """Counts tokens word by word and remembers each word's count: many times as fast as tokenizing whole texts.

    Exact for tokenizers that always part a text before a lone space (one with no white space next to it).

    Args:
        count: Counts a text's tokens.
    """

    def __init__(self, count: CountTokens) -> None:
        self._count = count
        self._first: dict[str, int] = {}
        self._later: dict[str, int] = {}  # without the space they follow
        self._bytes = 0

    def __call__(self, text: str) -> int:
        """The number of tokens."""
        if "  " in text or " \n" in text or "\n " in text or _OTHER_SPACE.search(text) or text != text.strip(" "):
            words = _LONE_SPACE.split(text)
        else:
            words = text.split(" ")
        first = words[0]
        total = self._first.get(first)
        if total is None:
            total = self._first[first] = self._count(first)
            self._bytes += len(first) + _WORD_BYTES
        later = self._later
        words[0] = ""
        later[""] = 0
        try:
            total += sum(map(later.__getitem__, words))
        except KeyError:
            for word in words:
                if word not in later:
                    later[word] = self._count(" " + word)
                    self._bytes += len(word) + _WORD_BYTES
            total += sum(map(later.__getitem__, words))
        if self._bytes > _CACHE_BYTES:
            self._first.clear()
            self._later.clear()
            self._bytes = 0
        return total


def _tiktoken_names() -> list[str]:
    try:
        import tiktoken
    except ModuleNotFoundError:
        return [DEFAULT_TOKENIZER]
    return tiktoken.list_encoding_names()


def _count_with_tiktoken(name: str) -> CountTokens:
    try:
        import tiktoken
    except ModuleNotFoundError:
        raise TokenizerUnavailable(
            f"Tokens are not counted: {name} needs tiktoken ({install('data')}); --tokenizer names another tokenizer.",
            has_substitute=True,
        ) from None
    loaded: list[Any] = []

    def load() -> None:
        try:
            loaded.append(tiktoken.get_encoding(name))
        except Exception as error:  # whatever the network does
            loaded.append(error)

    # In a thread that can be left behind: tiktoken downloads the vocabulary without a time limit.
    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    thread.join(_DOWNLOAD_SECONDS)
    encoding = loaded[0] if loaded else TimeoutError(f"no answer in {_DOWNLOAD_SECONDS:g} s")
    if isinstance(encoding, Exception):
        raise TokenizerUnavailable(
            f"The vocabulary of {name} could not be downloaded ({type(encoding).__name__}): set TIKTOKEN_CACHE_DIR or "
            "--tokenizer.",
            has_substitute=True,
        )

    def count(text: str) -> int:
        return len(encoding.encode_ordinary(text))

    return WordCache(count) if name in _TIKTOKEN_BY_WORD else count


def _count_with_tokenizers(name: str | Path) -> CountTokens:
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError:
        raise TokenizerUnavailable(f"The tokenizer {name} needs the package tokenizers: {install('data')}.") from None
    try:
        tokenizer = Tokenizer.from_file(str(name)) if isinstance(name, Path) else Tokenizer.from_pretrained(name)
    except Exception as error:  # tokenizers raises bare Exceptions
        first_line = reason(error).partition("\n")[0]
        raise TokenizerUnavailable(
            f"Unknown tokenizer {name!s}: give a tokenizer.json, its folder, a tiktoken encoding or a hub model "
            f"({first_line:.200})."
        ) from None

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    return WordCache(count) if _parts_at_lone_spaces(orjson.loads(tokenizer.to_str())) else count


def _parts_at_lone_spaces(spec: dict[str, Any]) -> bool:
    """Whether a `tokenizer.json` certainly parts text before every lone space."""
    if spec["model"]["type"] != "BPE" or spec["model"].get("dropout"):
        return False
    if any(" " in token["content"] or token["lstrip"] or token["rstrip"] for token in spec["added_tokens"]):
        return False
    normalizer = spec.get("normalizer")
    if normalizer is not None and normalizer["type"] != "NFC":
        return False
    pre = spec.get("pre_tokenizer") or {}
    steps = pre["pretokenizers"] if pre.get("type") == "Sequence" else [pre]
    if not steps or steps[-1].get("type") != "ByteLevel" or steps[-1]["add_prefix_space"]:
        return False
    if len(steps) == 1:
        return bool(steps[0].get("use_regex", True))
    return (
        len(steps) == 2
        and steps[0].get("type") == "Split"
        and steps[0]["behavior"] == "Isolated"
        and not steps[0]["invert"]
        and steps[0]["pattern"].get("Regex") in _WORD_PATTERNS
    )
