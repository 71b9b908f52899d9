"""VerifIF's rules of format."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias

import orjson
from pydantic import Field

from gym_llm.grading.constraints.constraint import Count, Ordinal, Registry, Word, Words
from gym_llm.grading.constraints.ifeval import count_placeholders
from gym_llm.grading.constraints.verifif_text import paragraphs_of, without_marker

constraint = Registry("VerifIF")

AnyRelation: TypeAlias = Literal["at least", "equal to", "less than"]
_ENDS = re.compile("[.!?。！？।؟…]+")
_ITEM = re.compile(r"([ \t]*)(?:([*+-])|(\d{1,9}\.))[ \t]+")


def holds(count: int, relation: AnyRelation, expected: int) -> bool:
    """Whether a count is as expected.

    >>> holds(2, "equal to", 2), holds(2, "less than", 2)
    (True, False)
    """
    return count == expected if relation == "equal to" else (count < expected) == (relation == "less than")


@constraint("detectable_content:number_placeholders")
def placeholders(text: str, relation: AnyRelation, num_placeholders: Count) -> bool:
    """Whether the text has the given number of placeholders in square brackets."""
    return holds(count_placeholders(text), relation, num_placeholders)


@constraint("detectable_content:postscript")
def has_postscript(text: str, postscript_marker: Word) -> bool:
    """Whether the text's last line begins with the marker, and goes on."""
    last = text.rstrip().rpartition("\n")[2].strip()
    return last.startswith(postscript_marker) and len(last) > len(postscript_marker)


@constraint("detectable_content:numeric_inclusion")
def digit_count(text: str, relation: AnyRelation, num_numbers: Count) -> bool:
    """Whether the text has the given number of digits."""
    return holds(sum(map(str.isdigit, text)), relation, num_numbers)


@constraint("detectable_format:json_format")
def has_json(text: str) -> bool:
    """Whether what stands from the first `{` to the last `}` is JSON."""
    try:
        orjson.loads(text[max(text.find("{"), 0) : text.rfind("}") + 1])
    except ValueError:
        return False
    return True


@constraint("detectable_format:multiple_sections")
def section_count(text: str, section_splitter: Word, relation: AnyRelation, num_sections: Count) -> bool:
    """Whether the text has the given number of headings of the section's name and a number: `## Part 1`."""
    heading = re.compile(r"[ \t]*#{1,6}[ \t]+" + re.escape(section_splitter) + r"[ \t]+\d", re.IGNORECASE)
    return holds(sum(heading.match(line) is not None for line in text.split("\n")), relation, num_sections)


@constraint("detectable_format:numbered_list")
def numbered_items(text: str, relation: AnyRelation, num_numbered_items: Count) -> bool:
    """Whether the text has the given number of lines that begin with a number and a full stop, or a bracket."""
    numbers = (re.match(r"\d{1,9}[.)]", line.lstrip()) for line in text.split("\n"))
    return holds(sum(number is not None for number in numbers), relation, num_numbered_items)


@constraint("detectable_format:number_bullet_lists")
def bullet_items(text: str, relation: AnyRelation, num_bullets: Count) -> bool:
    """Whether the text has the given number of lines that begin with `*` or `-` and a blank, not indented."""
    lines = text.strip().split("\n")
    return holds(sum(line[:1] in ("*", "-") and line[1:2].isspace() for line in lines), relation, num_bullets)


@constraint("detectable_format:title")
def has_title(text: str) -> bool:
    """Whether the text's first line is in double angular brackets."""
    first = text.strip().partition("\n")[0].strip()
    return first.startswith("<<") and first.endswith(">>") and len(first) > 4


@constraint("detectable_format:number_paragraphs")
def paragraph_count(text: str, relation: AnyRelation, num_paragraphs: Count) -> bool:
    """Whether the text has the given number of paragraphs; titles, headings, tables and rules do not count."""
    return holds(len(paragraphs_of(text)), relation, num_paragraphs)


