from __future__ import annotations

import asyncio
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from testing import function_call, message, message_item, outputs, response, row

from gym_llm import BaseTask, Episode, Verdict, VerifierEnv, tool
from gym_llm.concurrency import drive
from gym_llm.core.verifier_env import _warn_of_reasoning
from gym_llm.errors import DataError


class Echo(VerifierEnv):
    """Rewards the expected answer."""

    class Task(BaseTask):
        expected: str = "4"

    @tool
    def ping(self) -> str:
        """Answer."""
        return "pong"

    def verify(self, task: Any, episode: Episode) -> float:
        return float(episode.answer == task.expected)


def echo(**kwargs: Any) -> Echo:
    env = Echo(tasks=[row("2+2?"), row("2+3?", expected="5")], **kwargs)
    env.reset(options={"task_index": 0})
    return env


def test_one_turn_is_an_episode() -> None:
    env = Echo(tasks=[row("2+2?")])
    observation, info = env.reset(seed=0)
    assert observation["input"] == [{"role": "user", "content": "2+2?"}]
    assert info == {"task_index": 0, "turn": 0, "tool_errors": 0}
    observation, reward, terminated, truncated, info = env.step(message("4"))
    assert observation["input"][1:] == message("4") and (reward, terminated, truncated) == (1.0, True, False)
    assert info == {"task_index": 0, "turn": 1, "tool_errors": 0}


def test_three_turns_of_reasoning_alone_end_the_episode_with_one_warning(recwarn: pytest.WarningsRecorder) -> None:
    """As where a server files all answers as reasoning: it would be asked the same until the turns are used up."""
    _warn_of_reasoning.cache_clear()
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "It is 4."}]}
    env = echo(max_turns=32)
    for _ in range(2):
        env.reset(options={"task_index": 0})
        assert [env.step([thought])[1:4] for _ in range(3)] == [(0.0, False, False)] * 2 + [(0.0, False, True)]
    (warning,) = [str(each.message) for each in recwarn if "only reasoning" in str(each.message)]
    assert "--reasoning-parser" in warning
    env.reset(options={"task_index": 0})
    calls = [[thought], [thought], [function_call("ping")], [thought], [thought]]
    assert [env.step(items)[2:4] for items in calls] == [(False, False)] * 5
    assert env.step(message("4"))[1:4] == (1.0, True, False)


def test_a_turn_of_reasoning_alone_is_asked_for_again_until_the_turns_are_used_up() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    env = echo(max_turns=3)
    observation, reward, terminated, truncated, _ = env.step([thought])
    assert observation["input"][1:] == [thought] and (reward, terminated, truncated) == (0.0, False, False)
    assert env.step([thought, message_item("4")])[1:4] == (1.0, True, False)
    env.reset(options={"task_index": 0})
    assert [env.step([thought, thought])[1:4] for _ in range(3)] == [(0.0, False, False)] * 2 + [(0.0, False, True)]
    env.reset(options={"task_index": 0})
    assert env.step([])[2]  # nothing at all is an answer, too


def test_a_text_input_becomes_a_user_message() -> None:
    env = Echo(tasks=[{"responses_create_params": {"input": "2+2?", "temperature": 0.5}}])
    observation, _ = env.reset()
    assert observation["input"] == [{"role": "user", "content": "2+2?"}] and observation["temperature"] == 0.5


def test_stepping_without_an_episode_needs_a_reset() -> None:
    env = Echo(tasks=[row()])
    with pytest.raises(ResetNeeded):
        env.step(message("4"))
    env.reset()
    env.step(message("4"))
    with pytest.raises(ResetNeeded):
        env.step(message("4"))


def test_an_invalid_action_leaves_the_episode_as_it_was() -> None:
    env = echo()
    for action in ("4", [message_item("4"), {}], response(message_item("4"), usage=3), response(status=[])):
        with pytest.raises(InvalidAction):
            env.step(action)
    *_, info = env.step(message("4"))
    assert info["turn"] == 1 and len(env.episode.items) == 1


@pytest.mark.parametrize("status", ["incomplete", "failed", "cancelled"])
def test_an_answer_that_was_cut_off_truncates_and_is_scored(status: str) -> None:
    assert echo().step(response(message_item("4"), status=status))[1:4] == (1.0, False, True)


def test_a_call_that_was_cut_off_is_not_made() -> None:
    observation, _, terminated, truncated, _ = echo().step(response(function_call("ping"), status="incomplete"))
    assert (terminated, truncated) == (False, True) and outputs(observation) == []


