"""`gym-llm data prepare`: from a configuration and task files to a training set and its statistics."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from testing import ROOT

from gym_llm.cli import main
from gym_llm.core.registry.ids import env_ids
from gym_llm.data.files.datasets import DatasetConfig
from gym_llm.data.prepare import EnvDataset, Preparation, prepare_data
from gym_llm.errors import DataError, PreparationFailed

pytestmark = pytest.mark.slow

ENV_ID = "gym_llm/MultipleChoice-v0"
CODE = "import sys; from gym_llm.cli import main; sys.exit(main(sys.argv[1:]))"


def quiz_row(number: int, **fields: Any) -> dict[str, Any]:
    question = {"input": [{"role": "user", "content": f"Question {number}?"}], "temperature": 0.5}
    options = [{"A": "yes"}, {"B": "no"}]
    return {"responses_create_params": question, "options": options, "expected_answer": "AB"[number % 2], **fields}


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def dataset(path: Path, kind: str = "train", section: str = "quiz", **fields: Any) -> EnvDataset:
    values = {"name": kind, "type": kind, "jsonl_fpath": str(path), "license": "TBD", **fields}
    return EnvDataset(section, ENV_ID, DatasetConfig.model_validate(values))


def prepare(*datasets: EnvDataset, output: Path, **settings: Any) -> Preparation:
    return prepare_data(datasets, output, **{"mode": "train_preparation", "tokenizer": "none", **settings})


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration with a training and a validation set, in the working directory."""
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "train.jsonl", [quiz_row(number) for number in range(6)])
    write_rows(tmp_path / "validation.jsonl", [quiz_row(number) for number in range(3)])
    datasets = [
        {"name": kind, "type": kind, "jsonl_fpath": f"{kind}.jsonl", "license": "MIT", "num_repeats": repeats}
        for kind, repeats in (("train", 2), ("validation", 1))
    ]
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"quiz": {"env": ENV_ID, "datasets": datasets}}))
    return path


def command(config: Path, *more: str, mode: str = "train_preparation", tokenizer: str = "none") -> list[str]:
    paths = ["--config", str(config), "--output-dir", "out"]
    return ["data", "prepare", *paths, "--mode", mode, "--tokenizer", tokenizer, *more]


# -- the collated files ---------------------------------------------------------------------------------------------


def test_rows_are_collated_unchanged_but_for_whose_they_are(tmp_path: Path) -> None:
    line = '{"responses_create_params" : {"input": "caf\\u00e9", "seed": 123456789012345678901234567890}, '
    line += '"expected_answer": "A", "options": [{"A": "1e400"}]}'
    (tmp_path / "a.jsonl").write_text(line)  # the last line has no newline
    write_rows(tmp_path / "b.jsonl", [quiz_row(0), quiz_row(1)])
    first, second = dataset(tmp_path / "a.jsonl"), dataset(tmp_path / "b.jsonl", section="other", num_repeats=2)
    prepare(first, second, output=tmp_path / "out")
    lines = (tmp_path / "out/train.jsonl").read_text().splitlines()
    assert lines[0].startswith(line[:-1])
    rows = [json.loads(line) for line in lines]
    assert [row["agent_ref"]["name"] for row in rows] == ["quiz"] + ["other"] * 4
    assert {row["agent_ref"]["type"] for row in rows} == {"responses_api_agents"}
    assert {row["env_id"] for row in rows} == {ENV_ID}
    assert [row["expected_answer"] for row in rows] == ["A", "A", "A", "B", "B"]


def test_a_path_that_says_which_rows_is_prepared_like_start_idx_and_end_idx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "data/a.jsonl", [quiz_row(number) for number in range(6)])
    rows = {"name": "few", "type": "train", "license": "TBD"}
    configs = {
        "named": {**rows, "jsonl_fpath": "a.jsonl[1:4]"},
        "told": {**rows, "jsonl_fpath": "a.jsonl", "start_idx": 1, "end_idx": 4},
    }
    for name, each in configs.items():
        config = tmp_path / f"data/{name}.yaml"  # the path is relative to it
        config.write_text(yaml.safe_dump({"quiz": {"env": ENV_ID, "datasets": [each]}}))
        assert main([*command(config), "--output-dir", name]) == 0
        (tmp_path / "data/a_metrics.json").unlink()
    assert (tmp_path / "named/train.jsonl").read_bytes() == (tmp_path / "told/train.jsonl").read_bytes()
    assert len((tmp_path / "named/train.jsonl").read_text().splitlines()) == 3
    with pytest.raises(DataError, match="itself a dataset"):
        prepare(dataset(Path("named/train.jsonl[:1]")), output=tmp_path / "named")


