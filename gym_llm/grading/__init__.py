"""Functions that verifiers share for grading answers."""
