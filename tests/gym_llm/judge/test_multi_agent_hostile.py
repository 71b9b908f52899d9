"""MultiAgentEnv under attack: pay, tools and failures of several seats, and texts that a model may write."""

from __future__ import annotations

import asyncio
from typing import Any

import gymnasium as gym
import pytest
from testing import function_call, message, message_item, response

from gym_llm import BaseTask, Episode, IllegalMove, MultiAgentEnv, collect, tool
from gym_llm.core.driver import Driver
from gym_llm.engines.engine import Engine, EpisodeReport
from gym_llm.envs.proposer_solver.env import evaluate
from gym_llm.errors import EngineError, InvalidReward
from gym_llm.evaluation.reverify.rescoring import NotFromItems, score_replayed
from gym_llm.judge.multi_agent_env import named_move
from gym_llm.records.record import make_record
from gym_llm.records.seats import seat_records
from gym_llm.stats.ratings import win_probability

ROW = {"responses_create_params": {"input": []}}


class Turns(MultiAgentEnv[BaseTask, dict[str, Any]]):
    """Two seats take turns; each turn of x pays x 1.0, and has a tool that pays it 0.25."""

    possible_agents = ("x", "o")
    paid_by_o = 0.0

    def setup(self, task: BaseTask) -> dict[str, Any]:
        return {"moves": 0}

    def seat_tools(self, task: BaseTask, seat: str) -> list[str]:
        return ["peek"] if seat == "x" else []

    @tool
    def peek(self, state: dict[str, Any]) -> str:
        """Look at what only x may see."""
        self.pay("x", 0.25)
        return "secret"

    def next_seats(self, task: BaseTask, state: dict[str, Any]) -> str | None:
        return None if state["moves"] == 4 else "xo"[state["moves"] % 2]

    def legal_moves(self, task: BaseTask, state: dict[str, Any], seat: str) -> list[str]:
        return ["a"]

    def play(self, task: BaseTask, state: dict[str, Any], moves: dict[str, Episode[dict[str, Any]]]) -> None:
        state["moves"] += 1
        if "x" in moves:
            moves["x"].step_reward += 1.0
        elif self.paid_by_o:
            self.pay("o", self.paid_by_o)

    def verify_seats(self, task: BaseTask, episodes: dict[str, Episode[dict[str, Any]]]) -> dict[str, Any]:
        return {"x": 0.0, "o": 0.0}


def test_a_turn_is_paid_once_and_to_its_own_seat() -> None:
    env = Turns([ROW])
    env.reset(seed=0)
    rewards = []
    for _ in range(4):
        *_, info = step = env.step(message("a"))
        rewards.append(step[1])
    assert rewards == [1.0, 0.0, 1.0, 0.0] and info["rewards"] == {"x": 2.0, "o": 0.0}


def test_what_a_tool_pays_is_paid_in_its_turn() -> None:
    env = Turns([ROW])
    env.reset(seed=0)
    assert env.step([function_call("peek")])[1] == 0.25
    assert env.step(message("a"))[1] == 1.0
    assert env.rewards == {"x": 1.0, "o": 0.0} and env.last()[0] == env.observe("o")
    assert [seat["reward"] for seat in (env.seat_fields() or {}).values()] == [1.25, 0.0]


def test_what_an_engines_first_move_pays_is_in_the_rewards_of_steps() -> None:
    class Later(Turns):
        def play(self, task: BaseTask, state: dict[str, Any], moves: dict[str, Episode[dict[str, Any]]]) -> None:
            state["moves"] += 1
            self.pay("o", 0.5)

    for _ in range(2):
        env = Later([ROW], seat="o")
        env.reset(seed=0)
        rewards = [env.step(message("a"))[1], env.step(message("a"))[1]]
        assert rewards == [1.5, 0.5] and env.turn_rewards_of("o") == [1.5, 0.5]


def test_a_seat_cannot_call_a_tool_of_another() -> None:
    env = Turns([ROW])
    env.reset(seed=0)
    env.step(message("a"))
    observation, *_ = env.step([function_call("peek")])
    assert "no tool named" in observation["input"][-1]["output"] and env.agent_selection == "o"


def test_no_seat_can_be_paid_what_is_not_a_finite_number() -> None:
    env = Turns([ROW])
    env.paid_by_o = float("nan")
    env.reset(seed=0)
    env.step(message("a"))
    with pytest.raises(InvalidReward):
        env.step(message("a"))
    assert env.is_over


def test_an_opponents_broken_tokens_are_not_the_policys_invalid_action(monkeypatch: pytest.MonkeyPatch) -> None:
    env = Turns([ROW], opponents={"o": "constant:a"})
    env.reset(seed=0)

    async def broken(*_: Any) -> Any:
        return [{**message_item("a"), "generation_token_ids": [1]}]

    monkeypatch.setattr("gym_llm.judge.multi_agent_env.answer", broken)
    with pytest.raises(EngineError, match="The engine of seat o gave an invalid response"):
        env.step(message("a"))


