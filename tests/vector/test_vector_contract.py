"""RayVectorEnv and LocalVectorEnv do what gymnasium's SyncVectorEnv does, value for value."""

import gc
import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, InvalidAction, ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, NormalizeReward, RecordEpisodeStatistics, TransformReward
from testing import function_call, message

from gym_llm.vector.local_vector_env import LocalVectorEnv
from gym_llm.vector.ray_vector_env import RayVectorEnv
from gym_llm.wrappers import ReasoningParser

N = 5
LOOK = [function_call("look")]
DONE = message("done")
PLAY = [[DONE] * N, [LOOK, DONE, LOOK, LOOK, DONE], [LOOK] * N, [DONE, LOOK, DONE, LOOK, DONE], [DONE] * N, [LOOK] * N]
"""Actions under which the episodes of a vector get out of step."""


def sync(env_id="test/Odd-v0", num_envs=N, *, env_wrappers=(), autoreset_mode=AutoresetMode.DISABLED, **kwargs):
    def make():
        env = gym.make(env_id, **kwargs)
        for wrap in env_wrappers:
            env = wrap(env)
        return env

    return SyncVectorEnv([make] * num_envs, autoreset_mode=autoreset_mode)


def local(env_id="test/Odd-v0", num_envs=N, *, env_wrappers=(), autoreset_mode=AutoresetMode.DISABLED, **kwargs):
    return LocalVectorEnv(env_id, num_envs, env_wrappers=env_wrappers, autoreset_mode=autoreset_mode, env_kwargs=kwargs)


def remote(env_id="test/Odd-v0", num_envs=N, *, env_wrappers=(), autoreset_mode=AutoresetMode.DISABLED, **kwargs):
    return RayVectorEnv(
        env_id, num_envs, num_shards=2, env_wrappers=env_wrappers, autoreset_mode=autoreset_mode, env_kwargs=kwargs
    )


@pytest.fixture(scope="module")
def kept():
    """Vector environments that tests share, because processes are slow to start."""
    made = {}
    yield made
    for envs in made.values():
        envs.close()


@pytest.fixture(params=[local, remote])
def make(request, kept):
    """Makes one of our vector environments; `fresh` if the test cannot do with one that has been played with."""
    if request.param is remote:
        request.getfixturevalue("ray")
    made = []

    def make_one(*args, fresh=False, **kwargs):
        key = repr((request.param, args, sorted(kwargs.items(), key=str)))
        if not fresh and key in kept:
            return kept[key]
        envs = request.param(*args, **kwargs)
        if fresh:
            made.append(envs)
        else:
            kept[key] = envs
        return envs

    yield make_one
    for envs in made:
        envs.close()


def assert_equal(ours, theirs, path="result"):
    """Equal values of equal types, arrays with equal dtypes."""
    assert type(ours) is type(theirs), path
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), path
        for key in theirs:
            assert_equal(ours[key], theirs[key], f"{path}[{key!r}]")
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs), path
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            assert_equal(*pair, f"{path}[{number}]")
    elif isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, path
        assert_equal(ours.tolist(), theirs.tolist(), path)
    else:
        assert ours == theirs, path


def play(envs, actions=PLAY, **reset):
    """Everything that a vector environment says during a game; with autoreset disabled the driver resets by mask."""
    said = [envs.reset(**reset)]
    for number, turn in enumerate(actions):
        result = envs.step(turn)
        said.append(result)
        over = result[2] | result[3]
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and over.any():
            said.append(envs.reset(options={"reset_mask": over}, seed=[100 * number + slot for slot in range(N)]))
    return said


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("seed", [7, [3, 1, 4, 1, 5]])
def test_plays_the_same_game_as_sync_vector_env(make, mode, seed):
    theirs = sync(autoreset_mode=mode)
    assert_equal(play(make(autoreset_mode=mode), seed=seed), play(theirs, seed=seed))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_truncation_by_max_turns_is_the_same(make, mode):
    theirs = sync(autoreset_mode=mode, max_turns=2)
    assert_equal(play(make(autoreset_mode=mode, max_turns=2), seed=0), play(theirs, seed=0))


