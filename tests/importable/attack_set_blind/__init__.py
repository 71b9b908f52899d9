"""Twenty-one more pairs like those of `attack_set`, written by somebody who had not read what attacks do.

The bugs are those of verifiers in public repositories. `attack_set_blind.holes.HOLES` says which is which.
"""
