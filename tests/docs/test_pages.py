"""Every code block of the documentation is run as it is printed, or says why it is not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from testing import ROOT
from warm import bin_folder

from gym_llm.errors import SandboxUnavailable
from gym_llm.sandbox.backends import bubblewrap_path

pytestmark = pytest.mark.slow

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"(?:^<!-- ([^\n]+) -->\n)?^```(python|bash|yaml|toml|json)\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A code block: what its comment says is done with it, its language, its text."""

    mark: str
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(mark or "", language, text) for mark, language, text in _BLOCK.findall(page.read_text("utf-8"))]


def python() -> str:
    """A Python that has imported what the pages need."""
    return str(bin_folder() / "python")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


RUN_IN_ORDER = [page for page in PAGES if any(block.mark == "test" for block in blocks(page))]
NAMED = {
    block.mark.removeprefix("test: "): block.text
    for page in PAGES
    for block in blocks(page)
    if block.mark.startswith("test: ")
}


def run(code: str, cwd: Path | None = None) -> str:
    environment = {**os.environ, "PYTHONWARNINGS": "error::UserWarning"}
    command = [python(), "-c", code]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=180, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_every_block_is_run_or_says_why_it_is_not() -> None:
    known = re.compile(r"test|test: \w+|file: \S+|not run: .+")
    silent = [(name(page), block) for page in PAGES for block in blocks(page) if not known.fullmatch(block.mark)]
    assert silent == []
    here = Path(__file__).read_text("utf-8")
    publishing = {"publish"}  # tests/data/hubs has the servers for it
    assert [mark for mark in NAMED if f'NAMED["{mark}"]' not in here and mark not in publishing] == []


@pytest.mark.parametrize("page", RUN_IN_ORDER, ids=name)
def test_the_blocks_of_a_page_run_one_after_another_and_leave_no_litter(page: Path, tmp_path: Path) -> None:
    for folder in ("envs", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copy(ROOT / ".gitignore", tmp_path)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "A clone"]):
        subprocess.run([*git, *arguments], check=True)
    written = set()
    for block in blocks(page):
        if block.mark.startswith("file: "):
            file = tmp_path / block.mark.removeprefix("file: ")
            file.write_text(block.text, "utf-8")
            written.add(f"?? {file.name}")
        elif block.mark == "test" and block.language == "python":
            run(block.text, tmp_path)
        elif block.mark == "test":
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block.text],
                cwd=tmp_path,
                env={
                    **os.environ,
                    "PATH": os.pathsep.join([str(bin_folder()), str(Path(sys.executable).parent), os.environ["PATH"]]),
                },
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, f"{block.text}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    left = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
    asked_for = {"?? capital_cities/"}  # the verifier of how-to/verifier.md
    assert set(left.splitlines()) - written - asked_for == set()


def test_no_two_pages_write_the_same_file_so_that_they_can_be_followed_in_one_folder() -> None:
    commands = [
        (name(page), command)
        for page in PAGES
        for block in blocks(page)
        if block.mark == "test" and block.language == "bash"
        for command in block.text.replace("\\\n", " ").splitlines()
    ]
    made: dict[str, str] = {}
    for page, command in commands:
        output = re.search(r"--output (\S+)", command)
        if output and "--resume" not in command:
            assert output[1] not in made, f"{page} and {made[output[1]]} write {output[1]}"
            made[output[1]] = page
    assert "runs/sums.jsonl" in made


def test_links_lead_somewhere_on_github_too() -> None:
    broken = []
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path = target.partition("#")[0]
            generated = page.parent == ROOT / "docs" and path.startswith(("reference/", "architecture"))
            if path and "://" not in path and not generated and not (page.parent / path).exists():
                broken.append((name(page), target))
    assert broken == []


def test_the_loop_with_the_official_client_plays_an_episode() -> None:
    command = [python(), "-m", "gym_llm.cli", "serve-model", "pocket", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().split()[3]
            printed = run(NAMED["openai"].replace("http://localhost:8000/v1", url))
        finally:
            server.terminate()
    assert re.fullmatch(r"1\.0 \{.*'tool_errors': 0.*\}\n", printed)


def test_collect_plays_the_pocket_model() -> None:
    assert 0.0 < float(run(NAMED["collect"])) <= 1.0


def test_a_run_is_completed_by_the_same_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = (run(NAMED["run"]) for _ in range(2))
    assert first.startswith("256 episodes to play\n") and second.startswith("0 episodes to play\n")
    assert first.splitlines()[1] == second.splitlines()[1]
    assert len(Path("runs/sums.jsonl").read_bytes().splitlines()) == 256


def test_a_group_is_scored_together() -> None:
    run(NAMED["groups"])


def test_parsers_are_made_by_name() -> None:
    assert run(NAMED["parsers"] + "print([item.get('type') for item in items])") == "['reasoning', None]\n"


def test_the_trainer_of_the_documentation_trains(tmp_path: Path) -> None:
    code = NAMED["trl"]
    small = "per_device_train_batch_size=8, max_steps=1, use_cpu=True, bf16=False, report_to='none', save_strategy='no'"
    code = code.replace('"runs/weather"', repr(str(tmp_path)))
    code = code.replace("max_completion_length=1024", f"max_completion_length=1024, {small}")
    printed = run("import os\nos.environ |= {'TRL_EXPERIMENTAL_SILENCE': '1', 'HF_HUB_OFFLINE': '1'}\n" + code)
    assert "'rewards/Weather/mean'" in printed and "'episodes/turns'" in printed


def test_the_verifier_of_the_documentation_works_and_passes_check_env() -> None:
    code = NAMED["verifier"]
    play = """
env = gym.make("mine/GuessTheNumber-v0")
request, info = env.reset(options={"task_index": 0})
tool_names = [tool["name"] for tool in request["tools"]]
call = {"type": "function_call", "call_id": "c", "name": "guess"}
low, high, over = 1, 100, False
while request["input"][-1].get("output") != "right":
    middle = (low + high) // 2
    request, *_ = env.step([{**call, "arguments": f'{{"number": {middle}}}'}])
    if request["input"][-1]["output"] == "higher":
        low = middle + 1
    else:
        high = middle - 1
_, reward, terminated, _, info = env.step([{"type": "message", "role": "assistant", "content": "Found it."}])
print(tool_names, terminated, reward == 1 / info["guesses"], info["tool_errors"])
"""
    assert run(code + play).splitlines()[-1] == "['guess'] True True 0"


def test_the_verifier_of_the_documentation_is_played_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "guess.py").write_text(NAMED["verifier"])
    command = [python(), "-m", "gym_llm.cli"]
    for arguments in (["env", "test", "./guess.py"], ["rollout", "./guess.py", "--episodes", "2"]):
        done = subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "mine/GuessTheNumber-v0 played by pocket" in done.stdout


