"""IFBench's constraints of words."""

from __future__ import annotations

import string
from collections import Counter
from itertools import pairwise

from gym_llm.grading.constraints.constraint import Count, Ordinal, Registry, Text, Word
from gym_llm.grading.constraints.english import count_syllables, is_verb
from gym_llm.grading.constraints.sentences import sentences
from gym_llm.grading.constraints.words import EDGES, tokens, without_punctuation

constraint = Registry("IFBench")

_CONSONANTS = frozenset("bcdfghjklmnpqrstvwxyz")
_PRIMES = frozenset(n for n in range(2, 100) if all(n % divisor for divisor in range(2, n)))


@constraint("words:alphabet")
def alphabet_loop(text: str) -> bool:
    """Whether each word begins with the next letter of the alphabet, `a` after `z`."""
    initials = [word[0].lower() for word in without_punctuation(text).split()]
    if not initials or initials[0] not in string.ascii_lowercase:
        return False
    start = string.ascii_lowercase.index(initials[0])
    return all(initial == string.ascii_lowercase[(start + n) % 26] for n, initial in enumerate(initials))


@constraint("words:vowel")
def three_vowels(text: str) -> bool:
    """Whether the text is one line, with at most three of the five vowels."""
    text = text.strip().lower()
    return "\n" not in text and sum(vowel in text for vowel in "aeiou") <= 3


@constraint("words:consonants")
def consonant_clusters(text: str) -> bool:
    """Whether every word has two consonants side by side."""
    return all(
        any(first in _CONSONANTS and second in _CONSONANTS for first, second in pairwise(word))
        for word in text.lower().split()
    )


@constraint("words:palindrome")
def ten_palindromes(text: str) -> bool:
    """Whether the text has at least ten words of five and more letters that read the same backwards."""
    said = without_punctuation(text).lower().split()
    return sum(len(word) >= 5 and word == word[::-1] for word in said) >= 10


@constraint("words:prime_lengths")
def prime_lengths(text: str) -> bool:
    """Whether the length of every word is a prime number below 100."""
    return all(len(word) in _PRIMES for word in without_punctuation(text).split())


@constraint("words:repeats")
def few_repeats(text: str, small_n: Count) -> bool:
    """Whether no word occurs more often than the given number of times."""
    return max(Counter(without_punctuation(text.lower()).split()).values(), default=0) <= small_n


@constraint("words:start_verb")
def starts_with_verb(text: str) -> bool:
    """Whether the text begins with a verb: a word of a list, in any of its forms."""
    first = text.split(maxsplit=1)[:1]
    return bool(first) and any(map(is_verb, tokens(first[0])[:1]))


@constraint("words:odd_even_syllables")
def syllables_alternate(text: str) -> bool:
    """Whether words of an odd and of an even number of syllables take turns (counted by rules, which may err)."""
    parities = [count_syllables(word) % 2 for word in without_punctuation(text).lower().split()]
    return all(first != second for first, second in pairwise(parities))


@constraint("words:last_first")
def last_word_first(text: str) -> bool:
    """Whether each sentence begins with the word that the one before ends with."""
    said = sentences(text)
    lasts = [sentence.rstrip(EDGES).split()[-1:] for sentence in said[:-1]]
    firsts = [sentence.lstrip(EDGES).split()[:1] for sentence in said[1:]]
    pairs = zip(lasts, firsts, strict=True)
    return all(last and first and last[0].lower() == first[0].lower() for last, first in pairs)


@constraint("words:paragraph_last_first")
def paragraphs_end_as_they_start(text: str) -> bool:
    """Whether each line ends with the word that it begins with."""
    said = [line.strip(EDGES).split() for line in map(str.strip, text.lower().split("\n")) if line]
    return all(line and line[0] == line[-1] for line in said)


@constraint("words:no_consecutive")
def no_repeated_initials(text: str) -> bool:
    """Whether no two neighbouring words begin with the same letter."""
    return all(first[0] != second[0] for first, second in pairwise(without_punctuation(text.lower()).split()))


@constraint("words:keywords_specific_position")
def keyword_at_position(text: str, keyword: Word, n: Ordinal, m: Ordinal) -> bool:
    """Whether the keyword is the m-th token of the n-th sentence."""
    said = sentences(text)
    return n <= len(said) and tokens(said[n - 1])[m - 1 : m] == [keyword]


@constraint("words:words_position")
def keyword_second_and_last_but_one(text: str, keyword: Word) -> bool:
    """Whether the keyword is the second token, and the last but one."""
    found = tokens(text)
    return len(found) > 1 and found[1] == found[-2] == keyword


@constraint("repeat:repeat_change")
def repeats_with_another_first_word(text: str, prompt_to_repeat: Text) -> bool:
    """Whether the text is the request, with another first word."""
    return text != prompt_to_repeat and text.split()[1:] == prompt_to_repeat.split()[1:]


@constraint("repeat:repeat_simple")
def repeats_one_sentence(text: str) -> bool:
    """Whether the text is the sentence `Only output this sentence here, ignore all other requests.`."""
    return text.strip().lower() == "only output this sentence here, ignore all other requests."


@constraint("repeat:repeat_span")
def repeats_span(text: str, prompt_to_repeat: Text, n_start: Count, n_end: Count) -> bool:
    """Whether the text is the request's words from `n_start`, counted from 0, up to `n_end`."""
    return text.lower().split() == prompt_to_repeat.lower().split()[n_start:n_end]
