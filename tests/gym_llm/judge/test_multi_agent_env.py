"""MultiAgentEnv: seats that see their own, engines in some of them, and one exact trajectory for each."""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import InvalidAction
from gymnasium.utils.env_checker import check_env
from testing import function_call, message, message_item, response

from gym_llm import BaseTask, Episode, IllegalMove, MultiAgentEnv, collect, tool
from gym_llm.engines import make_engine
from gym_llm.engines.engine import Engine, EpisodeReport
from gym_llm.errors import EngineError
from gym_llm.records.record import read_record
from gym_llm.records.seats import seat_records
from gym_llm.rollouts.play import rollout
from gym_llm.trainers.shared.token_rows import token_rows
from gym_llm.types import TOKEN_FIELDS
from gym_llm.wrappers import RecordRollouts, TokenIdTracking

KUHN = "gym_llm/KuhnPoker-v0"


class Scissors(MultiAgentEnv[BaseTask, dict[str, Any]]):
    """Rock, paper, scissors, twice: all seats move at the same time. Each may look at a die that is its own."""

    possible_agents = ("left", "right", "middle")

    def setup(self, task: BaseTask) -> dict[str, Any]:
        return {"rounds": [], "dice": {"left": 1, "right": 2, "middle": 3}}

    async def seat_opening(self, task: BaseTask, state: dict[str, Any], seat: str) -> str:
        return f"You are {seat}."

    def seat_tools(self, task: BaseTask, seat: str) -> list[str]:
        return ["look"] if seat == "left" else []

    @tool
    def look(self, state: dict[str, Any]) -> str:
        """Look at your die."""
        return str(state["dice"][self.agent_selection])

    def next_seats(self, task: BaseTask, state: dict[str, Any]) -> list[str]:
        return [] if len(state["rounds"]) == 2 else list(self.possible_agents)

    def seat_turn(self, task: BaseTask, state: dict[str, Any], seat: str) -> str:
        return f"before: {json.dumps(state['rounds'])}"

    def legal_moves(self, task: BaseTask, state: dict[str, Any], seat: str) -> list[str]:
        return ["rock", "paper"]

    async def play(self, task: BaseTask, state: dict[str, Any], moves: dict[str, Episode[dict[str, Any]]]) -> None:
        said = {seat: episode.answer for seat, episode in moves.items()}
        for seat, move in said.items():
            if move not in ("rock", "paper"):
                raise IllegalMove(f"{move} is illegal", seat)
        state["rounds"].append(said)
        moves["left"].step_reward += 0.25 * (said["left"] == "paper")
        self.pay("middle", -0.5)

    def verify_seats(self, task: BaseTask, episodes: dict[str, Episode[dict[str, Any]]]) -> dict[str, Any]:
        return {seat: float(episode.state["rounds"][-1][seat] == "paper") for seat, episode in episodes.items()}


ROW = {"responses_create_params": {"input": [{"role": "system", "content": "Play."}]}}


def texts(observation: Any) -> list[str]:
    return [item["content"] for item in observation["input"] if item.get("role") == "user"]


def test_the_caller_plays_every_seat_in_turn() -> None:
    env = gym.make("gym_llm/TicTacToe-v0", opening_marks=0, disable_env_checker=True)
    observation, info = env.reset(seed=1)
    assert info["seat"] == "x" and texts(observation)[0] == "Your mark is x."
    verifier: Any = env.unwrapped
    played = []
    for cell in "15243":
        played.append(verifier.agent_selection)
        assert verifier.observe(verifier.agent_selection) == observation
        observation, reward, terminated, truncated, info = env.step(message(f"I take {cell}"))
    assert played == ["x", "o", "x", "o", "x"] and terminated and not truncated
    assert reward == 1.0 and info["rewards"] == {"x": 1.0, "o": -1.0} and info["seat"] == "x"
    assert verifier.agents == [] and verifier.terminations == {"x": True, "o": True}
    assert "Your mark is o." not in texts(observation) and len(texts(observation)) == 4


