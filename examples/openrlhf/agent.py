"""What OpenRLHF plays its samples with: it makes an `AgentExecutor` in each of its vLLM actors.

`python examples/openrlhf/agent.py train.jsonl` writes the dataset.
"""

import argparse

from gym_llm.trainers.openrlhf import EpisodeExecutor
from gym_llm.trainers.tasks import TrainedEnv

ENV_ID = "gym_llm/Arithmetic-v0"


class AgentExecutor(EpisodeExecutor):
    """Plays episodes of `ENV_ID`."""

    def __init__(self) -> None:
        super().__init__(ENV_ID)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the tasks as a dataset for OpenRLHF.")
    parser.add_argument("path", help="a file that ends in .jsonl")
    parser.add_argument("--tasks", type=int, default=4096, help="how many (default: 4096)")
    arguments = parser.parse_args()
    TrainedEnv(ENV_ID).dataset(arguments.tasks).to_json(arguments.path)