def test_preparing_what_was_prepared_changes_nothing_and_other_owners_are_replaced(tmp_path: Path) -> None:
    other = {"agent_ref": {"type": "responses_api_agents", "name": "stranger"}, "big": 10**30}
    write_rows(tmp_path / "a.jsonl", [quiz_row(0), quiz_row(1, **other)])
    prepare(dataset(tmp_path / "a.jsonl"), output=tmp_path / "one")
    (tmp_path / "one/train.jsonl").rename(tmp_path / "again.jsonl")
    prepare(dataset(tmp_path / "again.jsonl"), output=tmp_path / "two")
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "two/train.jsonl").read_bytes()
    row = json.loads((tmp_path / "two/train.jsonl").read_text().splitlines()[1])
    assert row["agent_ref"]["name"] == "quiz"
    assert row["big"] == 10**30


def test_collated_rows_play(tmp_path: Path) -> None:
    import gymnasium as gym

    write_rows(tmp_path / "a.jsonl", [quiz_row(0), quiz_row(1)])
    prepare(dataset(tmp_path / "a.jsonl"), output=tmp_path / "out")
    env: Any = gym.make(ENV_ID, tasks=str(tmp_path / "out/train.jsonl"))
    assert env.unwrapped.num_tasks == 2


def test_two_runs_with_any_number_of_workers_give_the_same_bytes(tmp_path: Path) -> None:
    random.seed(0)
    start = 3
    fields = [{"score": random.random(), "uuid": f"{random.getrandbits(64):x}"} for _ in range(4000)]
    rows = [quiz_row(number, filler="x " * 150, **field) for number, field in enumerate(fields)]
    path = write_rows(tmp_path / "a.jsonl", rows)
    results = []
    for workers in (0, 2, 3):
        prepare(dataset(path, num_repeats=2, start_idx=start), output=tmp_path / "out", workers=workers)
        results.append(contents(tmp_path))
        (tmp_path / "a_metrics.json").unlink()
        (tmp_path / "out/train_metrics.json").unlink()
    assert results[0] == results[1] == results[2]
    metrics = json.loads(results[0]["out/train_metrics.json"])
    assert metrics["Number of examples"] == 2 * (4000 - start)
    assert metrics["uuid"] == {"unique_count": 4000 - start, "total_count": 2 * (4000 - start)}


def test_compressed_files_and_slices_are_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(quiz_row(number)) + "\n" for number in range(10))
    prepared = prepare(dataset(tmp_path / "a.jsonl.gz", start_idx=2, end_idx=5), output=tmp_path / "out")
    assert prepared.datasets[0].metrics["Number of examples"] == 3
    assert read(tmp_path / "a_metrics.json")["start_idx"] == 2
    assert "Question 2?" in (tmp_path / "out/train.jsonl").read_text().splitlines()[0]


def test_parts_of_one_file_have_statistics_of_their_own(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "all.jsonl", [quiz_row(number) for number in range(10)])
    train, validation = dataset(path, end_idx=8), dataset(path, "validation", start_idx=8)
    prepare(train, validation, output=tmp_path / "out")
    assert read(tmp_path / "all_train_metrics.json")["Number of examples"] == 8
    assert read(tmp_path / "all_validation_metrics.json")["Number of examples"] == 2
    assert len((tmp_path / "out/validation.jsonl").read_text().splitlines()) == 2


def test_an_output_folder_that_holds_the_input_is_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.jsonl", [quiz_row(0)])
    before = contents(tmp_path)
    with pytest.raises(DataError, match="would be replaced"):
        prepare(dataset(path), output=tmp_path)
    assert contents(tmp_path) == before


