"""Faults on purpose: whether an environment's episodes are masked, retried or scored as they should be."""
