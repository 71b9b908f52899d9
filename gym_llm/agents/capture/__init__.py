"""The model as a server for agents: every call kept, linked by its tokens, and given out as trajectories."""

from gym_llm.agents.capture.call_graph import Call, CallGraph, Sample
from gym_llm.agents.capture.capture_server import CaptureServer
from gym_llm.agents.capture.capture_session import CallRefused, CaptureSession

__all__ = ["Call", "CallGraph", "CallRefused", "CaptureServer", "CaptureSession", "Sample"]
