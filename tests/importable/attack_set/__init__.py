"""Forty verifiers with one planted hole each, beside forty sound ones: what `gym-llm env attack` is measured by.

A module per domain. In each, a sound verifier's docstring says its rule exactly, and the class after it derives from it
and overrides no more than its hole needs. `attack_set.holes.HOLES` says which is which, and how each hole is exploited.
Every one has an id: with the parent of this folder on Python's path (or in it) `gym-llm rollout attack_set.qa:Capitals`
plays one, and `gym-llm env test ./attack_set/qa.py:Capitals` checks it.
"""
