"""In Inspect's environment: its viewer for a rollout file's log, as a folder of static files."""

import json
import sys
from pathlib import Path

from inspect_ai.log import bundle_log_dir

from gym_llm.evaluation.export.formats import export

path, folder = Path(sys.argv[1]), Path(sys.argv[2])
exported = export(path, "inspect", folder / "logs" / "talk.eval")
bundle_log_dir(str(folder / "logs"), str(folder / "viewer"))
print(json.dumps({"samples": exported.episodes}))
