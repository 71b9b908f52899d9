"""Seeds of single model turns, so that sampling does not depend on what else is going on."""

from __future__ import annotations

import hashlib


def turn_seed(seed: int, episode_id: str, turn: int) -> int:
    """The seed of one turn, in [0, 2**128), the same in every process; `turn` tells the episode's turns apart.

    >>> turn_seed(0, "7-0", 1) == turn_seed(0, "7-0", 1), turn_seed(0, "7-0", 1) == turn_seed(0, "7-0", 2)
    (True, False)
    """
    name = f"{seed}\n{turn}\n{episode_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=16).digest())
