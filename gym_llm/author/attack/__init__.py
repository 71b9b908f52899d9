"""Attack verifiers: find wrong answers that are paid (`gym-llm env attack`)."""

from gym_llm.author.attack.campaign import attack
from gym_llm.author.attack.finding import CheckResult, Finding, Form, Report

__all__ = ["CheckResult", "Finding", "Form", "Report", "attack"]
