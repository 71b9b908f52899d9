"""GRPO with OpenEnv's client inside an environment class, as TRL's examples/scripts/openenv have it. Argument: URL."""

import json
import sys
import tempfile
from importlib import resources

import torch
from datasets import Dataset
from openenv.core import GenericEnvClient
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_template

URL = sys.argv[1]
POCKET = str(resources.files("gym_llm.engines.pocket") / "model")


class Weather:
    """An episode of a served Weather: its tool is TRL's to call, the answer is submitted when it is rewarded."""

    def __init__(self):
        self.client = GenericEnvClient(base_url=URL).sync()
        self.calls = 0

    def reset(self, task_index, **row):
        self.calls = 0
        self.client.reset(task_index=task_index)

    def get_weather(self, city: str) -> str:
        """Look up the current weather in a city.

        Args:
            city: The city's name.
        """
        self.calls += 1
        return self.client.step(
            {"type": "call_tool", "tool_name": "get_weather", "arguments": {"city": city}}
        ).observation["result"]


rewarded = []


def reward(completions, environments, **columns):
    """The verifier's, over the wire."""
    answers = [messages[-1].get("content") or "" for messages in completions]
    results = [env.client.step({"output": text}) for env, text in zip(environments, answers, strict=True)]
    assert all(result.done for result in results)
    rewarded.extend((result.reward, env.calls) for result, env in zip(results, environments, strict=True))
    return [result.reward for result in results]


def main():
    with GenericEnvClient(base_url=URL).sync() as env:
        prompts = [env.reset(task_index=index).observation["request"]["input"] for index in range(2)]
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(POCKET)
    tokenizer.response_template = qwen3_template
    tokenizer.chat_template = tokenizer.chat_template.replace(
        "loop.index0 > last.query and (reasoning or loop.last)", "reasoning"
    )
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32, attn_implementation="sdpa")
    with tempfile.TemporaryDirectory() as folder:
        arguments = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=300,
            max_steps=1,
            learning_rate=1e-4,
            logging_steps=1,
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        trainer = GRPOTrainer(
            model,
            args=arguments,
            train_dataset=Dataset.from_list([{"prompt": p, "task_index": i} for i, p in enumerate(prompts)]),
            processing_class=tokenizer,
            reward_funcs=reward,
            environment_factory=Weather,
        )
        trainer.train()
    rewards, calls = zip(*rewarded, strict=True)
    log = trainer.state.log_history[0]
    print(json.dumps({"rewards": rewards, "calls": calls, "mean": log["reward"], "step": trainer.state.global_step}))


main()
