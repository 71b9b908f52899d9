import asyncio
import json
import pickle
import tracemalloc

import gymnasium as gym
import pytest
from gymnasium.error import InvalidAction
from testing import function_call, message_item, response, row
from token_conversations import CONVERSATIONS, SHAPES, of_all_conversations, play_all

from gym_llm.agents.capture.call_graph import Call, CallGraph
from gym_llm.engines import Engine
from gym_llm.errors import EngineError
from gym_llm.rollouts.play import collect, rollout
from gym_llm.wrappers import ReasoningParser, TokenIdTracking, ToolCallParser

EVERY = pytest.mark.parametrize(
    ("template", "history"), [(name, kind) for name in SHAPES for kind in ("template", "append")]
)


def tokens(prompt, sampled, log_probs=None):
    log_probs = [-token / 10 for token in sampled] if log_probs is None else log_probs
    return {"prompt_token_ids": prompt, "generation_token_ids": sampled, "generation_log_probs": log_probs}


def look(prompt, sampled, *calls):
    """A turn that calls a tool, so that the episode goes on."""
    *others, last = calls or [function_call("get_weather", {"city": "Oslo"})]
    return [*others, {**last, **tokens(prompt, sampled)}]


def say(prompt, sampled):
    return [{**message_item("Rain."), **tokens(prompt, sampled)}]


def play(*actions, env=None):
    """The last step's info."""
    env = TokenIdTracking(gym.make("gym_llm/Weather-v0")) if env is None else env
    env.reset(seed=0)
    for action in actions:
        *_, terminated, truncated, info = env.step(action)
        ended = terminated or truncated
        assert ended or "trajectory" not in info
    assert ended
    return info


# Many conversations for each template -------------------------------------------------------------------------


@of_all_conversations
@EVERY
def test_masks_cover_exactly_what_was_sampled_and_log_probs_align(template, history):
    counts, wrong = play_all(template, history)
    kinds = ("number of segments", "input_ids", "loss_mask", "logprobs", "sampled ids under the mask")
    assert {kind: counts[f"wrong {kind}"] for kind in kinds} == dict.fromkeys(kinds, 0), wrong
    assert counts["segments"] > 0.9 * CONVERSATIONS


@of_all_conversations
@pytest.mark.parametrize("template", SHAPES)
def test_text_would_have_given_other_ids(template):
    counts, _ = play_all(template, "append")
    assert counts["conversations that text would have changed"] > CONVERSATIONS / 5


# Cases --------------------------------------------------------------------------------------------------------------


def test_a_prompt_that_goes_on_is_the_same_segment():
    assert play(look([1, 2], [3, 4]), look([1, 2, 3, 4, 5], [6]), say([1, 2, 3, 4, 5, 6, 7, 8], [9, 9]))[
        "trajectory"
    ] == [
        {
            "input_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9, 9],
            "loss_mask": [0, 0, 1, 1, 0, 1, 0, 0, 1, 1],
            "logprobs": [0.0, 0.0, -0.3, -0.4, 0.0, -0.6, 0.0, 0.0, -0.9, -0.9],
        }
    ]


@pytest.mark.parametrize("prompt", [[1, 2, 3, 5, 6], [1, 9, 3, 4, 5], [1, 2, 3], [1, 2], []])
def test_any_other_prompt_begins_a_segment(prompt):
    segments = play(look([1, 2], [3, 4]), say(prompt, [7]))["trajectory"]
    assert [segment["input_ids"] for segment in segments] == [[1, 2, 3, 4], [*prompt, 7]]
    assert [segment["loss_mask"] for segment in segments] == [[0, 0, 1, 1], [0] * len(prompt) + [1]]


def test_episodes_without_tokens_have_no_trajectory():
    assert "trajectory" not in play([function_call("get_weather", {"city": "Oslo"})], [message_item("Rain.")])


def test_a_turn_without_tokens_is_masked_in_the_next_prompt():
    plain = [function_call("get_weather", {"city": "Oslo"}, "call_2")]
    (segment,) = play(look([1], [2]), plain, say([1, 2, 3, 4, 5], [6]))["trajectory"]
    assert segment["loss_mask"] == [0, 1, 0, 0, 0, 1]


