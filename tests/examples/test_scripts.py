"""Benchmarks and examples: each can be imported, and says how it is used."""

import os
import subprocess

import pytest
from testing import ROOT
from warm import bin_folder

pytestmark = pytest.mark.slow

_ELSEWHERE = {
    "openenv_counter.py",
    *(f"foreign_{name}.py" for name in ("games", "tasks", "worlds", "mcp_server", "openenv_server", "nemo_servers")),
}
"""Started by another script, in an environment that has what it imports."""

SCRIPTS = [
    path.relative_to(ROOT)
    for folder in ("benchmarks", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if 'if __name__ == "__main__"' in path.read_text()
    and path.name not in _ELSEWHERE
    and not (path.parent / "README.md").exists()  # for another package, in whose environment it is tested
]


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_a_script_says_how_it_is_used(script, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [bin_folder(PYTHONPATH=environment["PYTHONPATH"]) / "python", ROOT / script, "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith(f"usage: {script.name}"), done.stderr
