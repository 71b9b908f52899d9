"""Our environments in the real TRL: what its GRPOTrainer hands over, expects back, and makes of it."""

import inspect
import json
import os
import subprocess
import sys

import gymnasium as gym
import pytest
import torch
from peft import LoraConfig
from testing import POCKET, row
from transformers import AutoModelForCausalLM, AutoTokenizer

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

from trl import GRPOConfig, GRPOTrainer

from gym_llm import BaseTask, VerifierEnv
from gym_llm.rollouts.settings import DEFAULT_WRAPPERS
from gym_llm.trainers.shared.advantages import group_advantages
from gym_llm.trainers.trl import EnvironmentFactory, RewardFunc, RolloutFunc

pytestmark = pytest.mark.slow

GROUP, PROMPTS = 4, 3


class Failing(VerifierEnv):
    """Its verifier fails for a task that says so."""

    class Task(BaseTask):
        fails: bool

    def verify(self, task, episode):
        if task.fails:
            raise OSError("the judge is away")
        return 1.0


class Talking(VerifierEnv):
    """A user who asks twice more."""

    def user_turn(self, task, episode):
        return f"And {episode.turn} plus 1?" if episode.turn < 3 else None

    def verify(self, task, episode):
        return float(episode.turn)


class Wordy(VerifierEnv):
    """A user who answers at length; how many turns the verifier was shown is the reward."""

    def user_turn(self, task, episode):
        return "And " + "once more " * 20 + "1 + 2?" if episode.turn < 2 else None

    def verify(self, task, episode):
        return float(sum(item.get("role") == "assistant" for item in episode.items))


gym.register("trl_tests/Failing-v0", Failing)
gym.register("trl_tests/Wordy-v0", Wordy)
gym.register("trl_tests/Talking-v0", Talking)


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(POCKET)


@pytest.fixture
def make_trainer(tokenizer, tmp_path):
    """Builds a trainer of the pocket model; learning rate 0 unless told otherwise."""

    def make(dataset, *, steps=1, **arguments):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32, attn_implementation="sdpa")
        names = ("rollout_func", "reward_funcs", "environment_factory", "tools", "callbacks", "peft_config")
        hooks = {name: arguments.pop(name) for name in names if name in arguments}
        config = {
            "per_device_train_batch_size": GROUP * PROMPTS,
            "num_generations": GROUP,
            "max_completion_length": 160,
            "max_steps": steps,
            "learning_rate": 0.0,
            "logging_steps": 1,
            "bf16": False,
            "use_cpu": True,
            "gradient_checkpointing": False,
            "report_to": "none",
            "save_strategy": "no",
            "disable_tqdm": True,
            **arguments,
        }
        args = GRPOConfig(output_dir=str(tmp_path), **config)
        return GRPOTrainer(model, args=args, train_dataset=dataset, processing_class=tokenizer, **hooks)

    return make


class Watched:
    """A rollout_func that remembers what went through it, and what the model that was sampled thinks of it."""

    def __init__(self, function, *, training=True):
        self.function = function
        self.training = training
        self.calls = []

    def __call__(self, prompts, trainer):
        output = self.function(prompts, trainer)
        self.calls.append((prompts, output, [log_probs(trainer.model, *ids) for ids in pairs(output)]))
        assert trainer.model.training is self.training
        return output


def pairs(output):
    return zip(output["prompt_ids"], output["completion_ids"], strict=True)


