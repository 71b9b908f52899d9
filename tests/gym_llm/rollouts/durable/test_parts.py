"""The parts of a durable episode: the memory of answers, the codec of token ids, the journals that were left."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gym_llm.concurrency.answered_once import answered_once, current_memory, remembering
from gym_llm.errors import InfrastructureError, JudgeError, ToolError
from gym_llm.rollouts.durable.durable_episode import DurableEpisode
from gym_llm.rollouts.durable.journal import Journal
from gym_llm.rollouts.durable.left_journals import LeftJournals
from gym_llm.rollouts.durable.token_codec import TokenCodec
from gym_llm.rollouts.plan import Job
from gym_llm.sandbox.sandbox import RunResult

JOB = Job(3, 1)


class Outside:
    """Counts what it is asked, and answers with that, or raises it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked, self.error = 0, error

    async def ask(self) -> int:
        self.asked += 1
        assert current_memory() is None
        if self.error is not None:
            raise self.error
        return self.asked


def begun(folder: Path) -> tuple[Journal, DurableEpisode]:
    journal = Journal(folder)
    episode = DurableEpisode(journal, JOB)
    episode.begin()
    return journal, episode


def test_equal_requests_get_their_answers_in_order_and_others_are_asked(tmp_path):
    outside = Outside()

    async def play(requests: str) -> list[Any]:
        journal, episode = begun(tmp_path)
        with remembering(episode):
            answers = [await answered_once("shop", request, outside.ask) for request in requests]
        journal.close()
        return answers

    assert asyncio.run(play("aab")) == [1, 2, 3]
    assert asyncio.run(play("abca")) == [1, 3, 4, 2]
    assert outside.asked == 4


@pytest.mark.parametrize(
    "error",
    [ToolError("No."), JudgeError("It said nothing.", failure_kind="judge_unparseable"), InfrastructureError("x")],
)
def test_an_error_is_an_answer_too(tmp_path, error):
    outside = Outside(error)

    async def play() -> BaseException:
        journal, episode = begun(tmp_path)
        with remembering(episode), pytest.raises(type(error)) as raised:
            await answered_once("shop", 1, outside.ask)
        journal.close()
        return raised.value

    first, second = asyncio.run(play()), asyncio.run(play())
    assert outside.asked == 1 and str(first) == str(second) and type(first) is type(second)
    assert getattr(first, "failure_kind", None) == getattr(second, "failure_kind", None)


def test_an_effect_that_fails_when_it_is_made_again_masks_the_episode(tmp_path):
    outside = Outside()

    async def play() -> int:
        journal, episode = begun(tmp_path)
        try:
            with remembering(episode):
                return await answered_once("command", "touch a", outside.ask, again=True)
        finally:
            journal.close()

    assert asyncio.run(play()) == 1
    outside.error = InfrastructureError("The machine is gone.", failure_kind="session_lost")
    with pytest.raises(InfrastructureError, match="gone"):
        asyncio.run(play())
    outside.error = None
    assert asyncio.run(play()) == 1 and outside.asked == 3


def test_an_effect_is_made_again_and_the_first_answer_returned(tmp_path):
    outside = Outside()

    async def play() -> int:
        journal, episode = begun(tmp_path)
        with remembering(episode):
            answer = await answered_once("shop", 1, outside.ask, again=True)
        journal.close()
        return answer

    assert [asyncio.run(play()), asyncio.run(play()), outside.asked] == [1, 1, 2]


def test_a_living_worker_keeps_its_episodes(tmp_path):
    journal, episode = begun(tmp_path)
    episode.keep("shop", "1a", ["answer", 1])
    left = LeftJournals(tmp_path)
    assert left.take(JOB) is None
    journal.close()
    found = left.take(JOB)
    assert found is not None and [line.key for line in found.lines()] == ["1a"]
    assert left.take(JOB) is None


def test_a_journal_without_unfinished_episodes_is_removed(tmp_path):
    journal, _ = begun(tmp_path)
    journal.recorded(JOB)
    journal.close()
    assert not list(tmp_path.iterdir())


def test_token_ids_are_written_once_and_restored():
    prompts = [[1, 2], [1, 2, 3, 4], [9], [9, 3, 7, 7]]
    turns: list[Any] = []
    for number, prompt in enumerate(prompts):
        tokens = {"prompt_token_ids": prompt, "generation_token_ids": [3], "generation_log_probs": [-0.1 * number]}
        turns.append({"output": [{"type": "reasoning"}, {"type": "message", **tokens}], "usage": None})
    write, read = TokenCodec(), TokenCodec()
    written = [write.encode(turn) for turn in turns]
    assert [turn["output"][1]["prompt_token_ids"] for turn in written] == [[1, 2], [4], [9], [7, 7]]
    assert [read.decode(turn) for turn in written] == turns
    assert turns[1]["output"][1]["prompt_token_ids"] == [1, 2, 3, 4]


def test_a_result_of_the_sandbox_survives_json():
    result = RunResult(None, 1, None, b"\xff\x00out", b"err", 0.5, 0.7, 12, {"a.bin": b"\x80"})
    assert RunResult.from_json(result.as_json()) == result
