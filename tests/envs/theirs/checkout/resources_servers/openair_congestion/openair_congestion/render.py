"""Observations as texts."""


def to_policy_text(observation):
    """Return the load, and why the last call was rejected."""
    return f"load {observation.load} {observation.agent_aux.last_rejection or ''}".strip()
