"""The network."""

from types import SimpleNamespace

from .schemas import Observation


class ReplayEnv:
    """The load is the last cap; each step costs it."""

    def __init__(self, *, pool_size, max_steps_default):
        self.load = 0

    def reset(self, *, seed, difficulty, regime_mix, scenario_id, tier, max_steps):
        """Begin with the seed."""
        self.load, self.left = seed, max_steps
        return Observation(load=self.load), SimpleNamespace(episode_id="one")

    def step(self, episode_id, call):
        """Set the cap, if it is at most 9."""
        cap = call.arguments.get("cap", self.load)
        accepted = cap <= 9
        self.load = cap if accepted else self.load
        self.left -= 1
        info = {"guardrail_accepted": accepted, "rejection_reason": None if accepted else "cap", "step_idx": 1}
        return Observation(load=self.load), -float(self.load), self.left == 0, info

    def close(self, episode_id):
        """End."""
