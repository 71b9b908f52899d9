"""How an episode opens, how calls can end it, and the readings of what the model said."""

from __future__ import annotations

from pathlib import Path

import pytest
from testing import function_call, message, row

from gym_llm import BaseTask, Episode, VerifierEnv, collect, tool
from gym_llm.engines import make_engine
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.utils.json_codec import dumps_record

TURN = [
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "content": [{"text": "So."}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One"}, {"text": "two "}]},
]


class Game(VerifierEnv):
    """Says a board first."""

    ended = 0

    def setup(self, task):
        return task.board

    async def opening(self, task, state):
        if state == "wrong":
            raise ValueError("no board")
        return state

    def user_turn(self, task, episode):
        return "Go on." if episode.turn < 2 else None

    def verify(self, task, episode):
        return float(episode.items[0]["content"] == task.board)

    def teardown(self, task, episode):
        self.ended += 1


class Calls(VerifierEnv):
    """Grades the calls themselves."""

    executes_tools = False

    class Task(BaseTask):
        city: str

    @tool
    def look_up(self, state, city: str) -> str:
        """Look up a city."""
        raise AssertionError("a tool was run")

    def verify(self, task, episode):
        return float(task.city in [call["arguments"] for call in episode.function_calls("look_up")])


def test_the_opening_is_the_first_of_the_items_and_of_the_next_request() -> None:
    env = Game([row("Play.", board="o x")])
    observation, _ = env.reset()
    assert [item["content"] for item in observation["input"]] == ["Play.", "o x"]
    assert env.step(message("up"))[2] is False
    assert env.step(message("down"))[1:3] == (1.0, True)
    assert env.ended == 1


def test_an_opening_that_fails_is_torn_down_and_masks_the_episode() -> None:
    env = Game([row("Play.", board="wrong")])
    with pytest.raises(ValueError, match="no board"):
        env.reset()
    assert env.ended == 1 and env.is_over


def test_an_opening_is_played_recorded_and_replayed(tmp_path) -> None:
    import gymnasium as gym

    gym.register("tests/Game-v0", entry_point=Game)
    path = str(tmp_path / "rollouts.jsonl")
    tasks = [row("Play.", board="o x")]
    (record,) = collect("tests/Game-v0", "constant:up", tasks=tasks)
    Path(path).write_bytes(dumps_record(record))
    assert record["reward"] == 1.0 and record["response"]["output"][0]["role"] == "user"
    (again,) = collect("tests/Game-v0", f"replay:{path}", tasks=tasks)
    assert (again["reward"], again["response"]["output"]) == (1.0, record["response"]["output"])


def test_calls_end_the_episode_where_they_are_what_is_graded() -> None:
    env = Calls([row("Where?", city="Rome")], max_turns=1)
    observation, _ = env.reset()
    assert observation["tools"][0]["name"] == "look_up"
    observation, reward, terminated, truncated, info = env.step([function_call("look_up", "Rome")])
    assert (reward, terminated, truncated, info["tool_errors"]) == (1.0, True, False, 0)
    assert observation["input"][-1]["type"] == "function_call"


def test_the_readings_of_what_the_model_said() -> None:
    request = {"input": [{"role": "user", "content": "First?"}, {"role": "user", "content": [{"text": " Now? "}]}]}
    user = {"role": "user", "content": "And?"}
    episode = Episode(0, {}, request, items=[*TURN, user, *message(" three\n")], turn_start=3)
    assert episode.text == "Onetwo  three\n" and episode.messages_text == "One\ntwo \n three"
    assert (episode.last_message, episode.answer, episode.last_item_text) == ("three", " three\n", " three\n")
    assert (episode.reasoning, episode.question) == ("Hm.\nSo.", "Now?")
    called = Episode(0, {}, {"input": []}, items=[*TURN, function_call("f")])
    assert (called.last_message, called.last_item_text, called.question) == ("One\ntwo", "", "")
    nothing = Episode(0, {}, {"input": []})
    assert not any([nothing.text, nothing.messages_text, nothing.last_message, nothing.last_item_text])


@pytest.mark.parametrize("content", [None, 5, [], [5, None, {"text": 5}], {}])
def test_content_of_any_shape_is_read_as_nothing(content) -> None:
    item = {"type": "message", "role": "assistant", "content": content}
    episode = Episode(0, {}, {"input": [{**item, "role": "user"}]}, items=[item, {"type": "reasoning", "summary": 5}])
    texts = (episode.text, episode.messages_text, episode.last_message, episode.reasoning, episode.question)
    assert not any(texts)


@pytest.mark.parametrize(
    ("text", "dropped", "kept"),
    [
        ("<think>a</think> b", "b", "b"),
        ("a</thinking> b </think> c", "c", "c"),
        ("b <think>a", "", "b <think>a"),
        ("Write `<think>`.", "Write `<think>`.", "Write `<think>`."),
        ("<think>a</think>b<thinking>c</thinking>d", "bd", "bd"),
        (" plain < text ", "plain < text", "plain < text"),
    ],
)
def test_thinking_is_left_out(text, dropped, kept) -> None:
    assert (strip_thinking(text), strip_thinking(text, unclosed=False)) == (dropped, kept)
    assert len(strip_thinking("<think>" * 200_000, unclosed=False)) == 1_400_000


def test_the_constant_engine_says_its_text() -> None:
    (record,) = collect("gym_llm/Arithmetic-v0", "constant:\\boxed{4}", episodes=1)
    assert record["response"]["output"][-1]["content"][0]["text"] == "\\boxed{4}"
    assert make_engine("constant:A: b").text == "A: b"
