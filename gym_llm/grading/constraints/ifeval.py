"""IFEval's 25 constraints (arXiv:2311.07911), after the rules of google-research's `instruction_following_eval`.

Words and phrases are taken literally; there they are regular expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson

from gym_llm.grading.constraints.constraint import (
    Count,
    Letter,
    Ordinal,
    Registry,
    Relation,
    Text,
    Word,
    Words,
    compare,
    count_of,
)
from gym_llm.grading.constraints.language import is_language
from gym_llm.grading.constraints.sentences import split_sentences
from gym_llm.grading.constraints.words import tokens, words

constraint = Registry("IFEval")

_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_HIGHLIGHT = re.compile(r"\*[^\n*]*\*")
_EMPHASIS = re.compile(r"\*[^\s*](?:[^\n*]*[^\s*])?\*")
_DOUBLE_HIGHLIGHT = re.compile(r"\*\*[^\n*]*\*\*")
_POSTSCRIPTS = {"P.P.S": re.compile(r"p\.\s?p\.\s?s"), "P.S.": re.compile(r"p\.\s?s\.")}
_MARKS = "\"'“”‘’«»()[]{}*_~`#>:;.,!?-–— \t\r\n\u200b\u2060\ufeff"
_WORD_END = re.compile(r"[^\w-]")
_LABEL = re.compile(r"[\W_]{0,20}(?:title|heading)?[\W_]{0,20}", re.IGNORECASE)
_BLANK_LINES = re.compile(r"\n[^\S\n]*+\n")
_FENCE = re.compile(r"```(?:json|Json|JSON)?")


@constraint("keywords:existence")
def keywords_exist(text: str, keywords: Words) -> bool:
    """Whether every keyword occurs, also inside words."""
    text = text.lower()
    return all(keyword.lower() in text for keyword in keywords)


@constraint("keywords:frequency")
def keyword_frequency(text: str, keyword: Word, frequency: Count, relation: Relation) -> bool:
    """Whether the keyword occurs at least, or less than, as often as given, also inside words."""
    return compare(count_of(keyword, text), relation, frequency)


@constraint("keywords:forbidden_words")
def no_forbidden_words(text: str, forbidden_words: Words) -> bool:
    """Whether none of the words occurs as a word of its own."""
    text = text.lower()
    return not any(has_word(text, word.lower()) for word in forbidden_words)


@constraint("keywords:letter_frequency")
def letter_frequency(text: str, letter: Letter, let_frequency: Count, let_relation: Relation) -> bool:
    """Whether the letter, small or capital, occurs at least, or less than, as often as given."""
    return compare(count_of(letter, text), let_relation, let_frequency)


@constraint("language:response_language", package="langdetect")
def response_language(text: str, language: Word) -> bool:
    """Whether the text is in the language (an ISO 639-1 or langdetect code), or in one that cannot be detected."""
    return is_language(text, language)


@constraint("length_constraints:number_sentences")
def number_of_sentences(text: str, num_sentences: Count, relation: Relation) -> bool:
    """Whether the text has at least, or less than, the given number of sentences (by Punkt's rules)."""
    return compare(len(split_sentences(text)), relation, num_sentences)


@constraint("length_constraints:number_paragraphs")
def number_of_paragraphs(text: str, num_paragraphs: Count) -> bool:
    """Whether `***` divides the text into that number of paragraphs, none blank between two dividers."""
    return count_parts(text, "***") == num_paragraphs


@constraint("length_constraints:number_words")
def number_of_words(text: str, num_words: Count, relation: Relation) -> bool:
    """Whether the text has at least, or less than, that number of words (letters, digits, underscores)."""
    return compare(len(words(text)), relation, num_words)


def official_nth_paragraph(text: str, num_paragraphs: Ordinal, nth_paragraph: Ordinal, first_word: Word) -> bool:
    """Count filled paragraphs and take the n-th of all, empty ones included; marks of Markdown belong to a word."""
    paragraphs = text.split("\n\n")
    count = sum(not paragraph.isspace() and paragraph != "" for paragraph in paragraphs)
    if count != num_paragraphs or nth_paragraph > count:
        return False
    first = paragraphs[nth_paragraph - 1].split(maxsplit=1)
    if not first:
        return False
    word = first[0].lstrip("'").lstrip('"')
    return re.split("[.,?!'\"]", word, maxsplit=1)[0].lower() == first_word.lower()


@constraint("length_constraints:nth_paragraph_first_word", official=official_nth_paragraph)
def nth_paragraph_first_word(text: str, num_paragraphs: Ordinal, nth_paragraph: Ordinal, first_word: Word) -> bool:
    """Whether blank lines divide the text into the given number of paragraphs, and the n-th begins with the word."""
    paragraphs = filled_paragraphs(text)
    if len(paragraphs) != num_paragraphs or nth_paragraph > num_paragraphs:
        return False
    tokens_behind_marks = (token for token in paragraphs[nth_paragraph - 1].split() if token.strip(_MARKS))
    word = next(tokens_behind_marks, "").strip(_MARKS).lower()
    return first_word.lower() in (word, _WORD_END.split(word, maxsplit=1)[0])


@constraint("detectable_content:number_placeholders")
def number_of_placeholders(text: str, num_placeholders: Count) -> bool:
    """Whether the text has at least the given number of placeholders in square brackets, each on one line."""
    return count_placeholders(text) >= num_placeholders


@constraint("detectable_content:postscript")
def has_postscript(text: str, postscript_marker: Word) -> bool:
    """Whether the text has a postscript: `P.S.` and `P.P.S` also with blanks between, small or capital."""
    if pattern := _POSTSCRIPTS.get(postscript_marker):
        return pattern.search(text.lower()) is not None
    return postscript_marker.lower() in text.lower()


_NO_BULLET = re.compile(r"-\d|\*[^\s*][^*\n]*(?<!\s)\*(?!\*)")


def official_bullets(text: str, num_bullets: Count) -> bool:
    """Count every line that begins with `-` or a single `*`, rules too."""
    return len(list(_bullets(text))) == num_bullets


@constraint("detectable_format:number_bullet_lists", official=official_bullets)
def number_of_bullets(text: str, num_bullets: Count) -> bool:
    """Whether the text has exactly that number of bullet points: lines that begin with `-` or `*`, rules aside."""
    return sum(not _is_rule(line) for line in _bullets(text)) == num_bullets


def _bullets(text: str) -> Iterator[str]:
    for line in map(str.lstrip, text.split("\n")):
        if line.startswith("-") or (line.startswith("*") and line[1:2] not in ("", "*")):
            yield line


def _is_rule(line: str) -> bool:
    """Whether it is a line of dashes or stars, the front of an arrow or a comment, a negative number, or emphasis."""
    return line.startswith(("--", "->")) or not line.strip("-*_ \t\r") or _NO_BULLET.match(line) is not None


@constraint("detectable_format:constrained_response")
def one_of_three_answers(text: str) -> bool:
    """Whether the text contains `My answer is yes.`, `My answer is no.` or `My answer is maybe.`."""
    return any(answer in text for answer in _ANSWERS)


def official_highlights(text: str, num_highlights: Count) -> bool:
    """Take anything between two stars on a line for a highlight, as of `2 * 3 * 4`."""
    count = sum(bool(found.strip("*").strip()) for found in _HIGHLIGHT.findall(text))
    count += sum(bool(found[2:-2].strip()) for found in _DOUBLE_HIGHLIGHT.findall(text))
    return count >= num_highlights


@constraint("detectable_format:number_highlighted_sections", official=official_highlights)
def number_of_highlights(text: str, num_highlights: Count) -> bool:
    """Whether the text has at least the given number of `*highlighted*` or `**highlighted**` sections."""
    return official_highlights(text if _EMPHASIS.search(text) else "", num_highlights)


@constraint("detectable_format:multiple_sections")
def number_of_sections(text: str, section_spliter: Word, num_sections: Count) -> bool:
    """Whether the text has at least that number of sections, each begun by marker and number: `Section 1`."""
    return len(re.findall(re.escape(section_spliter) + r"\s?\d", text)) >= num_sections


@constraint("detectable_format:json_format")
def is_json(text: str) -> bool:
    """Whether the text is JSON, with or without one Markdown fence around it."""
    text = text.strip()
    if fence := _FENCE.match(text):
        text = text[fence.end() :].removesuffix("```")
    try:
        orjson.loads(text)
    except ValueError:
        return False
    return True


def official_title(text: str) -> bool:
    """Take anything between `<<` and `>>` on a line for a title."""
    for line in text.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if 0 <= start < end - 2 and line[start:end].lstrip("<").rstrip(">").strip():
            return True
    return False


@constraint("detectable_format:title", official=official_title)
def has_title(text: str) -> bool:
    """Whether the text has a title in double angular brackets, on one line: `<<poem of joy>>`, not `cout << x >> y`."""
    return any(_is_title_line(line) for line in text.split("\n") if "<<" in line)


def _is_title_line(line: str) -> bool:
    """Whether brackets enclose a title: without blanks inside them, or alone on the line but for marks and a label."""
    start, end = line.find("<<"), line.rfind(">>")
    title = line[start:end].lstrip("<").rstrip(">") if 0 <= start < end - 2 else ""
    if not title.strip():
        return False
    before, behind = line[:start], line[end + 2 :]
    is_alone = not behind.strip(_MARKS) and bool(_LABEL.fullmatch(before))
    beside = before[-1:] + behind[:1]
    is_tight = title == title.strip() and not any(one.isascii() and one.isalnum() for one in beside)
    return is_alone or is_tight


@constraint("combination:two_responses")
def two_responses(text: str) -> bool:
    """Whether `******` divides the text into two different responses."""
    parts = [part.strip() for part in text.split("******")]
    filled = [part for part in parts if part]
    return len(filled) == 2 and filled[0] != filled[1] and all(parts[1:-1])


@constraint("combination:repeat_prompt")
def repeats_prompt_first(text: str, prompt_to_repeat: Text) -> bool:
    """Whether the text begins with the request, in upper or lower case."""
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


@constraint("startend:end_checker")
def ends_with(text: str, end_phrase: Word) -> bool:
    """Whether the text ends with the phrase, in upper or lower case, double quotes around aside."""
    return text.strip().strip('"').lower().endswith(end_phrase.lower())


@constraint("startend:quotation")
def is_quoted(text: str) -> bool:
    """Whether the text is in double quotation marks."""
    text = text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


@constraint("change_case:capital_word_frequency")
def capital_word_frequency(text: str, capital_frequency: Count, capital_relation: Relation) -> bool:
    """Whether at least, or less than, the given number of words are all in capitals."""
    return compare(sum(token.isupper() for token in tokens(text)), capital_relation, capital_frequency)


@constraint("change_case:english_capital", package="langdetect")
def is_english_in_capitals(text: str) -> bool:
    """Whether the text is English, without small letters."""
    return text.isupper() and is_language(text, "en")


@constraint("change_case:english_lowercase", package="langdetect")
def is_english_in_lowercase(text: str) -> bool:
    """Whether the text is English, without capital letters."""
    return text.islower() and is_language(text, "en")


@constraint("punctuation:no_comma")
def no_comma(text: str) -> bool:
    """Whether the text has no comma."""
    return "," not in text


def filled_paragraphs(text: str) -> list[str]:
    r"""Return the paragraphs between blank lines, however many these are.

    >>> filled_paragraphs("a\n\n\n \nb\nc\n")
    ['a', 'b\nc']
    """
    return [paragraph.strip() for paragraph in _BLANK_LINES.split(text) if paragraph.strip()]


def has_word(text: str, word: str) -> bool:
    """Whether a word occurs with no word character beside it that would make it a longer one.

    >>> has_word("a category", "cat"), has_word("c++ and c", "c++")
    (False, True)
    """
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        before_is_free = not (_is_word(word[0]) and at and _is_word(text[at - 1]))
        if before_is_free and not (_is_word(word[-1]) and end < len(text) and _is_word(text[end])):
            return True
        at = text.find(word, at + 1)
    return False


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def count_parts(text: str, divider: str) -> int | None:
    """Count the parts that a divider makes, without a blank first or last one; None if another one is blank.

    >>> count_parts("a***b***", "***"), count_parts("a******b", "***")
    (2, None)
    """
    blank = [not part.strip() for part in text.split(divider)]
    return None if any(blank[1:-1]) else len(blank) - blank[0] - (len(blank) > 1 and blank[-1])


def count_placeholders(text: str) -> int:
    """Count the `[…]` that stand on one line each.

    >>> count_placeholders("[name] [[x] ] [no")
    2
    """
    return sum(len(re.findall(r"\[[^\]]*\]", line[: line.rfind("]") + 1])) for line in text.split("\n") if "]" in line)
