"""In Harbor's environment: exported trajectories are what Harbor's own classes take, and say what the records say."""

import json
import sys
from pathlib import Path

from harbor.models.trajectories import Trajectory

from gym_llm.data import read_records
from gym_llm.evaluation.export.formats import export

path, folder = Path(sys.argv[1]), Path(sys.argv[2])
records = [record for _, record in read_records(path)]
export(path, "atif", folder / "talk.jsonl")
lines = (folder / "talk.jsonl").read_text("utf-8").splitlines()
tokens = calls = 0
for record, line in zip(records, lines, strict=True):
    trajectory = Trajectory.model_validate_json(line)
    sampled = [item for item in record["response"]["output"] if item.get("generation_token_ids") is not None]
    metrics = [step.metrics for step in trajectory.steps if step.metrics is not None]
    assert [each.completion_token_ids for each in metrics] == [item["generation_token_ids"] for item in sampled]
    assert [each.prompt_token_ids for each in metrics] == [item["prompt_token_ids"] for item in sampled]
    assert [each.logprobs for each in metrics] == [item["generation_log_probs"] for item in sampled]
    observed = [result for step in trajectory.steps if step.observation for result in step.observation.results]
    outputs = [item for item in record["response"]["output"] if item.get("type") == "function_call_output"]
    assert [result.source_call_id for result in observed] == [item["call_id"] for item in outputs]
    assert [result.content for result in observed] == [item["output"] for item in outputs]
    tokens += sum(len(each.completion_token_ids) for each in metrics)
    calls += len(outputs)
print(json.dumps({"trajectories": len(lines), "tokens": tokens, "calls": calls}))
