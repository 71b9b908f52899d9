"""In Inspect's environment: a rollout file becomes a log that Inspect reads, and it says what the records say."""

import json
import sys
from pathlib import Path

from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample_summaries

from gym_llm.data import read_records
from gym_llm.evaluation.export.formats import export

path, folder = Path(sys.argv[1]), Path(sys.argv[2])
records = [record for _, record in read_records(path)]
export(path, "inspect", folder / "talk.eval")
(listed,) = list_eval_logs(str(folder))
log = read_eval_log(listed)
summaries = read_eval_log_sample_summaries(listed)
assert log.status == "success" and len(log.samples) == len(summaries) == len(records)
scored = [record["reward"] for record in records if record["reward"] is not None]
mean = log.results.scores[0].metrics["mean"].value
assert abs(mean - sum(scored) / len(scored)) < 1e-12 and log.results.completed_samples == len(scored)
calls = masked = 0
for record in records:
    place = record["rollout_id"]
    (sample,) = [
        each for each in log.samples if (each.id, each.epoch) == (place["task_index"], place["repeat_index"] + 1)
    ]
    if record["reward"] is None:
        assert sample.scores is None and record["error"] in sample.error.message
        masked += 1
    else:
        assert sample.scores["reward"].value == record["reward"] and sample.error is None
    output = record["response"]["output"]
    written = [item["name"] for item in output if item.get("type") == "function_call"]
    said = [message for message in sample.messages if message.role == "assistant"]
    assert [call.function for message in said for call in message.tool_calls or ()] == written
    tools = [item["output"] for item in output if item.get("type") == "function_call_output"]
    assert [message.text for message in sample.messages if message.role == "tool"] == tools
    calls += len(written)
print(json.dumps({"samples": len(log.samples), "masked": masked, "calls": calls}))
