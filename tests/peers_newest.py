"""The newest version of each peer beside the pinned one: which of the peer's tests pass, and what broke first.

    python tests/peers_newest.py [PEER...] [--into docs/reference/tested-versions.md]

A peer's helpers stay as they are pinned, unless the newest version asks for others. What a peer needs in addition is
installed without dependencies of its own; torch, vLLM and other packages for GPUs are left out. A version that does not
run on this Python gets an environment of another Python, if there is one on this machine.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from peers import FOLDER, NEWEST, PEERS, ROOT

MAIN = {
    "tinker": ("tinker", "tinker-cookbook"),
    "skyrl": ("skyrl", "skyrl-gym"),
    "mcp1": ("mcp<2",),
    "agents": ("openai-agents", "pydantic-ai-slim", "langgraph", "langchain-openai", "smolagents"),
    "nemo_gym_4": (),  # an old version on purpose: nemo_gym_7 is the newest
    "nemo_servers": (),  # the version that conform="nemo" follows
    "prime_rl": (),  # not on the index: its types are written down in our tests
    "rllm": (),  # a commit
}
"""What is looked up, where it is not the first requirement of the peer alone."""
_FOR_GPUS = {
    *(
        "torch",
        "torchvision",
        "torchaudio",
        "vllm",
        "sglang",
        "flash-attn",
        "deepspeed",
        "liger-kernel",
        "megatron-core",
    ),
    *("transformer-engine", "triton", "xformers", "bitsandbytes", "nvidia-ml-py", "cupy-cuda12x", "flashinfer-python"),
}
MARK = "<!-- versions -->"


class Release(NamedTuple):
    """The newest release of a package."""

    name: str
    version: str
    python: str | None
    needs: tuple[str, ...]


class Report(NamedTuple):
    """How a peer's tests went with its newest version."""

    pinned: str
    newest: str
    result: str


def newest_release(requirement: str) -> Release:
    """Ask the package index, without installing anything."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "-q"]
    command += ["--ignore-requires-python", "--report", "-", requirement]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(answer)["install"][0]["metadata"]
    return Release(found["name"], found["version"], found.get("requires_python"), tuple(found.get("requires_dist", ())))


def names_of(peer: str) -> tuple[str, ...]:
    """The packages whose newest versions are played."""
    return MAIN.get(peer, (PEERS[peer][0].partition("==")[0],))


def pins_of(peer: str) -> dict[str, str]:
    """The pinned version of each package of a peer."""
    pins = (requirement.partition("==") for requirement in PEERS[peer])
    return {canonicalize_name(name.partition(" @")[0]): pinned for name, _, pinned in pins}


def requirements_of(peer: str, releases: Iterable[Release]) -> list[str]:
    """What is installed for these releases: they, the helpers, and what they need in addition."""
    chosen = {canonicalize_name(release.name): f"=={release.version}" for release in releases}
    helpers = {name: f"=={pinned}" for name, pinned in pins_of(peer).items() if name not in chosen}
    for release in releases:
        for need in _needs(release):
            name = canonicalize_name(need.name)
            if name in chosen:
                continue
            there = helpers[name].removeprefix("==") if name in helpers else _installed(name)
            if there is None or not need.specifier.contains(there, prereleases=True):
                helpers[name] = str(need.specifier)
    return [f"{name}{pinned}" for name, pinned in {**chosen, **helpers}.items()]


def _needs(release: Release) -> Iterator[Requirement]:
    """What a release needs without extras, except for packages for GPUs."""
    for need in map(Requirement, release.needs):
        if canonicalize_name(need.name) in _FOR_GPUS or (need.marker and not need.marker.evaluate({"extra": ""})):
            continue
        yield need


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def python_for(releases: Iterable[Release]) -> str | None:
    """This Python, or another one of this machine if the releases need it; None if there is none."""
    wanted = SpecifierSet(",".join(filter(None, (release.python for release in releases))))
    if wanted.contains(".".join(map(str, sys.version_info[:3]))):
        return sys.executable
    for minor in range(sys.version_info.minor + 1, sys.version_info.minor + 5):
        places = [shutil.which(f"python3.{minor}"), *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")]
        for place in filter(None, places):
            asked = subprocess.run([place, "-c", "import platform; print(platform.python_version())"], **_TEXT)
            if asked.returncode == 0 and wanted.contains(asked.stdout.strip()):
                return str(place)
    return None


_TEXT: dict[str, Any] = {"capture_output": True, "text": True, "check": False}


def tests_of(peer: str) -> list[str]:
    """The test files that name a peer."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file) for file in files if f'"{peer}"' in (text := file.read_text("utf-8")) and "peer" in text]