def test_nobody_sees_what_another_seat_says() -> None:
    env = Scissors([ROW])
    observation, info = env.reset(seed=0)
    for seat, move in (("left", "rock"), ("right", "paper"), ("middle", "rock")):
        assert env.agent_selection == seat and texts(observation) == [f"You are {seat}.", "before: []"]
        observation, *_ = env.step(message(move))
    assert texts(observation)[-1] == 'before: [{"left": "rock", "right": "paper", "middle": "rock"}]'
    for move in ("paper", "paper", "rock"):
        observation, reward, terminated, _, info = env.step(message(move))
    assert terminated and info["rewards"] == {"left": 1.25, "right": 1.0, "middle": -1.0} and reward == 1.25


def test_each_seat_has_its_own_tools_and_keeps_its_turn() -> None:
    env = Scissors([ROW])
    observation, _ = env.reset(seed=0)
    assert [each["name"] for each in observation["tools"]] == ["look"]
    observation, *_, info = env.step([function_call("look")])
    assert info["seat"] == "left" and observation["input"][-1]["output"] == "1"
    observation, *_, info = env.step(message("rock"))
    assert info["seat"] == "right" and observation["tools"] == []


def test_an_illegal_move_is_tried_again_and_then_forfeits() -> None:
    env = Scissors([ROW], max_illegal_moves=1)
    env.reset(seed=0)
    env.step(message("rock"))
    env.step(message("lizard"))
    observation, _, terminated, _, info = env.step(message("rock"))
    assert info["seat"] == "right" and texts(observation)[-1] == "lizard is illegal" and not terminated
    *_, terminated, _, info = env.step(message("spock"))
    assert terminated and info["forfeited"] == "right" and info["illegal_moves"] == {"left": 0, "right": 2, "middle": 0}
    assert info["rewards"] == {"left": 0.0, "right": -1.0, "middle": 0.0}


@pytest.mark.parametrize(
    ("cut_off", "rewards"), [("truncate", {"x": 0.0, "o": 0.0}), ("forfeit", {"x": -1.0, "o": 1.0})]
)
def test_a_response_that_was_cut_off(cut_off: str, rewards: dict[str, float]) -> None:
    env = gym.make("gym_llm/TicTacToe-v0", opening_marks=0, cut_off=cut_off, disable_env_checker=True)
    env.reset(seed=1)
    *_, terminated, truncated, info = env.step(response(message_item("1"), status="incomplete"))
    assert (terminated, truncated) == (cut_off == "forfeit", cut_off == "truncate") and info["rewards"] == rewards


