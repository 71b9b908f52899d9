"""An option that nothing would read is refused by name, before anything is played."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym_llm.cli import main

OWN = """
from gym_llm import VerifierEnv


class Own(VerifierEnv):
    {config}

    def generate(self, rng):
        return self.row("2+2?")

    def verify(self, task, episode):
        return float(getattr(self.config, "judge", None) == "constant:yes")
"""
SUMS = ["gym_llm/Arithmetic-v0", "--limit", "2", "--output", "out"]
CONSTANT = [*SUMS, "--engine", "constant:4"]
SERVED = ["serve", "gym_llm/Arithmetic-v0"]


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["rollout", *SUMS, "--judge", "pocket"], "takes no `judge`"),
        (["eval", *SUMS, "./own.py", "--judge", "pocket"], "./own.py takes no `judge`"),
        (["eval", "simpleqa", "--judge", "pocket", "--env-kwargs", '{"judge": "random"}'], "give one of them"),
        (["rollout", *CONSTANT, "--temperature", "0.5"], "does not sample"),
        (["eval", *SUMS, "--engine", "random", "--engine", "b=constant:4", "--top-p", "0.5"], "random, constant:4"),
        (["rollout", *CONSTANT, "--max-output-tokens", "5"], "does not sample"),
        (["rollout", *CONSTANT, "--agent-timeout", "600"], "without --agent"),
        (["eval", *CONSTANT, "--agent-in", "host"], "without --agent"),
        (["rollout", *SUMS, "--agent", "python a.py", "--agent-image", "host"], "without --agent-in machine"),
        (["rollout", *CONSTANT, "--compact-at", "0.8"], "without --compact"),
        (["eval", *CONSTANT, "--compact-context", "100"], "without --compact"),
        (["rollout", *CONSTANT, "--show", "2", "--quiet"], "with --quiet"),
        (["rollout", *CONSTANT, "--prices", "prices.yaml"], "without --max-dollars"),
        ([*SERVED, "--export", "out", "--port", "8000"], "with --export"),
        ([*SERVED, "--export", "out", "--idle-seconds", "5"], "with --export"),
        ([*SERVED, "--export", "out", "--containerfile"], "give one of them"),
        ([*SERVED, "--containerfile", "--host", "127.0.0.1"], "with --export or --containerfile"),
    ],
)
def test_an_option_without_effect_is_refused(
    argv: list[str], why: str, in_an_empty_folder: None, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own.py").write_text(OWN.format(config="pass"))
    assert main(argv) == 2
    said = capsys.readouterr()
    assert "has no effect" in said.err and why in said.err and said.err.count("\n") == 1 and not said.out
    assert not Path("out").exists()


@pytest.mark.parametrize("command", ["rollout", "eval"])
def test_a_file_of_ones_own_gets_the_judge(in_an_empty_folder: None, command: str) -> None:
    config = "class Config(VerifierEnv.Config):\n        judge: str | None = None"
    Path("judged_file.py").write_text(OWN.format(config=config))
    argv = [command, "./judged_file.py", "--limit", "2", "--engine", "random", "--judge", "constant:yes"]
    assert main([*argv, "--output", "out"]) == 0
    record = next(path for path in [Path("out"), *Path().rglob("records/*.jsonl")] if path.is_file())
    assert '"reward":1.0' in record.read_text().replace(" ", "")
