"""Stored rollouts scored again, from real files of real rollouts."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from played import boxed, play, sum_of
from testing import function_call, message, row

import gym_llm
from gym_llm import Verdict, tool
from gym_llm.cli import main
from gym_llm.errors import DataError, UsageError
from gym_llm.evaluation.reverify.reverify import reverify
from gym_llm.records.record_files import read_records
from gym_llm.types import Rollout

ARITHMETIC, COUNTER, FOLLOW_UP = "gym_llm/Arithmetic-v0", "gym_llm/Counter-v0", "gym_llm/FollowUp-v0"


class Judged(gym_llm.VerifierEnv):
    """Pays what it is told to; async, and out of order."""

    def __init__(self, paid: float = 1.0, broken: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.paid, self.broken = paid, broken
        self.torn_down: list[int] = []

    async def verify(self, task: Any, episode: Any) -> Verdict:
        for _ in range(7 - episode.task_index % 7):
            await asyncio.sleep(0)
        if episode.answer == self.broken:
            raise KeyError(self.broken)
        return Verdict(self.paid, {"said": episode.answer}, {"all": self.paid})

    async def teardown(self, task: Any, episode: Any) -> None:
        await asyncio.sleep(0)
        TORN_DOWN.append(episode.task_index)


TORN_DOWN: list[int] = []


class OnItself(gym_llm.VerifierEnv):
    """Keeps its state where nobody looks for it."""

    def setup(self, task: Any) -> None:
        self.count = 0

    @tool
    def add(self) -> str:
        """Add one."""
        self.count += 1
        return "ok"

    def verify(self, task: Any, episode: Any) -> float:
        return float(self.count)


class Elsewhere(OnItself):
    reverify_mode = "unsupported"


class Sure(OnItself):
    reverify_mode = "stateless"


@pytest.fixture(autouse=True)
def registered() -> Any:
    for cls in (Judged, OnItself, Elsewhere, Sure):
        gym.register(id=f"test_reverify/{cls.__name__}-v0", entry_point=cls)
    TORN_DOWN.clear()
    yield
    for cls in (Judged, OnItself, Elsewhere, Sure):
        del gym.registry[f"test_reverify/{cls.__name__}-v0"]


def records(path: str | Path) -> list[Rollout]:
    return [record for _, record in read_records(path)]


def arithmetic(path: Path) -> Path:
    """Of each two episodes the second is wrong."""
    return play(
        path, ARITHMETIC, lambda request, _, repeat: boxed(sum_of(request) + repeat), limit=3, repeats=2, seed=4
    )


def test_the_same_verifier_gives_the_same_file(tmp_path: Path) -> None:
    path, output = arithmetic(tmp_path / "a.jsonl"), tmp_path / "b.jsonl"
    report = reverify(path, ARITHMETIC, output=output)
    assert (report.records, report.scored, report.changes) == (6, 6, [])
    assert output.read_bytes() == path.read_bytes()
    summary, before = (json.loads(one.with_suffix(".summary.json").read_bytes()) for one in (output, path))
    names = ("episodes", "mean_reward", "pass_at", "standard_error")
    assert [summary[name] for name in names] == [before[name] for name in names]
    assert summary["settings"]["reverified"] == str(path)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", ["weather", "follow_up", "multiple_choice", "synonym_extraction", "counter"])
def test_built_in_verifiers_score_their_own_rollouts_as_they_did(tmp_path: Path, name: str) -> None:
    env_id = {"weather": "Weather", "follow_up": "FollowUp", "multiple_choice": "MultipleChoice"}.get(name)
    env_id = f"gym_llm/{env_id or {'counter': 'Counter'}.get(name, 'SynonymExtraction')}-v0"

    def say(request: Any, task: int, repeat: int) -> Any:
        if len(request["input"]) < 4 and request.get("tools"):
            calls = {"Weather": ("get_weather", {"city": "Rome"}), "Counter": ("increment_counter", {"count": 3})}
            call = calls.get(env_id[8:-3], ("extract_synonym_values", {"synonym_values": [1, 2]}))
            return [{"type": "reasoning", "summary": []}, function_call(*call)]
        return "\\boxed{A}"

    path = play(tmp_path / "a.jsonl", env_id, say, limit=3)
    report = reverify(path, env_id, rerun_tools=name in ("weather", "synonym_extraction", "counter"))
    assert (report.scored, report.changes) == (3, [])


def test_another_verifier_s_changes_are_listed_with_their_reasons(tmp_path: Path) -> None:
    path, output = arithmetic(tmp_path / "a.jsonl"), tmp_path / "new.jsonl"
    report = reverify(path, "test_reverify/Judged-v0", env_kwargs={"paid": 0.5}, output=output)
    assert report.counts() == {"reward_up": 3, "reward_down": 3, "details_only": 0, "unmasked": 0, "masked": 0}
    change = min(report.changes, key=lambda one: (one.task_index, one.repeat_index))
    assert (change.old, change.new, change.repeat_index) == (1.0, 0.5, 0)
    assert set(change.fields) == {"extracted_answer", "said", "reward_components"}
    assert "said None -> 'It is" in change.why
    old, new = records(path), records(output)
    assert [one["rollout_id"] for one in new] == [one["rollout_id"] for one in old]  # though some take longer
    assert {one["reward"] for one in new} == {0.5} and {one["env_id"] for one in new} == {"test_reverify/Judged-v0"}
    assert [one["response"] for one in new] == [one["response"] for one in old]
    assert new[0]["info"]["reward_components"] == {"all": 0.5} and "extracted_answer" not in new[0]["info"]
    assert sorted(TORN_DOWN) == sorted(one["rollout_id"]["task_index"] for one in old)


def test_what_a_judge_is_asked_and_answers_is_no_reason_of_its_own(tmp_path: Path) -> None:
    simple_qa, judge = "gym_llm/SimpleQA-v0", {"judge": "constant:A"}
    path = play(tmp_path / "q.jsonl", simple_qa, lambda *_: "Paris", limit=1, env_kwargs=judge)
    (change,) = reverify(path, simple_qa, env_kwargs={"judge": "constant:B"}).changes
    assert (change.old, change.new) == (1.0, 0.0) and change.why.startswith("verdict 'correct' -> 'incorrect'")
    assert "judge_evaluations" in change.fields and "judge_evaluations" not in change.why


def test_masked_episodes_are_scored_where_only_their_verifier_failed(tmp_path: Path) -> None:
    def say(request: Any, task: int, repeat: int) -> str:
        if task == 1:
            raise ConnectionRefusedError("no server")
        return "bad" if task == 2 else "good"

    path, output = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    env_id, tasks = "test_reverify/Judged-v0", [row("?")] * 3
    play(path, env_id, say, tasks=tasks, env_kwargs={"broken": "bad"}, retries=0)
    assert sorted(str(one["failure_kind"]) for one in records(path)) == [
        "None",
        "transport_unreachable",
        "verifier_error",
    ]
    report = reverify(path, env_id, output=output)
    assert (report.scored, report.left_masked) == (2, 1)
    assert report.counts() == {"reward_up": 0, "reward_down": 0, "details_only": 0, "unmasked": 1, "masked": 0}
    assert "was masked: KeyError: 'bad'" in report.changes[0].why
    new = {one["rollout_id"]["task_index"]: one for one in records(output)}
    assert (new[2]["outcome"], new[2]["reward"], new[2]["error"], new[2]["traceback"]) == ("scored", 1.0, None, None)
    assert new[1] == {one["rollout_id"]["task_index"]: one for one in records(path)}[1]
    report = reverify(output, env_id, env_kwargs={"broken": "good"}, output=tmp_path / "c.jsonl")
    assert report.counts()["masked"] == 1 and report.rewards_differ
    assert len(TORN_DOWN) == 3 + 2 + 2  # of the rollout, and of each time that they were scored
    masked = next(one for one in records(tmp_path / "c.jsonl") if one["rollout_id"]["task_index"] == 0)
    assert (masked["outcome"], masked["reward"], masked["error_phase"]) == ("masked", None, "verify")
    assert "KeyError" in str(masked["traceback"])


def test_truncated_episodes_stay_truncated(tmp_path: Path) -> None:
    tasks, options = [row("?", follow_ups=["a", "b"], expected_answer="yes")], {"env_kwargs": {"max_turns": 2}}
    path = play(tmp_path / "a.jsonl", FOLLOW_UP, lambda *_: "Yes.", tasks=tasks, **options)
    assert records(path)[0]["outcome"] == "truncated"
    for rerun_tools in (False, True):
        report = reverify(path, FOLLOW_UP, rerun_tools=rerun_tools, **options)
        assert (report.scored, report.changes, report.summary.truncated) == (1, [], 1)


def count_to(count: int) -> Any:
    def say(request: Any, task: int, repeat: int) -> Any:
        if request["input"][-1].get("type") == "function_call_output":
            return "Done."
        return [function_call("increment_counter", {"count": count})]

    return say


def test_a_state_that_tools_made_is_refused_or_made_again(tmp_path: Path) -> None:
    task = row(initial_count=1, expected_count=4)
    path = play(tmp_path / "a.jsonl", COUNTER, count_to(3), tasks=[task])
    assert records(path)[0]["reward"] == 1.0
    with pytest.raises(UsageError, match=r"tools may have changed"):
        reverify(path, COUNTER, output=tmp_path / "b.jsonl")
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["a.jsonl", "a.summary.json"]
    assert reverify(path, COUNTER, rerun_tools=True).changes == []


def test_a_state_that_nothing_changed_is_the_one_that_setup_makes(tmp_path: Path) -> None:
    path = play(tmp_path / "a.jsonl", COUNTER, lambda *_: "Done.", tasks=[row(initial_count=4, expected_count=4)])
    report = reverify(path, COUNTER)
    assert (report.scored, report.changes) == (1, [])


def test_episodes_with_tool_calls_are_refused_unless_the_class_declares_otherwise(tmp_path: Path) -> None:
    def say(request: Any, task: int, repeat: int) -> Any:
        return "Done." if len(request["input"]) > 1 else [function_call("add")]

    path = play(tmp_path / "a.jsonl", "test_reverify/OnItself-v0", say, tasks=[row("?")])
    with pytest.raises(UsageError, match="declare"):
        reverify(path, "test_reverify/OnItself-v0")
    with pytest.raises(UsageError, match=r"cannot be scored from recorded items \(reverify_mode\)"):
        reverify(path, "test_reverify/Elsewhere-v0")
    assert reverify(path, "test_reverify/Sure-v0").summary.mean_reward == 0.0
    for name in ("OnItself", "Elsewhere"):
        assert reverify(path, f"test_reverify/{name}-v0", rerun_tools=True).changes == []


def test_a_wrapper_that_may_reward_is_refused(tmp_path: Path) -> None:
    path = arithmetic(tmp_path / "a.jsonl")
    name = "test_reverify/Doubled-v0"
    spec = gym.wrappers.TransformReward.wrapper_spec(func=lambda reward: 2 * reward)
    gym.register(id=name, entry_point="gym_llm.envs.arithmetic.env:Arithmetic", additional_wrappers=(spec,))
    try:
        with pytest.raises(UsageError, match="wrapped with TransformReward"):
            reverify(path, name)
        assert reverify(path, name, rerun_tools=True).counts()["reward_up"] == 3
    finally:
        del gym.registry[name]


def test_nemo_gym_s_compressed_rollouts_become_ours(tmp_path: Path) -> None:
    def theirs(rollout: int, answer: str, reward: float, **fields: Any) -> str:
        ids = {"_ng_task_index": 0, "_ng_rollout_index": rollout}
        response = {"output": message(answer), "model": "m"}
        task = {**row("2+2?"), "expected_answer": "4"}
        return json.dumps({**task, **ids, "response": response, "reward": reward, **fields})

    lines = [
        theirs(0, boxed(4), 1.0, extracted_answer="4"),
        theirs(1, boxed(4), 0.0, extracted_answer="44"),
        theirs(2, boxed(4), 0.0, mask_sample=True, failure_kind="judge_failed", failure_reason="the judge was down"),
        theirs(3, boxed(4), 0.0, mask_sample=True, failure_kind="agent_timeout"),
    ]
    path, output = tmp_path / "theirs.jsonl.gz", tmp_path / "ours.jsonl"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    report = reverify(path, ARITHMETIC, output=output)
    assert report.counts() == {"reward_up": 1, "reward_down": 0, "details_only": 0, "unmasked": 1, "masked": 0}
    assert report.left_masked == 1 and report.changes[0].fields == {"extracted_answer": ("44", "4")}
    ours = records(output)
    assert [one["reward"] for one in ours] == [1.0, 1.0, 1.0, None]
    assert [one["rollout_id"]["repeat_index"] for one in ours] == [0, 1, 2, 3]
    assert ours[0]["env_id"] == ARITHMETIC and ours[0]["info"] == {
        "task_index": 0, "turn": 1, "tool_errors": 0, "extracted_answer": "4",
    }  # fmt: skip
    assert reverify(output, ARITHMETIC).changes == []


def test_other_datasets_stay_as_they_are(tmp_path: Path) -> None:
    from played import Scripted

    parts = [gym_llm.Part(ARITHMETIC, Scripted(lambda *_: "no"), dataset=name) for name in ("a", "b")]
    with gym_llm.Run(parts, limit=2, output=tmp_path / "r.jsonl") as run:
        run.play()
    with pytest.raises(UsageError, match="several datasets"):
        reverify(run.path, "test_reverify/Judged-v0")
    report = reverify(run.path, "test_reverify/Judged-v0", dataset="b", output=tmp_path / "new.jsonl")
    assert (report.records, report.scored) == (4, 2)
    assert sorted((one["dataset"], one["reward"]) for one in records(tmp_path / "new.jsonl")) == [
        ("a", 0.0), ("a", 0.0), ("b", 1.0), ("b", 1.0),
    ]  # fmt: skip


def test_nothing_is_written_over(tmp_path: Path) -> None:
    path = arithmetic(tmp_path / "a.jsonl")
    for output in (path, tmp_path / "a"):  # whose summary would be that of a.jsonl
        with pytest.raises(DataError, match="already exists"):
            reverify(path, ARITHMETIC, output=output)


def test_the_command_says_what_changed(tmp_path: Path, capsys: Any) -> None:
    path = arithmetic(tmp_path / "a.jsonl")
    assert main(["reverify", str(path), "--env", ARITHMETIC]) == 0
    assert "scored again" in capsys.readouterr().out
    other = ["reverify", str(path), "--env", "gym_llm/Weather-v0"]
    assert main(other) == 1
    assert "extracted_answer" in capsys.readouterr().out
    assert main([*other, "--json", "--output", str(tmp_path / "b.jsonl")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["reward_down"], report["mean_reward_before"], report["mean_reward"]) == (3, 0.5, 0.0)
    assert report["changes"][0]["fields"]["extracted_answer"][1] is None
    for wrong, sentence in (
        (["--env", "gym_llm/Arithmetik-v0"], "Did you mean"),
        (["--env", ARITHMETIC, "--env-kwargs", '{"digit": 3}'], "has no argument 'digit'"),
        (["--env", ARITHMETIC, "--output", str(path)], "already exists"),
        (["--env", COUNTER], "Counter-v0: initial_count: Field required"),
        (["--env", COUNTER, "--rerun-tools"], "Counter-v0: initial_count: Field required"),
        ([], "Missing option '--env'"),
    ):
        assert main(["reverify", str(path), *wrong]) == 2
        said = capsys.readouterr().err
        assert sentence in said and said.count("\n") == 1
    assert main(["reverify", str(tmp_path / "none.jsonl"), "--env", ARITHMETIC]) == 2
