"""Counting tokens: word by word and all at once come to the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from testing import often
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from gym_llm.data.prepare import tokens
from gym_llm.data.prepare.tokens import WordCache, input_text, load_tokenizer
from gym_llm.errors import TokenizerUnavailable

CORPUS = [
    Path(tokens.__file__).read_text(),
    "it's  THE\n\n  end.\r\n it’ll We'LL 12 3456 naïve 日本 語 😀",
    "a b c d e f",
]
TEXTS = st.lists(
    st.sampled_from(["a", "the", "'s", "'LL", "X", "Ab", "é", "e\u0301", "日", "12", "3", ".", "/", "!?", "\n", "\r\n"])
    | st.sampled_from([" ", " ", " ", "  ", "\t", "\u00a0", "\u3000", "\u2028", "\x85", "\x1c", "😀", "def count"]),
    max_size=25,
).map("".join)


def byte_level(split: str | None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    steps = [pre_tokenizers.Split(Regex(split), "isolated"), level] if split else [level]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if split else level
    trainer = trainers.BpeTrainer(
        vocab_size=700, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


PATTERNS: list[str | None] = [None, *sorted(tokens._WORD_PATTERNS)]
TOKENIZERS = [byte_level(pattern) for pattern in PATTERNS]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_the_tokenizers_of_current_models_are_counted_word_by_word(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    name, count = load_tokenizer(str(tmp_path))
    assert isinstance(count, WordCache)
    assert name == f"tokenizers:{tmp_path}"
    for text in CORPUS:
        assert count(text) == count(text) == len(tokenizer.encode(text, add_special_tokens=False))


@settings(max_examples=often(100, 150), deadline=None)
@given(TEXTS)
def test_word_by_word_is_exact(text: str) -> None:
    for tokenizer in TOKENIZERS:
        count = WordCache(lambda part, tokenizer=tokenizer: len(tokenizer.encode(part)))
        assert count(text) == count(text) == len(tokenizer.encode(text))


def tiktoken_encoding(pattern: str) -> tiktoken.Encoding:
    ranks = {bytes([number]): number for number in range(256)}
    for word in (b"th", b"the", b" the", b"  ", b"\n\n", b" a", b".\n", b"de", b"def", b" c"):
        ranks[word] = len(ranks)
    return tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def tiktoken_patterns() -> list[str]:
    """The word patterns of tiktoken's encodings, without their vocabularies, which would have to be downloaded."""
    import tiktoken_ext.openai_public as public

    found = [public.r50k_pat_str]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(public, "load_tiktoken_bpe", lambda *args, **kwargs: {})
        found += [make()["pat_str"] for make in (public.cl100k_base, public.o200k_base)]
    return found


ENCODINGS = [tiktoken_encoding(pattern) for pattern in tiktoken_patterns()]


@settings(max_examples=often(100, 150), deadline=None)
@given(TEXTS)
def test_word_by_word_is_exact_for_tiktoken(text: str) -> None:
    for encoding in ENCODINGS:
        count = WordCache(lambda part, encoding=encoding: len(encoding.encode_ordinary(part)))
        assert count(text) == count(text) == len(encoding.encode_ordinary(text))


def test_a_full_cache_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_CACHE_BYTES", 1000)
    count = WordCache(len)
    for number in range(100):
        text = f"word{number} and some more{number}"
        assert count(text) == len(text)
    assert len(count._later) < 30


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec.update(normalizer={"type": "Lowercase"}),
        lambda spec: spec.update(pre_tokenizer=None),
        lambda spec: spec["pre_tokenizer"].update(add_prefix_space=True),
        lambda spec: spec["pre_tokenizer"].update(use_regex=False),
        lambda spec: spec["model"].update(dropout=0.1),
        lambda spec: spec["added_tokens"].append(
            dict.fromkeys(("single_word", "rstrip", "normalized", "special"), False)
            | {"id": 700, "content": "<|x|>", "lstrip": True}
        ),
    ],
)
def test_tokenizers_that_may_join_words_are_not_cached(change: Any, tmp_path: Path) -> None:
    spec = json.loads(TOKENIZERS[0].to_str())
    change(spec)
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    _, count = load_tokenizer(str(tmp_path))
    assert not isinstance(count, WordCache)
    assert count("the end") > 0


def test_unicode_normalisation_keeps_words_apart(tmp_path: Path) -> None:
    tokenizer = byte_level(PATTERNS[1])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    _, count = load_tokenizer(str(tmp_path))
    assert isinstance(count, WordCache)
    assert count("e\u0301 \u0301e") == len(tokenizer.encode("e\u0301 \u0301e"))


def test_a_tokenizer_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(TokenizerUnavailable, match="Unknown tokenizer"):
        load_tokenizer(str(tmp_path))


def test_tiktoken_without_network_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with pytest.raises(TokenizerUnavailable, match=r"TIKTOKEN_CACHE_DIR.*--tokenizer") as caught:
        load_tokenizer("o200k_harmony")
    assert caught.value.has_substitute
    assert str(caught.value).count(". ") == 0


def test_all_that_the_model_reads_is_counted() -> None:
    params = {
        "instructions": "Be brief.",
        "input": [
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "Hi"}, {"type": "input_image", "file_id": "x"}],
            },
            {"type": "function_call", "name": "look", "arguments": "{}", "call_id": "1"},
            {"type": "function_call_output", "output": "sunny", "call_id": "1"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        ],
        "tools": [{"name": "look"}],
    }
    assert input_text(params) == 'Be brief.\nHi\nlook\n{}\nsunny\nhm\n[{"name":"look"}]'
