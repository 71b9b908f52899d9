"""What NeMo Gym itself makes of many verdicts, a file's; run by tests/downstream."""

import json
import sys

import nemo_gym_path  # noqa: F401 # before everything else of its own
from nemo_gym.reward_profile import compute_aggregate_metrics

with open(sys.argv[1], encoding="utf-8") as file:
    print(compute_aggregate_metrics(json.load(file)).model_dump_json())
