"""Rows are the records' segments, and a masked episode is nobody's."""

import pytest
from random_talk import play

from gym_llm.trainers.shared.token_rows import empty_row, token_rows

SEGMENT = {"input_ids": [1, 2, 3, 4], "loss_mask": [0, 1, 0, 1], "logprobs": [0.0, -1.0, 0.0, -2.0]}


def record(*segments, reward=1.0):
    return {"trajectory": list(segments) or None, "reward": reward}


def test_a_row_is_split_at_the_first_sampled_token():
    (row,) = token_rows(record(SEGMENT, reward=0.5))
    assert (row.prompt_ids, row.completion_ids, row.completion_mask) == ([1], [2, 3, 4], [1, 0, 1])
    assert (row.completion_logprobs, row.completion_rewards) == ([-1.0, 0.0, -2.0], [0.0, 0.0, 0.5])
    assert row.reward == 0.5 and not row.is_masked


def test_the_reward_is_at_the_episodes_last_token_unless_turns_have_their_own():
    first, last = token_rows(record(SEGMENT, SEGMENT, reward=2.0))
    assert (first.rewards, last.rewards) == ([0.0] * 4, [0.0, 0.0, 0.0, 2.0])
    assert first.reward == last.reward == 2.0
    by_turn = {**SEGMENT, "rewards": [0.0, 0.25, 0.0, 1.0]}
    assert token_rows(record(by_turn, reward=1.25))[0].rewards == [0.0, 0.25, 0.0, 1.0]


def test_what_no_turn_with_sampled_ids_earned_is_at_the_last_one():
    by_turn = {**SEGMENT, "rewards": [0.0, 0.25, 0.0, 0.0]}
    assert token_rows(record(by_turn, SEGMENT, reward=1.25))[1].rewards == [0.0, 0.0, 0.0, 1.0]
    assert by_turn["rewards"] == [0.0, 0.25, 0.0, 0.0]
    tenths = {**SEGMENT, "rewards": [0.0, 0.1, 0.0, 0.2]}
    assert token_rows(record(tenths, reward=0.1 + 0.2))[0].rewards == [0.0, 0.1, 0.0, 0.2]


def test_a_masked_episode_trains_nothing():
    (row,) = token_rows(record(SEGMENT, reward=None))
    assert row.is_masked and row.loss_mask == [0, 1, 0, 1] and row.trained_mask == [0, 0, 0]
    assert row.rewards == [0.0] * 4
    assert empty_row(7).is_masked and empty_row(7).trained_mask == [0] and empty_row(7).prompt_ids == [7]


def test_what_was_not_sampled_is_no_row():
    assert token_rows(record()) == token_rows(record({**SEGMENT, "loss_mask": [0] * 4})) == []


@pytest.mark.slow
def test_rows_of_random_episodes_are_their_segments():
    records = play(200)
    rows = [
        (row, segment) for each in records for row, segment in zip(token_rows(each), each["trajectory"], strict=True)
    ]
    assert len(rows) > 400
    for row, segment in rows:
        assert row.prompt_ids + row.completion_ids == segment["input_ids"]
        assert [0] * row.start + row.completion_mask == segment["loss_mask"]
        assert [0.0] * row.start + row.completion_logprobs == segment["logprobs"]
