"""Engines: what produces the actions."""

from gym_llm.engines.engine import Capabilities, Engine
from gym_llm.engines.engine_response import text_response
from gym_llm.engines.specs import capabilities, engine_class, make_engine
from gym_llm.engines.weights import WeightSync
from gym_llm.errors import EngineError, EngineUnavailable

__all__ = [
    "Capabilities",
    "Engine",
    "EngineError",
    "EngineUnavailable",
    "WeightSync",
    "capabilities",
    "engine_class",
    "make_engine",
    "text_response",
]
