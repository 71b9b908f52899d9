"""Texts of token ids: from the tokenizer of the model that a record or its run names, if it is on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gym_llm.evaluation.view.index import RunIndex
from gym_llm.evaluation.view.vocabulary import find_tokenizer, pieces_of


def asked(tmp_path: Path, record: dict[str, Any], summary: Any = None) -> dict[str, Any]:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(record) + "\n")
    if summary is not None:
        path.with_name("a.summary.json").write_text(json.dumps(summary))
    run = RunIndex(path)
    try:
        return pieces_of(run, [record])
    finally:
        run.close()


def with_ids(make: Any, ids: list[Any], model: str = "pocket") -> dict[str, Any]:
    record = make.record(0)
    record["response"]["model"] = model
    record["trajectory"] = [{"input_ids": ids, "loss_mask": [1] * len(ids), "logprobs": [-1.0] * len(ids)}]
    return dict(record)


def write_tokenizer(folder: Path, **tokenizer: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def test_the_pocket_models_ids_have_the_texts_of_its_tokenizer(tmp_path: Path, make: Any) -> None:
    from transformers import AutoTokenizer

    place = find_tokenizer("pocket")
    assert place is not None
    tokenizer = AutoTokenizer.from_pretrained(str(place.parent))
    text = "<|im_start|>user\nHow much is 89 - 81? Grüße \\boxed{8}<|im_end|>"
    ids = tokenizer(text)["input_ids"]
    answer = asked(tmp_path, with_ids(make, ids))
    assert (answer["tokenizer"], answer["missing"]) == ("pocket", "")
    pieces = [answer["pieces"][str(each)].encode("latin-1") for each in ids]
    assert b"".join(pieces).decode() == text
    assert sorted(tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])) == answer["special"]


def test_the_summarys_model_comes_before_the_responses_name(tmp_path: Path, make: Any) -> None:
    record = with_ids(make, [0, 1], "served-name")
    answer = asked(tmp_path, record, {"settings": {"engine": "pocket"}})
    assert answer["tokenizer"] == "pocket" and answer["pieces"]
    write_tokenizer(tmp_path / "model", model={"vocab": {"a": 0, "b": 1}})
    answer = asked(tmp_path, record, {"settings": {"engine": f"vllm:{tmp_path}/model"}})
    assert answer["pieces"] == {"0": "a", "1": "b"}


def test_a_tokenizer_in_the_hugging_face_cache_is_found(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    record = with_ids(make, [0, 1, 2, 3], "org/Model-1.5")
    missing = asked(tmp_path, record)
    assert missing["pieces"] == {} and "tokenizer of org/Model-1.5 is not on this machine" in missing["missing"]
    assert "hf download org/Model-1.5 tokenizer.json" in missing["missing"]
    folder = tmp_path / "hub" / "models--org--Model-1.5"
    vocab = {"\u2581Hi": 0, "<0xC3>": 1, "<0xBC>": 2, "</s>": 3}
    added = [{"id": 3, "content": "</s>", "special": True}]
    write_tokenizer(folder / "snapshots" / ("a" * 40), model={"vocab": vocab}, added_tokens=added)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("a" * 40)
    answer = asked(tmp_path, record)
    assert answer["pieces"] == {"0": " Hi", "1": "\xc3", "2": "\xbc", "3": "</s>"} and answer["special"] == [3]


@pytest.mark.parametrize(
    "tokenizer",
    [[], {}, {"model": {"vocab": 5}}, {"model": {"vocab": {"a": 0}}, "added_tokens": [5]}, {"model": {"vocab": [[]]}}],
)
def test_a_file_that_is_no_tokenizer_is_as_good_as_missing(tmp_path: Path, make: Any, tokenizer: Any) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "tokenizer.json").write_text(json.dumps(tokenizer))
    answer = asked(tmp_path, with_ids(make, [0], str(tmp_path / "model")))
    assert answer["pieces"] == {} and "is not on this machine" in answer["missing"]


@pytest.mark.parametrize("name", ["", "../..", "a/../b", "x" * 500, "a\nb", "org/a/b", "/nowhere"])
def test_names_that_lead_nowhere_find_nothing(tmp_path: Path, make: Any, name: str) -> None:
    assert name == "" or find_tokenizer(name) is None
    assert asked(tmp_path, with_ids(make, [0, -1, 2**70, None, "x"], name))["pieces"] == {}


def test_a_record_without_ids_needs_no_tokenizer(tmp_path: Path, make: Any) -> None:
    assert asked(tmp_path, make.record(0)) == {"tokenizer": "", "pieces": {}, "special": [], "missing": ""}
