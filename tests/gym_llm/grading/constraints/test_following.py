"""Texts of all sizes, and what is read loosely."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing import cpu_seconds, often

from gym_llm.grading.constraints import Job, follow, follow_later, follow_quickly
from gym_llm.grading.constraints.following import DEADLINE, LONGEST_QUICK, loose_variants
from gym_llm.grading.constraints.ifbench import constraint as ifbench
from gym_llm.grading.constraints.ifevalg import constraint
from gym_llm.grading.constraints.verifif import constraint as verifif

GIVEN = {
    "Words": ["a", "("], "Word": "a", "Text": "a b c", "Letter": "a", "Count": 2, "Ordinal": 2, "Relation": "at least",
    "Percentage": 20.0, "AnyRelation": "equal to", "Language": "en", "Ratio": "1/2", "float": 1.0,
    "Annotated[list[Ordinal], Field(min_length=1)]": [1],
    "Literal['uppercase', 'lowercase', 'digit', 'special']": "special",
}  # fmt: skip
PIECES = [
    "[", "<<", "*", "***", "a ", "the ", ".", "...", "?!", '"', "'", "\n", "\n\n", " ", "- ", "a.b.", "P. ", "1", ".)",
    "A", "\t", "{[", "e.g. ", "İ", "Mr.", "``", "a,", "😀", "*\n", "aa\n", "x* ",
]  # fmt: skip


def checks_of(registry):
    """Every constraint of a registry, with some arguments."""
    return {
        f"{registry.name} {one.name}": registry.read(
            one.name, {name: GIVEN[one.function.__annotations__[name]] for name in one.arguments.model_fields}
        )
        for one in registry
    }


CHECKS = checks_of(constraint) | checks_of(ifbench) | checks_of(verifif)


@settings(max_examples=often(100, 150), deadline=None)
@given(st.text(st.characters(), max_size=60) | st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_no_text_is_an_error(text):
    for check in CHECKS.values():
        if not check.slow:
            assert check(text) in (True, False)


@pytest.mark.parametrize("name", [name for name, check in CHECKS.items() if not check.slow])
def test_what_is_read_at_once_is_read_soon(name):
    for piece in PIECES:
        text = piece * (LONGEST_QUICK // len(piece))
        assert min(cpu_seconds(CHECKS[name], text) for _ in range(2)) < 0.5, piece


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["a.b.", *(pytest.param(piece, marks=pytest.mark.nightly) for piece in ("?!", "".join(PIECES)))]
)
def test_a_megabyte_is_read_before_the_deadline(piece):
    for name, check in CHECKS.items():
        assert cpu_seconds(check, piece * (1_000_000 // len(piece))) < DEADLINE, name


def test_blank_text_follows_nothing_unless_it_is_to_be_read():
    checks = (constraint.read("punctuation:no_comma"), constraint.read("keywords:palindrome"))
    assert follow(Job(" \n", checks)).strict == [False, False]
    assert follow(Job(" \n", checks, blank_fails=False)).strict == [True, False]


def test_loosely_one_variant_is_enough():
    first = constraint.read("first_word:first_word_answer", {"first_word": "Hello"})
    last = constraint.read("last_word:last_word_answer", {"last_word": "bye"})
    no_stars = constraint.read("detectable_format:number_highlighted_sections", {"num_highlights": 1})
    followed = follow(Job("Sure:\n*Hello* and\nbye\nNo more?", (first, last, no_stars), loose=True))
    assert followed.strict == [False, False, True] and followed.loose == [True, True, True]
    assert follow(Job("Sure:\n*Hello*", (first,))).loose == [False]


@pytest.mark.parametrize(
    ("text", "expected"), [("", []), ("a", ["a", "a"]), ("a\n \nb", ["a\n \nb"] * 2 + ["b", "a"] * 2)]
)
def test_blank_variants_are_left_out(text, expected):
    assert list(loose_variants(text)) == expected


def test_long_texts_and_slow_checks_go_to_a_worker():
    assert follow_quickly(Job("a" * (LONGEST_QUICK + 1), (CHECKS["IFEvalG punctuation:no_comma"],))) is None
    assert follow_quickly(Job("P. " * 3000, (CHECKS["IFEvalG count:count_unique"],) * 50)) is None
    job = Job("Ceci est une phrase en français.", (constraint.read("language:response_language", {"language": "fr"}),))
    assert follow_quickly(job) is None and asyncio.run(follow_later(job)).strict == [True]
