"""The pocket model: a Qwen3 of about a million parameters that ships with the package."""

from gym_llm.engines.pocket.pocket_engine import PocketEngine

__all__ = ["PocketEngine"]
