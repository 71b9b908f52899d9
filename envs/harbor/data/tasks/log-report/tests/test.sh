#!/bin/bash
# Reward 1 if the report says what the logs say.
python3 -I - <<'END'
import json
import pathlib

EXPECTED = json.loads(pathlib.Path("/tests/expected.json").read_text())
try:
    report = json.loads(pathlib.Path("/app/report.json").read_text())
except (OSError, ValueError) as error:
    print("no report:", error)
    report = None
reward = float(report == EXPECTED)
pathlib.Path("/logs/verifier/reward.json").write_text(json.dumps({"reward": reward}))
END
