"""SingleStepToolUse: when a step is the expert's."""

import json

import gymnasium as gym
import pytest
from testing import cpu_seconds, function_call, message_item, row
from verifier_vectors import agree, vector_id, vectors_of

from gym_llm.envs.single_step_tool_use import comparison
from gym_llm.envs.single_step_tool_use.env import SingleStepToolUse
from gym_llm.errors import DataError

SAID = {"type": "message", "content": "Hello."}


def call(name="f", **arguments):
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}


def batch(*calls):
    return {"type": "function_call_batch", "calls": list(calls)}


def play(expected, *items, conform=None, **config):
    """(reward, category) of a turn."""
    env = gym.make("gym_llm/SingleStepToolUse-v0", tool_call_comparator_config=config, conform=conform)
    env.reset(options={"task": row("Next?", expected_action=expected)})
    _, reward, terminated, _, info = env.step(list(items))
    assert terminated
    return reward, info["category"]


@pytest.mark.parametrize("vector", vectors_of("single_step_tool_use_with_argument_comparison"), ids=vector_id)
def test_recorded_episodes_score_as_recorded(vector):
    agree(vector)


@pytest.mark.parametrize(
    ("expected", "items", "outcome"),
    [
        (SAID, [message_item("Something else.")], (1.0, comparison.MESSAGE)),
        (SAID, [message_item("")], (0.0, comparison.NO_ACTION)),
        (SAID, [message_item('[TOOL_CALLS][{"name": "f"}]')], (0.0, comparison.NO_MESSAGE)),
        (SAID, [message_item("[f(x=1)]")], (0.0, comparison.NO_MESSAGE)),
        (SAID, [message_item("Hello."), function_call("f")], (0.0, comparison.NO_MESSAGE)),
        (SAID, [{"type": "message", "role": "assistant", "content": []}], (0.0, comparison.NO_ACTION)),
        (call(), [message_item("f()")], (0.0, comparison.NO_CALL)),
        (call(), [], (0.0, comparison.NO_ACTION)),
        (call(), [message_item("I call it."), function_call("f")], (1.0, comparison.CALL)),
        (call(), [function_call("g")], (0.0, comparison.OTHER_TOOL)),
        (call(), [function_call("f", "{")], (0.0, comparison.NO_ARGUMENTS)),
        (call(), [function_call("f", "null")], (0.0, comparison.DIFFERENCES["type"])),
    ],
)
def test_messages_and_calls(expected, items, outcome):
    assert play(expected, *items) == outcome


@pytest.mark.parametrize(
    ("expected", "actual", "problem"),
    [
        (1, 1, None),
        (1, True, None),
        (1, 2, "value"),
        (1.0, 1, "type"),
        (1, 1.0, "type"),
        (1.0, 1.0000001, None),
        (1.0, 1.00001, "value"),
        (None, None, None),
        (None, "", "type"),
        ([1, [2]], [1, [2]], None),
        ([1, 2], [1], "length"),
        ([1, 2], [1, 3], "value"),
        ({"a": 1}, {"b": 1}, "keys"),
        ({"a": 1}, {"a": 1, "b": 1}, "keys"),
        ("Paris", " paris ", None),
        ("Paris", "Lyon", "value"),
        ("Paris", "Paris, France", "value"),
        ("", "", None),
        ("New York", "new  york", None),
        ("one two three four five", "five words that differ here too", None),  # 1 of 10
        ("one two three four five", "and five words that differ here too", "value"),
        ("a a a b", "a c d e f g h i j k", "value"),
    ],
)
def test_arguments_are_compared_by_their_kinds(expected, actual, problem):
    reward, category = play(call(x=expected), function_call("f", {"x": actual}))
    assert category == (comparison.CALL if problem is None else comparison.DIFFERENCES[problem])
    assert reward == float(problem is None)


@pytest.mark.parametrize(
    ("texts", "threshold", "here", "upstream"),
    [
        (("new york", "new york"), 0.5, 1.0, 1.0),
        (("new york", "new york"), 0.6, 1.0, 0.0),
        (("new york", "new york"), 1.0, 1.0, 0.0),
        (("a b c", "b c d"), 0.4, 1.0, 0.0),  # 2 of 4, or of 6
        (("a b c", "b c d"), 0.5, 1.0, 0.0),
        (("a b c", "b c d"), 0.3, 1.0, 1.0),
        (("a b c", "b c d"), 0.51, 0.0, 0.0),
        (("Paris", "paris"), 0.1, 1.0, 0.0),
        (("Paris", "Paris"), 0.9, 1.0, 1.0),
        (("two words", "nothing alike"), 0.0, 1.0, 1.0),
    ],
)
def test_similarity_is_shared_words_of_all_words_but_for_nemo_gym(texts, threshold, here, upstream):
    for conform, reward in ((None, here), ("nemo", upstream)):
        played = play(
            call(x=texts[0]),
            function_call("f", {"x": texts[1]}),
            conform=conform,
            word_count_similarity_threshold=threshold,
        )
        assert played[0] == reward, conform


FIRST, SECOND, OTHER = (function_call("f", {"x": n}) for n in (1, 2, 3))
TWO = batch(call(x=1), call(x=2))


