import math

import pytest

from gym_llm.protocols.responses.token_fields import check_tokens

WHOLE = (0, 1, 150_000, 999_999_999, 2**31 - 1)


def test_tokens_as_engines_have_them_pass():
    check_tokens([], [], [])
    check_tokens(list(WHOLE), list(WHOLE), [-0.5, 0, -1, -0.0, -9999.0])


def test_a_log_probability_that_was_rounded_to_a_little_above_zero_passes():
    check_tokens([], [1], [1e-3])


@pytest.mark.parametrize(
    "ids",
    [[-1], [2**31], [10**30], [10**5000], ["1"], [1.0], [None], [True], [[1]], [{}], (1,), "12", {1: 2}, None, 3, [[]]],
)
def test_ids_that_cannot_be_are_refused(ids):
    with pytest.raises(ValueError, match="prompt token ids are"):
        check_tokens(ids, [], [])
    with pytest.raises(ValueError, match="sampled token ids are"):
        check_tokens([], ids, [])


@pytest.mark.parametrize(
    "log_probs",
    [
        [math.nan], [math.inf], [-math.inf], [0.002], [3], ["-1"], [None], [False], [[-1.0]], [-(10**400)], [10**400],
        (-1.0,), "-", None, [], [-1.0, -1.0],
    ],
)  # fmt: skip
def test_log_probabilities_that_cannot_be_are_refused(log_probs):
    with pytest.raises(ValueError, match="log prob"):
        check_tokens([5], [6], log_probs)


@pytest.mark.parametrize("place", [0, 499, 999])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.5])
def test_one_bad_log_probability_among_many_is_found(place, bad):
    log_probs = [-0.5] * 1000
    log_probs[place] = bad
    with pytest.raises(ValueError, match="finite numbers of at most 0"):
        check_tokens([], [7] * 1000, log_probs)
