"""Forks of an episode go on by themselves, and as the original would have."""

import random
import threading
from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from testing import function_call, message, message_item, row

from gym_llm import BaseTask, Verdict, VerifierEnv, fork_env, tool
from gym_llm.core.state_copy import StateCopy
from gym_llm.errors import CannotFork
from gym_llm.wrappers import RecordRollouts, TokenIdTracking


@dataclass(slots=True)
class Bag:
    """A state with parts that refer to each other."""

    words: list[str] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=dict)
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    same_words: list[str] | None = None
    closed: bool = False


class Collect(VerifierEnv):
    """Collects words, and draws a number for each."""

    def setup(self, task):
        bag = Bag()
        bag.same_words = bag.words
        return bag

    @tool
    def put(self, state: Bag, word: str) -> int:
        """Put a word into the bag.

        Args:
            word: The word.
        """
        state.words.append(word)
        state.index[word] = len(state.words)
        return int(self.np_random.integers(1 << 40)) + (state.rng.getrandbits(40) << 40)

    def verify(self, task, episode):
        return Verdict(float(len(episode.state.words)), {"words": " ".join(episode.state.words)})

    def teardown(self, task, episode):
        assert not episode.state.closed
        episode.state.closed = True


def put(word, call_id="call_1"):
    return [function_call("put", {"word": word}, call_id)]


def begun(*words, seed=3, wrap=lambda env: env, cls=Collect):
    env = wrap(cls(tasks=[row()]))
    env.reset(seed=seed)
    for word in words:
        env.step(put(word))
    return env


def drawn(step):
    return step[0]["input"][-1]["output"]


def test_forks_go_on_apart_from_each_other_and_the_original():
    env = begun("a")
    left, right = env.fork(2)
    left.step(put("b"))
    assert [one.unwrapped.episode.state.words for one in (env, left, right)] == [["a"], ["a", "b"], ["a"]]
    assert left.episode.state.same_words is left.episode.state.words
    assert [len(one.episode.items) for one in (env, left, right)] == [2, 4, 2]
    assert env.step(message("Done."))[1] == 1.0
    assert left.step(message("Done."))[4]["words"] == "a b"
    assert right.step(message("Done."))[4]["words"] == "a"


def test_the_history_is_shared_item_by_item():
    env = begun("a")
    (fork,) = env.fork(1)
    assert all(one is other for one, other in zip(env.episode.items, fork.episode.items, strict=True))
    assert fork.episode.items is not env.episode.items
    assert fork.episode.row is env.episode.row
    assert fork.tasks is env.tasks


@pytest.mark.parametrize("touched", [False, True])
def test_same_randomness_goes_on_as_the_episode_alone(touched):
    env = begun(*["a"] * touched)
    forks = env.fork(2, randomness="same")
    alone = [drawn(env.step(put(word))) for word in "bcd"]
    assert [[drawn(fork.step(put(word))) for word in "bcd"] for fork in forks] == [alone, alone]


@pytest.mark.parametrize("touched", [False, True])
def test_own_randomness_differs_by_fork_and_is_reproducible(touched):
    def draws():
        env = begun(*["a"] * touched)
        forks = env.fork(2) + env.fork(1)
        return [drawn(one.step(put("b"))) for one in (env, *forks)]

    first = draws()
    low, high = ({int(each) % (1 << 40) for each in first}, {int(each) >> 40 for each in first})
    assert len(low) == len(high) == 4  # of `np_random`, and of the state's own generator
    assert draws() == first


def test_forks_of_forks_differ():
    env = begun("a")
    (left, right) = env.fork(2)
    draws = [drawn(one.step(put("b"))) for one in (*left.fork(2), *right.fork(2))]
    assert len(set(draws)) == 4


def test_an_unseeded_environment_forks():
    env = begun(seed=None)
    left, right = env.fork(2)
    assert drawn(left.step(put("b"))) != drawn(right.step(put("b")))


def test_each_fork_is_torn_down_once():
    env = begun("a")
    forks = env.fork(2)
    states = [one.episode.state for one in (env, *forks)]
    forks[0].step(message("Done."))
    forks[1].close()
    assert [state.closed for state in states] == [False, True, True]
    env.close()
    assert states[0].closed


def test_wrappers_go_along():
    tokens = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.5]}
    more = {"prompt_token_ids": [1, 2, 3, 4], "generation_token_ids": [5], "generation_log_probs": [-0.25]}
    env = begun(wrap=lambda env: TokenIdTracking(gym.wrappers.TimeLimit(env, 5)))
    env.step([{**put("a")[0], **tokens}])
    left, right = fork_env(env, 2)
    assert isinstance(left, TokenIdTracking) and left.env.env is not env.env.env
    info = left.step([{**message_item("Done."), **more}])[4]
    assert [segment["input_ids"] for segment in info["trajectory"]] == [[1, 2, 3, 4, 5]]
    assert [segment["input_ids"] for segment in right.trajectory_so_far] == [[1, 2, 3]]
    for word in "bcd":
        right.step(put(word))
    assert right.step(put("e"))[3]  # the fifth step, of which the first was the original's
    assert not env.unwrapped.is_over


def test_the_record_of_a_fork_has_all_turns(tmp_path):
    from gym_llm.data import read_jsonl

    path = tmp_path / "rollouts.jsonl"
    env = begun("a", wrap=lambda env: RecordRollouts(env, path))
    (fork,) = fork_env(env, 1)
    fork.step(message("Done."))
    env.step(put("b"))
    env.step(message("Done."))
    records = [record for _, record in read_jsonl(path)]
    assert [(len(record["turn_timing"]), record["info"]["words"]) for record in records] == [(2, "a"), (3, "a b")]


