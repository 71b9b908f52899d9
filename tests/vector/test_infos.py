"""Batched infos are gymnasium's, wherever gymnasium's keep the values."""

import numpy as np
import pytest
from gymnasium.vector import VectorEnv
from hypothesis import given
from hypothesis import strategies as st

from gym_llm.vector.infos import batch_infos

NUM_ENVS = 4
ARRAYS = st.sampled_from([np.arange(2), np.zeros(3), np.array(["a", "b"]), np.zeros((2, 1), np.float32), np.array([1])])
PLAIN = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none(),
    st.text(max_size=2),
    st.lists(st.integers(0, 9), max_size=3),
    st.tuples(st.integers(0, 9)),
    st.builds(np.float32, st.integers(0, 9)),
    st.builds(np.int64, st.integers(0, 9)),
    ARRAYS,
)
VALUES = st.recursive(PLAIN, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=2), max_leaves=4)
INFOS = st.dictionaries(st.sampled_from(["a", "b", "final_obs", "final_info"]), VALUES, max_size=3)


def gymnasiums(infos):
    """What gymnasium makes of them, None where it raises."""
    envs = VectorEnv()
    envs.num_envs = NUM_ENVS
    batched = {}
    try:
        with np.errstate(all="ignore"):
            for number, info in infos:
                batched = envs._add_info(batched, info, number)
    except Exception:
        return None
    return batched


def value(batched, key, number):
    """The value of one environment as a batch has it."""
    column = batched[key]
    if not isinstance(column, dict):
        return column[number]
    return {name: value(column, name, number) for name in column if f"_{name}" in column and column[f"_{name}"][number]}


def same(one, other):
    """Equal, and of one type as numpy sees it: 1, 1.0, True, a float32 and [1] are different values."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    containers = [each.__class__ for each in (one, other) if isinstance(each, (list, tuple, np.ndarray))]
    if containers and containers != [one.__class__, one.__class__]:
        return False
    return np.asarray(one).dtype == np.asarray(other).dtype and bool(np.array_equal(one, other))


def identical(ours, theirs):
    if isinstance(theirs, dict):
        return (
            isinstance(ours, dict) and ours.keys() == theirs.keys() and all(identical(ours[k], theirs[k]) for k in ours)
        )
    if not isinstance(ours, np.ndarray) or ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    return all(same(a, b) for a, b in zip(ours, theirs, strict=True))


@given(st.lists(INFOS, min_size=NUM_ENVS, max_size=NUM_ENVS))
def test_every_value_is_kept_and_the_batch_is_gymnasiums_where_that_keeps_them_too(infos):
    numbered = list(enumerate(infos))
    ours = batch_infos(numbered, NUM_ENVS)
    for number, info in numbered:
        for key in info:
            assert ours[f"_{key}"][number]
            assert same(value(ours, key, number), info[key]), (key, number)
    for key in (key for key in ours if f"_{key}" in ours):
        assert ours[f"_{key}"].tolist() == [key in info for info in infos]
    theirs = gymnasiums(numbered)
    if theirs is not None and all(same(value(theirs, key, n), info[key]) for n, info in numbered for key in info):
        assert identical(ours, theirs)


def test_arrays_without_dimensions_become_one_array_as_in_gymnasium():
    infos = [(n, {"x": np.array(n)}) for n in range(NUM_ENVS)]
    assert identical(batch_infos(infos, NUM_ENVS), gymnasiums(infos))


@pytest.mark.parametrize(("values", "kind"), [([0, np.int64(3)], np.int64), ([0.5, np.float64(1)], np.float64)])
def test_numbers_of_python_and_of_numpy_share_an_array_as_in_gymnasium(values, kind):
    infos = [(n, {"x": value}) for n, value in enumerate(values)]
    assert identical(batch_infos(infos, NUM_ENVS), gymnasiums(infos))
    assert batch_infos(infos, NUM_ENVS)["x"].dtype == kind


@pytest.mark.parametrize(
    "values",
    [[1, None], [np.arange(2), np.arange(3)], [1, "text"], [True, 2.5], [{"a": 1}, None], [2**80, 1], [1, 0.5]],
)
def test_what_gymnasium_refuses_or_rounds_keeps_every_value(values):
    batched = batch_infos([(n, {"x": value}) for n, value in enumerate(values)], 3)
    assert batched["x"].dtype == object and batched["_x"].tolist() == [True, True, False]
    for ours, given_value in zip(batched["x"], values, strict=False):
        assert ours is given_value


def test_final_obs_is_never_taken_apart():
    batched = batch_infos([(1, {"final_obs": {"input": []}, "final_info": {"turn": 3}})], 2)
    assert batched["final_obs"].tolist() == [None, {"input": []}]
    assert batched["final_info"]["turn"].tolist() == [0, 3]
