"""VerifIF's rules: here those of words, letters and ends; `verifif_format` has those of format."""

from __future__ import annotations

import re
import string
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator

from gym_llm.grading.constraints import verifif_format
from gym_llm.grading.constraints.constraint import Count, Letter, Registry, Word, Words
from gym_llm.grading.constraints.verifif_format import AnyRelation, holds
from gym_llm.grading.constraints.verifif_text import (
    Language,
    count_keyword,
    normalized,
    paragraphs_of,
    sentences_of,
    vowels_of,
    words_of,
)

constraint = Registry("VerifIF", verifif_format.constraint)


def _ratio(value: str) -> str:
    if value.strip().lower() != "inf":
        try:
            Fraction(value.strip())
        except ZeroDivisionError:
            raise ValueError("a ratio is a fraction as 1/2, a number or inf") from None
    return value.strip().lower()


Ratio: TypeAlias = Annotated[str, BeforeValidator(str), AfterValidator(_ratio)]
_EDGES = string.punctuation + "¿¡«»“”„‘’—–… 。！？、，؟،।"


@constraint("keywords:existence")
def keywords_exist(text: str, keywords: Words, language: Language = "en") -> bool:
    """Whether every keyword occurs as a word of its own."""
    return all(count_keyword(text, keyword, language) for keyword in keywords)


@constraint("keywords:frequency")
def keyword_frequency(
    text: str, keyword: Word, relation: AnyRelation, frequency: Count, language: Language = "en"
) -> bool:
    """Whether the keyword occurs as often as given."""
    return holds(count_keyword(text, keyword, language), relation, frequency)


@constraint("keywords:forbidden_words")
def no_forbidden_words(text: str, forbidden_words: Words, language: Language = "en") -> bool:
    """Whether none of the words occurs."""
    return not any(count_keyword(text, word, language) for word in forbidden_words)


@constraint("keywords:letter_frequency")
def letter_frequency(text: str, letter: Letter, let_relation: AnyRelation, let_frequency: Count) -> bool:
    """Whether the letter, small or capital, occurs as often as given."""
    return holds(text.lower().count(letter.lower()), let_relation, let_frequency)


@constraint("keywords:alliteration")
def words_begin_with(
    text: str, target_letter: Letter, relation: AnyRelation, num_alliteration: Count, language: Language = "en"
) -> bool:
    """Whether the given number of words begin with the letter."""
    letter = target_letter.casefold()
    return holds(
        sum(word.casefold().startswith(letter) for word in words_of(text, language)), relation, num_alliteration
    )


@constraint("keywords:palindrome_word")
def has_palindrome(text: str, min_length: Count, language: Language = "en") -> bool:
    """Whether some word of at least the given number of letters reads the same backwards."""
    said = (word.casefold() for word in words_of(text, language) if len(word) >= min_length)
    return any(word == word[::-1] for word in said)


@constraint("keywords:positioning")
def keyword_at(text: str, keyword: Word, position: Count, language: Language = "en") -> bool:
    """Whether the word at the position, counted from 0, is the keyword."""
    return [word.casefold() for word in words_of(text, language)[position : position + 1]] == [keyword.casefold()]


@constraint("keywords:vowel_count")
def vowel_count(text: str, relation: AnyRelation, num_vowels: Count, language: Language = "en") -> bool:
    """Whether the text has the given number of vowels."""
    return holds(_count(text, vowels_of(language)), relation, num_vowels)


@constraint("keywords:consonant_count")
def consonant_count(text: str, relation: AnyRelation, num_consonants: Count, language: Language = "en") -> bool:
    """Whether the text has the given number of consonants."""
    vowels = _count(text, vowels_of(language))
    return holds(sum(map(str.isalpha, text)) - vowels, relation, num_consonants)


@constraint("length_constraints:number_characters")
def number_of_characters(text: str, relation: AnyRelation, num_chars: Count) -> bool:
    """Whether the text has the given number of characters, white space around it aside."""
    return holds(len(text.strip()), relation, num_chars)


@constraint("length_constraints:number_words")
def number_of_words(text: str, relation: AnyRelation, num_words: Count, language: Language = "en") -> bool:
    """Whether the text has the given number of words."""
    return holds(len(words_of(text, language)), relation, num_words)


