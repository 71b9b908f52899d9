"""Another Python interpreter of this machine, with its packages, for a sandbox."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache

from gym_llm.sandbox.backends import Box

_ASK = (
    "import json, os, sys, sysconfig; paths = sysconfig.get_paths(); "
    "print(json.dumps([os.path.realpath(sys.executable), [paths['purelib'], paths['platlib']], "
    "[os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix)]]))"
)


@cache
def box_of(python: str) -> Box:
    """What a sandbox has to show for this interpreter, e.g. a virtual environment's `bin/python`.

    Raises:
        ValueError: If it is no Python interpreter.
    """
    try:
        asked = subprocess.run([python, "-I", "-c", _ASK], capture_output=True, timeout=60, check=True)
        executable, packages, shown = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ValueError(f"python is the path of a Python interpreter; got {python!r}: {error}.") from None
    folders = dict.fromkeys(shown)
    hidden = tuple(path for name in dict.fromkeys(packages) if os.path.isdir(path := os.path.join(name, "gym_llm")))
    outside = tuple(path for path in folders if path != "/usr" and not path.startswith("/usr/"))
    return Box(executable, tuple(dict.fromkeys(packages)), outside, hidden)
