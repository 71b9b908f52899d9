"""Runs as the real clients of TensorBoard, MLflow and Weights & Biases keep them, offline."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gym_llm import Part, Run
from gym_llm.concurrency import wait
from gym_llm.errors import UsageError
from gym_llm.evaluation.tracking import RunLog, Tracker, make_tracker
from gym_llm.evaluation.tracking.run_log import git_commit
from gym_llm.evaluation.tracking.trackers import file_name

pytestmark = pytest.mark.slow

ROW = {"responses_create_params": {"input": "What is 2 + 2?"}, "expected_answer": "4"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


async def _play(run, log):
    async for record in run.records():
        log.see(record)


def play(trackers, output="runs/a.jsonl", resume=False, every=0.0, limit=None):
    parts = [Part("gym_llm/Weather-v0", "random", dataset="w"), Part("gym_llm/Counter-v0", "random", dataset="c")]
    with Run(parts, episodes=8, output=output, resume=resume) as run, RunLog(run, trackers, every=every) as log:
        wait(_play(run, log))
    return run


def test_tensorboard_has_numbers_of_each_dataset_texts_and_what_the_run_was_made_with(here):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = play(["tensorboard"])
    events = EventAccumulator(str(here / "runs" / "tensorboard" / "a.jsonl"))
    events.Reload()
    tags = events.Tags()
    assert {"mean_reward", "w/mean_reward", "c/coverage", "c/pass_at_1", "episodes_per_second"} <= set(tags["scalars"])
    last = events.Scalars("mean_reward")[-1]
    assert last.step == 16 and last.value == pytest.approx(run.summary.mean_reward)
    assert events.Scalars("w/mean_reward")[-1].value == pytest.approx(run.datasets["w"].mean_reward)
    texts = {tag: events.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in tags["tensors"]}
    assert '"concurrency": 64' in texts["config/text_summary"] and '"git_commit"' in texts["config/text_summary"]
    assert "gym_llm/Counter-v0" in texts["samples/text_summary"] and "| user: " in texts["samples/text_summary"]


def test_mlflow_has_a_run_that_a_resumed_one_goes_on_with(here, monkeypatch):
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{here}/mlflow.db")
    play(["mlflow:sums"], output="a.jsonl")
    run = play(["mlflow:sums"], output="a.jsonl", resume=True)
    client = MlflowClient()
    experiment = client.get_experiment_by_name("sums")
    (kept,) = client.search_runs([experiment.experiment_id])
    assert kept.info.run_name == "a.jsonl" and kept.info.status == "FINISHED"
    assert kept.data.metrics["mean_reward"] == pytest.approx(run.summary.mean_reward)
    folder = Path(kept.info.artifact_uri.removeprefix("file://"))
    samples = json.loads((folder / "samples.json").read_text())
    assert samples["columns"][:3] == ["dataset", "env_id", "task_index"] and len(samples["data"]) == 16
    assert json.loads((folder / "config.json").read_text())["seed"] == 0


def test_wandb_keeps_a_run_offline_where_nobody_is_logged_in(here):
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from test_trackers import play
print(play(["wandb:sums"]).summary.mean_reward)
"""
    environment = {**os.environ, "HOME": str(here), "NETRC": str(here / "none"), "WANDB_DIR": str(here)}
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (kept,) = here.glob("wandb/offline-run-*/run-*.wandb")
    content = kept.read_bytes()
    assert b"mean_reward" in content and b"c/pass_at_1" in content and b"git_commit" in content
    assert list(here.glob("wandb/offline-run-*/files/media/table/samples*.table.json"))


def test_what_no_tracker_is_called_is_refused_before_anything_is_played(here):
    with pytest.raises(UsageError, match=r"no tracker 'tensorbord'\. Did you mean tensorboard"):
        make_tracker("tensorbord")
    with Run("gym_llm/Weather-v0", "random", episodes=1, output="a.jsonl") as run, pytest.raises(UsageError):
        RunLog(run, ["neptune"])


def test_an_evaluation_has_a_run_for_each_engine(here):
    from gym_llm.cli import main

    command = ["eval", "gym_llm/Weather-v0", "--engine", "random", "--engine", "again=random", "--limit", "3"]
    assert main([*command, "--output", "out", "--quiet", "--log", "tensorboard"]) in (0, 1)
    assert {path.name for path in (here / "runs" / "tensorboard").iterdir()} == {"out-random", "out-again"}
    assert main([*command, "--output", "out2", "--quiet", "--log", "tensorbord"]) == 2
    assert not (here / "out2").exists()


class Broken(Tracker):
    def __init__(self, at):
        super().__init__()
        self.at, self.told = at, []

    def _tell(self, what):
        self.told.append(what)
        if what == self.at:
            raise ConnectionError("the server is gone; key=sk-1234567890abcdef")

    def start(self, name, config):
        self._tell("start")

    def log(self, step, metrics):
        self._tell("log")

    def table(self, name, table):
        self._tell("table")

    def close(self):
        self._tell("close")


@pytest.mark.parametrize("at", ["start", "log", "table", "close"])
def test_a_tracker_that_fails_is_warned_of_once_and_the_run_goes_on(here, at, caplog):
    broken, whole = Broken(at), Broken("never")
    with caplog.at_level(logging.WARNING):
        run = play([broken, whole])
    assert run.summary.episodes == 16
    assert broken.told[-1] == at and whole.told[-2:] == ["table", "close"]
    assert [record.message for record in caplog.records if "told no more" in record.message] and len(
        caplog.records
    ) == 1


def test_a_run_without_trackers_has_no_thread_and_a_finished_one_is_told_again(here):
    play([], output="a.jsonl")
    tracker = Broken("never")
    play([tracker], output="a.jsonl", resume=True)
    assert tracker.told == ["start", "log", "close"]


def test_secrets_reach_no_tracker(here, monkeypatch):
    from gym_llm.utils.secrets import add_secrets

    add_secrets({"sk-0123456789abcdefgh"})
    rows = []

    class Keeping(Broken):
        def table(self, name, table):
            rows.extend(table[1])

    row = {"responses_create_params": {"input": "My key is sk-0123456789abcdefgh."}, "expected_city": "x"}
    run = Run("gym_llm/Weather-v0", "random", tasks=[row], output="a.jsonl")
    with run, RunLog(run, [Keeping("never")]) as log:
        wait(_play(run, log))
    assert "My key is ***." in rows[0][-1]


def test_names(here):
    assert file_name("../x y.jsonl") == "x-y.jsonl" and file_name("…") == "run"
    assert git_commit() is None
    subprocess.run(
        "git init -q && touch a && git add a && git -c user.name=a -c user.email=a@b commit -qm a", shell=True
    )
    commit = git_commit()
    assert commit and len(commit) == 40
    (here / "a").write_text("b")
    assert git_commit() == f"{commit}-dirty"