@constraint("length_constraints:unique_words")
def unique_words(text: str, relation: AnyRelation, num_unique: Count, language: Language = "en") -> bool:
    """Whether the text has the given number of different words."""
    return holds(len({word.casefold() for word in words_of(text, language)}), relation, num_unique)


@constraint("length_constraints:word_repetition")
def few_repeats(text: str, max_repeats: Count, language: Language = "en") -> bool:
    """Whether no word occurs more often than so."""
    counts = Counter(word.casefold() for word in words_of(text, language))
    return max(counts.values(), default=0) <= max_repeats


@constraint("length_constraints:word_length")
def word_lengths(text: str, min_length: Count, max_length: Count, language: Language = "en") -> bool:
    """Whether every word has a length in the range."""
    return all(min_length <= len(word) <= max_length for word in words_of(text, language))


@constraint("length_constraints:avg_word_length")
def average_word_length(text: str, min_ratio: float, max_ratio: float, language: Language = "en") -> bool:
    """Whether the mean length of its words is in the range."""
    said = words_of(text, language)
    return min_ratio <= sum(map(len, said)) / max(len(said), 1) <= max_ratio


@constraint("length_constraints:sentence_length")
def sentence_lengths(text: str, max_words: Count, language: Language = "en") -> bool:
    """Whether no sentence has more words."""
    return all(len(words_of(sentence, language)) <= max_words for sentence in sentences_of(text, language))


@constraint("length_constraints:paragraph_length")
def paragraph_lengths(text: str, relation: AnyRelation, words_per_paragraph: Count, language: Language = "en") -> bool:
    """Whether each paragraph has the given number of words."""
    counts = [len(words_of(paragraph, language)) for paragraph in paragraphs_of(text)]
    return all(holds(count, relation, words_per_paragraph) for count in counts)


@constraint("detectable_format:sentence_count")
def sentence_count(text: str, relation: AnyRelation, num_sentences: Count, language: Language = "en") -> bool:
    """Whether the text has the given number of sentences."""
    return holds(len(sentences_of(text, language)), relation, num_sentences)


@constraint("detectable_format:sentences_per_paragraph")
def sentences_per_paragraph(text: str, relation: AnyRelation, num_sentences: Count, language: Language = "en") -> bool:
    """Whether each paragraph has the given number of sentences."""
    counts = [len(sentences_of(paragraph, language)) or 1 for paragraph in paragraphs_of(text)]
    return all(holds(count, relation, num_sentences) for count in counts)


@constraint("startend:start_checker")
def starts_with(text: str, start_phrase: Word) -> bool:
    """Whether the text begins with the phrase, marks before it and case aside."""
    phrase = normalized(start_phrase, "en")
    said = normalized(text, "en")
    return said.startswith(phrase) or said.lstrip(_EDGES).startswith(phrase.lstrip(_EDGES) or phrase)


@constraint("startend:end_checker")
def ends_with(text: str, end_phrase: Word) -> bool:
    """Whether the text ends with the phrase, case aside; marks after it too, if the phrase ends with none."""
    phrase, said = normalized(end_phrase, "en"), normalized(text, "en")
    return said.endswith(phrase) or (phrase[-1] not in _EDGES and said.rstrip(_EDGES).endswith(phrase))


@constraint("startend:wrap_checker")
def wrapped_with(text: str, wrap_phrase: Word) -> bool:
    """Whether the text begins and ends with the phrase."""
    text = text.strip()
    return len(text) >= 2 * len(wrap_phrase) and text.startswith(wrap_phrase) and text.endswith(wrap_phrase)


@constraint("change_case:all_caps")
def all_capitals(text: str) -> bool:
    """Whether the text has no small letters."""
    return text.isupper()


@constraint("change_case:lowercase")
def all_small(text: str) -> bool:
    """Whether the text has no capital letters."""
    return text.islower()


@constraint("change_case:alternating")
def alternating_case(text: str) -> bool:
    """Whether in every word small and capital letters take turns."""
    return all(_alternates(word) for word in text.split() if word.isalpha())


@constraint("change_case:first_letter_cap")
def capitalised_words(text: str) -> bool:
    """Whether in every word the first letter is a capital one, and no other."""
    return all(_is_capitalised(word) for word in text.split())


@constraint("change_case:capital_word_frequency")
def capital_words(text: str, capital_relation: AnyRelation, capital_frequency: Count) -> bool:
    """Whether the given number of words are in capital letters."""
    return holds(sum(map(str.isupper, text.split())), capital_relation, capital_frequency)


