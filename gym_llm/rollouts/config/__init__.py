"""Configuration: YAML files that compose into what a run sees."""

from gym_llm.errors import ConfigError
from gym_llm.rollouts.config.load import Config, load_config
from gym_llm.rollouts.config.sections import EngineSection, EnvironmentSection

__all__ = ["Config", "ConfigError", "EngineSection", "EnvironmentSection", "load_config"]
