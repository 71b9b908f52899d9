"""A class whose hook would never run is refused when it is made; helpers of any name are left alone."""

from typing import Any

import pytest
from testing import row

from gym_llm import BaseTask, VerifierEnv, hook, tool
from gym_llm.core.registry.env_files import find_env
from gym_llm.errors import UsageError


class Quiz(VerifierEnv):
    def verify(self, task: Any, episode: Any) -> float:
        return 1.0


def nothing(*args: Any) -> None:
    return None


async def later(*args: Any) -> None:
    return None


@pytest.mark.parametrize(
    ("name", "hook_name"),
    [
        ("set_up", "setup"),
        ("setUp", "setup"),
        ("stup", "setup"),
        ("on_message", "user_turn"),
        ("user_trun", "user_turn"),
        ("userTurn", "user_turn"),
        ("env_response", "user_turn"),
        ("respond", "user_turn"),
        ("verfy", "verify"),
        ("Verify", "verify"),
        ("tear_down", "teardown"),
        ("tearDown", "teardown"),
        ("openning", "opening"),
        ("initial_observation", "opening"),
        ("genrate", "generate"),
        ("orcale", "oracle"),
        ("near_miss", "near_misses"),
        ("seed_session", "setup"),
    ],
)
@pytest.mark.parametrize("member", [nothing, later, staticmethod(nothing), hook(blocking=True)(nothing)])
def test_a_misspelt_hook_is_refused_with_the_right_name(name: str, hook_name: str, member: Any) -> None:
    with pytest.raises(TypeError, match=rf"Wrong\.{name} would never run\. Did you mean {hook_name}\?") as refused:
        type("Wrong", (VerifierEnv,), {name: member})
    assert len(str(refused.value)) <= 120


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("max_turns", 4, "default_max_turns"),
        ("execute_tools", False, "executes_tools"),
        ("dry_run_kwarg", {}, "dry_run_kwargs"),
        ("metric", {}, "metrics"),
        ("Tasks", BaseTask, "Task"),
    ],
)
def test_so_is_a_misspelt_attribute(name: str, value: Any, meant: str) -> None:
    with pytest.raises(TypeError, match=f"{name} would never be read. Did you mean {meant}"):
        type("Wrong", (Quiz,), {name: value})


@pytest.mark.parametrize(
    "name",
    [
        *("score", "grade", "reward", "check", "verify_answer", "verified", "generator", "generate_row", "rows"),
        *("reset_board", "open", "opened", "turn", "message", "response", "responses", "set_up_board", "step_"),
        *("setting", "oracles_of", "_set_up", "_verfy", "evaluate", "near", "task", "tasks_of", "metric", "config"),
    ],
)
def test_a_helper_is_not_refused(name: str) -> None:
    assert type("Fine", (Quiz,), {name: nothing}).verify


def test_a_near_miss_that_the_class_calls_is_a_helper() -> None:
    class Board(Quiz):
        max_turns = 3

        def setup(self, task: Any) -> Any:
            return self.set_up(task)

        def set_up(self, task: Any) -> Any:
            return [self.max_turns]

    class Caller(Quiz):
        def user_turn(self, task: Any, episode: Any) -> Any:
            return next(self.on_message(text) for text in ("a", "b"))  # type: ignore[attr-defined]

    class Called(Caller):
        def on_message(self, text: str) -> str:
            return text

    assert Board([row()]).reset() and Called([row()]).on_message("a") == "a"


def test_a_tool_and_a_property_may_have_any_name() -> None:
    class Chat(Quiz):
        @tool
        def on_message(self, text: str) -> str:
            """Send a message."""
            return text

        @property
        def set_up(self) -> bool:
            return True

    assert [schema["name"] for schema in Chat.tool_schemas()] == ["on_message"]


def test_what_a_parent_has_is_not_refused_in_its_child() -> None:
    class Parent(Quiz):
        def verify(self, task: Any, episode: Any) -> float:
            return self.verfy(episode)

        def verfy(self, episode: Any) -> float:
            return 1.0

    class Child(Parent):
        def verfy(self, episode: Any) -> float:
            return 0.5

    assert Child([row()])


async def without_task(self: Any, episode: Any) -> None:
    return None


def keyword_only(self: Any, task: Any, *, episode: Any) -> None:
    return None


@pytest.mark.parametrize("member", [without_task, keyword_only])
@pytest.mark.parametrize("name", ["verify", "user_turn", "teardown"])
def test_a_hook_with_other_parameters_is_refused(name: str, member: Any) -> None:
    with pytest.raises(TypeError, match=rf"is called as {name}\(self, task, episode\), but takes \(self, "):
        type("Wrong", (Quiz,), {name: member})


def test_a_hook_may_take_more_than_it_is_given() -> None:
    class More(VerifierEnv):
        def verify(self, task: Any, episode: Any, strict: bool = False) -> float:
            return 0.0

        def setup(self, *args: Any, **kwargs: Any) -> None:
            pass

    assert More([row()]).reset()


def test_an_environment_without_verify_cannot_be_made() -> None:
    class Base(VerifierEnv):
        pass

    class Scored(VerifierEnv):
        def score(self, text: str) -> float:
            return 1.0

    with pytest.raises(TypeError, match=r"Base has no verify\(self, task, episode\)"):
        Base([row()])
    with pytest.raises(TypeError, match="Rename its score"):
        Scored([row()])


def test_the_class_of_a_file_is_refused_with_its_line(tmp_path: Any) -> None:
    file = tmp_path / "misspelt_quiz.py"
    file.write_text(
        "import gym_llm\n\n\nclass Quiz(gym_llm.VerifierEnv):\n    def verfy(self, task, episode):\n        ...\n"
    )
    with pytest.raises(UsageError, match=r"misspelt_quiz.py, line 4: .*Did you mean verify"):
        find_env(str(file))
