"""Faults on purpose: whether an environment's episodes are masked, retried or scored as they should be."""

from gym_llm.author.chaos.chaos_campaign import Report, attack
from gym_llm.author.chaos.faults import Fault
from gym_llm.author.chaos.random_policy import RandomPolicy

__all__ = ["Fault", "RandomPolicy", "Report", "attack"]