def test_all_observations_of_a_masked_reset_are_returned_and_infos_of_the_chosen_only(make):
    envs, theirs = make(), sync()
    mask = np.array([True, False, False, True, False])
    for each in (envs, theirs):
        each.reset(seed=1)
    assert_equal(
        envs.reset(seed=9, options={"reset_mask": mask}), theirs.reset(seed=9, options={"reset_mask": mask.copy()})
    )


@pytest.mark.parametrize(
    ("mask", "error"),
    [([True] * N, TypeError), (np.ones(N), TypeError), (np.ones(3, bool), ValueError), (np.zeros(N, bool), ValueError)],
)
def test_wrong_reset_masks_raise_what_gymnasium_raises(make, mask, error):
    envs, theirs = make(), sync()
    for each in (envs, theirs):
        with pytest.raises(error):
            each.reset(options={"reset_mask": mask})


def test_one_task_index_is_everybodys_and_several_are_one_each(make):
    envs, theirs = make(), sync()
    assert_equal(envs.reset(options={"task_index": 3}), theirs.reset(options={"task_index": 3}))
    observations, infos = envs.reset(options={"task_index": list(range(N))})
    assert infos["task_index"].tolist() == list(range(N))
    for index in range(N):
        assert observations[index] == sync(num_envs=1).reset(options={"task_index": index})[0][0]
    envs.reset(options={"task_index": np.arange(N), "reset_mask": np.array([False, True, False, False, False])})
    with pytest.raises(ValueError, match="one per environment"):
        envs.reset(options={"task_index": [1, 2]})


def test_the_callers_options_are_never_changed(make):
    mask = np.array([True, False, True, False, False])
    options = {"reset_mask": mask, "task_index": list(range(N))}
    before = {**options}
    envs = make()
    envs.reset()
    envs.reset(options=options)
    assert options.keys() == before.keys() and all(options[key] is before[key] for key in before)


def test_infos_on_which_gymnasiums_batching_breaks_are_batched(make):
    envs = make("test/Ragged-v0", 12, autoreset_mode="SameStep")
    envs.reset(seed=0, options={"task_index": list(range(12))})
    infos = envs.step([DONE] * 12)[4]["final_info"]
    singles = []
    for index in range(12):
        env = gym.make("test/Ragged-v0")
        env.reset(seed=index, options={"task_index": index})
        singles.append(env.step(DONE)[4])
    for name in ("mixed", "tokens"):
        assert infos[name].dtype == object and infos[f"_{name}"].all()
        assert_equal(list(infos[name]), [info[name] for info in singles])


def test_the_users_changes_to_an_observation_do_not_reach_the_next_one(make):
    envs, theirs = make(), sync()
    for each in (envs, theirs):
        observations, _ = each.reset(seed=3)
        for observation in observations:
            observation["input"].clear()
            observation.pop("tools")
    assert_equal(envs.step([LOOK] * N), theirs.step([LOOK] * N))


def test_spaces_metadata_and_render_mode(make):
    envs, theirs = make(render_mode="ansi"), sync(render_mode="ansi")
    assert envs.single_observation_space == theirs.single_observation_space
    assert envs.observation_space == theirs.observation_space
    assert envs.single_action_space == theirs.single_action_space
    assert envs.action_space == theirs.action_space
    assert envs.metadata == theirs.metadata
    assert envs.render_mode == "ansi"
    assert (envs.num_envs, envs.closed, envs.unwrapped) == (N, False, envs)
    observations, _ = envs.reset(seed=0)
    assert observations in envs.observation_space


def test_render_gives_every_transcript_or_one(make):
    envs, theirs = make(render_mode="ansi"), sync(render_mode="ansi")
    for each in (envs, theirs):
        each.reset(seed=2)
        each.step([LOOK] * N)
    assert_equal(envs.render(), theirs.render())
    assert envs.render(4) == (theirs.render()[4],)


def test_call_get_attr_and_set_attr(make):
    envs, theirs = make(fresh=True), sync()
    for each in (envs, theirs):
        each.reset(seed=2)
        assert_equal(each.call("has_wrapper_attr", "colour"), (True,) * N)
        assert_equal(each.get_attr("colour"), ("red",) * N)
        each.set_attr("colour", list("abcde"))
        assert_equal(each.get_attr("colour"), tuple("abcde"))
        each.set_attr("colour", "blue")
        assert_equal(each.get_attr("colour"), ("blue",) * N)
        with pytest.raises(ValueError, match="5"):
            each.set_attr("colour", ["red"])
        assert_equal(each.np_random_seed, tuple(range(2, 2 + N)))


