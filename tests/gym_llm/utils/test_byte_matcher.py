"""Whatever was looked for before, a line has a needle or not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gym_llm.utils.byte_matcher import ByteMatcher


def over(letters: str, **size: int) -> st.SearchStrategy[bytes]:
    return st.text(letters, **size).map(str.encode)


@given(st.lists(over("abcd", min_size=1, max_size=5), max_size=5), st.lists(over("abcdef", max_size=30), max_size=100))
def test_lines_that_have_one_are_found_among_many(needles, lines):
    search = ByteMatcher(needles)
    assert [search.are_in(line) for line in lines] == [any(needle in line for needle in needles) for line in lines]
    assert bool(search) == bool(needles)


def test_bytes_that_lines_have_for_nothing_are_not_looked_for_again():
    class Line(bytes):
        searched = 0

        def __contains__(self, what):
            Line.searched += isinstance(what, bytes)
            return super().__contains__(what)

    search = ByteMatcher([b"sk-proj-Q1aZ", b"hf_w8Zx"])
    for _ in range(100):
        assert not search.are_in(Line(b'{"said": "A sketch: 18 of 1_000 projects for Qwen"}'))
    assert Line.searched <= 2 * 12  # at most once for each byte of a needle, of both