def test_the_last_turn_truncates_after_its_calls_were_answered() -> None:
    env = echo(max_turns=2)
    assert env.step([function_call("ping")])[2:4] == (False, False)
    observation, _, terminated, truncated, info = env.step([function_call("ping")])
    assert (terminated, truncated, info["turn"]) == (False, True, 2) and outputs(observation) == ["pong", "pong"]


def test_an_answer_in_the_last_turn_terminates() -> None:
    assert echo(max_turns=1).step(message("4"))[2:4] == (True, False)


def test_usage_is_summed_over_the_turns_that_report_it() -> None:
    env = echo()
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5, "input_tokens_details": {"cached_tokens": 1}}
    env.step(response(function_call("ping"), usage=usage))
    env.step(response(function_call("ping"), usage=None))
    env.step(response(message_item("4"), usage=usage))
    counts = {"input_tokens": 6, "output_tokens": 4, "total_tokens": 10}
    assert env.episode.usage == {**counts, "input_tokens_details": {"cached_tokens": 2}}


def test_tasks_are_chosen_by_seed_by_index_or_given() -> None:
    env = Echo(tasks=[row(str(n)) for n in range(50)])
    drawn = [env.reset(seed=3)[1]["task_index"], *(env.reset()[1]["task_index"] for _ in range(9))]
    again = [env.reset(seed=3)[1]["task_index"], *(env.reset()[1]["task_index"] for _ in range(9))]
    assert drawn == again and len(set(drawn)) > 3
    assert env.reset(options={"task_index": np.int64(7)})[0]["input"][0]["content"] == "7"
    observation, info = env.reset(options={"task": row("own")})
    assert observation["input"][0]["content"] == "own" and info["task_index"] == -1
    assert env.reset(options={"task": row("own"), "task_index": 9})[1]["task_index"] == 9


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"task_index": 2}, IndexError, "no task 2.*0 to 1"),
        ({"task_index": -1}, IndexError, "no task -1"),
        ({"task_index": "0"}, ValueError, "int, got str"),
        ({"task": row(), "task_index": "0"}, ValueError, "int, got str"),
        ({"index": 0}, ValueError, "task_index.*index"),
        ({"task": {"a": 1}}, DataError, "responses_create_params"),
        ({"task": row(expected=4)}, DataError, "expected"),
    ],
)
def test_a_wrong_reset_says_what_is_wrong(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        echo().reset(options=options)


@pytest.mark.parametrize(
    "kwargs, error, words",
    [
        ({"max_turns": 0}, ValueError, "max_turns"),
        ({"max_turns": 1.5}, ValueError, "max_turns"),
        ({"render_mode": "human"}, ValueError, "ansi"),
        ({"tasks": 3}, ValueError, "got int"),
        ({"tasks": []}, DataError, "no tasks"),
        ({"tasks": "nowhere.jsonl"}, DataError, "nowhere.jsonl"),
    ],
)
def test_a_wrong_argument_is_refused_when_the_environment_is_made(
    kwargs: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Echo(**kwargs)


def test_an_environment_without_tasks_plays_those_it_is_given() -> None:
    env = Echo()
    assert env.num_tasks is None
    with pytest.raises(DataError, match="no tasks"):
        env.reset()
    assert env.reset(options={"task": row("own")})[1]["task_index"] == -1


def test_a_generator_makes_the_same_task_for_the_same_index() -> None:
    class Sums(Echo):
        def generate(self, rng: np.random.Generator) -> dict[str, Any]:
            return row(str(rng.integers(10**9)))

    one, other = Sums(), Sums()
    assert one.num_tasks is None
    assert one.reset(seed=4) == other.reset(seed=4)
    assert one.reset(options={"task_index": 2**60}) == other.reset(options={"task_index": 2**60})
    with pytest.raises(IndexError):
        one.reset(options={"task_index": -1})


class AsyncHooks(VerifierEnv):
    """Every hook waits."""

    async def setup(self, task: Any) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"asked": 0}

    async def user_turn(self, task: Any, episode: Episode) -> str | None:
        await asyncio.sleep(0)
        episode.state["asked"] += 1
        return "More?" if episode.state["asked"] == 1 else None

    async def verify(self, task: Any, episode: Episode) -> Verdict:
        await asyncio.sleep(0)
        return Verdict(0.5, {"asked": episode.state["asked"]}, {"a": 0.25, "b": 0.25})


def play_hooks(env: gym.Env[Any, Any]) -> tuple[Any, ...]:
    env.reset()
    observation, *_ = env.step(message("a"))
    assert observation["input"][-1]["content"] == "More?"
    return env.step(message("b"))[1:]


@pytest.mark.parametrize("where", ["plain", "in a running loop", "driven"])
def test_hooks_may_be_async_wherever_step_is_called(where: str) -> None:
    env = AsyncHooks(tasks=[row()])

    async def in_loop() -> tuple[Any, ...]:
        return play_hooks(env)

    async def driven() -> tuple[Any, ...]:
        return await drive(play_hooks, env)

    result = play_hooks(env) if where == "plain" else asyncio.run(driven() if where == "driven" else in_loop())
    info = {"task_index": 0, "turn": 2, "tool_errors": 0, "asked": 2, "reward_components": {"a": 0.25, "b": 0.25}}
    assert result == (0.5, True, False, info)


def test_the_user_may_answer_with_items_and_only_with_items() -> None:
    class Replies(Echo):
        reply: Any = None

        def user_turn(self, task: Any, episode: Episode) -> Any:
            return self.reply

    env = Replies(tasks=[row()])
    env.reply = [{"role": "user", "content": "A"}, {"role": "user", "content": "B"}]
    env.reset()
    assert env.step(message("x"))[0]["input"][-2:] == env.reply
    for env.reply in ({"role": "user", "content": "A"}, 3):
        env.reset()
        with pytest.raises(TypeError, match="user_turn"):
            env.step(message("x"))


def test_a_hook_that_fails_in_reset_leaves_nothing_to_play() -> None:
    class Fails(Echo):
        def setup(self, task: Any) -> None:
            if task.expected == "5":
                raise RuntimeError("no state")

    env = Fails(tasks=[row(), row(expected="5")])
    env.reset(options={"task_index": 0})
    with pytest.raises(RuntimeError, match="no state"):
        env.reset(options={"task_index": 1})
    with pytest.raises(ResetNeeded):
        env.step(message("4"))


def test_a_row_s_own_tools_win() -> None:
    own = row()
    own["responses_create_params"]["tools"] = [{"type": "function", "name": "theirs", "parameters": {}}]
    env = Echo(tasks=[own, row()])
    assert [t["name"] for t in env.reset(options={"task_index": 0})[0]["tools"]] == ["theirs"]
    assert [t["name"] for t in env.reset(options={"task_index": 1})[0]["tools"]] == ["ping"]


def test_render_is_a_readable_transcript() -> None:
    env = echo(render_mode="ansi")
    env.step([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}, function_call("ping")])
    env.step(message("4"))
    lines = env.render().split("\n\n")
    assert lines == ["user: 2+2?", "thinking: Hm.", "call: ping({})", "tool: pong", "assistant: 4"]


