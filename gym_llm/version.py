"""The version: of the package, and of the records it writes (`settings.gym_llm` of a summary)."""

__version__ = "0.1.0"