def test_the_librarian_asks_on_and_has_parts_of_a_reward() -> None:
    play = """
env = gym.make("mine/Librarian-v0")
row = {"responses_create_params": {"input": "?"}, "title": "Emma", "year": "1817"}
request, info = env.reset(options={"task": row})
for title in ("Emma", "Persuasion"):
    call = {"type": "function_call", "call_id": "c", "name": "find", "arguments": f'{{"title": "{title}"}}'}
    request, *_, terminated, _, info = env.step([call])
    print(request["input"][-1]["output"])
request, reward, terminated, _, info = env.step([{"type": "message", "role": "assistant", "content": "In 1817."}])
print(terminated, reward, info["reward_components"], info["tool_errors"])
"""
    first, second, last = run(NAMED["hooks"] + play).splitlines()[-3:]
    assert "There is no book 'Emma' here." in first and "1817" in second
    assert last == "True 1.0 {'right': 0.8, 'looked': 0.2} 1"


def test_the_type_parameter_of_the_documentation_is_the_task() -> None:
    play = """
env = Title([VerifierEnv.row("Say it.", title="The Otter")])
env.reset(seed=0)
reward = env.step([{"type": "message", "role": "assistant", "content": "Otter, The"}])[1]
print(Title.Task is Book, env.episode.state, reward)
"""
    assert run(NAMED["types"] + play).splitlines()[-1] == "True ['The', 'Otter'] 1.0"


def test_a_judge_says_what_an_answer_is_worth() -> None:
    play = """
import gymnasium, gym_llm
gymnasium.register("mine/Judged-v0", entry_point=Judged)
for label in ("[[SAME]]", "[[OTHER]]"):
    kwargs = {"judge": f"constant:Not [[SAME]] at first, but {label}"}
    records = gym_llm.collect("mine/Judged-v0", episodes=4, env_kwargs=kwargs)
    print(len(records), {record["reward"] for record in records}, len(records[0]["info"]["judge_evaluations"]))
"""
    assert run(NAMED["judge"] + play) == "4 {1.0} 1\n4 {0.0} 1\n"


def test_a_user_who_is_a_model_has_a_script_without_one() -> None:
    assert run(NAMED["simulator"]) == "Do you have green tea?\nA Japanese one.\n1.0\n"


def test_the_engine_plays() -> None:
    assert run(NAMED["engine"]).startswith("0.0 [{'input_ids': [1, 2, 3], 'loss_mask': [0, 0, 1],")


def test_the_vector_environment_of_the_documentation_steps_and_sends() -> None:
    assert re.search(r"^\[[\d\s]+\]$", run(NAMED["vector"]), re.MULTILINE | re.DOTALL)


def test_a_simulated_user_asks_on() -> None:
    assert re.fullmatch(r"\[(\d+, ){3}\d+\]\n", run(NAMED["user"]))


def test_a_tool_answers_what_it_cannot_do() -> None:
    schema, answer = run(NAMED["tool"]).splitlines()
    assert schema == "buy ['fruit', 'count']" and "There is no pear today." in answer and answer.endswith(" 1")


def test_a_rubric_becomes_parts_of_a_reward() -> None:
    assert run(NAMED["rubric"]).startswith("8 {'correct': ")


def test_code_of_a_model_runs_in_a_sandbox_of_its_own() -> None:
    try:
        bubblewrap_path()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    play = """
env = gym.make("mine/PrintIt-v0")
for code in ("print(24 * int(input()))", "print(open('/etc/passwd').read())", "while True: pass", "print(3)"):
    row = {"responses_create_params": {"input": "?"}, "stdin": "5", "expected": "120"}
    env.reset(options={"task": row})
    answer = {"type": "message", "role": "assistant", "content": f"```python\\n{code}\\n```"}
    print(env.step([answer])[1])
"""
    assert run(NAMED["sandbox"] + play).split() == ["1.0", "0.0", "0.0", "0.0"]


def test_the_examples_are_as_short_as_they_are_said_to_be() -> None:
    assert len(NAMED["openai"].strip().splitlines()) <= 14
    assert len([line for line in NAMED["verifier"].splitlines() if line.strip()]) <= 33
