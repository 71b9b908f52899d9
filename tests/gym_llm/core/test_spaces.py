import copy
import json
import pickle
import warnings

import gymnasium as gym
import pytest
from gymnasium.spaces import Tuple
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from hypothesis import given, settings
from hypothesis import strategies as st
from testing import often

from gym_llm.core.spaces import RequestSpace, ResponseSpace
from gym_llm.protocols.responses import Response, ResponseOutputMessage, ResponseOutputText

MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4"}]}
SPACES = [RequestSpace, ResponseSpace]


class Echo(gym.Env):
    """A conversation that grows: observations are lists of different lengths."""

    def __init__(self):
        self.observation_space = RequestSpace()
        self.action_space = ResponseSpace()
        self.items = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.items = [{"role": "user", "content": str(self.np_random.integers(9))}]
        return {"input": list(self.items)}, {}

    def step(self, action):
        self.items += action["output"]
        return {"input": list(self.items)}, 1.0, len(self.items) > 2, False, {}


@pytest.mark.parametrize("make", SPACES)
def test_samples_are_seeded_and_members_and_json(make):
    space = make(seed=1)
    samples = [space.sample() for _ in range(100)]
    assert all(sample in space for sample in samples)
    again = make()
    assert again.seed(1) == 1
    assert [again.sample() for _ in range(100)] == samples
    assert make(seed=2).sample() != samples[0]
    written = json.loads(json.dumps(space.to_jsonable(samples)))
    assert space.from_jsonable(written) == samples


@pytest.mark.parametrize("make", SPACES)
def test_samples_differ_and_share_nothing(make):
    space = make(seed=1)
    first = copy.deepcopy(samples := [space.sample() for _ in range(50)])
    assert len({json.dumps(sample) for sample in samples}) > 40
    for sample in samples:
        for value in sample.values():
            if isinstance(value, list):
                value[0].clear()
    assert [make(seed=1).sample()] == first[:1]
    assert all(sample in space for sample in (space.sample() for _ in range(50)))


def test_sampled_requests_have_one_to_three_messages_and_sometimes_tools():
    space = RequestSpace(seed=0)
    samples = [space.sample() for _ in range(100)]
    assert {len(sample["input"]) for sample in samples} == {1, 2, 3}
    assert {"tools" in sample for sample in samples} == {True, False}


def test_sampled_responses_end_a_single_turn():
    space = ResponseSpace(seed=0)
    for _ in range(50):
        response = Response.model_validate(space.sample())
        assert response.status == "completed"
        assert [item.type for item in response.output] == ["message"]
        assert response.output_text


@pytest.mark.parametrize("make", SPACES)
def test_masks_are_refused(make):
    assert make(seed=0).sample(mask=None, probability=None) in make()
    for masks in ({"mask": 1}, {"probability": 1}):
        with pytest.raises(ValueError, match="must be None"):
            make().sample(**masks)


@pytest.mark.parametrize("make", SPACES)
def test_spaces_are_equal_by_kind_and_copy_with_their_random_state(make):
    space = make(seed=3)
    space.sample()
    copies = [copy.deepcopy(space), pickle.loads(pickle.dumps(space))]
    expected = space.sample()
    for other in copies:
        assert other == space
        assert other.sample() == expected
    assert RequestSpace() != ResponseSpace()
    assert eval(repr(space)) == space  # noqa: S307
    assert space.shape is None and space.dtype is None and not space.is_np_flattenable


@pytest.mark.parametrize(
    "action",
    [
        {"output": [MESSAGE]},
        {"output": []},
        [MESSAGE],
        [{"role": "assistant", "content": "4"}],
        [{"type": "function_call", "name": "f", "arguments": "not JSON", "call_id": "c"}],
        [{"type": "reasoning", "summary": []}, MESSAGE],
        [{"type": "teleport_call"}],
        Response(
            id="a", created_at=0.0, model="m", output=[ResponseOutputMessage(content=[ResponseOutputText(text="4")])]
        ),
        [ResponseOutputMessage(content=[ResponseOutputText(text="4")])],
    ],
)
def test_every_form_of_an_action_is_a_response_and_json_able(action):
    space = ResponseSpace()
    assert action in space
    (written,) = space.to_jsonable([action])
    assert json.loads(json.dumps(written)) in space


