"""FormatVerification: lines and markers that an answer has to have."""

import gymnasium as gym
import pytest
from testing import cpu_seconds, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.format_verification.env import FormatVerification
from gym_llm.envs.format_verification.grading import count_lines, is_quick, other_matches
from gym_llm.errors import DataError

ENV = "gym_llm/FormatVerification-v0"


def verify(text, kwargs=None, **verifier):
    reward, info = scored(ENV, text, kwargs, verifier=verifier)
    assert reward == float(info["match_details"]["passed"])
    return info["match_details"] | ({"timed_out": True} if info["timed_out"] else {})


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("format_verification")) >= 3


@pytest.mark.parametrize("kind", ["regex", "inline_prose"])
def test_lines_with_a_match_of_some_pattern_are_counted(kind):
    text = "- one\n* two\nthree\n - four\n- * five"
    details = verify(text, type=kind, verify_regex=["^- ", r"\*"], verify_min_matches=3)
    assert details == {"matching_lines": 3, "min_matches": 3, "passed": True}
    assert not verify(text, type=kind, verify_regex=["^- ", r"\*"], verify_min_matches=4)["passed"]
    assert verify("a\n- b", type=kind, verify_regex=["^-"])["min_matches"] == 1


def test_lines_end_with_line_feeds_only():
    assert verify("a\r- b\u2028- c", type="regex", verify_regex=["- "])["matching_lines"] == 1


def test_no_pattern_finds_no_line():
    assert verify("a", type="regex") == {"matching_lines": 0, "min_matches": 1, "passed": False}
    assert verify("", type="regex", verify_min_matches=0)["passed"]


def test_all_markers_have_to_be_there_and_no_others():
    markers = {"type": "string_match", "expected_markers": ["[1]", "[2]"], "patterns": [r"\[\d\]", r"\[x\]"]}
    assert verify("a [1], b [2], c [1]", **markers)["passed"]
    assert verify("a [1]", **markers) == {
        "expected": ["[1]", "[2]"],
        "missing": ["[2]"],
        "spurious": [],
        "passed": False,
    }
    details = verify("[1] [2] [3] [x] [3]", **markers)
    assert (details["spurious"], details["missing"], details["passed"]) == (["[3]", "[3]", "[x]"], [], False)


def test_without_markers_or_patterns_little_is_demanded():
    assert verify("a", type="string_match")["passed"]
    assert verify("[3]", type="string_match", expected_markers=["[3]"])["passed"]
    assert not verify("[3]", type="string_match", patterns=[r"\[\d\]"])["passed"]


@pytest.mark.parametrize(
    "verifier",
    [{"type": "regex", "verify_regex": ["(a+)+b"]}, {"type": "string_match", "patterns": ["(a+)+b"]}],
    ids=["lines", "markers"],
)
def test_a_pattern_that_backtracks_without_end_costs_the_reward(verifier):
    assert verify("a" * 60, {"deadline": 0.2}, **verifier).items() >= {"passed": False, "timed_out": True}.items()


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"\d+x", "1" * 1_500),
        (r".*\s*=", " " * 130),
        (r"^.{2,30}\s*=\s*.+", " " * 19),
        (r"a?a?a?a?\w+[(|]", "a" * 390),
        (r"[]a(+*]*[^]|]*\(", "a" * 130),
        (r"\w*?\w*?\w*?x", "a" * 19),
    ],
)
def test_what_is_searched_at_once_is_soon_done(pattern, text):
    assert is_quick([pattern], text, False)
    assert cpu_seconds(other_matches, ([pattern], text, frozenset())) < 0.5
    assert not is_quick([pattern], text * 10, False)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(?:a|a)*b", "a|b", r"\((a)", "a*" * 9, "a?" * 7, r"[\]](", "(?i)a"])
def test_what_may_be_nested_is_searched_in_a_worker_process(pattern):
    assert not is_quick([pattern], "a", True) and not is_quick(["a", pattern], "a", False)


def test_a_hostile_answer_is_reported_in_part():
    assert len(other_matches((["."], "ab" * 50_000, frozenset("a")))) == 100
    assert len(other_matches(([".+"], "a" * 1_000_000, frozenset()))[0]) == 1_000
    assert count_lines((["a$"], "a\n" * 1_000)) == 1_000


@pytest.mark.parametrize(
    ("verifier", "words"),
    [
        ({"type": "regex", "verify_regex": ["("]}, "not a regular expression"),
        ({"type": "string_match", "patterns": ["["]}, "not a regular expression"),
        ({"type": "judge"}, "string_match"),
        ({}, "type"),
    ],
)
def test_a_wrong_row_is_refused(verifier, words):
    with pytest.raises(DataError, match=words):
        FormatVerification([row(verifier=verifier)])


def test_a_deadline_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="deadline"):
        gym.make(ENV, deadline=0)