def test_render_shows_anything_without_failing() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    env = echo(render_mode="ansi")
    env.step(
        [
            {"type": "strange", "value": deep},
            {"type": "reasoning", "summary": 3},
            {"type": "reasoning", "summary": [None, deep]},
            {"type": "message", "role": "assistant", "content": [{"type": "image", "text": deep}, {}]},
        ]
    )
    assert "strange" in env.render() and "[image]" in env.render()


def test_rendering_without_a_mode_warns() -> None:
    with pytest.warns(UserWarning, match="ansi"):
        assert echo().render() is None


def test_tasks_of_a_file_are_read_once_for_all_environments(tmp_path: Any) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"responses_create_params": {"input": "a"}}\n\n{"responses_create_params": {"input": "b"}}\n')
    one, other = Echo(str(file)), Echo(str(file))
    assert one.num_tasks == 2 and one.tasks is other.tasks
    file.write_text('{"responses_create_params": {"input": "changed"}}\n')
    assert Echo(str(file)).reset()[0]["input"][0]["content"] == "changed"


def test_gymnasiums_wrappers_work_around_it() -> None:
    gym.register("Test/Echo-v0", entry_point=lambda **kwargs: Echo(**kwargs))
    try:
        env = gym.make("Test/Echo-v0", tasks=[row()], max_episode_steps=1)
        env = gym.wrappers.RecordEpisodeStatistics(gym.wrappers.TransformReward(env, lambda reward: 2 * reward))
        env.reset()
        assert env.step([function_call("ping")])[3] is True
        env.reset()
        *_, info = env.step(message("4"))
        assert info["episode"]["r"] == 2.0
    finally:
        del gym.registry["Test/Echo-v0"]
    assert sys.modules["gym_llm"]
