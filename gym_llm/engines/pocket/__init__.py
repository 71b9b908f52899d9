"""The pocket model: a Qwen3 of about a million parameters that ships with the package."""

from importlib import resources

MODEL_PATH = str(resources.files(__name__) / "model")
"""The folder of the model, for whatever loads one by its path: `AutoModelForCausalLM`, TRL, vLLM."""

from gym_llm.engines.pocket.pocket_engine import PocketEngine  # noqa: E402 - it needs the path

__all__ = ["MODEL_PATH", "PocketEngine"]
