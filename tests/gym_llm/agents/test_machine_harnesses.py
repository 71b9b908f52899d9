"""Real harnesses in machines: what they do there, that nothing gets out, and that they are gone with their episodes."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from agent_playing import Says, play
from image_files import root_file_system
from machine_escapes import ATTEMPTS, ENDED, SAMPLE, attempts, check, program_of
from testing import ROOT, wait_for

from gym_llm.agents.harnesses.catalogue import harness_files

PLAYABLE = sorted(each.name for each in harness_files() if each.is_playable)
PYTHON = "/usr/bin/python3 -S -"
LIMITED = {"openclaw": "Harbor", "qwen-code": "Harbor", "opencode": "SWEBench"}  # docs/how-to/harnesses.md says why


class Commands(Says):
    """Says commands one after another to a harness's shell, then a text; and keeps the outputs."""

    def __init__(self, commands: Mapping[str, str], shell: str = "bash") -> None:
        super().__init__("done")
        self.commands, self.shell, self.outputs = commands, shell, dict[str, str]()

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        for name, item in zip(self.commands, _of_type(request, "function_call_output"), strict=False):
            self.outputs[name] = str(item["output"])
        response: Any = await super().respond(request, episode_id=episode_id)
        if len(self.outputs) < len(self.commands):
            name = [*self.commands][len(self.outputs)]
            call = {"type": "function_call", "name": self.shell, "call_id": f"call_{len(self.outputs)}"}
            kept = {key: value for key, value in response["output"][0].items() if key.endswith(("_ids", "_probs"))}
            response["output"] = [{**call, **kept, "arguments": json.dumps({"command": self.commands[name]})}]
        return response


def _of_type(request: Any, kind: str) -> list[Any]:
    return [item for item in request["input"] if item.get("type") == kind]


def play_commands(commands: Mapping[str, str], **more: Any) -> tuple[Any, dict[str, str]]:
    """The record of `pi` that runs these commands with its shell, and their outputs."""
    engine = Commands(commands)
    record = play("pi", engine, agent_in="machine", **{"retries": 0, "agent_timeout": 120.0, **more})
    if "bubblewrap is not installed" in (record["error"] or ""):
        pytest.skip(record["error"])
    return record, engine.outputs


def play_matrix(*arguments: str) -> dict[str, int]:
    script = [sys.executable, str(ROOT / "benchmarks" / "harness_matrix.py"), "--in", "machine", *arguments]
    ended = subprocess.run(script, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr[-3_000:]
    figures: dict[str, int] = json.loads(ended.stdout.splitlines()[-1])
    assert figures["right"] == figures["pairs"] > 0, ended.stdout
    return figures


@pytest.mark.slow
def test_two_harnesses_solve_a_task_in_its_machine_with_every_token_kept() -> None:
    names = ["--harness", "pi", "--harness", "pydantic-ai"]
    assert play_matrix(*names, "--environment", "Harbor") == {"harnesses": 2, "pairs": 2, "right": 2}


@pytest.mark.nightly
@pytest.mark.parametrize("name", PLAYABLE)
def test_every_harness_plays_in_machines_with_every_token_kept(name: str) -> None:
    places = [one for one in ("Harbor", "SWEBench", "Weather", "Arithmetic") if one != LIMITED.get(name)]
    assert play_matrix("--harness", name, *(word for place in places for word in ("--environment", place)))


@pytest.mark.nightly
def test_a_harness_brings_its_python_into_an_image_with_a_shell_alone(tmp_path: Path) -> None:
    root_file_system(tmp_path, ["/bin/bash", "/bin/sh", "/usr/bin/env", "/usr/bin/printf"])
    assert play_matrix("--harness", "pydantic-ai", "--environment", "Weather", "--image", str(tmp_path))


OWN = {
    "other processes": "the harness is one, in the same machine",
    "writing to standard input": "it is a pipe of the harness's shell",
}
"""Attempts that mean something else for a command of a harness, and why."""
LAYERS = """
own = [line.split()[4] for line in open('/proc/self/mountinfo') if '/gym_llm/harnesses/' in line]
above = os.path.dirname(own[0])
escaped(set(os.listdir(above)) != {os.path.basename(path) for path in own})
for path in (*own, *(each.path for layer in own for each in os.scandir(layer))):
    for change in (os.utime, os.unlink, os.rmdir, lambda path: os.mkdir(path + '/escape')):
        escaped(tried(change, path))
escaped(len(own) < 2)
print('tried')
"""


def in_python(code: str) -> str:
    return f"cd $(mktemp -d); echo {base64.b64encode(code.encode()).decode()} | base64 -d | {PYTHON}"


@pytest.mark.slow
@pytest.mark.parametrize("names", [SAMPLE, pytest.param([*ATTEMPTS], marks=pytest.mark.nightly)], ids=["few", "all"])
def test_no_harness_lets_a_program_out_of_its_machine(names: list[str], tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.write_text("unchanged")
    programs = {name: in_python(program_of(name, host)) for name in names if name not in OWN}
    programs["layers"] = in_python(attempts["HELP"] + LAYERS)
    assert names == SAMPLE or len(programs) >= 60
    together = {name: command for name, command in programs.items() if name not in ENDED}
    record, said = play_commands(together, agent_timeout=600.0)
    assert record["outcome"] == "scored" and len(said) == len(together), record["error"]
    for name in programs.keys() - together.keys():  # these end what runs beside them
        said |= play_commands({name: programs[name]})[1]
    check(said)
    assert host.read_text() == "unchanged"


SLEEPER = "sleep 98761.234"
FAULTS = {
    "forks": ("while true; do sleep 600 & done", "limit of processes"),
    "hangs": (SLEEPER, "longer than 10 seconds"),
    "daemonises": (
        f"setsid sh -c '{SLEEPER} & {SLEEPER}' >/dev/null 2>&1 & sleep 0.5; echo $(pgrep -cx sleep) begun",
        "",
    ),
    "fills the disk": ("cat /dev/zero > /full; rm /full; echo freed", ""),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["daemonises", *(pytest.param(one, marks=pytest.mark.nightly) for one in FAULTS if one != "daemonises")]
)
def test_a_harness_is_gone_with_its_episode(how: str) -> None:
    command, message = FAULTS[how]
    record, said = play_commands({how: command}, agent_timeout=10.0 if how == "hangs" else 60.0)
    assert message in (record["error"] or "") and record["outcome"] == ("masked" if message else "scored"), record
    assert how != "fills the disk" or ("No space left" in said[how] and "freed" in said[how])
    assert how != "daemonises" or said[how].strip() == "2 begun"
    wait_for(lambda: not _is_left(), seconds=5)


def _is_left() -> bool:
    """Whether what a harness has started is there."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return any(SLEEPER in command for command in commands)