@constraint("change_case:lowercase_word_frequency")
def small_words(text: str, lowercase_relation: AnyRelation, lowercase_frequency: Count) -> bool:
    """Whether the given number of words are in small letters."""
    return holds(sum(map(str.islower, text.split())), lowercase_relation, lowercase_frequency)


@constraint("change_case:all_caps_target")
def target_in_capitals(text: str, target_string: Word) -> bool:
    """Whether the words occur, everywhere in capital letters."""
    return bool(found := _occurrences(text, target_string)) and all(map(str.isupper, found))


@constraint("change_case:lowercase_target")
def target_in_small_letters(text: str, target_string: Word) -> bool:
    """Whether the words occur, everywhere in small letters."""
    return bool(found := _occurrences(text, target_string)) and all(map(str.islower, found))


@constraint("change_case:alternating_target")
def target_alternates(text: str, target_string: Word) -> bool:
    """Whether the words occur, everywhere with small and capital letters in turns."""
    return bool(found := _occurrences(text, target_string)) and all(map(_alternates, found))


@constraint("change_case:first_letter_cap_target")
def target_capitalised(text: str, target_string: Word) -> bool:
    """Whether the words occur, everywhere with a capital letter first and no other."""
    return bool(found := _occurrences(text, target_string)) and all(map(str.istitle, found))


@constraint("change_case:case_ratio")
def case_ratio(text: str, min_fraction: Ratio, max_fraction: Ratio) -> bool:
    """Whether small letters to capital ones are in a ratio within the range."""
    return _in_range(sum(map(str.islower, text)), sum(map(str.isupper, text)), min_fraction, max_fraction)


@constraint("change_case:vowel_consonant_balance")
def vowel_ratio(text: str, min_fraction: Ratio, max_fraction: Ratio, language: Language = "en") -> bool:
    """Whether vowels to consonants are in a ratio within the range."""
    vowels = _count(text, vowels_of(language))
    return _in_range(vowels, sum(map(str.isalpha, text)) - vowels, min_fraction, max_fraction)


@constraint("change_case:first_letter_sentence")
def capitalised_sentences(text: str, language: Language = "en") -> bool:
    """Whether every sentence begins with a capital letter, marks before it aside."""
    first = (sentence.lstrip(_EDGES)[:1] for sentence in sentences_of(text, language))
    return all(not letter.isalpha() or letter.isupper() for letter in first)


@constraint("change_case:last_letter")
def last_letter(text: str, case: Literal["uppercase", "lowercase", "digit", "special"]) -> bool:
    """Whether the last character, marks at the end aside, is of a kind."""
    last = text.rstrip().rstrip(".!?…。！？").rstrip("()[]{}\"'«»“” ")[-1:]
    kinds = {"uppercase": last.isupper(), "lowercase": last.islower(), "digit": last.isdigit()}
    return last != "" and kinds.get(case, not last.isalnum())


def _count(text: str, letters: str) -> int:
    counts = Counter(text.lower())
    return sum(counts[letter] for letter in letters)


def _alternates(word: str) -> bool:
    return re.search("[^\\W\\d_]{2}", word) is None or not any(
        first.isalpha() and second.isalpha() and first.isupper() == second.isupper() for first, second in pairwise(word)
    )


def _is_capitalised(word: str) -> bool:
    letters = [character for character in word if character.isalpha()]
    if word[0].isdigit():
        return not any(map(str.isupper, letters))
    return not letters or (letters[0].isupper() and not any(map(str.isupper, letters[1:])))


def _occurrences(text: str, target: str) -> list[str]:
    """Return the occurrences of the words in a text, as they are written there."""
    found, lower, wanted = [], text.lower(), target.lower()
    if len(lower) != len(text):  # some capital letter has two small ones: positions would be others
        lower = "".join(character if len(character.lower()) != 1 else character.lower() for character in text)
    at = lower.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        if not lower[max(at - 1, 0) : at].isalnum() and not lower[end : end + 1].isalnum():
            found.append(text[at:end])
        at = lower.find(wanted, end)
    return found


def _in_range(first: int, second: int, least: str, most: str) -> bool:
    if not first and not second:
        return False
    ratio = first / second if second else float("inf")
    low, high = (float("inf") if bound == "inf" else float(Fraction(bound)) for bound in (least, most))
    return low <= ratio <= high
