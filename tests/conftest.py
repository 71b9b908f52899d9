"""Makes the shared helpers importable by their names, as `from testing import message`.

Not by putting tests/ on sys.path: there, its folder gym_llm would shadow the package in this process and its children.
"""

import importlib.util
import os
import signal
import sys
from pathlib import Path

from hypothesis import settings

for _name in ("testing", "hostile", "token_conversations", "cli_process", "hub_server"):
    _spec = importlib.util.spec_from_file_location(_name, Path(__file__).with_name(f"{_name}.py"))
    assert _spec is not None and _spec.loader is not None
    sys.modules[_name] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[_name])

# The same examples in every run: what CI finds can be found again. HYPOTHESIS_PROFILE=search looks for others.
settings.register_profile("same", derandomize=True)
settings.register_profile("search", max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# A shell that starts the tests in the background leaves Ctrl-C ignored, for our children too; tests of it need it.
signal.signal(signal.SIGINT, signal.default_int_handler)