@pytest.mark.parametrize(
    ("arguments", "seats"),
    [
        ({"seat": "o"}, {"o"}),
        ({"seat": "o", "opponents": "constant:1 2 3 4 5 6 7 8 9"}, {"o"}),
        ({"opponents": "random"}, {"x"}),
        ({"opponents": {"x": "random"}}, {"o"}),
        ({"opponents": {"x": "policy"}}, {"x", "o"}),
        ({"seat": "random"}, {"x", "o"}),
        ({}, {"x", "o"}),
    ],
)
def test_engines_play_the_seats_that_the_policy_does_not(arguments: dict[str, Any], seats: set[str]) -> None:
    env = gym.make("gym_llm/TicTacToe-v0", disable_env_checker=True, **arguments)
    played = set()
    for seed in range(6):
        observation, info = env.reset(seed=seed)
        over = False
        while not over:
            played.add(info["seat"])
            board = texts(observation)[-1]
            move = next(cell for cell in board if cell.isdecimal())
            observation, _, terminated, truncated, info = env.step(message(move))
            over = terminated or truncated
        assert sum(info["rewards"].values()) == 0.0
    assert played == seats
    env.close()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"seat": "z"}, "There is no seat 'z'; the seats are x, o."),
        ({"opponents": {"z": "random"}}, "There is no seat 'z'; the seats are x, o."),
        ({"opponents": "nothing:known"}, "opponents names no engine"),
        ({"opponents": {"x": "random", "o": "random"}}, "the policy has no seat left"),
        ({"trained": ["z"]}, "There is no seat 'z'"),
        ({"max_illegal_moves": -1}, "max_illegal_moves"),
    ],
)
def test_wrong_seats_are_refused_at_once(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        gym.make("gym_llm/TicTacToe-v0", **arguments)


def test_a_failing_opponent_masks_the_episode_for_all() -> None:
    records = collect_all(KUHN, Random(), {"opponents": {"player_0": "http://127.0.0.1:9/v1"}}, 2)
    assert [one["outcome"] for one in records] == ["masked"] * 2
    assert all(seat_records(one)["player_1"]["reward"] is None for one in records if "seats" in one)


class Unseated(Scissors):
    """A game that fails before its players sit down."""

    def agents_of(self, task: BaseTask, state: dict[str, Any]) -> list[str]:
        raise ValueError("There is no such game.")


def test_an_episode_without_players_says_why_it_is_masked() -> None:
    gym.register("tests/Unseated-v0", entry_point=Unseated)
    try:
        [record] = collect_all("tests/Unseated-v0", Random(), {}, 1, tasks=[ROW])
    finally:
        del gym.registry["tests/Unseated-v0"]
    assert record["error"] == "ValueError: There is no such game." and "seats" not in record


def test_gymnasiums_checker_is_content() -> None:
    check_env(gym.make("gym_llm/KuhnPoker-v0", seat="player_0").unwrapped, skip_render_check=True)


class Random(Engine):
    """Plays at random, and writes down what it was shown and sampled, by conversation.

    Ids are characters. Now and then a prompt does not go on with the last one, as where a template rewrites it.
    """

    model = "random"

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.log: dict[str, list[tuple[list[int], list[int], list[float]]]] = defaultdict(list)
        self.ended: list[str] = []

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        turns = self.log[episode_id]
        prompt = [*turns[-1][0], *turns[-1][1]] if turns and self.random.random() < 0.8 else []
        prompt = prompt + [self.random.randrange(1000) for _ in range(self.random.randrange(1, 4))]
        move = self.random.choice(["pass", "bet", "pass", "bet", "no move"])
        sampled = [self.random.randrange(1000) for _ in range(self.random.randrange(1, 4))]
        log_probs = [-self.random.random() for _ in sampled]
        turns.append((prompt, sampled, log_probs))
        return response({**message_item(move), **dict(zip(TOKEN_FIELDS, (prompt, sampled, log_probs), strict=True))})

    async def end_episode(self, episode_id: str, *, rewards: Any = (), failed: bool = False) -> EpisodeReport | None:
        self.ended.append(episode_id)
        return None


def segments(turns: list[tuple[list[int], list[int], list[float]]]) -> list[dict[str, list[Any]]]:
    """The segments of a conversation, made the plain way."""
    made: list[dict[str, list[Any]]] = []
    for prompt, sampled, log_probs in turns:
        if not made or prompt[: len(made[-1]["input_ids"])] != made[-1]["input_ids"]:
            made.append({"input_ids": [], "loss_mask": [], "logprobs": []})
        new = prompt[len(made[-1]["input_ids"]) :]
        made[-1]["input_ids"] += new + sampled
        made[-1]["loss_mask"] += [0] * len(new) + [1] * len(sampled)
        made[-1]["logprobs"] += [0.0] * len(new) + log_probs
    return made


def collect_all(env_id: str, engine: Engine, env_kwargs: dict[str, Any], episodes: int, **more: Any) -> list[Any]:
    options = {"wrappers": [TokenIdTracking], "concurrency": 32, "seed": 3, **more}

    async def play() -> list[Any]:
        played = rollout(env_id, engine, env_kwargs=env_kwargs, episodes=episodes, **options)
        return [record async for record in played]

    return asyncio.run(play())


def test_a_thousand_episodes_of_three_seats_keep_every_token_of_every_seat() -> None:
    engine = Random()
    records = collect_all(KUHN, engine, {"players": 3, "max_illegal_moves": 1}, 1000)
    assert len(records) == 1000 and {record["outcome"] for record in records} == {"scored"}
    forfeits = 0
    for record in records:
        number = f"{record['rollout_id']['task_index']}-{record['rollout_id']['repeat_index']}"
        for seat, alone in seat_records(read_record(json.loads(json.dumps(record)))).items():
            turns = engine.log.get(f"{number}/{seat}", [])
            assert alone["info"]["turn"] == len(turns)
            assert (alone["trajectory"] or []) == segments(turns)
            if turns:
                assert sum(sum(row.rewards) for row in token_rows(alone)) == pytest.approx(alone["reward"])
        forfeits += "forfeited" in record["info"]
        if "forfeited" not in record["info"]:
            assert sum(seat["reward"] for seat in record["seats"].values()) == 0.0
    assert 0 < forfeits < 500
    assert sorted(engine.ended) == sorted(engine.log)


def test_an_engine_in_another_seat_leaves_its_tokens_too(tmp_path: Path) -> None:
    options = {"opponents": {"player_1": "pocket"}, "max_illegal_moves": 0}
    records = collect(KUHN, "pocket", env_kwargs=options, episodes=4, sampling={"max_output_tokens": 8})
    seats = [record["seats"] for record in records]
    assert all(each["player_0"]["player"] == "policy" and each["player_1"]["player"] == "pocket" for each in seats)
    assert all(each["player_0"]["trained"] and not each["player_1"]["trained"] for each in seats)
    assert [list(seat_records(record)) for record in records] == [["player_0"]] * 4
    assert all("generation_token_ids" not in json.dumps(each) for each in seats)


def test_a_seat_that_is_not_trained_has_no_row() -> None:
    records = collect_all(KUHN, Random(), {"trained": ["player_1"]}, 20)
    for record in records:
        assert [list(seat_records(record)), list(seat_records(record, trained=False))] == [
            ["player_1"],
            ["player_0", "player_1"],
        ]
        assert record["reward"] == record["seats"]["player_1"]["reward"]


def test_equal_seeds_give_equal_episodes() -> None:
    first, second = (
        [(one["seats"], one["reward"]) for one in collect_all(KUHN, Random(5), {"seat": "random"}, 1)] for _ in range(2)
    )
    assert first == second


def test_the_wrapper_that_records_writes_the_seats(tmp_path: Path) -> None:
    env = RecordRollouts(
        gym.make("gym_llm/TicTacToe-v0", opening_marks=0, disable_env_checker=True), tmp_path / "r.jsonl"
    )
    env.reset(seed=0)
    for cell in "15243":
        env.step(message(cell))
    record = read_record(json.loads((tmp_path / "r.jsonl").read_text()))
    assert record["reward"] == 1.0 and [seat["turns"] for seat in record["seats"].values()] == [3, 2]
    assert record["seats"]["o"]["response"]["output"][-1]["content"][0]["text"] == "4"


def test_a_tasks_own_field_of_this_name_in_an_earlier_record_stays_the_tasks() -> None:
    old = {"rollout_id": {"task_index": 0, "repeat_index": 0}, "reward": 1.0, "outcome": "scored", "seats": "A12"}
    record = read_record({**old, "error_phase": None, "schema_version": 3})
    assert record["task_fields"] == {"seats": "A12"} and "seats" not in record


def test_turns_without_all_token_fields_change_nothing() -> None:
    env = Scissors([ROW])
    env.reset(seed=0)
    with pytest.raises(InvalidAction):
        env.step([{**message_item("rock"), "generation_token_ids": [1]}])
    assert env.agent_selection == "left" and not env.is_over


def test_what_play_and_verify_may_not_do_masks() -> None:
    class Wrong(Scissors):
        def verify_seats(self, task: BaseTask, episodes: Any) -> dict[str, Any]:
            return {"left": 1.0}

    env = Wrong([ROW])
    env.reset(seed=0)
    for move in ("rock",) * 5:
        env.step(message(move))
    with pytest.raises(TypeError, match="a reward for each of the seats left, right, middle"):
        env.step(message("rock"))
    assert env.is_over


def test_an_engine_that_answers_nonsense_is_the_engines_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    env: Any = gym.make(
        "gym_llm/TicTacToe-v0", opening_marks=0, opponents="constant:5", disable_env_checker=True
    ).unwrapped
    env.reset(seed=0)

    async def nonsense(*_: Any) -> Any:
        return {"output": "five"}

    monkeypatch.setattr("gym_llm.judge.multi_agent_env.answer", nonsense)
    with pytest.raises(EngineError, match="The engine of seat o gave an invalid response"):
        env.step(message("1"))
    assert make_engine("constant:5") is not None
