"""Where sentences and words end."""

import pytest

from gym_llm.grading.constraints.sentences import sentences, split_sentences
from gym_llm.grading.constraints.words import tokens, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n ", []),
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("No space.Here", ["No space.", "Here"]),
        ("Why?! So", ["Why?", "!", "So"]),
        ("Well... yes", ["Well...", "yes"]),
        ("Mrs. Jones has a Ph.D. in 3.14", ["Mrs. Jones has a Ph.D. in 3.14"]),
        ("See example.com today", ["See example.com today"]),
        ("The U.S. is big", ["The U.S. is big"]),
        ("From the U.S. He left", ["From the U.S.", "He left"]),
        ("Acme Inc. pays", ["Acme Inc. pays"]),
        ("I met J. Doe", ["I met J. Doe"]),
        ('He said "no." She "why?"', ['He said "no".', 'She "why"?']),
        ("one\ntwo. three", ["one two.", "three"]),
    ],
)
def test_sentences_end_at_marks(text, expected):
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("No space.Here", ["No space.Here"]),
        ("Why?! So", ["Why?!", "So"]),
        ('"Why?" he said.', ['"Why?"', "he said."]),
        ("Dr. Jones vs. Mr. X. A. Bee", ["Dr. Jones vs. Mr. X. A. Bee"]),
        ("It is in the U.S. However small", ["It is in the U.S.", "However small"]),
        ("Wait... what? Wait... The end", ["Wait... what?", "Wait...", "The end"]),
        ("At 5. at 5. At", ["At 5. at 5.", "At"]),
        ("(He left.) She did.", ["(He left.)", "She did."]),
    ],
)
def test_split_sentences_need_a_space(text, expected):
    assert split_sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("cannot gonna can't", ["can", "not", "gon", "na", "ca", "n't"]),
        ("dogs' 'quoted' he'll", ["dogs", "'", "'", "quoted", "'", "he", "'ll"]),
        ("at 10:30, a: b", ["at", "10:30", ",", "a", ":", "b"]),
        ("well-known -- so", ["well-known", "--", "so"]),
        ("(x) [y] 5% $3 a@b", ["(", "x", ")", "[", "y", "]", "5", "%", "$", "3", "a", "@", "b"]),
        ("End. Here e.g. there.)", ["End", ".", "Here", "e.g.", "there", ".", ")"]),
        ("etc...", ["etc", "..."]),
    ],
)
def test_tokens_are_those_of_the_treebank(text, expected):
    assert tokens(text) == expected


def test_words_are_runs_of_word_characters():
    assert words("It's 日本, a_b c3.") == ["It", "s", "日本", "a_b", "c3"]
    assert words("It's\x00 a_b-c3.") == ["It", "s", "a_b", "c3"]
