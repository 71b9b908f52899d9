"""Starting a new verifier, and checking that one is complete."""

from gym_llm.author.scaffold.attack_check import check_attack
from gym_llm.author.scaffold.file_checks import check_file, is_file
from gym_llm.author.scaffold.play_checks import Check
from gym_llm.author.scaffold.verifier_checks import Verifier, check_verifier, find_verifier, missing_package
from gym_llm.author.scaffold.write import write_verifier

__all__ = [
    "Check",
    "Verifier",
    "check_attack",
    "check_file",
    "check_verifier",
    "find_verifier",
    "is_file",
    "missing_package",
    "write_verifier",
]
