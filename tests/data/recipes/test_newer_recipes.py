"""Recipes of NeMo Gym 0.7.0: rows become what its scripts make of them, but for the wording of questions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gym_llm.data.recipes.catalogue import find_benchmark

SEEN = {
    "id": "1",
    "question": "q",
    "answer": "a",
    "Verified_Classes": "Gold subset",
    "json": '{"answer_type": "exact"}',
}
GENES = {
    **dict.fromkeys(("cell_line", "cell_type", "library_type", "library_methodology", "experimental_setup"), "x"),
    **dict.fromkeys(("duration", "condition_clause", "significance_criteria", "ranking_rationale", "notes"), "x"),
    **{"phenotype": "dies.", "dataset_name": 5, "relevance_genes": ["A"], "relevance_scores": [1], "yearfold0": "test"},
}
ANSWER = {"source_id": 1, "split": "test", "quality": "good", "response": "It rains.", "labels": [{"text": "rains"}]}
NEWS = {"source_id": 1, "task_type": "Summary", "source_info": "It is dry."}
DATA = {"source_id": 2, "task_type": "Data2txt", "source_info": {"a": 1}}
QA = {"source_id": 3, "task_type": "QA", "source_info": {"question": "Dry?", "passages": "Yes."}}
TOXIC = {
    "answer": {"answer": "CCO"},
    "endpoint": "e",
    "dataset_name": "d",
    "source_index": "3",
    "id": 7,
    "question": "Q",
}
WIDE = {"instance_id": "ws_en_001", "query": "q", "evaluation": '{"required": ["a"]}', "language": "en"}
ROLE = {"task": "role_related_mrc_answer_no_narration-special-format", "question": [{"role": "User", "content": "Hi"}]}
CODE = {"runnable": True, "prompt": "def f():", "task_id": "t", "test": "c", "entry_point": "f", "setup_code": None}


@pytest.mark.parametrize(
    ("name", "tables", "wanted"),
    [
        ("apex25", {"train": [{"problem": "1+1?", "answer": 2}]}, [{"question": "1+1?", "expected_answer": "2"}]),
        ("arxivmath-0626", {"train": [{"problem": "p", "answer": "x"}]}, [{"question": "p", "expected_answer": "x"}]),
        (
            "brokenarxiv_0526",
            {"train": [{"problem": "false", "original_problem": "true", "other": 1}]},
            [{"question": "false", "original_problem": "true"}],
        ),
        (
            "hle_verified",
            {"train": [SEEN]},
            [{"expected_answer": "a", "answer_type": "exact", "verified_class": "gold"}],
        ),
        ("hle_verified", {"train": [SEEN | {"Verified_Classes": "Uncertain subset"}, SEEN | {"image": "data:"}]}, []),
        ("hle_verified:revision", {"train": [SEEN]}, []),
        ("assaybench", {"test": [GENES, GENES | {"yearfold0": "train"}]}, [{"dataset_name": "5", "num_genes": 1}]),
        ("assaybench:LaTest", {"LaTest": [GENES]}, [{"split": "LaTest", "relevance_scores": [1.0]}]),
        (
            "ragtruth",
            {"answers": [{**ANSWER, "source_id": n} for n in (1, 2, 3, 4)], "sources": [NEWS, DATA, QA]},
            [{"task_type": kind, "is_halu": True} for kind in ("QA", "Summary", "Data2txt")],
        ),
        (
            "ragtruth",
            {"answers": [ANSWER | {"quality": "truncated"}, ANSWER | {"split": "train"}], "sources": [NEWS]},
            [],
        ),
        (
            "rolemrc",
            {"": [ROLE | {"chosen": "Hello."}]},
            [
                {
                    "responses_create_params": {"input": [{"role": "user", "content": "Hi"}]},
                    "reference": "Hello.",
                    "dimension": "nested_instruction",
                }
            ],
        ),
        ("scicodepile", {"train": [CODE, CODE | {"runnable": False}]}, [{"question": "def f():"}]),
        ("aegis-v4-safety", {"": [{"sample_id": "s", "prompt": "Hi"}]}, [{"sample_id": "s", "prompt": "Hi"}]),
        ("deepsearchqa", {"": [{"problem": "Who?"}] * 2}, [{"example_id": "0"}, {"example_id": "1"}]),
        (
            "widesearch",
            {"questions": [WIDE], "ws_en_001": [{"a": "1", "b": "2"}, {"a": "3"}]},
            [{"gold_answer": [{"a": "1", "b": "2"}, {"a": "3", "b": None}], "evaluation": {"required": ["a"]}}],
        ),
    ],
)
def test_rows_become_tasks(name: str, tables: dict[str, list[Any]], wanted: list[dict[str, Any]]) -> None:
    recipe = find_benchmark(name)
    loads = [(source, tables[source.label]) for source in recipe.sources if source.label in tables]
    tasks = json.loads(json.dumps(list(recipe.tasks_of(loads))))
    assert [task | fields for task, fields in zip(tasks, wanted, strict=True)] == tasks


@pytest.mark.parametrize(("molecules", "toxic"), [([{"orig_test_index": "3", "toxic_smiles": "CN"}], "CN"), ([], None)])
def test_a_toxic_molecule_is_joined_by_its_index(molecules: list[Any], toxic: str | None) -> None:
    recipe = find_benchmark("moldetox")
    (task,) = recipe.tasks_of(list(zip(recipe.sources, ([TOXIC], molecules), strict=True)))
    assert (task["verifier_metadata"]["toxic_smiles"], task["verifier_metadata"]["answer"]) == (toxic, "CCO")
