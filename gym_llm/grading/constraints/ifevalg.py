"""AI2's 29 further constraints of IFEvalG, which its training set adds to IFEval's 25 (open-instruct, Apache-2.0).

Words and phrases are taken literally; there they are regular expressions.
"""

from __future__ import annotations

import re
from itertools import pairwise

from gym_llm.grading.constraints import ifeval
from gym_llm.grading.constraints.constraint import (
    Count,
    Letter,
    Ordinal,
    Registry,
    Relation,
    Text,
    Word,
    compare,
    count_of,
)
from gym_llm.grading.constraints.ifeval import count_parts, filled_paragraphs
from gym_llm.grading.constraints.sentences import sentences
from gym_llm.grading.constraints.words import tokens, words

constraint = Registry("IFEvalG", ifeval.constraint)

_NOT_A_LETTER = re.compile(r"[^a-zA-Z]+")
_MARK = re.compile(r"[^\w\s]")


@constraint("copy:repeat_phrase")
def repeats_phrase(text: str, phrase: Word, small_n: Count) -> bool:
    """Whether the phrase occurs exactly as often as given, each time with exactly one word inside it replaced."""
    expected = phrase.split()
    found = _between(text, f"{expected[0]} ", f" {expected[-1]}")
    return len(found) == small_n and all(_changed_words(said.split(), expected) == 1 for said in found)


@constraint("copy:copy")
def copies(text: str, prompt_to_repeat: Text) -> bool:
    """Whether the text is the request, in upper or lower case."""
    return _same(text, prompt_to_repeat)


@constraint("copy:copying_simple")
def copies_only(text: str, prompt_to_repeat: Text) -> bool:
    """Whether the text is the request, in upper or lower case."""
    return _same(text, prompt_to_repeat)


@constraint("copy:copying_multiple")
def copies_several_times(text: str, prompt_to_repeat: Text, N: Count) -> bool:
    """Whether `******` divides the text into the given number of copies of the request."""
    parts = text.split("******")
    return len(parts) == N and all(_same(part, prompt_to_repeat) for part in parts)


@constraint("new:copy_span_idx")
def copies_span(text: str, prompt_to_repeat: Text, n_start: Count, n_end: Count) -> bool:
    """Whether the text is the request from character `n_start` up to `n_end`, in upper or lower case."""
    return _same(text, prompt_to_repeat[n_start:n_end])


@constraint("detectable_format:sentence_hyphens")
def sentences_joined_by_hyphens(text: str) -> bool:
    """Whether the text's sentences are joined by hyphens, without blanks."""
    expected = sentences(text.replace("-", " "))
    return all(said == sentence for said, sentence in zip(text.split("-"), expected, strict=False))


@constraint("detectable_format:square_brackets")
def words_in_brackets(text: str) -> bool:
    """Whether every word is in square brackets."""
    return all(word[0] == "[" and word[-1] == "]" for word in text.split())


@constraint("detectable_format:bigram_wrapping")
def bigrams_in_angles(text: str) -> bool:
    """Whether every two words are in double angular brackets: `<<I am>> <<at home>>`."""
    said = text.split()
    pairs = zip(said[::2], said[1::2], strict=False)
    return all(first.startswith("<<") and second.endswith(">>") for first, second in pairs)


@constraint("keywords:no_adjacent_consecutive")
def no_consecutive_initials(text: str) -> bool:
    """Whether no word is followed by one that begins with the next letter of the alphabet."""
    initials = [word[0].lower() for word in text.split()]
    if len(initials) > 1 and any(len(initial) != 1 for initial in initials):
        return False
    return all(ord(second) - ord(first) != 1 for first, second in pairwise(initials))


@constraint("keywords:word_once")
def keyword_once(text: str, keyword: Word) -> bool:
    """Whether the keyword occurs exactly once, also inside words."""
    return count_of(keyword, text) == 1


@constraint("keywords:word_count_different_numbers")
def keyword_count(text: str, keyword: Word, frequency: Count, relation: Relation) -> bool:
    """Whether the keyword occurs at least, or less than, as often as given, also inside words."""
    return compare(count_of(keyword, text), relation, frequency)


@constraint("keywords:exclude_word_harder")
def excludes_keyword(text: str, keyword: Word) -> bool:
    """Whether the keyword does not stand between two spaces."""
    return f" {keyword} " not in text


@constraint("keywords:palindrome")
def has_palindrome(text: str) -> bool:
    """Whether some word reads the same backwards; one letter is enough."""
    return any(word == word[::-1] for word in text.split())


@constraint("keywords:keyword_specific_position")
def keyword_at_position(text: str, keyword: Word, n: Ordinal, m: Ordinal) -> bool:
    """Whether the keyword is the m-th token of the n-th sentence."""
    return tokens(nth(sentences(text), n))[m - 1 : m] == [keyword]


