"""NeMo Gym 0.7 puts its own packages last on the path, after those of the environment beneath: undone here."""

import sys

_path = sys.path[:]
import nemo_gym  # noqa: E402, F401

sys.path[:] = _path