# -- bad rows -------------------------------------------------------------------------------------------------------


def bad_lines() -> list[tuple[bytes, str]]:
    """Twelve kinds of bad rows, and what the report says of each."""
    good = json.dumps(quiz_row(0)).encode()
    without = {name: value for name, value in quiz_row(0).items() if name != "expected_answer"}
    robot = quiz_row(0, responses_create_params={"input": [{"role": "robot", "content": "Hi"}]})
    typed = quiz_row(0, responses_create_params={"input": "?", "temperature": "hot"})
    return [
        (b"\xef\xbb\xbf" + good, "byte order mark"),
        (good[:-5], "not JSON"),
        (good + b"\r", "CRLF"),
        (b"", "empty"),
        (json.dumps(typed).encode(), "responses_create_params.temperature: Input should be a valid number"),
        (json.dumps(without).encode(), "expected_answer: Field required"),
        (good.replace(b"Question", b"Qu\xe9stion"), "not valid UTF-8 (byte 0xe9"),
        (good[:-1] + b', "expected_answer": "B"}', "same key twice ('expected_answer')"),
        (good[:-1] + b', "score": NaN}', "found NaN"),
        (good[:-1] + b', "filler": "' + b"x" * 50_000_000 + b'"}', "longer than 32 MiB"),
        (b"[" + good + b"]", "got a list"),
        (json.dumps(robot).encode(), "role: Input should be 'user', 'assistant', 'system' or 'developer'"),
    ]


@pytest.mark.parametrize("existed", [False, True])
def test_twelve_kinds_of_bad_rows_are_reported_and_nothing_is_written(
    config: Path, capsys: pytest.CaptureFixture[str], existed: bool
) -> None:
    good = json.dumps(quiz_row(1)).encode()
    kinds = bad_lines()
    Path("train.jsonl").write_bytes(b"".join(line + b"\n" + good + b"\n" for line, _ in kinds))
    if existed:
        Path("out").mkdir()
        Path("out/train.jsonl").write_text("as it was")
    before = {name for name in contents(Path()) if name != "train.jsonl"}
    assert main(command(config)) == 1
    output, errors = capsys.readouterr()
    assert output == ""
    assert "train.jsonl: 12 bad rows" in errors
    reports = [line.strip() for line in errors.splitlines() if line.strip().startswith("line ")]
    assert len(reports) == 12
    for number, (_, expected) in enumerate(kinds):
        assert [report for report in reports if report.startswith(f"line {2 * number + 1}: ") and expected in report]
    assert {name for name in contents(Path()) if name != "train.jsonl"} == before
    assert Path("out").exists() == existed
    if existed:
        assert Path("out/train.jsonl").read_text() == "as it was"


def test_bad_rows_of_all_files_are_reported_in_one_go(tmp_path: Path) -> None:
    rows = [quiz_row(number) for number in range(12000)]
    for number in (3000, 3001, 9000):
        rows[number]["expected_answer"] = "Z"
    first = write_rows(tmp_path / "a.jsonl", rows)
    second = write_rows(tmp_path / "b.jsonl", [quiz_row(0), {"options": []}])
    with pytest.raises(PreparationFailed) as caught:
        prepare(dataset(first), dataset(second, "validation"), output=tmp_path / "out", workers=2)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{first}: 3 bad rows"
    assert lines[1].startswith("  lines 3001-3002, 9001: ")
    assert "expected_answer 'Z' is not the letter of an option" in lines[1]
    missing = "the row has no `responses_create_params`, which --map or a `prompt_config` makes"
    assert lines[2:] == [f"{second}: 1 bad row", f"  line 2: {missing}"]
    assert not (tmp_path / "a_metrics.json").exists()
    assert not (tmp_path / "out").exists()


# -- missing files --------------------------------------------------------------------------------------------------