def test_turns_that_sampled_nothing_add_nothing():
    assert play(say([1, 2], []))["trajectory"] == []
    (segment,) = play(look([1], [2]), say([1, 2, 3], []))["trajectory"]
    assert segment["input_ids"] == [1, 2]


def test_a_turn_without_items_ends_the_episode_with_what_there_is():
    overflow = response(status="incomplete")
    (segment,) = play(look([1], [2]), overflow)["trajectory"]
    assert segment["input_ids"] == [1, 2]
    assert "trajectory" not in play(overflow)


def test_the_trajectory_of_the_last_episode_is_forgotten():
    env = TokenIdTracking(gym.make("gym_llm/Weather-v0"))
    play(say([1], [2]), env=env)
    assert play(say([3], [4]), env=env)["trajectory"][0]["input_ids"] == [3, 4]
    assert "trajectory" not in play([message_item("Rain.")], env=env)


@pytest.mark.parametrize("outermost", [True, False])
def test_its_place_among_the_parsers_does_not_matter(outermost):
    def wrapped():
        env = gym.make("gym_llm/Weather-v0")
        if outermost:
            return TokenIdTracking(ReasoningParser(ToolCallParser(env)))
        return ReasoningParser(ToolCallParser(TokenIdTracking(env)))

    call = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
    first = {**message_item(f"<think>Rain?</think>{call}\n{call}"), **tokens([1, 2], [3])}
    last = {**message_item("<think>It ends here.</think>Yes."), **tokens([1, 2, 3, 4], [5])}
    (segment,) = play([first], [last], env=wrapped())["trajectory"]
    assert segment["input_ids"] == [1, 2, 3, 4, 5]
    assert segment["loss_mask"] == [0, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"generation_token_ids": [1]}, "all three"),
        ({**tokens([1], [2]), "prompt_token_ids": None}, "all three"),
        (tokens([1], [2, 3], [-0.1]), "got 1 for 2 ids"),
    ],
)
def test_incomplete_tokens_are_an_invalid_action_and_change_nothing(fields, problem):
    env = TokenIdTracking(gym.make("gym_llm/Weather-v0"))
    env.reset(seed=0)
    with pytest.raises(InvalidAction, match=problem):
        env.step([{**message_item("Rain."), **fields}])
    assert env.unwrapped.episode.turn == 0
    assert env.step(say([1], [2]))[-1]["trajectory"][0]["input_ids"] == [1, 2]


def test_turns_are_not_copied():
    env = TokenIdTracking(gym.make("gym_llm/Weather-v0", max_turns=100))
    env.reset(seed=0)
    ids = list(range(10_000))
    actions = [look(ids[: 100 * turn], ids[100 * turn : 100 * turn + 50]) for turn in range(1, 64)]
    tracemalloc.start()
    for action in actions:
        env.step(action)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 250_000  # copies of the prompts alone would be 1.6 MB


def test_it_can_be_made_from_its_spec_and_pickled():
    env = TokenIdTracking(gym.make("gym_llm/Weather-v0"))
    again = gym.make(env.spec)
    assert play(say([1], [2]), env=pickle.loads(pickle.dumps(again)))["trajectory"]


@pytest.mark.parametrize("history", ["template", "append"])
def test_a_rollout_of_the_pocket_model_has_what_was_sampled(history):
    records = collect("gym_llm/Weather-v0", "pocket", limit=5, repeats=2, engine_options={"history": history})
    several = 0
    for record in records:
        assert record["error"] is None
        turns = [item for item in record["response"]["output"] if "generation_token_ids" in item]
        several += len(turns) > 1
        segments = record["trajectory"]
        assert history == "template" or len(segments) == 1
        for field, sampled in (("input_ids", "generation_token_ids"), ("logprobs", "generation_log_probs")):
            masked = [
                value
                for segment in segments
                for value, on in zip(segment[field], segment["loss_mask"], strict=True)
                if on
            ]
            assert masked == [value for item in turns for value in item[sampled]]
        assert segments[-1]["input_ids"][: len(turns[-1]["prompt_token_ids"])] == turns[-1]["prompt_token_ids"]
    assert several


