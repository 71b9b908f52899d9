"""The checks find what is wrong: a suite that everything passes would say nothing."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from .checks import ANY, check
from .engine import MODEL, Call, said


def call(number, prompt, sampled, model=MODEL):
    log_probs = [-(number + 1) / 8 - place / 64 for place in range(len(sampled))]
    return Call(number, "0123abcd", model, prompt, sampled, log_probs, said("", f"Answer {number}.", []))


# Two turns, and a second answer to the first question.
FIRST = call(0, [1, 2], [3, 4])
SECOND = call(1, [1, 2, 3, 4, 5], [6, 7])
RETRY = call(2, [1, 2], [3, 8])
LOG = [FIRST, SECOND, RETRY]
DELIVERED = [one.said for one in LOG]


def branch(ids, *calls):
    """A branch with mask 1 on these calls."""
    made = {"input_ids": list(ids), "loss_mask": [0] * len(ids), "logprobs": [0.0] * len(ids)}
    for one in calls:
        start, end = len(one.prompt), len(one.prompt) + len(one.sampled)
        made["loss_mask"][start:end] = [1] * len(one.sampled)
        made["logprobs"][start:end] = one.log_probs
    return made


RIGHT = [branch([1, 2, 3, 4, 5, 6, 7], FIRST, SECOND), branch([1, 2, 3, 8], RETRY)]


def changed(change):
    trajectory = copy.deepcopy(RIGHT)
    change(trajectory)
    return trajectory


def test_what_is_exact_passes_whatever_the_order():
    for trajectory in (RIGHT, RIGHT[::-1]):
        outcome = check(LOG, DELIVERED, trajectory, 2)
        assert outcome.passed and outcome.score == 1.0
        assert (outcome.calls, outcome.tokens, outcome.extra) == (3, 6, 0)


def test_branches_are_counted_as_the_script_says_or_as_the_log_has_them():
    for expected in (2, (1, 2), None, ANY):
        assert check(LOG, DELIVERED, RIGHT, expected).passed
    outcome = check(LOG, DELIVERED, RIGHT, 1)
    assert outcome.exact and not outcome.passed and outcome.branch_problems == ["There are 2 branches, not 1."]


def test_two_calls_may_follow_each_other_without_a_token_between():
    log = [call(0, [1], [2, 3]), call(1, [1, 2, 3], [4])]
    assert check(log, [one.said for one in log], [branch([1, 2, 3, 4], *log)], 1).passed


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda branches: branches.pop(), "in no branch"),
        (lambda branches: branches[1].update(branch([1, 2, 3, 8])), "mask 1 0 times, not 1"),
        (lambda branches: branches.append(branches[1]), "mask 1 2 times, not 1"),
        (lambda branches: branches[0]["loss_mask"].__setitem__(1, 1), "not sampled there"),
        (lambda branches: branches[0]["loss_mask"].__setitem__(6, 0), "not sampled there"),
        (lambda branches: branches[0]["loss_mask"].__setitem__(6, 2), "neither 0 nor 1"),
        (lambda branches: branches[0]["logprobs"].__setitem__(6, -9.0), "log probabilities"),
        (lambda branches: branches[0]["logprobs"].pop(), "one length"),
        (lambda branches: branches[0]["input_ids"].__setitem__(0, 9), "in no branch"),
        (lambda branches: branches[0]["input_ids"].__setitem__(6, 9), "does not end as a call"),
        (lambda branches: branches.append(branch([1, 9], call(3, [1], [9]))), "not sampled there"),
    ],
)
def test_what_is_wrong_is_found_and_said(change, problem):
    outcome = check(LOG, DELIVERED, changed(change), ANY)
    assert not outcome.exact and any(problem in one for one in outcome.problems), outcome.problems


def test_log_probabilities_of_calls_alike_may_not_be_one_calls_twice():
    log = [call(0, [1], [2]), call(1, [1], [2])]
    delivered = [one.said for one in log]
    assert check(log, delivered, [branch([1, 2], one) for one in log], 2).passed
    assert not check(log, delivered, [branch([1, 2], log[0])] * 2, 2).exact


def test_another_models_call_is_not_trained_on():
    other = replace(RETRY, model="another")
    assert check([FIRST, SECOND, other], DELIVERED, RIGHT[:1], 1).passed
    assert not check([FIRST, SECOND, other], DELIVERED, RIGHT, ANY).exact


def test_an_answer_that_nobody_waited_for_may_be_there_or_not():
    for trajectory in (RIGHT, RIGHT[:1]):
        assert check(LOG, DELIVERED[:2], trajectory, ANY, abandoned=1).passed
    assert not check(LOG, DELIVERED[:2], RIGHT[1:], ANY, abandoned=1).exact


def test_an_answer_that_the_engine_did_not_give_is_a_problem():
    outcome = check(LOG, [*DELIVERED[:2], said("", "Made up.", [])], RIGHT, ANY)
    assert any("did not say" in problem for problem in outcome.problems)


def test_arguments_that_are_no_object_may_be_told_in_any_form():
    broken = replace(FIRST, said=said("", "", [("add", '{"a": ')]))
    right = [branch([1, 2, 3, 4], FIRST)]
    assert check([broken], [said("", "", [("add", '{"unparsed": 1}')])], right, 1).passed
    assert not check([broken], [said("", "", [("other", '{"unparsed": 1}')])], right, 1).exact
    assert not check([broken], [said("", "", [])], right, 1).exact