@torch.no_grad()
def log_probs(model, prompt, completion):
    """The model's log probability of each completion token, from one plain forward pass."""
    ids = torch.tensor([prompt + completion])
    scores = model(input_ids=ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    return scores.gather(1, ids[0, len(prompt) :, None])[:, 0].tolist()


def masked(values, mask):
    return [value for value, kept in zip(values, mask, strict=True) if kept]


# -- the contract ------------------------------------------------------------------------------------------------------


def test_grpo_trainer_has_the_hooks_that_we_plug_into():
    parameters = inspect.signature(GRPOTrainer.__init__).parameters
    for name in ("reward_funcs", "rollout_func", "environment_factory", "processing_class", "train_dataset"):
        assert name in parameters
    fields = GRPOConfig.__dataclass_fields__
    for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_completion_length"):
        assert name in fields
    assert "generation_kwargs" in fields and "chat_template_kwargs" in fields


def test_trainer_has_the_attributes_that_we_read(make_trainer):
    arithmetic = RewardFunc("gym_llm/Arithmetic-v0")
    trainer = make_trainer(arithmetic.dataset(4), reward_funcs=arithmetic, temperature=0.5, top_p=0.9)
    assert (trainer.temperature, trainer.top_p, trainer.max_completion_length) == (0.5, 0.9, 160)
    assert (trainer.top_k, trainer.min_p, trainer.repetition_penalty) == (0, None, 1.0)
    assert trainer.use_vllm is False and trainer.tools == []
    assert trainer.chat_template_kwargs == {} and trainer.args.generation_kwargs is None
    assert trainer.accelerator.unwrap_model(trainer.model_wrapped, keep_torch_compile=False) is trainer.model
    assert trainer.accelerator.num_processes == 1
    assert trainer.accelerator.distributed_type.value == "NO" and trainer.accelerator.process_index == 0
    assert trainer.state.global_step == 0


def test_trl_repeats_prompts_and_forwards_further_fields_and_leaves_none_out(make_trainer, tokenizer):
    seen = {}

    def rollouts(prompts, trainer):
        seen["prompts"], seen["trainer"] = prompts, trainer
        ids = tokenizer.encode("4")
        n = len(prompts)
        return {
            "prompt_ids": [ids] * n,
            "completion_ids": [ids * 3] * n,
            "logprobs": None,
            "env_mask": [[1, 0, 1]] * n,
            "mine": list(range(n)),
        }

    def reward(prompts, completions, mine, log_metric, **_):
        log_metric("episodes/turns", 2.0)
        seen["mine"] = mine
        return [None if n % GROUP == 0 else float(n % 2) for n in mine]

    arithmetic = RolloutFunc("gym_llm/Arithmetic-v0")
    trainer = make_trainer(arithmetic.dataset(PROMPTS), rollout_func=rollouts, reward_funcs=reward)
    scored = []
    original = trainer._generate_and_score_completions
    trainer._generate_and_score_completions = lambda inputs: scored.append(original(inputs)) or scored[-1]
    trainer.train()
    tasks = [prompt[0]["task_index"] for prompt in seen["prompts"]]
    assert seen["trainer"] is trainer and len(tasks) == GROUP * PROMPTS
    assert all(len(set(tasks[n : n + GROUP])) == 1 for n in range(0, len(tasks), GROUP))
    assert seen["mine"] == list(range(GROUP * PROMPTS))
    assert scored[0]["tool_mask"].tolist() == [[1, 0, 1]] * len(tasks)
    assert scored[0]["num_items_in_batch"].item() == 2 * len(tasks)
    assert [n for n, value in enumerate(scored[0]["advantages"].tolist()) if value == 0] == [0, 4, 8]
    assert trainer.state.log_history[0]["episodes/turns"] == 2.0


# -- rollout_func ------------------------------------------------------------------------------------------------------


def test_tool_episodes_come_back_as_the_tokens_that_the_model_read_and_sampled(make_trainer, tokenizer):
    weather = RolloutFunc("gym_llm/Weather-v0", engine_options={"threads": 1})
    watched = Watched(weather)
    trainer = make_trainer(weather.dataset(), rollout_func=watched, reward_funcs=weather.reward, learning_rate=0.0)
    trainer.train()
    ((prompts, output, recomputed),) = watched.calls
    assert {len(values) for values in output.values()} == {len(prompts)} == {GROUP * PROMPTS}
    with_tools = 0
    for n, prompt in enumerate(prompts):
        mask, completion = output["env_mask"][n], output["completion_ids"][n]
        assert len(mask) == len(completion) == len(output["logprobs"][n])
        assert prompt[0]["content"] in tokenizer.decode(output["prompt_ids"][n])
        assert output["prompt_ids"][n][-2:] == tokenizer.encode("assistant\n")
        sampled = tokenizer.decode(masked(completion, mask))
        given = tokenizer.decode([token for token, kept in zip(completion, mask, strict=True) if not kept])
        assert "<tool_response>" not in sampled and "<tool_call>" not in given
        with_tools += "<tool_response>" in given and "<tool_call>" in sampled
        assert mask[0] == mask[-1] == 1
        assert masked(output["logprobs"][n], mask) == pytest.approx(masked(recomputed[n], mask), abs=1e-3)
        assert all(value == 0 for value, kept in zip(output["logprobs"][n], mask, strict=True) if not kept)
    assert with_tools >= 10
    assert trainer.state.log_history[0]["reward"] == pytest.approx(sum(output["env_reward"]) / len(prompts))
    assert trainer.state.log_history[0]["episodes/turns"] > 1.5
    weather.close()


@pytest.mark.parametrize("adapters", [None, LoraConfig(target_modules="all-linear")], ids=["all weights", "adapters"])
def test_episodes_are_sampled_with_the_weights_of_their_step(make_trainer, adapters):
    arithmetic = RolloutFunc("gym_llm/Arithmetic-v0", engine_options={"threads": 1})
    watched = Watched(arithmetic)
    trainer = make_trainer(
        arithmetic.dataset(12),
        steps=3,
        rollout_func=watched,
        reward_funcs=arithmetic.reward,
        learning_rate=1e-2,
        peft_config=adapters,
    )
    trainer.train()
    assert len(watched.calls) == 3
    for _, output, recomputed in watched.calls:
        for n, mask in enumerate(output["env_mask"]):
            assert masked(output["logprobs"][n], mask) == pytest.approx(masked(recomputed[n], mask), abs=1e-3)
    first, *_, last = (output["logprobs"][0] for _, output, _ in watched.calls)
    assert first != last
    arithmetic.close()


def test_every_repetition_of_a_prompt_is_an_episode_of_its_own_and_keeps_its_place(make_trainer, tokenizer):
    arithmetic = RolloutFunc("gym_llm/Arithmetic-v0", env_kwargs={"digits": 3}, engine_options={"threads": 1})
    watched = Watched(arithmetic)
    trainer = make_trainer(arithmetic.dataset(PROMPTS), steps=2, rollout_func=watched, reward_funcs=arithmetic.reward)
    trainer.train()
    for prompts, output, _ in watched.calls:
        for n, prompt in enumerate(prompts):
            index = prompt[0]["task_index"]
            env = gym.make("gym_llm/Arithmetic-v0", digits=3)
            env.reset(options={"task_index": index})
            text = tokenizer.decode(output["completion_ids"][n]).partition("</think>")[2].removesuffix("<|im_end|>")
            *_, reward, _, _, _ = env.step([{"type": "message", "role": "assistant", "content": text}])
            assert reward == output["env_reward"][n]
    completions = [tuple(ids) for _, output, _ in watched.calls for ids in output["completion_ids"]]
    # Learning rate 0: only the random numbers differ, between repetitions and between steps.
    assert len(set(completions)) > 2 * PROMPTS
    arithmetic.close()


def test_a_resumed_run_plays_the_episodes_that_the_run_would_have_played(make_trainer):
    def played(steps, **resumed):
        with RolloutFunc("gym_llm/Arithmetic-v0", engine_options={"threads": 1}) as arithmetic:
            watched, tasks = Watched(arithmetic), arithmetic.dataset(3 * PROMPTS)
            options = {"save_strategy": "steps", "save_steps": 2, "max_completion_length": 12}
            hooks = {"rollout_func": watched, "reward_funcs": arithmetic.reward}
            trainer = make_trainer(tasks, steps=steps, learning_rate=1e-5, **hooks, **options)
            trainer.train(**resumed)
        return trainer, [(prompts, output["completion_ids"]) for prompts, output, _ in watched.calls]

    trainer, whole = played(3)
    _, rest = played(3, resume_from_checkpoint=f"{trainer.args.output_dir}/checkpoint-2")
    assert len(whole) == 3 and rest == whole[2:]


def test_what_a_user_says_is_not_trained_on(make_trainer, tokenizer):
    talking = RolloutFunc("trl_tests/Talking-v0", tasks=[row("What is 1 + 2?")], engine_options={"threads": 1})
    watched = Watched(talking)
    dataset = talking.dataset()
    trainer = make_trainer(
        dataset.select([0] * PROMPTS), rollout_func=watched, reward_funcs=talking.reward, max_completion_length=600
    )
    trainer.train()
    ((_, output, recomputed),) = watched.calls
    for n, mask in enumerate(output["env_mask"]):
        given = [token for token, kept in zip(output["completion_ids"][n], mask, strict=True) if not kept]
        assert "And 1 plus 1?" in tokenizer.decode(given) and "And 2 plus 1?" in tokenizer.decode(given)
        assert "plus 1?" not in tokenizer.decode(masked(output["completion_ids"][n], mask)).replace("And", "")
        assert masked(output["logprobs"][n], mask) == pytest.approx(masked(recomputed[n], mask), abs=1e-3)
    # A turn that only thinks is asked again, so some have one more.
    assert output["env_reward"] == [info["turns"] for info in output["env_info"]]
    assert min(output["env_reward"]) == 3.0
    talking.close()


def test_an_episode_ends_with_max_completion_length(make_trainer):
    talking = RolloutFunc("trl_tests/Talking-v0", tasks=[row("What is 1 + 2?")], engine_options={"threads": 1})
    watched = Watched(talking)
    for budget in (5, 70):
        trainer = make_trainer(
            talking.dataset().select([0] * PROMPTS),
            rollout_func=watched,
            reward_funcs=talking.reward,
            max_completion_length=budget,
        )
        trainer.train()
        _, output, _ = watched.calls[-1]
        lengths = [len(ids) for ids in output["completion_ids"]]
        assert max(lengths) <= budget and min(lengths) > 0
        assert all(info["truncated"] for info in output["env_info"])
    talking.close()


def test_what_does_not_fit_into_max_completion_length_earns_nothing(make_trainer):
    def play(budget):
        # Made anew, so that the same is sampled as far as it goes.
        with RolloutFunc("trl_tests/Wordy-v0", tasks=[row("What is 1 + 2?")], engine_options={"threads": 1}) as wordy:
            dataset = wordy.dataset().select([0] * PROMPTS)
            hooks = {"rollout_func": wordy, "reward_funcs": wordy.reward}
            output = wordy(dataset["prompt"][:1], make_trainer(dataset, max_completion_length=budget, **hooks))
        return {name: values[0] for name, values in output.items()}

    whole = play(1000)
    first = whole["env_mask"].index(0)
    second = whole["env_mask"].index(1, first)
    assert whole["env_reward"] == 2.0 and not whole["env_info"]["truncated"]
    among_the_users = play(second - 5)
    in_the_second_answer = play(second + 5)
    for output, length, reward in [(among_the_users, first, 1.0), (in_the_second_answer, second + 5, 2.0)]:
        assert output["completion_ids"] == whole["completion_ids"][:length]
        assert output["env_mask"] == whole["env_mask"][:length]
        assert output["logprobs"] == pytest.approx(whole["logprobs"][:length], abs=1e-4)
        assert output["env_reward"] == reward and output["env_info"]["truncated"]


def test_a_prompt_that_is_longer_than_the_context_is_a_row_that_nothing_is_learned_from(make_trainer):
    tasks = [row("What is 1 + 2?", fails=False), row("long " * 5000, fails=False)]
    failing = RolloutFunc("trl_tests/Failing-v0", tasks=tasks, engine_options={"threads": 1})
    trainer = make_trainer(failing.dataset().select([0] * PROMPTS), rollout_func=failing, reward_funcs=failing.reward)
    output = failing(failing.dataset()["prompt"][:], trainer)
    assert output["env_reward"] == [1.0, None]
    assert output["env_mask"][1] == [0] and output["env_info"][1]["truncated"]
    failing.close()


def test_masked_episodes_leave_the_group_s_mean_also_beside_another_reward_function(make_trainer):
    def brevity(completions, **_):
        return [5.0 + n for n in range(len(completions))]

    rows = [row("What is 1 + 2?", fails=False), row("What is 3 + 2?", fails=True)]
    failing = RolloutFunc("trl_tests/Failing-v0", tasks=rows, engine_options={"threads": 1})

    def mixed(prompts, trainer):  # one task in place of the other: two of each group of four fail
        groups = [[{**message, "task_index": n % 2} for message in prompt] for n, prompt in enumerate(prompts)]
        return failing(groups, trainer)

    functions = [failing.reward, brevity]
    trainer = make_trainer(failing.dataset().select([0] * PROMPTS), rollout_func=mixed, reward_funcs=functions)
    scored = []
    original = trainer._generate_and_score_completions
    trainer._generate_and_score_completions = lambda inputs: scored.append(original(inputs)) or scored[-1]
    trainer.train()
    total = [None if n % 2 else 1.0 + 5.0 + n for n in range(GROUP * PROMPTS)]
    expected = group_advantages(total, GROUP)
    assert scored[0]["advantages"].tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    assert [n for n, value in enumerate(scored[0]["advantages"].tolist()) if value == 0] == list(
        range(1, GROUP * PROMPTS, 2)
    )
    failing.close()


def test_a_reward_model_beside_a_rollout_func_is_refused(make_trainer):
    class Model(torch.nn.Module):
        config = None

    weather = RolloutFunc("gym_llm/Weather-v0", engine_options={"threads": 1})
    trainer = make_trainer(weather.dataset(), rollout_func=weather, reward_funcs=weather.reward)
    trainer.reward_funcs.append(Model())
    with pytest.raises(ValueError, match="reward model would score masked episodes"):
        weather(weather.dataset()["prompt"][:1], trainer)
    weather.close()


def test_failed_episodes_are_rows_that_nothing_is_learned_from(make_trainer):
    rows = [row("What is 1 + 2?", fails=False), row("What is 3 + 2?", fails=True), row("What is 4 + 2?", fails=False)]
    failing = RolloutFunc("trl_tests/Failing-v0", tasks=rows, engine_options={"threads": 1})
    watched = Watched(failing)
    trainer = make_trainer(failing.dataset(), rollout_func=watched, reward_funcs=failing.reward, shuffle_dataset=False)
    trainer.train()
    ((_, output, _),) = watched.calls
    assert output["env_reward"] == [1.0] * 4 + [None] * 4 + [1.0] * 4
    assert output["env_mask"][4:8] == [[0]] * 4 and all(len(mask) > 1 for mask in output["env_mask"][:4])
    log = trainer.state.log_history[0]
    assert log["reward"] == 1.0 and log["episodes/failed"] == pytest.approx(1 / 3)
    failing.close()


def test_a_batch_in_which_every_episode_failed_ends_the_training(make_trainer):
    failing = RolloutFunc("trl_tests/Failing-v0", tasks=[row("2?", fails=True)], engine_options={"threads": 1})
    trainer = make_trainer(failing.dataset().select([0] * PROMPTS), rollout_func=failing, reward_funcs=failing.reward)
    with pytest.raises(RuntimeError, match=r"Every episode of this batch failed.*the judge is away"):
        trainer.train()
    failing.close()


def test_one_broken_task_does_not_end_the_training(make_trainer):
    rows = [row("What is 1 + 2?", fails=False), row("What is 3 + 2?", fails=True)]
    failing = RolloutFunc("trl_tests/Failing-v0", tasks=rows, engine_options={"threads": 1})
    trainer = make_trainer(
        failing.dataset(),
        steps=4,
        rollout_func=failing,
        reward_funcs=failing.reward,
        shuffle_dataset=False,
        per_device_train_batch_size=GROUP,
    )
    trainer.train()
    assert [log["episodes/failed"] for log in trainer.state.log_history[:4]] == [0, 1, 0, 1]
    failing.close()


class OnlyTheLatest(gym.ObservationWrapper):
    """Shows one task's model nothing but the newest message: a conversation that is not continued."""

    def observation(self, observation):
        items = observation["input"]
        return {**observation, "input": items[-1:]} if "30" in items[0]["content"] else observation


def test_an_episode_in_several_segments_is_a_row_that_nothing_is_learned_from(make_trainer, caplog):
    rows = [row("What is 1 + 2?"), row("What is 30 + 2?")]
    talking = RolloutFunc(
        "trl_tests/Talking-v0",
        tasks=rows,
        env_wrappers=(*DEFAULT_WRAPPERS, OnlyTheLatest),
        engine_options={"threads": 1},
    )
    trainer = make_trainer(
        talking.dataset(),
        steps=2,
        rollout_func=talking,
        reward_funcs=talking.reward,
        shuffle_dataset=False,
        per_device_train_batch_size=GROUP,
        max_completion_length=400,
    )
    trainer.train()
    assert [log["episodes/failed"] for log in trainer.state.log_history[:2]] == [0, 1]
    assert "in 3 segments, and TRL trains on one" in caplog.text
    talking.close()


def test_an_engine_that_broke_down_is_replaced_when_somebody_tries_again(make_trainer, monkeypatch):
    arithmetic = RolloutFunc("gym_llm/Arithmetic-v0", engine_options={"threads": 1})
    trainer = make_trainer(arithmetic.dataset(PROMPTS), rollout_func=arithmetic, reward_funcs=arithmetic.reward)

    def out_of_memory(**_):
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(trainer.model, "forward", out_of_memory)
        with pytest.raises(RuntimeError, match=r"Every episode of this batch failed.*out of memory"):
            trainer.train()
    trainer.train()
    assert trainer.state.log_history[0]["episodes/failed"] == 0
    arithmetic.close()


def test_a_compiled_model_is_sampled_as_it_is(make_trainer):
    compiled = []
    arithmetic = RolloutFunc("gym_llm/Arithmetic-v0", engine_options={"threads": 1})
    trainer = make_trainer(arithmetic.dataset(PROMPTS), rollout_func=arithmetic, reward_funcs=arithmetic.reward)
    # As the trainer wraps it with GRPOConfig(torch_compile=True); every new length would be compiled anew.
    trainer.model_wrapped = torch.compile(trainer.model, backend=lambda graph, _: compiled.append(graph) or graph)
    output = arithmetic(arithmetic.dataset(2)["prompt"][:], trainer)
    assert len(output["completion_ids"]) == 2 and not compiled
    arithmetic.close()


def test_a_second_trainer_samples_its_own_model(make_trainer):
    arithmetic = RolloutFunc("gym_llm/Arithmetic-v0", engine_options={"threads": 1})
    watched = Watched(arithmetic)
    for scale in (1.0, 0.5):
        trainer = make_trainer(arithmetic.dataset(PROMPTS), rollout_func=watched, reward_funcs=arithmetic.reward)
        with torch.no_grad():
            trainer.model.model.norm.weight.mul_(scale)
        trainer.train()
        _, output, recomputed = watched.calls[-1]
        for n, mask in enumerate(output["env_mask"]):
            assert masked(output["logprobs"][n], mask) == pytest.approx(masked(recomputed[n], mask), abs=1e-3)
    arithmetic.close()


PROCESS = """
import json, os, sys
from trl import GRPOConfig, GRPOTrainer
from gym_llm.trainers.shared.advantages import group_advantages
from gym_llm.trainers.trl import RolloutFunc

folder, model = sys.argv[1:]
arithmetic = RolloutFunc("gym_llm/Arithmetic-v0", env_kwargs={"digits": 3}, engine_options={"threads": 1})
calls = []

def watched(prompts, trainer):
    output = arithmetic(prompts, trainer)
    calls.append([[prompt[0]["task_index"] for prompt in prompts], output["completion_ids"]])
    return output

args = GRPOConfig(
    folder, per_device_train_batch_size=4, num_generations=8, max_steps=2, learning_rate=1e-3, logging_steps=1,
    use_cpu=True, bf16=False, report_to="none", save_strategy="no",
)
trainer = GRPOTrainer(
    model, args=args, train_dataset=arithmetic.dataset(4), rollout_func=watched, reward_funcs=arithmetic.reward
)
trainer.train()
weights = sum(float(tensor.abs().sum()) for tensor in trainer.model.parameters())
with open(os.path.join(folder, os.environ["RANK"]), "w") as file:
    json.dump({"calls": calls, "weights": weights}, file)
"""


def test_processes_play_their_shares_of_a_group_with_random_numbers_of_their_own(tmp_path):
    script = tmp_path / "process.py"
    script.write_text(PROCESS)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    done = subprocess.run([*command, str(tmp_path), POCKET], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / rank).read_text()) for rank in "01")
    assert len(first["calls"]) == len(second["calls"]) == 2
    for (tasks, said), (other_tasks, other_said) in zip(first["calls"], second["calls"], strict=True):
        assert set(tasks) == set(other_tasks) and len(set(tasks)) == 1
        assert said != other_said
    assert first["weights"] == second["weights"]


