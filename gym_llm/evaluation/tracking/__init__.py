"""Following runs from elsewhere: experiment trackers (`--log`), and traces of episodes (`--otel`)."""

from gym_llm.evaluation.tracking.run_log import RunLog
from gym_llm.evaluation.tracking.trackers import Tracker, make_tracker

__all__ = ["RunLog", "Tracker", "make_tracker"]