def play(peer: str) -> Report:
    """Install the newest version of a peer, and run the peer's tests with it."""
    names, pins = names_of(peer), pins_of(peer)
    if not names:
        return Report(next(iter(pins.values())), "", "not looked up")
    releases = [newest_release(name) for name in names]
    pinned = ", ".join(pins[canonicalize_name(release.name)] for release in releases)
    newest = ", ".join(release.version for release in releases)
    if newest == pinned:
        return Report(pinned, newest, "is the pinned version")
    python = python_for(releases)
    if python is None:
        return Report(pinned, newest, f"needs Python {releases[0].python}, which is not on this machine")
    env = {name: value for name, value in os.environ.items() if name != "GYM_LLM_PEERS"}
    needs = [str(need) for release in releases for need in _needs(release)]
    env[NEWEST] = json.dumps(
        {peer: {"python": python, "requirements": requirements_of(peer, releases), "needs": needs}}
    )
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        subprocess.run([*command, *tests_of(peer)], cwd=ROOT, env=env, **_TEXT)
        result = read_report(report)
    for made in FOLDER.glob(f"newest-{peer}-*"):
        shutil.rmtree(made)
    return Report(pinned, newest, result)


def read_report(path: Path) -> str:
    """What pytest's report says, in a few words: how many passed, and the first line of the first failure."""
    if not path.exists():
        return "pytest did not finish"
    cases = list(ElementTree.parse(path).iter("testcase"))
    failures = [found for case in cases for found in (case.find("failure"), case.find("error")) if found is not None]
    skipped = [found for case in cases if (found := case.find("skipped")) is not None]
    passed = len(cases) - len(failures) - len(skipped)
    if failures:
        lines = [
            line
            for line in re.split(r"\n|\\n", failures[0].get("message") or "")
            if re.match(r"\w*(Error|Exception)", line)
        ]
        why = lines[-1] if lines else (failures[0].get("message") or "").strip().partition("\n")[0]
        return f"{len(failures)} of {len(cases)} tests fail: `{why[:120]}`"
    if not passed and skipped:
        return f"not played: {(skipped[0].get('message') or '')[:120]}"
    return f"{passed} tests pass" + (f", {len(skipped)} are skipped" if skipped else "")


def table(reports: dict[str, Report]) -> str:
    """The reports as a Markdown table."""
    rows = ["| packages | pinned, in every run of the tests | newest | with the newest |", "|---|---|---|---|"]
    for peer, report in reports.items():
        names = ", ".join(f"`{name}`" for name in names_of(peer)) or f"`{peer}`"
        rows.append(
            f"| {names} | {report.pinned} | {report.newest or '-'} | {report.result.replace('|', chr(92) + '|')} |"
        )
    return "\n".join(rows)


def main() -> None:
    """Play the peers of the command line, or all, and print what broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", metavar="PEER", choices=[[], *PEERS], help="only these; default: all")
    parser.add_argument("--into", type=Path, metavar="FILE", help=f"write the table between two lines {MARK} of a page")
    options = parser.parse_args()
    reports = {}
    for peer in options.peers or PEERS:
        print(f"{peer}: ", end="", flush=True)
        reports[peer] = play(peer)
        print(f"{reports[peer].pinned} -> {reports[peer].newest}: {reports[peer].result}", flush=True)
    if options.into:
        before, _, after = options.into.read_text("utf-8").split(MARK)
        today = datetime.date.today().isoformat()
        page = f"{before}{MARK}\nLooked up on {today}.\n\n{table(reports)}\n{MARK}{after}"
        options.into.write_text(page, "utf-8")
    print(json.dumps({"peers": {peer: report._asdict() for peer, report in reports.items()}}))


if __name__ == "__main__":
    main()
