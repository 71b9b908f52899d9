"""Constraints that a text can be checked for, of IFEval, IFEvalG, IFBench and VerifIF."""

from gym_llm.grading.constraints.constraint import Check, Constraint, GradingMode, Instructions, Registry, graded
from gym_llm.grading.constraints.following import Followed, Job, follow, follow_later, follow_quickly, follow_then

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
    "follow_then",
    "graded",
]
