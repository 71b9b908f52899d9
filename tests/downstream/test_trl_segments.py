"""What TRL's rollout_func cannot hand over: episodes in several segments, and what samples a part of a model."""

import os

import gymnasium as gym
import pytest
from testing import POCKET, row

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from trl import GRPOConfig, GRPOTrainer

from gym_llm import VerifierEnv
from gym_llm.rollouts.settings import DEFAULT_WRAPPERS
from gym_llm.trainers.trl import RolloutFunc

pytestmark = pytest.mark.slow


class Asking(VerifierEnv):
    """A user who asks twice more; how many turns there were is the reward."""

    def user_turn(self, task, episode):
        return f"And {episode.turn} plus 1?" if episode.turn < 3 else None

    def verify(self, task, episode):
        return float(episode.turn)


class OnlyTheLatest(gym.ObservationWrapper):
    """Shows one task's model nothing but the newest message: a conversation that is not continued."""

    def observation(self, observation):
        items = observation["input"]
        return {**observation, "input": items[-1:]} if "30" in items[0]["content"] else observation


gym.register("trl_segment_tests/Asking-v0", Asking)


@pytest.fixture
def make_trainer(tmp_path):
    """Builds a trainer of the pocket model."""

    def make(hook):
        args = GRPOConfig(
            str(tmp_path), per_device_train_batch_size=8, max_completion_length=400, use_cpu=True, bf16=False
        )
        return GRPOTrainer(
            POCKET, args=args, train_dataset=hook.dataset(2), rollout_func=hook, reward_funcs=hook.reward
        )

    return make


@pytest.mark.parametrize("segments", ["one", "last"])
def test_of_several_segments_the_last_is_trained_on_if_asked_for_and_what_is_not_trained_on_is_counted(
    make_trainer, segments
):
    with RolloutFunc(
        "trl_segment_tests/Asking-v0",
        tasks=[row("What is 1 + 2?"), row("What is 30 + 2?")],
        env_wrappers=(*DEFAULT_WRAPPERS, OnlyTheLatest),
        engine_options={"threads": 1},
        segments=segments,
    ) as asking:
        output = asking(asking.dataset()["prompt"][:], make_trainer(asking))
    whole, split = output["env_info"]
    assert whole["failed"] == 0 and whole["untrained_tokens"] == 0 < split["untrained_tokens"]
    if segments == "one":
        assert split["failed"] == 1 and output["env_mask"][1] == [0] and output["env_reward"][1] is None
    else:
        assert split["failed"] == 0 and set(output["env_mask"][1]) == {1}
        assert output["env_reward"][1] == split["turns"]


def test_there_are_two_ways_to_take_segments():
    with pytest.raises(ValueError, match="segments is 'one' or 'last'"):
        RolloutFunc("trl_segment_tests/Asking-v0", tasks=[row("Go.")], segments="all")


def test_weights_of_which_a_process_has_a_part_are_not_sampled_by_itself(make_trainer, monkeypatch):
    with RolloutFunc("gym_llm/Arithmetic-v0", engine_options={"threads": 1}) as arithmetic:
        trainer = make_trainer(arithmetic)
        # What DeepSpeed's ZeRO-3 marks a parameter with.
        monkeypatch.setattr(next(trainer.model.parameters()), "ds_id", 0, raising=False)
        with pytest.raises(ValueError, match="sharded weights"):
            trainer.train()