def test_if_one_engine_fails_the_others_that_were_asked_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    class AtOnce(Turns):
        possible_agents = ("x", "o", "third")  # type: ignore[assignment]

        def next_seats(self, task: BaseTask, state: dict[str, Any]) -> list[str]:  # type: ignore[override]
            return ["x", "o"]

    ended = []

    async def one_fails(_: Any, __: Any, ___: Any, ____: Any, _____: Any, episode_id: str) -> Any:
        if episode_id.endswith("/o"):
            raise EngineError("o is down")
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(episode_id)

    monkeypatch.setattr("gym_llm.judge.multi_agent_env.answer", one_fails)

    async def play() -> None:
        driver = Driver(AtOnce([ROW], seat="third", opponents="constant:a"))
        with pytest.raises(EngineError, match="o is down"):
            await driver.run(driver.reset, seed=0)
        await asyncio.sleep(0)
        assert len(ended) == 1

    asyncio.run(play())


def test_a_wrapper_that_truncates_leaves_the_details_of_the_records_seat() -> None:
    game = gym.make("gym_llm/TicTacToe-v0", opening_marks=0, disable_env_checker=True)
    driver = Driver(gym.wrappers.TimeLimit(game, 3))
    driver.reset(seed=0)
    driver.step(message("1"))
    driver.step([function_call("nothing")])
    *_, truncated, info = driver.step([function_call("nothing")])
    assert truncated and info["rewards"] == {"x": 0.0, "o": 0.0}
    assert (info["seat"], info["turn"], info["tool_errors"]) == ("x", 1, 0)


def test_an_episode_that_fails_before_its_seats_are_taken_keeps_its_task_and_its_reason() -> None:
    env = gym.make("gym_llm/TicTacToe-v0", tasks=[{**ROW, "board": "xxxxxxxxx"}], disable_env_checker=True)
    driver = Driver(env)
    with pytest.raises(ValueError, match="board") as caught:
        driver.reset(seed=0)
    made: dict[str, Any] = {"rollout_id": {"task_index": 0, "repeat_index": 0}, "info": {}, "timing": {}}
    failure = driver.failure(caught.value)
    record = make_record(env, turn_rewards=[], terminated=False, truncated=False, failure=failure, **made)
    assert record["outcome"] == "masked" and "board is nine cells" in str(record["error"])
    assert record["board"] == "xxxxxxxxx" and "seats" not in record  # type: ignore[typeddict-item]


def test_an_engines_own_trajectory_reaches_each_seat() -> None:
    class Reporting(Engine):
        model = "reporting"

        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            return response(message_item("bet"))

        async def end_episode(self, episode_id: str, *, rewards: Any = (), failed: bool = False) -> EpisodeReport:
            token = int(episode_id[-1])
            return EpisodeReport(trajectory=[{"input_ids": [token], "loss_mask": [1], "logprobs": [0.0]}], info={})

    [record] = collect("gym_llm/KuhnPoker-v0", Reporting(), episodes=1)
    trajectories = [alone["trajectory"] for alone in seat_records(record).values()]
    assert [segment["input_ids"] for (segment,) in trajectories] == [[0], [1]]  # type: ignore[misc]


def test_seats_of_which_none_would_be_trained_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="trained names none of the policy's seats: x"):
        gym.make("gym_llm/TicTacToe-v0", seat="x", trained=["o"])
    assert win_probability(0, 1e6) == 0.0 and win_probability(1e6, 0) == 1.0


def test_one_seats_turns_are_not_played_again_in_all_seats() -> None:
    [record] = collect("gym_llm/KuhnPoker-v0", "constant:bet", episodes=1)
    driver = Driver(gym.make("gym_llm/KuhnPoker-v0", disable_env_checker=True))
    with pytest.raises(NotFromItems, match="several seats"):
        score_replayed(driver, record, 0)


@pytest.mark.parametrize(
    ("text", "moves", "move"),
    [
        ("pa\u017fs", ["pass", "bet"], "pass"),
        ("\u212aick", ["kick"], "kick"),
        ("raise 10", ["raise", "raise 10"], "raise 10"),
        ("b\u0131t", ["bit"], "bit"),
    ],
)
def test_letters_that_only_look_the_same_in_another_case_raise_nothing(text: str, moves: list[str], move: str) -> None:
    assert named_move(text, moves) == move


@pytest.mark.parametrize(
    "text", ["1 + 1 # the answer is 2", "1 + 1 \\", "1 + '1'", "1 if 2 else 3", "\u0661 + 1", "1+\x001"]
)
def test_a_proposer_can_say_nothing_but_its_problem(text: str) -> None:
    with pytest.raises(IllegalMove):
        evaluate(text)
