"""Write the tasks of the environment that agent.py plays as the dataset that OpenRLHF reads."""

import argparse

from gym_llm.trainers.shared.trainer_tasks import TrainedEnv

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", help="a file that ends in .jsonl")
    parser.add_argument("--tasks", type=int, default=4096, help="how many (default: 4096)")
    arguments = parser.parse_args()
    TrainedEnv("gym_llm/Arithmetic-v0").dataset(arguments.tasks).to_json(arguments.path)