def test_evaluation_plays_other_tasks(make_trainer):
    arithmetic = RolloutFunc("gym_llm/Arithmetic-v0", engine_options={"threads": 1})
    watched = Watched(arithmetic, training=False)
    trainer = make_trainer(
        arithmetic.dataset(PROMPTS),
        rollout_func=watched,
        reward_funcs=arithmetic.reward,
        per_device_eval_batch_size=8,
        num_generations_eval=1,
    )
    held_out = arithmetic.dataset(16, seed=5)
    trainer.model.eval()
    metrics = trainer.evaluate(held_out)
    played = [prompt[0]["task_index"] for prompts, _, _ in watched.calls for prompt in prompts]
    assert sorted(played) == held_out["task_index"][:]
    rewards = [reward for _, output, _ in watched.calls for reward in output["env_reward"]]
    assert metrics["eval_reward"] == pytest.approx(sum(rewards) / 16)
    arithmetic.close()


def test_log_probs_are_left_out_at_another_temperature_than_one(make_trainer):
    arithmetic = RolloutFunc("gym_llm/Arithmetic-v0", engine_options={"threads": 1})
    trainer = make_trainer(
        arithmetic.dataset(PROMPTS), rollout_func=arithmetic, reward_funcs=arithmetic.reward, temperature=0.7
    )
    trainer.train()
    prompts = [prompt for prompt in arithmetic.dataset(PROMPTS)["prompt"]]
    assert arithmetic(prompts, trainer)["logprobs"] is None
    arithmetic.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"top_k": 5}, "cannot sample with top_k=5"),
        ({"generation_kwargs": {"num_beams": 2}}, "generation_kwargs"),
    ],
)
def test_arguments_that_cannot_be_followed_are_named(make_trainer, arguments, message):
    arithmetic = RolloutFunc("gym_llm/Arithmetic-v0")
    trainer = make_trainer(
        arithmetic.dataset(PROMPTS), rollout_func=arithmetic, reward_funcs=arithmetic.reward, **arguments
    )
    with pytest.raises(ValueError, match=message):
        trainer.train()
    arithmetic.close()


