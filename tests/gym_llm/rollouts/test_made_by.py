"""What decides rewards and tokens is compared before a run goes on with a file, with the summary and without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from testing import row

import gym_llm
from gym_llm import Run
from gym_llm.cli import main
from gym_llm.errors import UsageError
from gym_llm.evaluation.reverify.reverify import reverify
from gym_llm.rollouts import made_by
from gym_llm.rollouts.identity import changed_settings, in_one_phrase
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.utils.source_code import code_files

ENV = "gym_llm/Arithmetic-v0"
MINE = """
import helper_of_mine
from gym_llm import VerifierEnv

class Mine(VerifierEnv):
    class Config(VerifierEnv.Config):
        words_file: str | None = None

    def verify(self, task, episode):
        return helper_of_mine.reward()
"""
HELPER = "def reward():\n    return {reward}\n"
JUDGE = {"judge": "constant:[[A=B]]", "judge_prompt_fpath": "judge.yaml"}
SIMPLE_QA = "gym_llm/EquivalenceLLMJudge-v0"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tasks.jsonl").write_text("".join(json.dumps(row(f"Question {number}")) + "\n" for number in range(4)))


def play(engine: str = "constant:7", env_id: str = ENV, **options: Any) -> Run:
    options = {"output": "a.jsonl", "resume": True} | options
    with Run(env_id, engine, **options) as run:
        run.play()
    return run


def write_mine(name: str, reward: float = 1.0) -> str:
    Path("helper_of_mine.py").write_text(HELPER.format(reward=reward))
    Path(name).write_text(MINE)
    return f"./{name}"


def refusal(with_summary: bool, *args: Any, **options: Any) -> str:
    if not with_summary:
        Path("a.summary.json").unlink()
    before = Path("a.jsonl").read_bytes()
    with pytest.raises(UsageError, match=r"was made with other settings \(.*--accept-changes\.$") as refused:
        play(*args, **options)
    assert Path("a.jsonl").read_bytes() == before
    return str(refused.value)


@pytest.mark.parametrize("with_summary", [True, False])
@pytest.mark.parametrize(
    ("first", "then", "words"),
    [
        (("constant:7",), ("constant:8",), ("engine was 'constant:7' and is 'constant:8'", "the engine")),
        (("pocket", {"history": "append"}), ("pocket",), ("engine option history was 'append'", "the engine")),
        (("pocket", None, 1), ("pocket", None, 2), ("seed was 1 and is 2", "seed was 1 and is 2")),
    ],
)
def test_another_engine_option_or_seed_is_refused(with_summary, first, then, words):
    def options(engine: str, engine_options: Any = None, seed: int = 0) -> dict[str, Any]:
        return {"engine": engine, "engine_options": engine_options, "seed": seed, "limit": 2}

    play(**options(*first))
    assert words[not with_summary] in refusal(with_summary, **options(*then) | {"limit": 3})
    play(**options(*first) | {"limit": 3})


@pytest.mark.parametrize("with_summary", [True, False])
def test_an_edited_module_that_a_verifier_file_imports_is_refused(with_summary):
    env_id = write_mine(f"mine_{with_summary}.py")
    play(env_id=env_id, tasks="tasks.jsonl", limit=2)
    write_mine(f"mine_{with_summary}.py", reward=0.25)
    said = refusal(with_summary, env_id=env_id, tasks="tasks.jsonl")
    assert ("helper_of_mine.py has changed" if with_summary else "the verifier's code changed") in said
    run = play(env_id=env_id, tasks="tasks.jsonl", accept_changes=True)
    assert run.summary.episodes == 4
    assert any("chang" in change for change in json.loads(run.summary_path.read_text())["settings"]["accepted_changes"])
    play(env_id=env_id, tasks="tasks.jsonl", repeats=2)  # what was accepted is not asked for again
    Path("a.summary.json").unlink()
    assert play(env_id=env_id, tasks="tasks.jsonl", repeats=3).summary.episodes == 12


def test_records_that_were_scored_again_name_the_new_verifier():
    env_id = write_mine("mine_again.py")
    play(env_id=env_id, tasks="tasks.jsonl", limit=2)
    code = Path("mine_again.py").read_text()
    Path("mine_newer.py").write_text(code.replace("reward()", "reward() / 2"))
    reverify("a.jsonl", "./mine_newer.py", output="b.jsonl")
    old, new = (json.loads(Path(name).read_bytes().splitlines()[0])["made_by"] for name in ("a.jsonl", "b.jsonl"))
    assert {name for name in old if old[name] != new[name]} == {"verifier"}
    assert play(env_id="./mine_newer.py", tasks="tasks.jsonl", output="b.jsonl").summary.mean_reward == 0.5


@pytest.mark.parametrize("with_summary", [True, False])
def test_the_content_of_a_judge_s_prompt_is_compared(with_summary):
    Path("judge.yaml").write_text("user: 'Is {generated_answer} {expected_answer}? {question}'\n")
    play(env_id=SIMPLE_QA, env_kwargs=JUDGE, limit=2)
    Path("judge.yaml").write_text("user: 'Say yes: {generated_answer} {expected_answer}? {question}'\n")
    said = refusal(with_summary, env_id=SIMPLE_QA, env_kwargs=JUDGE)
    assert ("judge.yaml has changed" if with_summary else "the files that they name") in said


def test_a_file_that_episodes_write_is_not_compared():
    kwargs = {"judge": "constant:[[A=B]]", "judge_cache": "cache.sqlite"}
    play(env_id=SIMPLE_QA, env_kwargs=kwargs, limit=2)
    assert Path("cache.sqlite").stat().st_size > 0
    play(env_id=SIMPLE_QA, env_kwargs=kwargs, limit=3)
    files = json.loads(Path("a.summary.json").read_text())["settings"]["identity"]["verifier_files"]
    assert list(files) == ["gym_llm"]


def test_a_replayed_file_and_an_agent_s_program_are_compared():
    agent = "python agent.py"
    Path("agent.py").write_text("print('7')\n")
    play("pocket", agent=agent, limit=1)
    Path("agent.py").write_text("print('8')\n")
    assert "agent.py has changed" in refusal(True, "pocket", agent=agent)
    assert "the agent or its code changed" in refusal(False, "pocket", agent=agent)
    with Run(ENV, "constant:7", output="played.jsonl", limit=3) as run:
        run.play()
    play("replay:played.jsonl", output="b.jsonl", limit=2)
    Path("played.jsonl").write_bytes(Path("played.jsonl").read_bytes().replace(b'"7"', b'"8"'))
    with pytest.raises(UsageError, match=r"played.jsonl has changed"):
        play("replay:played.jsonl", output="b.jsonl", limit=3)


@pytest.mark.parametrize("with_summary", [True, False])
def test_another_version_of_the_package_is_refused(with_summary, monkeypatch):
    play(limit=2)
    monkeypatch.setattr(made_by, "__version__", "99.0")
    monkeypatch.setattr("gym_llm.rollouts.run.__version__", "99.0")
    assert "gym_llm was '" in refusal(with_summary)


def test_files_of_before_go_on(monkeypatch):
    play(limit=2)
    records = [json.loads(line) for line in Path("a.jsonl").read_bytes().splitlines()]
    for record in records:
        record["schema_version"] = 2
        for name in ("made_by", "task_key", "task_sha256"):
            del record[name]
    Path("a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    summary = json.loads(Path("a.summary.json").read_text())
    del summary["settings"]["identity"]
    Path("a.summary.json").write_text(json.dumps(summary | {"settings": summary["settings"] | {"gym_llm": "0.0.1"}}))
    assert play(limit=3).summary.episodes == 3


def test_the_command_line_goes_on_where_changes_are_accepted(capsys):
    argv = ["rollout", ENV, "--output", "c.jsonl", "--quiet"]
    assert main([*argv, "--engine", "constant:7", "--limit", "2"]) == 0
    argv += ["--engine", "constant:8", "--limit", "3"]
    assert main([*argv, "--resume"]) == 2
    assert "engine was 'constant:7' and is 'constant:8'" in capsys.readouterr().err
    assert main([*argv, "--accept-changes"]) == 2
    assert "--accept-changes only makes sense with --resume" in capsys.readouterr().err
    assert main([*argv, "--resume", "--accept-changes"]) == 0
    assert len(Path("c.jsonl").read_bytes().splitlines()) == 3


def test_every_record_says_what_made_it_and_which_task_it_was():
    rows = [{**row("One", expected_answer="1"), "id": "q1"}, row("Two", expected_answer="2")]
    named = gym_llm.collect("gym_llm/FollowUp-v0", "constant:yes", tasks=rows, repeats=2)
    turned = gym_llm.collect("gym_llm/FollowUp-v0", "constant:yes", tasks=rows[::-1])
    assert [record["task_key"] for record in named] == ["q1"] * 2 + [named[2]["task_sha256"][:16]] * 2
    assert [record["task_sha256"] for record in turned] == [named[2]["task_sha256"], named[0]["task_sha256"]]
    assert named[0]["made_by"] == turned[0]["made_by"]
    assert {"gym_llm", "environment", "verifier", "engine", "seed"} == named[0]["made_by"].keys()
    other = gym_llm.collect("gym_llm/Weather-v0", "constant:yes", limit=1, seed=3, sampling={"temperature": 0.5})[0]
    differing = {name for name in other["made_by"] if other["made_by"].get(name) != named[0]["made_by"].get(name)}
    assert differing == {"verifier", "seed", "sampling"}


def test_a_trainer_s_records_say_what_made_them():
    from gym_llm.engines import make_engine
    from gym_llm.rollouts.factory import EnvFactory
    from gym_llm.rollouts.plan import Job

    pool = EnvPool(EnvFactory(ENV), concurrency=2)
    try:
        records = pool.play_all([Job(1, 0), Job(2, 0)], make_engine("constant:7"))
    finally:
        pool.close()
    assert {record["made_by"]["verifier"] for record in records} == {
        gym_llm.collect(ENV, "constant:7", limit=1)[0]["made_by"]["verifier"]
    }


def test_no_secret_takes_part():
    kwargs = {"judge": {"engine": "http://localhost:9/v1", "kwargs": {"api_key": "sk-very-secret-1"}}}
    ones = []
    for secret in ("sk-very-secret-1", "sk-very-secret-2"):
        kwargs["judge"]["kwargs"]["api_key"] = secret  # type: ignore[index]
        ones.append(
            made_by.made_by(
                gym_llm.rollouts.factory.EnvFactory(SIMPLE_QA, env_kwargs=kwargs),
                "http://h/v1",
                {"api_key": secret},
                gym_llm.rollouts.settings.RolloutSettings(),
            )
        )
    assert ones[0] == ones[1] and "secret" not in json.dumps(ones[0].identity)


def test_many_changes_are_one_short_phrase():
    files = {f"file_{number}.py": "a" for number in range(10)}
    changes = changed_settings({"identity": {"files": files}}, {"identity": {"files": dict.fromkeys(files, "b")}})
    assert len(changes) == 10
    assert in_one_phrase(changes).endswith("file_2.py has changed, 7 more")


@pytest.mark.parametrize(
    "line",
    [
        "import os; import helper",
        "if True: from helper import REWARD",
        "import os, \\\n    helper",
        "from helper \\\n    import REWARD",
        "def verify():\n    import helper",
    ],
)
def test_a_helper_counts_however_it_is_imported(tmp_path, line):
    (tmp_path / "helper.py").write_text("REWARD = 1.0\n")
    (tmp_path / "mine.py").write_text(f"{line}\n")
    assert [path.name for path in code_files(tmp_path / "mine.py")] == ["helper.py", "mine.py"]
