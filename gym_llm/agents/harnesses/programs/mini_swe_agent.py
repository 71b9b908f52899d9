"""Play with mini-swe-agent, with its own settings for people (`mini.yaml`), and print what it submits."""

import os
import sys
from pathlib import Path

from minisweagent.agents.default import DefaultAgent
from minisweagent.config import get_config_from_spec
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

config = get_config_from_spec("mini.yaml")
agent_options = {
    name: value
    for name, value in config["agent"].items()
    if name in ("system_template", "instance_template", "step_limit")
}
model = LitellmModel(**{**config["model"], "model_name": f"openai/{os.environ['OPENAI_MODEL']}"})
environment = LocalEnvironment(**config.get("environment", {}))
agent = DefaultAgent(
    model,
    environment,
    **agent_options,
    cost_limit=0,
    output_path=Path(os.environ["GYM_LLM_FOLDER"]) / "trajectory.json",
)
print(agent.run(sys.stdin.read()).get("submission") or "")