@pytest.mark.parametrize(
    ("expected", "calls", "config", "outcome"),
    [
        (TWO, [SECOND, FIRST], {}, (1.0, comparison.BATCH)),
        (TWO, [SECOND, FIRST, OTHER], {}, (1.0, comparison.BATCH)),
        (TWO, [FIRST], {}, (0.0, comparison.OTHER_NUMBER)),
        (TWO, [FIRST, OTHER], {}, (0.0, comparison.DIFFERENCES["value"])),
        (TWO, [FIRST, function_call("g")], {}, (0.0, comparison.DIFFERENCES["value"])),
        (TWO, [function_call("g"), function_call("g")], {}, (0.0, comparison.OTHER_TOOL)),
        (call(x=1), [OTHER, FIRST], {}, (1.0, comparison.CALL)),
        (batch(call(x=1)), [FIRST], {}, (1.0, comparison.CALL)),
        (TWO, [FIRST], {"mode": "binary_strict"}, (0.0, comparison.OTHER_NUMBER)),
        (TWO, [FIRST], {"allow_subset": True}, (1.0, comparison.BATCH)),
        (TWO, [OTHER], {"allow_subset": True}, (0.0, comparison.DIFFERENCES["value"])),
        (TWO, [FIRST, SECOND, OTHER], {}, (1.0, comparison.BATCH)),
        (TWO, [FIRST, SECOND, OTHER], {"mode": "fractional"}, (0.0, comparison.OTHER_NUMBER)),
        (TWO, [FIRST, SECOND, OTHER], {"allow_superset": True}, (1.0, comparison.BATCH)),
        (TWO, [FIRST, OTHER], {"mode": "fractional"}, (0.5, comparison.DIFFERENCES["value"])),
        (TWO, [FIRST], {"mode": "fractional", "allow_subset": True}, (1.0, comparison.BATCH)),
        (TWO, [FIRST], {"mode": "f1", "allow_subset": True}, (2 / 3, comparison.OTHER_NUMBER)),
        (TWO, [FIRST, SECOND, OTHER], {"mode": "f1", "allow_superset": True}, (0.8, comparison.OTHER_NUMBER)),
        (TWO, [FIRST, SECOND], {"mode": "f1"}, (1.0, comparison.BATCH)),
    ],
)
def test_several_calls_are_paired_and_counted(expected, calls, config, outcome):
    if config:
        config = {"parallel_tool_call_rewarding": True, "parallel_tool_call_reward_mode": "binary_strict", **config}
        config["parallel_tool_call_reward_mode"] = config.pop("mode", "binary_strict")
    assert play(expected, *calls, **config) == pytest.approx(outcome)


def test_a_call_that_fits_two_goes_where_it_is_needed():
    expected = batch(call(x="red green"), call(x="red blue"))
    calls = [function_call("f", {"x": "red"}), function_call("f", {"x": "green red"})]
    assert play(expected, *calls)[0] == 0.0
    calls = [function_call("f", {"x": "red green blue"}), function_call("f", {"x": "red yellow blue"})]
    assert play(expected, *calls, word_count_similarity_threshold=0.5)[0] == 1.0
    assert play(expected, *reversed(calls), word_count_similarity_threshold=0.5)[0] == 1.0


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"word_count_similarity_threshold": 2}, "word_count_similarity_threshold: Input should be less than"),
        ({"word_similarity": 0.1}, "tool_call_comparator_config.word_similarity: Extra inputs"),
        ({"parallel_tool_call_reward_mode": "f2"}, "'binary_strict', 'fractional' or 'f1'"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(config, problem):
    with pytest.raises(ValueError, match=problem):
        SingleStepToolUse(tool_call_comparator_config=config)


@pytest.mark.parametrize(
    "action", [None, {"type": "call"}, batch(), {"type": "function_call", "name": "f", "arguments": "x"}]
)
def test_a_row_without_an_action_is_refused(action):
    with pytest.raises(DataError, match="expected_action"):
        SingleStepToolUse(tasks=[row(expected_action=action)])


def test_many_large_and_deep_calls_cost_little():
    words = " ".join(f"word{n}" for n in range(50))
    env = SingleStepToolUse(
        tasks=[row(expected_action=batch(*[call(x=f"{words} {n}", y="a b c") for n in range(16)]))],
        tool_call_comparator_config={"word_count_similarity_threshold": 0.9},
    )
    many = [function_call("f", {"x": f"{words} {n}", "y": "a b c"}) for n in range(512)]
    large = [function_call("f", {"x": "w " * 500_000, "y": "a b c"})] * 2
    deep = [function_call("f", '{"y": "a", "x": ' + "[" * 5_000 + "]" * 5_000 + "}")] * 100
    for calls in (many, large, deep):
        env.reset(options={"task_index": 0})
        env.episode.items.extend(calls)
        assert cpu_seconds(env.verify, env._task, env.episode) < 1.0


def test_what_only_pythons_json_reads_counts_as_nemo_gym_reads_it():
    expected = {"type": "function_call", "name": "f", "arguments": '{"a": 1}'}
    written = function_call("f", '{"a": NaN}')
    assert play(expected, written)[1] != play(expected, written, conform="nemo")[1]


@pytest.mark.parametrize("text", ["", "[f(x=1)]"])
def test_to_conform_any_text_is_a_message(text):
    assert play(SAID, message_item(text), conform="nemo") == (1.0, comparison.MESSAGE)