@pytest.mark.parametrize(
    "action",
    [None, 4, "4", {}, MESSAGE, {"output": "4"}, ["4"], [{"role": "user", "content": "4"}], Response, object()],
)
def test_what_step_would_refuse_is_no_response(action):
    assert action not in ResponseSpace()


class Hostile:
    def to_dict(self):
        raise RuntimeError("no")


def test_contains_never_raises_on_foreign_objects():
    assert Hostile() not in ResponseSpace()
    assert [Hostile()] not in ResponseSpace()
    assert Hostile() not in RequestSpace()


@pytest.mark.parametrize(
    ("request_", "valid"),
    [
        ({"input": "Hi"}, True),
        ({"input": []}, True),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}], "temperature": 1}, True),
        ({"input": [MESSAGE, {"type": "function_call_output", "call_id": "c", "output": "5"}]}, True),
        ({"input": [{"type": "teleport_call"}], "instructions": None, "tools": None}, True),
        ({}, False),
        ([], False),
        ("Hi", False),
        ({"input": None}, False),
        ({"input": ["Hi"]}, False),
        ({"input": [{}]}, False),
        ({"input": [{"role": "robot", "content": "Hi"}]}, False),
        ({"input": [{"role": [], "content": "Hi"}]}, False),
        ({"input": [{"role": "user"}]}, False),
        ({"input": [{"type": 4}]}, False),
        ({"input": "Hi", "tools": {}}, False),
        ({"input": "Hi", "tools": [{"name": "f"}]}, False),
        ({"input": "Hi", "instructions": 4}, False),
    ],
)
def test_requests_are_known_by_their_shape(request_, valid):
    assert (request_ in RequestSpace()) is valid


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["type", "role", "content", "output", "input", "tools", "text", "name", "arguments", "call_id"])
VALUES = JSON | st.sampled_from(["message", "assistant", "function_call", "output_text"])
SHAPED = st.recursive(VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))


@given(SHAPED)
@settings(max_examples=often(100, 300), deadline=None)
def test_contains_never_raises(value):
    for candidate in (value, [value], {"output": value}, {"output": [value]}, {"input": value}, {"input": [value]}):
        assert (candidate in ResponseSpace()) in (True, False)
        assert (candidate in RequestSpace()) in (True, False)


@pytest.mark.parametrize("make", SPACES)
def test_gymnasium_batches_concatenates_and_iterates(make):
    space = make(seed=0)
    batched = batch_space(space, 3)
    assert batched == Tuple((make(), make(), make()))
    batched.seed(0)
    sample = batched.sample()
    assert sample in batched
    assert len({json.dumps(part) for part in sample}) == 3
    assert list(iterate(batched, sample)) == list(sample)

    samples = [space.sample() for _ in range(3)]
    together = concatenate(space, samples, create_empty_array(space, 3))
    assert together == tuple(samples)
    assert together in batched
    assert batched.from_jsonable(batched.to_jsonable([together])) == [together]


def test_observations_of_different_lengths_are_compared():
    short, long = {"input": [MESSAGE]}, {"input": [MESSAGE, MESSAGE]}
    assert data_equivalence(short, copy.deepcopy(short))
    assert not data_equivalence(short, long)


def test_check_env_has_nothing_to_say():
    env = Echo()
    env.spec = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("make", [SyncVectorEnv, lambda envs: AsyncVectorEnv(envs, shared_memory=False)])
def test_gymnasium_vector_environments_run(make):
    envs = make([Echo, Echo])
    try:
        observations, _ = envs.reset(seed=0)
        assert observations in envs.observation_space
        envs.action_space.seed(0)
        for _ in range(4):
            observations, rewards, *_ = envs.step(envs.action_space.sample())
            assert observations in envs.observation_space
            assert len(rewards) == 2
    finally:
        envs.close()
