"""What NeMo Gym makes of sets of rewards and answers, a file's; run by tests/gym_llm/stats."""

import json
import sys

import nemo_gym_path  # noqa: F401 # before everything else of its own
from nemo_gym.reward_profile import compute_pass_majority_metrics


def figures_of(rewards, answers):
    """The figures of one set: for each task the rewards and answers of its repeats."""
    tasks = [
        [{"reward": reward, "answer": answer} for reward, answer in zip(*task, strict=True)]
        for task in zip(rewards, answers, strict=True)
    ]
    return compute_pass_majority_metrics(tasks, answer_key="answer")[0]


with open(sys.argv[1], encoding="utf-8") as file:
    print(json.dumps({"figures": [figures_of(*case) for case in json.load(file)]}))