@constraint("detectable_format:max_paragraph_length")
def short_paragraphs(text: str, max_chars: Count) -> bool:
    """Whether no paragraph has more characters."""
    return all(len(without_marker(paragraph)) <= max_chars for paragraph in paragraphs_of(text))


@constraint("detectable_format:nested_list")
def nested_list(text: str, min_depth: Ordinal, num_subitems: Count) -> bool:
    """Whether some list at that depth has at least the given number of items."""
    return any(level == min_depth and items >= num_subitems for level, items in _lists(text))


@constraint("detectable_format:table")
def has_table(text: str, min_rows: Count, min_cols: Count) -> bool:
    """Whether the text has a Markdown table of at least the given number of rows and columns."""
    lines = [line.strip() for line in text.split("\n")]
    at = 0
    while at + 1 < len(lines):
        columns = _cells(lines[at])
        if "|" not in lines[at] or not _is_divider(lines[at + 1]) or _cells(lines[at + 1]) != columns:
            at += 1
            continue
        end = at + 2
        while end < len(lines) and "|" in lines[end]:
            end += 1
        if end - at - 2 >= min_rows and columns >= min_cols:
            return True
        at = end
    return False


@constraint("detectable_format:heading_depth")
def heading_depths(text: str, levels: Annotated[list[Ordinal], Field(min_length=1)]) -> bool:
    """Whether the text has headings of all these levels."""
    found = (re.match(r"(#+)[ \t]", line.lstrip()) for line in text.split("\n"))
    return set(levels) <= {len(heading[1]) for heading in found if heading}


@constraint("detectable_format:sentence_endings")
def various_endings(text: str, min_variants: Count) -> bool:
    """Whether the text has at least the given number of different marks at ends of sentences."""
    return len(_marks(text)) >= min_variants


@constraint("punctuation:no_comma")
def no_comma(text: str) -> bool:
    """Whether the text has no comma, of no script."""
    return not any(comma in text for comma in ",，、،")


@constraint("punctuation:no_period")
def no_period(text: str) -> bool:
    """Whether the text has no full stop, of no script."""
    return not any(stop in text for stop in ".。।")


@constraint("punctuation:question_exclaim")
def questions_and_exclamations(text: str, relation: AnyRelation, num_marks: Count) -> bool:
    """Whether the text has the given number of question and exclamation marks."""
    return holds(sum(text.count(mark) for mark in "?!？！؟"), relation, num_marks)


@constraint("punctuation:end_rule")
def allowed_endings(text: str, allowed: Words) -> bool:
    """Whether the text has no other marks at ends of sentences than these."""
    return _marks(text) <= set(allowed)


@constraint("startend:quotation")
def is_quoted(text: str) -> bool:
    """Whether the text is in double quotation marks."""
    text = text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


def _marks(text: str) -> set[str]:
    return {mark for line in text.split("\n") for mark in _ENDS.findall(without_marker(line))}


def _lists(text: str) -> list[tuple[int, int]]:
    """(depth, number of items) of each list, bulleted and numbered ones apart."""
    found: list[tuple[int, int]] = []
    for kind in (2, 3):
        open_: list[list[int]] = []  # [indentation, items], the outermost first
        for line in text.split("\n"):
            item = _ITEM.match(line)
            if item is None or item[kind] is None:
                continue
            indent = len(item[1])
            while open_ and indent < open_[-1][0]:
                found.append((len(open_), open_.pop()[1]))
            if open_ and indent == open_[-1][0]:
                open_[-1][1] += 1
            else:
                open_.append([indent, 1])
        found += [(depth, items) for depth, (_, items) in enumerate(open_, 1)]
    return found


def _cells(line: str) -> int:
    return sum(cell.strip() != "" for cell in line.split("|"))


def _is_divider(line: str) -> bool:
    return "|" in line and "-" in line and not line.strip("|:- \t")
