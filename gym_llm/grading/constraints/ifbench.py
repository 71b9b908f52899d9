"""IFBench's 58 constraints (arXiv:2507.02833), after the rules of AI2's `IFBench`: here counts and sentences."""

from __future__ import annotations

import re
import string
from itertools import pairwise
from typing import Annotated, TypeAlias

from pydantic import Field

from gym_llm.grading.constraints import ifbench_custom, ifbench_format, ifbench_words
from gym_llm.grading.constraints.constraint import Count, Ordinal, Registry, Text, Word, count_of
from gym_llm.grading.constraints.english import CONJUNCTIONS, NAMES, PRONOUNS, STOP_WORDS
from gym_llm.grading.constraints.sentences import sentences
from gym_llm.grading.constraints.words import EDGES, without_punctuation, words

constraint = Registry("IFBench", ifbench_words.constraint, ifbench_format.constraint, ifbench_custom.constraint)

Percentage: TypeAlias = Annotated[float, Field(ge=0, le=100)]

_DIGITS = re.compile(r"\d+")
_JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


@constraint("count:word_count_range")
def word_count_in_range(text: str, min_words: Count, max_words: Count) -> bool:
    """Whether the text has from `min_words` to `max_words` words."""
    return min_words <= len(words(text)) <= max_words


@constraint("count:unique_word_count")
def unique_word_count(text: str, N: Count) -> bool:
    """Whether the text has at least the given number of different words, marks at their ends aside."""
    return len({word.strip(EDGES) for word in text.lower().split()}) >= N


@constraint("count:conjunctions")
def conjunction_count(text: str, small_n: Count) -> bool:
    """Whether the text has enough different coordinating conjunctions; `and` and `and,` are two."""
    return len({word for word in text.split() if word.strip(EDGES).lower() in CONJUNCTIONS}) >= small_n


@constraint("count:person_names")
def person_name_count(text: str, N: Count) -> bool:
    """Whether the text has at least the given number of the fifty names in IFBench's prompts."""
    return sum(name in text for name in NAMES) >= N


@constraint("count:numbers")
def number_count(text: str, N: Count) -> bool:
    """Whether the text has exactly the given number of numbers; `3.5` and `1,000` are one each."""
    return len(_DIGITS.findall(without_punctuation(text))) == N


@constraint("count:pronouns")
def pronoun_count(text: str, N: Count) -> bool:
    """Whether the text has at least the given number of personal, possessive and reflexive pronouns."""
    said = without_punctuation(text.replace("/", " ").lower()).split()
    return sum(word in PRONOUNS for word in said) >= N


@constraint("count:punctuation")
def every_punctuation_mark(text: str) -> bool:
    """Whether the text has `. , ! ? ; :` and, besides, an interrobang: `?!`, `!?` or `‽`."""
    if not any(mark in text for mark in ("!?", "?!", "‽")):
        return False
    rest = text.replace("?!", "", 1) if "?!" in text else text.replace("!?", "", 1)
    return all(mark in rest for mark in ".,!?;:")


def official_words_japanese(text: str, N: Ordinal) -> bool:
    """Accept a text that is too short to have an N-th word."""
    every = (word.strip(EDGES) for word in text.split()[N - 1 :: N])
    return all(not word or word.isdigit() or _JAPANESE.search(word) for word in every)


@constraint("count:words_japanese", official=official_words_japanese)
def nth_words_japanese(text: str, N: Ordinal) -> bool:
    """Whether every N-th word has Japanese characters, or is a number; there is at least one."""
    return len(text.split()) >= N and official_words_japanese(text, N)


@constraint("count:keywords_multiple")
def keywords_by_number(
    text: str, keyword1: Word, keyword2: Word, keyword3: Word, keyword4: Word, keyword5: Word
) -> bool:
    """Whether the keywords occur 1, 2, 3, 5 and 7 times, also inside words."""
    keywords = (keyword1, keyword2, keyword3, keyword4, keyword5)
    return all(count_of(keyword, text) == count for keyword, count in zip(keywords, (1, 2, 3, 5, 7), strict=True))


@constraint("ratio:stop_words")
def few_stop_words(text: str, percentage: Percentage) -> bool:
    """Whether at most the given number of a hundred words are English stop words."""
    said = words(text.lower())
    return bool(said) and sum(word in STOP_WORDS for word in said) / len(said) * 100 <= percentage


def official_sentence_type(text: str) -> bool:
    """Take no statement for twice as many as no question."""
    ends = _ends(text)
    return ends.count(".") == 2 * ends.count("?")


@constraint("ratio:sentence_type", official=official_sentence_type)
def twice_as_many_statements(text: str) -> bool:
    """Whether the text has questions, and twice as many sentences that end with a full stop."""
    return "?" in _ends(text) and official_sentence_type(text)


def official_sentence_balance(text: str) -> bool:
    """Take a text without any of the three kinds for a balance of them."""
    ends = _ends(text)
    return ends.count(".") == ends.count("?") == ends.count("!")


@constraint("ratio:sentence_balance", official=official_sentence_balance)
def as_many_of_each_sentence(text: str) -> bool:
    """Whether the text has sentences that end with `.`, and as many with `?` and with `!`."""
    return "." in _ends(text) and official_sentence_balance(text)


@constraint("ratio:overlap")
def overlaps(text: str, reference_text: Text, percentage: Percentage) -> bool:
    """Whether that percentage of its three-letter pieces is in the reference text, two points more or less."""
    pieces = _trigrams(text)
    if not pieces:
        return False
    share = len(pieces & _trigrams(reference_text)) / len(pieces)
    return abs(share * 100 - percentage) <= 2


@constraint("ratio:sentence_words")
def three_sentences_of_one_length(text: str) -> bool:
    """Whether the text has three sentences, of the same number of characters."""
    said = sentences(text)
    return len(said) == 3 and len(set(map(len, said))) == 1


@constraint("sentence:keyword")
def keyword_in_sentence(text: str, word: Word, N: Ordinal) -> bool:
    """Whether the N-th sentence has the keyword, also inside a word."""
    return any(word.lower() in sentence.lower() for sentence in sentences(text)[N - 1 : N])


@constraint("sentence:increment")
def sentences_grow(text: str, small_n: Count) -> bool:
    """Whether each sentence has exactly the given number of words more than the one before."""
    lengths = [len(without_punctuation(sentence).split()) for sentence in sentences(text)]
    return bool(lengths) and all(length == lengths[0] + small_n * index for index, length in enumerate(lengths))


@constraint("sentence:alliteration_increment")
def alliterations_grow(text: str) -> bool:
    """Whether each sentence has more words in alliterations than the one before."""
    lengths = [_alliteration(sentence) for sentence in sentences(text)]
    return all(second > first for first, second in pairwise(lengths))


def _alliteration(sentence: str) -> int:
    """Count the words that begin as a neighbour does."""
    initials = [clean[0] for word in sentence.lower().split() if (clean := word.lstrip(string.punctuation))]
    count, running = 0, False
    for first, second in pairwise(initials):
        count += (1 if running else 2) if first == second else 0
        running = first == second
    return count


def _ends(text: str) -> list[str]:
    return [sentence[-1] for sentence in sentences(text)]


def _trigrams(text: str) -> set[str]:
    return {text[index : index + 3] for index in range(len(text) - 2)}
