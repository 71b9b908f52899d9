"""The skills for coding agents, followed to the letter: their commands run, and print what the skills say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from testing import ROOT
from warm import bin_folder

SKILLS = ROOT / ".agents" / "skills"
_BLOCK = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(name: str) -> list[str]:
    """The commands of a skill."""
    return _BLOCK.findall((SKILLS / name / "SKILL.md").read_text("utf-8"))


def shell(script: str, folder: Path) -> str:
    path = os.pathsep.join([str(bin_folder()), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def test_every_skill_has_a_name_and_says_when_it_is_for() -> None:
    names = {path.parent.name for path in SKILLS.glob("*/SKILL.md")}
    assert names == {"write-a-verifier", "port-a-verifier", "read-a-run"}
    agents = (ROOT / "AGENTS.md").read_text("utf-8")
    for name in names:
        text = (SKILLS / name / "SKILL.md").read_text("utf-8")
        assert text.startswith(f"---\nname: {name}\ndescription: ") and "Use when" in text.partition("\n---\n")[0]
        assert f".agents/skills/{name}/SKILL.md" in agents
        assert (ROOT / ".claude" / "skills" / name / "SKILL.md").samefile(SKILLS / name / "SKILL.md")


def test_what_agents_are_pointed_to_is_there() -> None:
    for page in (ROOT / "AGENTS.md", *SKILLS.glob("*/SKILL.md")):
        text = page.read_text("utf-8")
        assert [name for name in re.findall(r"`(docs/[\w/-]+\.md)`", text) if not (ROOT / name).is_file()] == []
        assert [name for name in re.findall(r"\]\(([^)]+)\)", text) if not (page.parent / name).exists()] == []
        targets = re.findall(r"`make ([\w-]+)`", text)
        makefile = (ROOT / "Makefile").read_text("utf-8")
        assert [target for target in targets if not re.search(rf"(?m)^{target}:", makefile)] == []


@pytest.mark.slow
def test_a_verifier_is_written_by_its_skill(tmp_path: Path) -> None:
    printed = [shell(block, tmp_path) for block in blocks("write-a-verifier")]
    assert len(printed) == 4
    assert re.search(r"ok     tests: \d+ passed", printed[0])
    assert "0 findings" in printed[2].splitlines()[-1]
    assert re.search(r"masked +0", printed[3])


PORT = '''
from gym_llm import BaseTask, Verdict, VerifierEnv


class MyPort(VerifierEnv):
    """Answer with a word."""

    class Task(BaseTask):
        expected_answer: str

    def verify(self, task, episode):
        right = float(episode.answer == task.expected_answer)
        return Verdict(right, reward_components={"right": right})
'''


@pytest.mark.slow
def test_a_port_is_compared_by_its_skill(tmp_path: Path) -> None:
    shell("gym-llm env init MyPort", tmp_path)
    (tmp_path / "my_port" / "env.py").write_text(PORT, "utf-8")
    task = {"responses_create_params": {"input": "2+2?"}, "expected_answer": "4"}
    vectors = [
        {"task": task, "texts": [text], "reward": reward} for text, reward in (("4", 1.0), ("5", 0.0), ("6", 1.0))
    ]
    (tmp_path / "vectors.jsonl").write_text("".join(f"{json.dumps(vector)}\n" for vector in vectors), "utf-8")
    (block,) = blocks("port-a-verifier")
    assert shell(block, tmp_path) == "line 3: theirs 1.0, ours 0.0: '6'\n2 of 3 rewards are equal\n"


@pytest.mark.slow
def test_a_run_is_read_by_its_skill(tmp_path: Path) -> None:
    for name in ("a", "b"):
        options = f"--engine random --limit 4 --repeats 2 --output {name}.jsonl"
        shell(f"gym-llm rollout gym_llm/Arithmetic-v0 {options}", tmp_path)
    words = {
        "FILE": "a.jsonl",
        "SUMMARY": "a.summary.json",
        "BASE": "a.jsonl",
        "TUNED": "b.jsonl",
        "ENV_ID": "gym_llm/Arithmetic-v0",
    }
    printed = [
        shell(re.sub(r"\b(FILE|SUMMARY|BASE|TUNED|ENV_ID)\b", lambda found: words[found[0]], block), tmp_path)
        for block in blocks("read-a-run")
    ]
    assert "loop" in printed[0] and '"coverage": 1.0' in printed[0]
    assert "task 3" in printed[1] and "Counter({'scored': 8})" in printed[2]
    assert "+0.0000" in printed[3] and re.search(r"scored again +8", printed[4])
