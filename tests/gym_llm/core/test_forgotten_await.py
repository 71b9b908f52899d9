"""A coroutine that a hook or tool drops without awaiting it masks the episode: it is true for every answer."""

import asyncio
import gc
import inspect
import warnings
from typing import Any

import gymnasium as gym
import pytest
from testing import function_call, message, row

import gym_llm
from gym_llm import VerifierEnv, hook, tool
from gym_llm.concurrency import drive


async def is_right(answer: str) -> bool:
    await asyncio.sleep(0)
    return answer == "otter"


class Quiz(VerifierEnv):
    """Forgets to await in a hook of the row's choice."""

    class Task(gym_llm.BaseTask):
        wrong: str

    def setup(self, task: Any) -> Any:
        return 1 if task.wrong == "setup" and is_right("") else 0

    def opening(self, task: Any, state: Any) -> Any:
        return "Hm?" if task.wrong == "opening" and is_right("") else None

    async def user_turn(self, task: Any, episode: Any) -> Any:
        return "Once more." if task.wrong == "user_turn" and is_right(episode.answer) else None

    def verify(self, task: Any, episode: Any) -> float:
        return float(bool(task.wrong == "verify" and is_right(episode.answer)))

    @tool
    def look(self, state: Any) -> str:
        """Look."""
        if self._task.wrong == "tool" and is_right(""):
            return "right"
        return "left"

    @tool
    async def wait_for_it(self, state: Any) -> str:
        """Wait."""
        right = self._task.wrong == "async tool" and is_right("")
        await asyncio.sleep(0)
        return "right" if right else "left"


class Late(VerifierEnv):
    async def verify(self, task: Any, episode: Any) -> float:
        right = is_right(episode.answer)
        await asyncio.sleep(0)
        return 1.0 if right else 0.0


class Threaded(VerifierEnv):
    @hook(blocking=True)
    def verify(self, task: Any, episode: Any) -> float:
        right = is_right(episode.answer)
        return 1.0 if right else 0.0


class Awaited(VerifierEnv):
    async def verify(self, task: Any, episode: Any) -> float:
        return float(await is_right(episode.answer))


gym.register("test/Quiz-v0", Quiz)


def play(env: VerifierEnv, *actions: Any) -> float:
    env.reset(seed=0, options={"task_index": 0})
    for action in actions[:-1]:
        env.step(action)
    return float(env.step(actions[-1])[1])


@pytest.mark.parametrize(
    ("where", "actions"),
    [
        ("setup", ["zebra"]),
        ("opening", ["zebra"]),
        ("user_turn", ["zebra"]),
        ("verify", ["zebra"]),
        ("tool", [[function_call("look")], "zebra"]),
        ("async tool", [[function_call("wait_for_it")], "zebra"]),
    ],
)
def test_no_hook_or_tool_may_drop_a_coroutine(where: str, actions: list[Any]) -> None:
    env = Quiz([row(wrong=where)])
    said = [message(action) if isinstance(action, str) else action for action in actions]
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match=r"is_right.* never awaited: write `await`"):
        warnings.simplefilter("error")
        play(env, *said)
    assert env.is_over
    assert play(Quiz([row(wrong="nothing")]), *said) == 0.0


@pytest.mark.parametrize("kind", [Late, Threaded])
def test_it_is_found_when_the_hook_ends_too(kind: type[VerifierEnv]) -> None:
    async def in_a_loop() -> float:
        return await drive(play, kind([row()]), message("zebra"))

    for run in (lambda: play(kind([row()]), message("zebra")), lambda: asyncio.run(in_a_loop())):
        with pytest.raises(RuntimeError, match=r"is_right.* never awaited"):
            run()


def test_an_awaited_one_is_no_fault() -> None:
    env = Awaited([row()])
    assert play(env, message("otter")) == 1.0 and play(env, message("zebra")) == 0.0


def test_the_episode_is_masked() -> None:
    tasks = [row(wrong="verify"), row(wrong="nothing")]
    with pytest.warns(UserWarning, match="1 of 2 episodes is masked"):
        masked, scored = gym_llm.collect("test/Quiz-v0", "constant:zebra", tasks=tasks)
    assert masked["reward"] is None and masked["error_phase"] == "verify" and "never awaited" in masked["error"]
    assert scored["reward"] == 0.0


def test_one_that_a_hook_raises_over_is_a_note() -> None:
    class Raises(VerifierEnv):
        def verify(self, task: Any, episode: Any) -> float:
            is_right("")
            raise KeyError("answer")

    with pytest.raises(KeyError) as raised:
        play(Raises([row()]), message("zebra"))
    assert "never awaited" in raised.value.__notes__[0]


def test_elsewhere_python_warns_as_ever() -> None:
    with pytest.warns(RuntimeWarning, match="coroutine 'is_right' was never awaited") as warned:
        is_right("")
    line = inspect.getsourcelines(test_elsewhere_python_warns_as_ever)[1] + 2
    assert [(each.filename, each.lineno) for each in warned] == [(__file__, line)]


def test_what_the_garbage_collector_drops_is_not_the_hook_s() -> None:
    class Collects(VerifierEnv):
        def verify(self, task: Any, episode: Any) -> float:
            gc.collect()
            return 0.5

    cycle: list[Any] = [is_right("")]
    cycle.append(cycle)
    del cycle
    with pytest.warns(RuntimeWarning, match="never awaited"):
        assert play(Collects([row()]), message("zebra")) == 0.5
