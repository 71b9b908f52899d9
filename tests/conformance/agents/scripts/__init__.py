"""The scripted agents, by name."""

from . import branching, connections, conversations, history, reasoning, sampling, sessions, tools
from .registry import AGENTS, Agent

__all__ = [
    "AGENTS",
    "Agent",
    "branching",
    "connections",
    "conversations",
    "history",
    "reasoning",
    "sampling",
    "sessions",
    "tools",
]