def test_all_missing_files_are_named_before_any_work(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.jsonl").unlink()
    Path("validation.jsonl").unlink()
    assert main(command(config)) == 2
    errors = capsys.readouterr().err
    assert "Data files are missing: 2." in errors
    assert "train.jsonl (quiz/train)" in errors
    assert "validation.jsonl (quiz/validation)" in errors
    assert not Path("out").exists()


def test_missing_files_are_downloaded_if_all_can_be(tmp_path: Path) -> None:
    identifier = {"huggingface_identifier": {"repo_id": "org/quiz"}}
    wanted = dataset(tmp_path / "data/train.jsonl", **identifier)
    fetched: list[DatasetConfig] = []

    def download(config: DatasetConfig) -> None:
        fetched.append(config)
        write_rows(Path(config.jsonl_fpath), [quiz_row(0)])

    unknown = dataset(tmp_path / "gone.jsonl", "validation")
    with pytest.raises(DataError, match=r"gone\.jsonl") as caught:
        prepare(wanted, unknown, output=tmp_path / "out", download=download)
    assert not fetched
    assert "data/train.jsonl" not in str(caught.value)  # that one could be downloaded
    with pytest.raises(DataError, match="--download fetches"):
        prepare(wanted, output=tmp_path / "out")
    prepare(wanted, output=tmp_path / "out", download=download)
    assert fetched == [wanted.config]


def test_a_mode_without_datasets_and_an_empty_file_are_errors(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [])
    with pytest.raises(DataError, match="has no rows"):
        prepare(dataset(path), output=tmp_path / "out")
    with pytest.raises(DataError, match="no datasets of type example"):
        prepare(dataset(path), output=tmp_path / "out", mode="example_validation")
    assert not (tmp_path / "out").exists()


# -- statistics -----------------------------------------------------------------------------------------------------


def test_statistics_are_in_nemo_gyms_shape(config: Path) -> None:
    assert main(command(config)) == 0
    metrics = read(Path("train_metrics.json"))
    assert metrics["name"] == "train"
    assert metrics["license"] == "MIT"
    assert metrics["num_repeats"] == 2
    assert metrics["Number of examples"] == 12
    for name in (
        "Number of tools",
        "Json-dumped number of words (proxy for token count)",
        "Number of turns",
        "Temperature",
    ):
        assert list(metrics[name]) == ["Total # non-null values", "Average", "Min", "Max", "Standard deviation"]
    assert metrics["Temperature"]["Average"] == 0.5
    assert metrics["expected_answer"] == {"unique_count": 2, "total_count": 12}
    assert metrics["Number of unique create params"] == 6
    assert read(Path("out/train_metrics.json")) == metrics
    assert read(Path("out/validation_metrics.json"))["Number of examples"] == 3


def test_metrics_written_by_nemo_gym_for_the_same_rows_agree(tmp_path: Path) -> None:
    """Figures computed as NeMo Gym does, from the whole list, and only the keys it has."""
    path = write_rows(tmp_path / "a.jsonl", [quiz_row(number, level=number) for number in range(5)])
    words = [len(json.dumps(quiz_row(number)["responses_create_params"]).split()) for number in range(5)]
    none = {"Total # non-null values": 0, "Average": 0.0, "Min": 0.0, "Max": 0.0, "Standard deviation": 0.0}
    theirs = {
        "name": "train",
        "type": "train",
        "jsonl_fpath": str(path),
        "num_repeats": 1,
        "gitlab_identifier": None,
        "huggingface_identifier": None,
        "license": "TBD",
        "Number of examples": 5,
        "Number of tools": none,
        "Json-dumped number of words (proxy for token count)": {
            **none,
            "Total # non-null values": 5,
            "Average": sum(words) / 5,
            "Min": float(min(words)),
            "Max": float(max(words)),
        },
        "Number of turns": {**none, "Total # non-null values": 5, "Average": 1.0, "Min": 1.0, "Max": 1.0},
        "Temperature": {**none, "Total # non-null values": 5, "Average": 0.5, "Min": 0.5, "Max": 0.5},
        "expected_answer": {"unique_count": 2, "total_count": 5},
        "level": {"Total # non-null values": 5, "Average": 2.0, "Min": 0.0, "Max": 4.0, "Standard deviation": 1.58},
    }
    (tmp_path / "a_metrics.json").write_text(json.dumps(theirs, indent=4))
    prepare(dataset(path), output=tmp_path / "out")
    ours = read(tmp_path / "a_metrics.json")
    assert {name: ours[name] for name in theirs} == theirs
    assert "Token counter" in ours


def test_statistics_that_disagree_fail_with_each_key_and_both_values(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(config)) == 0
    before = contents(Path())
    write_rows(Path("train.jsonl"), [quiz_row(number, expected_answer="A") for number in range(7)])
    assert main(command(config)) == 1
    errors = capsys.readouterr().err
    assert "train_metrics.json disagrees with the data" in errors
    assert "Number of examples: 12 on disk, 14 now" in errors
    assert "expected_answer.unique_count: 2 on disk, 1 now" in errors
    after = contents(Path())
    assert after.keys() - before.keys() == {"train_metrics_conflict.json", "out/train_metrics_conflict.json"}
    assert {name: after[name] for name in before if name != "train.jsonl"} == {
        name: data for name, data in before.items() if name != "train.jsonl"
    }
    assert read(Path("train_metrics_conflict.json"))["Number of examples"] == 14

    assert main(command(config, "--overwrite-metrics")) == 0
    assert read(Path("train_metrics.json"))["Number of examples"] == 14
    assert "14 now" in capsys.readouterr().out
    assert not [name for name in contents(Path()) if "conflict" in name]
    assert main(command(config)) == 0


def test_metrics_that_cannot_be_read_are_named(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("train_metrics.json").write_text("{")
    assert main(command(config)) == 2
    assert "train_metrics.json cannot be read" in capsys.readouterr().err
    assert not Path("out").exists()


def test_without_tiktokens_vocabulary_words_are_counted(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(Path("empty").absolute()))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert main(command(config, tokenizer="o200k_base")) == 0
    output = capsys.readouterr().out
    assert output.count("TIKTOKEN_CACHE_DIR") == 1
    assert "--tokenizer" in output
    metrics = read(Path("out/train_metrics.json"))
    assert metrics["Token counter"] == "none (words only)"
    assert "Input length in tokens" not in metrics


def test_a_named_tokenizer_counts_tokens_and_is_named_in_the_metrics(config: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    alphabet = {character: number for number, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(alphabet, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save("tokenizer.json")
    assert main(command(config, tokenizer="tokenizer.json")) == 0
    metrics = read(Path("train_metrics.json"))
    assert metrics["Token counter"] == "tokenizers:tokenizer.json"
    assert metrics["Input length in tokens"]["Average"] == len("Question 1?")
    kept = contents(Path())
    assert main(command(config)) == 0  # without a tokenizer the counts on disk stay
    assert contents(Path()) == kept


def test_a_tokenizer_that_is_not_there_is_an_error(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("model").mkdir()
    Path("model/tokenizer.json").write_text("{}")
    assert main(command(config, tokenizer="model")) == 2
    assert "Unknown tokenizer model" in capsys.readouterr().err


# -- the command ----------------------------------------------------------------------------------------------------


def test_the_table_names_every_dataset_and_result(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(config)) == 0
    output = capsys.readouterr().out
    for text in ("quiz/train", "quiz/validation", "0.5 (0.5 to 0.5)", "rows: out/train.jsonl"):
        assert text in output


def test_what_of_nemo_gyms_configuration_changes_nothing_is_said(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = config.with_name("nemo.yaml")
    other.write_text("mcqa: {resources_servers: {mcqa: {half_credit: true}}}")
    assert main(command(config, "--config", str(other))) == 0
    assert "Warning: not mapped: mcqa.resources_servers.mcqa.half_credit" in capsys.readouterr().err


def test_examples_of_the_environments_here_prepare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for config in sorted((ROOT / "envs").glob("*/config.yaml")):
        folder = tmp_path / "envs" / config.parent.name
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_bytes(config.read_bytes())
        (folder / "data").symlink_to(_copied(config.parent / "data", tmp_path / "data" / config.parent.name))
    monkeypatch.chdir(tmp_path)
    configs = [part for path in sorted(tmp_path.glob("envs/*/config.yaml")) for part in ("--config", str(path))]
    arguments = ["data", "prepare", *configs, "--output-dir", "out", "--mode", "example_validation"]
    assert main([*arguments, "--tokenizer", "none"]) == 0
    rows = [json.loads(line) for line in Path("out/example.jsonl").read_text().splitlines()]
    assert len(rows) == 5 * len(configs) // 2
    assert {row["env_id"] for row in rows} <= set(env_ids()) - {"gym_llm/Mixed-v0"}


def test_rows_that_name_their_verifier_are_checked_by_it_and_stay_as_they_are(tmp_path: Path) -> None:
    agent = {"type": "responses_api_agents", "name": "quiz_agent"}
    rows = [quiz_row(0, env_id=ENV_ID), quiz_row(1, agent_ref=agent), quiz_row(2, agent_ref=agent)]
    path = write_rows(tmp_path / "a.jsonl", rows)
    config = dataset(path).config
    mixed = EnvDataset("blend", "gym_llm/Mixed-v0", config, {"verifiers": {"quiz_agent": ENV_ID}})
    prepare(mixed, output=tmp_path / "out")
    assert (tmp_path / "out/train.jsonl").read_bytes() == path.read_bytes()
    del rows[2]["expected_answer"]
    write_rows(path, rows)
    with pytest.raises(PreparationFailed, match="line 3: expected_answer: Field required"):
        prepare(mixed, output=tmp_path / "out")


def test_arguments_that_the_environment_does_not_take_are_an_error(tmp_path: Path) -> None:
    config = dataset(write_rows(tmp_path / "a.jsonl", [quiz_row(0)])).config
    with pytest.raises(DataError, match=r"MultipleChoice cannot be made with \{'colour': 'red'\}"):
        prepare(EnvDataset("quiz", ENV_ID, config, {"colour": "red"}), output=tmp_path / "out")


def _copied(source: Path, target: Path) -> Path:
    target.mkdir(parents=True)
    for path in source.glob("*.jsonl"):
        (target / path.name).write_bytes(path.read_bytes())
    return target


def test_a_kill_at_any_moment_leaves_no_half_file(config: Path) -> None:
    rows = [quiz_row(number, filler="x" * 1500) for number in range(8000)]
    write_rows(Path("train.jsonl"), rows)
    assert main(command(config)) == 0
    whole = contents(Path())
    for delay in (0.0, 0.05, 0.1, 0.2, 0.3):
        for name in ("out/train.jsonl", "out/validation.jsonl", "train_metrics.json"):
            Path(name).unlink(missing_ok=True)
        process = subprocess.Popen([sys.executable, "-c", CODE, *command(config)], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not Path("out/.train.jsonl.tmp").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for name, data in contents(Path()).items():
            if not name.endswith(".tmp"):
                assert data == whole[name]
    assert main(command(config)) == 0
    assert contents(Path()) == whole


def test_workers_end_with_a_killed_command(config: Path) -> None:
    write_rows(Path("train.jsonl"), [quiz_row(number, filler="x" * 1500) for number in range(8000)])
    process = subprocess.Popen([sys.executable, "-c", CODE, *command(config)], stdout=subprocess.DEVNULL)
    workers: list[str] = []
    deadline = time.monotonic() + 60
    while not workers and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
        workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGKILL)
    process.wait()
    while any(os.path.exists(f"/proc/{worker}") for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [worker for worker in workers if os.path.exists(f"/proc/{worker}")]


def test_ctrl_c_removes_what_was_begun(config: Path) -> None:
    write_rows(Path("train.jsonl"), [quiz_row(number, filler="x" * 1500) for number in range(20000)])
    process = subprocess.Popen([sys.executable, "-c", CODE, *command(config)], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not Path("out/.train.jsonl.tmp").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert not Path("out").exists()
    assert b"Traceback" not in errors


def test_two_runs_into_one_folder_do_not_mix(tmp_path: Path) -> None:
    from gym_llm.data.files.atomic import replacing

    path = write_rows(tmp_path / "a.jsonl", [quiz_row(0)])
    (tmp_path / "out").mkdir()
    with replacing(tmp_path / "out/train.jsonl"), pytest.raises(DataError, match="written by another process"):
        prepare(dataset(path), output=tmp_path / "out")