def test_np_random_is_the_environments(make):
    envs, theirs = make(), sync()
    for each in (envs, theirs):
        each.reset(seed=2)
    assert [rng.integers(1000) for rng in envs.np_random] == [rng.integers(1000) for rng in theirs.np_random]


def test_env_wrappers_are_applied_innermost_first(make):
    thinking = message("<think>hm</think>done")
    envs = make(env_wrappers=(ReasoningParser,))
    theirs = sync(env_wrappers=(ReasoningParser,))
    for each in (envs, theirs):
        each.reset(seed=2)
    assert_equal(envs.step([thinking] * N), theirs.step([thinking] * N))


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_gymnasiums_vector_wrappers_work(make, mode):
    def wrapped(envs):
        envs = RecordEpisodeStatistics(envs)
        envs = TransformReward(envs, lambda reward: reward / 2)
        return DictInfoToList(NormalizeReward(envs))

    ours, theirs = wrapped(make(autoreset_mode=mode)), wrapped(sync(autoreset_mode=mode))
    said = [play(ours, seed=5), play(theirs, seed=5)]
    for steps in said:
        for step in steps:
            for info in step[-1]:
                for place in (info, info.get("final_info", {})):
                    place.get("episode", {}).pop("t", None)
    assert_equal(*said)


def test_no_action_raises_invalid_action_and_the_slot_goes_on(make):
    envs = make()
    envs.reset(seed=0)
    with pytest.raises(InvalidAction):
        envs.step([DONE, 17, DONE, DONE, DONE])
    with pytest.raises(ResetNeeded):
        envs.step([DONE] * N)  # the others' episodes are over
    envs.reset(options={"reset_mask": np.array([True, False, True, True, True])})
    assert envs.step([DONE] * N)[2].all()


def test_step_before_reset_and_step_after_the_end_raise(make):
    for mode in AutoresetMode:
        envs = make(autoreset_mode=mode, fresh=True)
        with pytest.raises(ResetNeeded):
            envs.step([DONE] * N)
    envs = make(fresh=True)
    envs.reset()
    envs.step([DONE] * N)
    with pytest.raises(ResetNeeded):
        envs.step([DONE] * N)


@pytest.mark.parametrize("actions", [[], [DONE] * (N + 1)])
def test_a_wrong_number_of_actions_raises(make, actions):
    envs = make()
    envs.reset()
    with pytest.raises(ValueError, match="one action per environment"):
        envs.step(actions)


def test_a_wrong_number_of_seeds_raises(make):
    for envs in (make(), sync()):
        with pytest.raises(ValueError, match="5"):
            envs.reset(seed=[1, 2])


def test_an_unpicklable_action_raises_and_leaves_nothing_busy(ray):
    with remote() as envs:
        envs.reset(seed=0)
        with pytest.raises(AttributeError, match="pickle"):
            envs.step([lambda: None] * N)
        assert envs.step([DONE] * N)[2].all()


def test_close_twice_and_use_as_context_manager(make):
    with make(fresh=True) as envs:
        envs.reset()
    assert envs.closed
    envs.close()
    for use in (envs.reset, lambda: envs.step([DONE] * N), lambda: envs.call("colour"), envs.render, envs.recv):
        with pytest.raises(ClosedEnvironmentError):
            use()


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def test_dropping_the_last_reference_ends_the_processes(ray):
    envs = remote()
    pids = set(envs.get_attr("pid"))
    assert len(pids) == 2
    del envs
    gc.collect()
    deadline = time.monotonic() + 20
    while not all(map(gone, pids)):
        assert time.monotonic() < deadline, "the actors outlived their vector environment"
        time.sleep(0.05)


@pytest.mark.parametrize("vectorization_mode", ["vector_entry_point", "sync"])
def test_make_vec(ray, vectorization_mode):
    envs = gym.make_vec("gym_llm/MultipleChoice-v0", num_envs=2, vectorization_mode=vectorization_mode)
    try:
        assert isinstance(envs.unwrapped, RayVectorEnv if vectorization_mode != "sync" else SyncVectorEnv)
        observations, _ = envs.reset(seed=0)
        assert len(observations) == 2
    finally:
        envs.close()