def test_samplers_of_trls_own_are_refused(make_trainer, monkeypatch):
    weather = RolloutFunc("gym_llm/Weather-v0")
    trainer = make_trainer(weather.dataset(PROMPTS), rollout_func=weather, reward_funcs=weather.reward)
    prompts = weather.dataset(PROMPTS)["prompt"][:]
    for name, value, message in [("use_vllm", True, "use_vllm=True"), ("tools", [print], "tools= and environment_fac")]:
        with monkeypatch.context() as patch, pytest.raises(ValueError, match=message):
            patch.setattr(trainer, name, value)
            weather(prompts, trainer)
    weather.close()


@pytest.mark.parametrize("option", ["device", "dtype"])
def test_options_for_loading_a_model_are_refused_for_one_that_is_loaded(make_trainer, option):
    weather = RolloutFunc("gym_llm/Weather-v0", engine_options={option: "auto"})
    trainer = make_trainer(weather.dataset(PROMPTS), rollout_func=weather, reward_funcs=weather.reward)
    with pytest.raises(ValueError, match=f"{option} is for a model that is to be loaded"):
        trainer.train()
    weather.close()


def test_prompts_of_another_dataset_are_refused(make_trainer):
    from datasets import Dataset

    arithmetic = RolloutFunc("gym_llm/Arithmetic-v0")
    other = Dataset.from_list([{"prompt": [{"role": "user", "content": "2 + 2?"}]}] * PROMPTS)
    trainer = make_trainer(other, rollout_func=arithmetic, reward_funcs=arithmetic.reward)
    with pytest.raises(ValueError, match="with the `dataset` method"):
        trainer.train()


