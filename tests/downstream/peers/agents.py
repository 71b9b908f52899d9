"""Run by the Python that has the frameworks: an example of examples/agents plays, and each token is kept as it was.

The model is scripted, but its prompts and its text are real tokens, of the pocket model's tokenizer. What it was given
and what it sampled is noted: that is the truth.
"""

import asyncio
import json
import sys
import warnings
from importlib import resources

from transformers import AutoTokenizer

import gym_llm
from gym_llm.envs.weather.env import CITIES
from gym_llm.trainers.shared.trainer_engine import Sampled, TrainerEngine

EPISODES = 6


def script(prompt):
    """What the model says: it looks the weather up, and says it, by the tool that gives answers if there is one."""
    city = max(CITIES, key=prompt.rfind)
    tools, _, said = prompt.rpartition("<|im_start|>system")[2].partition("<|im_end|>")
    if f"The weather in {city} is cold" not in said:
        return "<think>\nI look.\n</think>\n\n" + call("get_weather", {"city": city})
    if '"final_answer"' in tools:
        return call("final_answer", {"answer": f"It is cold in {city}."})
    return f"It is cold in {city}."


def call(name, arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


async def main(agent, history):
    tokenizer = AutoTokenizer.from_pretrained(str(resources.files("gym_llm.engines.pocket") / "model"))
    truth = []

    async def generate(prompt, arguments, episode_id):
        text = script(tokenizer.decode(prompt))
        ids = [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
        log_probs = [-(len(truth) + 1) / (place + 3) for place in range(len(ids))]  # no two alike
        truth.append((episode_id.partition("~")[0], list(prompt), ids, log_probs))
        return Sampled(ids, log_probs)

    engine = TrainerEngine(generate, tokenizer, model="scripted", history=history)
    records = []
    rollouts = gym_llm.rollout("gym_llm/Weather-v0", engine, agent=agent, limit=EPISODES, agent_timeout=120)
    async for record in rollouts:
        assert record["outcome"] == "scored", (record["error"], record["traceback"])
        assert record["reward"] == 1.0, record["response"]["output"]
        records.append(record)
        check(record, truth)
    return records, truth


def check(record, truth):
    """Each sampled id counts in exactly one branch, after exactly the prompt that the model was given."""
    name = "{task_index}-{repeat_index}".format(**record["rollout_id"])
    calls = [(prompt, ids, log_probs) for episode, prompt, ids, log_probs in truth if episode == name]
    assert len(calls) == record["info"]["agent"]["model_calls"] >= 2
    counted = 0
    for prompt, ids, log_probs in calls:
        start, end = len(prompt), len(prompt) + len(ids)
        here = [
            branch
            for branch in record["trajectory"]
            if branch["input_ids"][:end] == prompt + ids and branch["logprobs"][start:end] == log_probs
        ]
        assert len(here) == 1 and set(here[0]["loss_mask"][start:end]) == {1}
        counted += len(ids)
    assert counted == sum(sum(branch["loss_mask"]) for branch in record["trajectory"])
    said = [item["type"] for item in record["response"]["output"]]
    assert said[:2] == ["function_call", "function_call_output"] and said[-1] == "message", said
    assert "It is cold in " in record["response"]["output"][-1]["content"][0]["text"]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    records, truth = asyncio.run(main(sys.argv[1], sys.argv[2]))
    branches = sum(record["info"]["agent"]["branches"] for record in records)
    print(json.dumps({"episodes": len(records), "calls": len(truth), "branches": branches}))
