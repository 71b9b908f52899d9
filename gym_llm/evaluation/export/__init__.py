"""Rollout files in other tools' formats: `export`, one module per format."""

from gym_llm.evaluation.export.formats import FORMATS, Exported, export

__all__ = ["FORMATS", "Exported", "export"]
