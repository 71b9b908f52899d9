"""Drift: how far recorded log probabilities are from those of an engine, and why."""