@constraint("keywords:start_end")
def starts_as_it_ends(text: str) -> bool:
    """Whether the text's first and last word are the same, with nothing behind the last."""
    found = tokens(text)
    return len(found) > 1 and found[0].lower() == found[-1].lower()


@constraint("paragraphs:paragraphs")
def two_paragraphs(text: str) -> bool:
    """Whether `***` divides the text into two paragraphs."""
    return count_parts(text, "***") == 2


@constraint("paragraphs:paragraphs2", official=lambda text: count_parts(text, "\n\n") == 2)
def two_paragraphs_by_blank_lines(text: str) -> bool:
    """Whether blank lines divide the text into two paragraphs."""
    return len(filled_paragraphs(text)) == 2


@constraint("first_word:first_word_sent")
def first_word_of_sentences(text: str, first_word: Word) -> bool:
    """Whether every sentence begins with the word."""
    return all(said.split(maxsplit=1)[0].lower() == first_word.lower() for said in sentences(text))


@constraint("first_word:first_word_answer")
def first_word_of_answer(text: str, first_word: Word) -> bool:
    """Whether the text begins with the word."""
    return [word.lower() for word in text.split(maxsplit=1)[:1]] == [first_word.lower()]


@constraint("last_word:last_word_sent")
def last_word_of_sentences(text: str, last_word: Word) -> bool:
    """Whether every sentence ends with the word, marks aside."""
    return all(_ends_with_word(said, last_word) for said in sentences(text))


@constraint("last_word:last_word_answer")
def last_word_of_answer(text: str, last_word: Word) -> bool:
    """Whether the text ends with the word, marks aside."""
    return _ends_with_word(text, last_word)


@constraint("punctuation:punctuation_dot")
def no_dot(text: str) -> bool:
    """Whether the text has no full stop."""
    return "." not in text


@constraint("punctuation:punctuation_exclamation")
def no_exclamation_mark(text: str) -> bool:
    """Whether the text has no exclamation mark."""
    return "!" not in text


@constraint("count:lowercase_counting")
def few_lowercase_words(text: str, N: Count) -> bool:
    """Whether the text has at most the given number of words in small letters."""
    return sum(word.isascii() and word.isalpha() and word.islower() for word in words(text)) <= N


@constraint("letters:letter_counting")
def number_of_letters(text: str, N: Count, relation: Relation) -> bool:
    """Whether the text has at least, or less than, the given number of letters from A to Z."""
    return compare(len(_NOT_A_LETTER.sub("", text)), relation, N)


@constraint("letters:letter_counting2")
def letter_count(text: str, letter: Letter, let_frequency: Count, let_relation: Relation) -> bool:
    """Whether the letter, small or capital, occurs at least, or less than, as often as given."""
    return compare(count_of(letter, text), let_relation, let_frequency)


@constraint("count:counting_composition")
def composed_by_number(text: str, n_sent: Ordinal, n_words: Ordinal) -> bool:
    """Whether `***` divides the text into three paragraphs with these numbers of sentences and tokens."""
    paragraphs = [sentences(part) for part in text.split("***")]
    return len(paragraphs) == 3 and all(
        len(said) == n_sent and all(len(tokens(sentence)) == n_words for sentence in said) for said in paragraphs
    )


@constraint("count:count_unique")
def unique_tokens(text: str) -> bool:
    """Whether no token occurs twice (marks are tokens)."""
    found = tokens(text)
    return len(found) == len(set(found))


@constraint("count:count_increment_word")
def keywords_once_and_twice(text: str, keyword1: Word, keyword2: Word) -> bool:
    """Whether the first keyword occurs once, the second twice."""
    return count_of(keyword1, text) == 1 and count_of(keyword2, text) == 2


def nth(found: list[str], n: int) -> str:
    """The n-th, from 1; "" if there are fewer."""
    return found[n - 1] if n <= len(found) else ""


def _same(text: str, expected: str) -> bool:
    return text.strip().lower() == expected.strip().lower()


def _ends_with_word(text: str, word: str) -> bool:
    parts = text.rsplit(maxsplit=1)
    return bool(parts) and _MARK.sub("", parts[-1]).lower() == word.lower()


def _between(text: str, first: str, last: str) -> list[str]:
    """Return the texts on one line from a first word to the nearest last word after it, both included."""
    found = []
    for line in text.split("\n"):
        start = line.find(first)
        while start >= 0 and (end := line.find(last, start + len(first))) >= 0:
            found.append(line[start : end + len(last)])
            start = line.find(first, end + len(last))
    return found


def _changed_words(said: list[str], expected: list[str]) -> int:
    return sum(a != b for a, b in zip(said, expected, strict=True)) if len(said) == len(expected) else -1
