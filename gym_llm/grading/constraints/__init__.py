"""Constraints that a text can be checked for: IFEval's, IFEvalG's, IFBench's and VerifIF's."""

from gym_llm.grading.constraints.following import Followed, Job, follow, follow_later, follow_quickly
from gym_llm.grading.constraints.registry import Check, Constraint, Registry
from gym_llm.grading.constraints.rows import GradingMode, Instructions, graded

__all__ = [
    "Check",
    "Constraint",
    "Followed",
    "GradingMode",
    "Instructions",
    "Job",
    "Registry",
    "follow",
    "follow_later",
    "follow_quickly",
    "graded",
]