def test_engines_without_tokens_give_records_without_a_trajectory(tmp_path):
    task = row("2+2?", expected_answer="4")
    recorded = tmp_path / "recorded.jsonl"
    record = {
        **task,
        "rollout_id": {"task_index": 0, "repeat_index": 0},
        "response": response(message_item("It is 4.")),
    }
    recorded.write_text(json.dumps(record) + "\n")
    (again,) = collect("gym_llm/FollowUp-v0", f"replay:{recorded}", tasks=[task])
    assert again["trajectory"] is None


def test_an_engine_that_samples_several_times_for_an_action_keeps_every_token():
    first = {"type": "reasoning", "summary": [], **tokens([1, 2], [3])}
    again = {**function_call("get_weather", {"city": "Oslo"}), **tokens([1, 2, 3, 4], [5, 6])}
    apart = {**message_item("Rain."), **tokens([9], [8])}
    assert play([first, again], [apart])["trajectory"] == [
        {"input_ids": [1, 2, 3, 4, 5, 6], "loss_mask": [0, 0, 1, 0, 1, 1], "logprobs": [0, 0, -0.3, 0, -0.5, -0.6]},
        {"input_ids": [9, 8], "loss_mask": [0, 1], "logprobs": [0, -0.8]},
    ]


def test_each_sampled_token_has_the_version_of_its_weights():
    first = {**function_call("get_weather", {"city": "Oslo"}), **tokens([1], [2, 3])}
    second = {**message_item("Rain."), **tokens([1, 2, 3, 4], [5, 6, 7])}
    mixed = {**second, "generation_weight_versions": [[3, 1], [4, 2]]}
    (segment,) = play([first], [mixed])["trajectory"]
    assert segment["weight_versions"] == [0, 0, 0, 0, 3, 4, 4]
    assert "weight_versions" not in play([first], [second])["trajectory"][0]
    graph = CallGraph()
    call = Call(0, "m", True, "chat", {"input": []}, None, "", 0, 0.0)
    graph.add(call, [1], [2, 3], [-0.1, -0.2])
    graph.add(call, [1, 2, 3, 4], [5, 6, 7], [-0.1] * 3, versions=[3, 4, 4])
    assert graph.trajectory()[0]["weight_versions"] == segment["weight_versions"]


@pytest.mark.parametrize(
    "runs",
    [[], [[3, 1]], [[3, 4]], [[-1, 3]], [[3, 0], [4, 3]], [[3.0, 3]], [[True, 3]], [3, 3, 3], {"3": 3}, [[3, 3, 3]]],
)
def test_versions_that_are_not_those_of_the_sampled_tokens_are_refused(runs):
    said = {**message_item("Rain."), **tokens([1], [5, 6, 7]), "generation_weight_versions": runs}
    with pytest.raises(InvalidAction, match="generation_weight_versions"):
        play([said])


class BreaksOff(Engine):
    """Answers so often, then fails."""

    model = "breaks off"

    def __init__(self, *turns):
        self.turns = turns

    async def respond(self, request, *, episode_id=""):
        turn = sum(item.get("type") == "function_call" for item in request["input"])
        if turn == len(self.turns):
            raise EngineError("the server said 400")
        return response(*self.turns[turn])


class Broken(gym.Wrapper):
    """Its episodes end in an error."""

    def step(self, action):
        result = self.env.step(action)
        if result[2]:
            raise KeyError("city")
        return result


@pytest.mark.parametrize(
    ("turns", "wrapper", "error", "ids"),
    [
        ([look([1], [2])], gym.Wrapper, "the server said 400", [1, 2]),
        ([look([1], [2]), say([1, 2, 3], [4])], Broken, "KeyError: 'city'", [1, 2, 3, 4]),
        ([], gym.Wrapper, "the server said 400", None),
    ],
)
def test_an_episode_that_fails_keeps_the_tokens_until_then(turns, wrapper, error, ids):
    async def played():
        tasks, wrappers = [row("Rain?")] * 2, [wrapper, TokenIdTracking]
        return [one async for one in rollout("gym_llm/Weather-v0", BreaksOff(*turns), tasks=tasks, wrappers=wrappers)]

    for record in asyncio.run(played()):
        assert (record["outcome"], record["error"]) == ("masked", error)
        assert (record["trajectory"] and [segment["input_ids"] for segment in record["trajectory"]]) == (ids and [ids])