# -- environment_factory and reward_funcs ------------------------------------------------------------------------------


@pytest.fixture
def tool_tokenizer(tokenizer, monkeypatch):
    """Pocket's tokenizer as TRL's own tool loop needs it: TRL can read its calls, and it keeps earlier thinking."""
    from trl.chat_template_utils import is_chat_template_prefix_preserving, qwen3_template

    monkeypatch.setattr(tokenizer, "response_template", qwen3_template, raising=False)
    kept = tokenizer.chat_template.replace("loop.index0 > last.query and (reasoning or loop.last)", "reasoning")
    monkeypatch.setattr(tokenizer, "chat_template", kept)
    assert is_chat_template_prefix_preserving(tokenizer)
    return tokenizer


def test_trl_calls_our_tools_and_our_verifier_scores_the_answer(make_trainer, tool_tokenizer):
    weather = EnvironmentFactory("gym_llm/Weather-v0")
    answered = []

    def reward(completions, **columns):
        answered.append((completions, weather.reward(completions=completions, **columns)))
        return answered[-1][1]

    few = {"max_completion_length": 300, "per_device_train_batch_size": GROUP}
    trainer = make_trainer(weather.dataset(), environment_factory=weather, reward_funcs=reward, **few)
    assert [method.__name__ for method in trainer.tools] == ["get_weather"]
    trainer.train()
    ((completions, rewards),) = answered
    calls = [[message for message in messages if message["role"] == "tool"] for messages in completions]
    assert trainer.state.log_history[0]["tools/call_frequency"] > 0.5
    assert trainer.state.log_history[0]["tools/failure_frequency"] == 0
    assert sum(rewards) >= GROUP / 2
    for messages, said, value in zip(completions, calls, rewards, strict=True):
        assert value in (0.0, 1.0)
        assert said or not value, messages


