from __future__ import annotations

from typing import get_args

import pytest
from pydantic import ValidationError

from gym_llm.data.files.datasets import DatasetConfig, License

TRAIN = {"name": "train", "type": "train", "jsonl_fpath": "data/train.jsonl", "license": "Apache 2.0"}
EXAMPLE = {"name": "example", "type": "example", "jsonl_fpath": "data/example.jsonl"}


def problem(**fields) -> str:
    with pytest.raises(ValidationError) as caught:
        DatasetConfig(**fields)
    (error,) = caught.value.errors()
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}"


def test_what_nemo_gym_documents_is_read():
    dataset = DatasetConfig(
        **TRAIN,
        num_repeats=4,
        start_idx=10,
        end_idx=20,
        huggingface_identifier={
            "repo_id": "nvidia/Nemotron-RL-agent-workplace_assistant",
            "artifact_fpath": "train.jsonl",
        },
        gitlab_identifier={
            "dataset_name": "multineedle",
            "version": "0.0.1",
            "artifact_fpath": "multineedle/train.jsonl",
        },
    )
    assert dataset.huggingface_identifier.artifact_fpath == "train.jsonl"
    assert dataset.gitlab_identifier.version == "0.0.1"
    assert dataset.source == "data/train.jsonl[10:20]"
    assert (
        DatasetConfig(**TRAIN, huggingface_identifier={"repo_id": "a/b"}).huggingface_identifier.artifact_fpath is None
    )


def test_rows_are_named_once():
    assert DatasetConfig(**{**EXAMPLE, "jsonl_fpath": "a.jsonl[1:3]"}).source == "a.jsonl[1:3]"
    message = problem(**{**EXAMPLE, "jsonl_fpath": "a.jsonl[1:3]"}, start_idx=1)
    assert "a.jsonl[1:3] says already which rows: leave out start_idx and end_idx" in message


def test_examples_need_no_licence_and_play_once():
    dataset = DatasetConfig(**EXAMPLE)
    assert (dataset.license, dataset.num_repeats, dataset.source) == (None, 1, "data/example.jsonl")


@pytest.mark.parametrize("kind", ["train", "validation"])
def test_training_data_needs_a_licence(kind):
    assert f"a {kind} dataset needs a `license`" in problem(name="a", type=kind, jsonl_fpath="a.jsonl")


@pytest.mark.parametrize("license", get_args(License))
def test_nemo_gyms_ten_licences(license):
    assert len(get_args(License)) == 10
    assert DatasetConfig(**{**TRAIN, "license": license}).license == license


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("license", "Apache-2.0", "Apache 2.0"),
        ("type", "test", "'train', 'validation', 'benchmark' or 'example'"),
        ("jsonl_fpath", "", "at least 1 character"),
        ("num_repeats", 0, "greater than or equal to 1"),
        ("num_repeats", True, "valid integer"),
        ("start_idx", -1, "greater than or equal to 0"),
        ("end_idx", 0, "leaves no row after start_idx 0"),
        ("huggingface_identifier", {"artifact_fpath": "a"}, "huggingface_identifier.repo_id: Field required"),
        ("licence", "MIT", "licence: Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_named(field, value, said):
    assert said in problem(**{**TRAIN, field: value})


@pytest.mark.parametrize("version", ["1", "1.2", "v1.2.3", "1.2.3\n", "1.2.x"])
def test_a_gitlab_version_is_three_numbers(version):
    identifier = {"dataset_name": "a", "version": version, "artifact_fpath": "b"}
    assert "gitlab_identifier.version" in problem(**TRAIN, gitlab_identifier=identifier)


def test_a_slice_has_rows():
    assert "end_idx 5 leaves no row after start_idx 5" in problem(**EXAMPLE, start_idx=5, end_idx=5)