class Counting(gym.Wrapper):
    """A wrapper with a list, and an object that it shares."""

    def __init__(self, env):
        super().__init__(env)
        self.seen, self.tool = [], object()

    def step(self, action):
        self.seen.append(action)
        return super().step(action)


def test_a_wrapper_keeps_its_objects_and_has_its_own_lists():
    env = begun("a", wrap=Counting)
    (fork,) = fork_env(env, 1)
    fork.step(put("b"))
    assert (len(env.seen), len(fork.seen)) == (1, 2)
    assert fork.tool is env.tool


class Noting(Collect):
    """Keeps notes of the episode on itself."""

    episode_attributes = ("notes",)

    def setup(self, task):
        self.notes = []
        return super().setup(task)


class NotingMore(Noting):
    """Keeps more of them."""

    episode_attributes = ("more",)

    def setup(self, task):
        self.more, self.cache = {}, {}
        return super().setup(task)


def test_attributes_that_a_class_and_its_parents_name_are_copied():
    env = begun(cls=NotingMore)
    (fork,) = env.fork(1)
    assert fork.notes == [] and fork.notes is not env.notes
    assert fork.more == {} and fork.more is not env.more
    assert fork.cache is env.cache


class Hooked(Collect):
    """Copies its state itself, in a hook that waits."""

    async def fork_state(self, state):
        return Bag([*state.words, "forked"])


def test_the_hook_makes_the_state():
    env = begun("a", cls=Hooked)
    (fork,) = env.fork(1)
    assert fork.step(message("Done."))[4]["words"] == "a forked"
    assert env.step(message("Done."))[4]["words"] == "a"


class Locked(Collect):
    """Has a lock in its state."""

    def setup(self, task):
        return {"lock": threading.Lock()}

    def teardown(self, task, episode):
        pass


def test_a_state_that_cannot_be_copied_is_refused_by_name():
    with pytest.raises(CannotFork, match=r"Locked.*fork_state"):
        begun(cls=Locked).fork(1)


class Failing(Collect):
    """Can be forked once."""

    def fork_state(self, state):
        if state.words:
            raise RuntimeError("no more")
        state.words.append("used")
        self.made.append(Bag())
        return self.made[-1]


def test_forks_made_before_an_error_are_closed():
    env = begun(cls=Failing)
    env.made = []
    with pytest.raises(RuntimeError, match="no more"):
        env.fork(2)
    assert [bag.closed for bag in env.made] == [True]
    assert not env.is_over


def test_what_cannot_be_forked():
    env = Collect(tasks=[row()])
    with pytest.raises(ResetNeeded):
        env.fork(1)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="n is"):
        env.fork(0)
    with pytest.raises(ValueError, match="randomness"):
        env.fork(1, randomness="other")
    env.step(message("Done."))
    with pytest.raises(ResetNeeded):
        env.fork(1)
    with pytest.raises(CannotFork, match="VerifierEnv"):
        fork_env(gym.make("CartPole-v1"), 1)


def test_an_environment_in_a_hook_is_refused():
    class Curious(Collect):
        def user_turn(self, task, episode):
            self.fork(1)

    env = begun(cls=Curious)
    with pytest.raises(CannotFork, match="respond"):
        env.step(message("Done."))


def test_kuhn_poker_forks_with_all_of_its_seats():
    env = gym.make("gym_llm/KuhnPoker-v0", opponents="random").unwrapped
    for seed in range(6):
        env.reset(seed=seed)
        left, right = env.fork(2, randomness="same")
        left.step(message("pass"))
        results = [one.step(message("bet")) for one in (env, right)]
        assert results[0] == results[1]
        assert left.seat_trajectories().keys() == env.seat_trajectories().keys()


def test_mixed_forks_the_verifier_that_plays():
    env = gym.make("gym_llm/Mixed-v0").unwrapped
    env.reset(seed=0, options={"task_index": 0})
    left, right = env.fork(2)
    left.step(message("No."))
    assert left.is_over and not right.is_over and not env.is_over
    assert right.episode is not env.episode


def test_a_live_interpreter_is_refused_and_a_new_one_is_not():
    from gym_llm.sandbox.python_tool import EpisodePython

    python = EpisodePython()
    assert StateCopy().of({"python": python})["python"] is not python
    python._session = object()
    with pytest.raises(CannotFork, match="interpreter"):
        StateCopy().of({"python": python})


class Slotted:
    __slots__ = ("__dict__", "one")


def test_copies_are_those_of_deepcopy():
    cycle: list = [1, {"x": (1, [2])}, {3, 4}, np.arange(3), BaseTask(a=[1])]
    cycle.append(cycle)
    thing = Slotted()
    thing.one, thing.two = cycle, cycle[1]
    made = StateCopy().of(thing)
    assert made.one[-1] is made.one is not cycle
    assert made.two is made.one[1] and made.two is not cycle[1]
    assert made.one[1]["x"] == (1, [2]) and made.one[1]["x"][1] is not cycle[1]["x"][1]
    assert made.one[2] == {3, 4} and made.one[2] is not cycle[2]
    assert made.one[3].tolist() == [0, 1, 2] and made.one[3] is not cycle[3]
    assert made.one[4].a == [1] and made.one[4].a is not cycle[4].a


def test_classes_that_say_how_they_are_copied_are_asked():
    class Own:
        def __deepcopy__(self, memo):
            return "copy"

    assert StateCopy().of([Own()]) == ["copy"]