def test_environments_of_a_batch_do_not_share_their_state():
    counter = EnvironmentFactory("gym_llm/Counter-v0")
    first, second = counter(), counter()
    index = counter.dataset()["task_index"][0]
    first.reset(prompt=[], task_index=index)
    second.reset(prompt=[], task_index=index)
    before = second.get_counter_value()
    first.increment_counter(count=5)
    assert second.get_counter_value() == before != first.get_counter_value()
    first.reset(prompt=[], task_index=index)
    assert first.get_counter_value() == before


def test_our_verifier_scores_what_trl_generates(make_trainer, tokenizer):
    arithmetic = RewardFunc("gym_llm/Arithmetic-v0")
    scored = []

    def reward(completions, **columns):
        scored.append((completions, arithmetic(completions=completions, **columns)))
        return scored[-1][1]

    trainer = make_trainer(arithmetic.dataset(PROMPTS), reward_funcs=[reward, arithmetic])
    trainer.train()
    ((completions, rewards),) = scored
    assert "rewards/Arithmetic/mean" in trainer.state.log_history[0]
    assert trainer.state.log_history[0]["rewards/Arithmetic/mean"] == pytest.approx(sum(rewards) / len(rewards))
    assert 4 <= sum(rewards) <= len(rewards)
    assert "boxed" in completions[0][0]["content"]
