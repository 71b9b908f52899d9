"""Harnesses: agents that people use, by name. Each is a data file that says how to install it and how to start it."""

from gym_llm.agents.harnesses.catalogue import harness_names, load_harness
from gym_llm.agents.harnesses.harness import Harness
from gym_llm.agents.harnesses.harness_file import HarnessFile, read_harness_file

__all__ = ["Harness", "HarnessFile", "harness_names", "load_harness", "read_harness_file"]
