"""Recipes of NeMo Gym 0.7.0: rows become what its scripts make of them, but for the wording of questions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gym_llm.data.recipes.catalogue import find_benchmark, is_benchmark
from gym_llm.data.recipes.prepared import prepare
from gym_llm.errors import DataError

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
AGENT = {"input": [{"role": "user", "content": "Hi"}], "query_id": 3, "constraints": [{"id": 0, "score": 1.0}]}
MECHANISM = {
    "reactions": [{"conditions": [{"role": "solvent", "text": "DMF", "reaction_step": "1"}, {"role": "heat"}]}],
    "mechanism": [{"mechanism_id": "1", "reactants": [{"smiles": "CI"}], "products": [{"smiles": "CN"}]}],
}
CASE = [
    {"_member": "x/mechanisms/B001/mechanism.json", "text": json.dumps(MECHANISM)},
    {"_member": "x/mechanisms/B001/ckpt.txt", "text": "1\n2, 3\n\n"},
    {"_member": "x/mechanisms/B001/rxn.json", "text": "{}"},
]
STARTING = "Starting materials:\nCI\n\nsolvent: DMF (step 1)"
CRITERIA = {"reward_basis": ["DB", "NL_ASSERTION"], "actions": []}
CUSTOMERS = [{"id": "0", "evaluation_criteria": CRITERIA}, {"id": "1", "evaluation_criteria": CRITERIA}]
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
        (
            "agentif",
            {"": [AGENT]},
            [
                {
                    "verifier_metadata": {
                        **dict.fromkeys(("turn_id", "domain", "agent_name", "prompt_type")),
                        "query_id": 3,
                        "constraints": [{"id": 0}],
                    }
                }
            ],
        ),
        ("lmarena_v2", {"": [{"question": "Hi?"}]}, [{"question": "Hi?"}]),
        (
            "tau2",
            {
                f"{name}{end}": [{"base": ["1"]}] if end else CUSTOMERS
                for name in ("airline", "retail", "telecom")
                for end in ("", "_splits")
            },
            [
                {
                    "config": {"domain": name},
                    "task": {"id": "1", "evaluation_criteria": CRITERIA | {"reward_basis": ["DB"]}},
                }
                for name in ("airline", "retail", "telecom")
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


def test_the_files_of_a_mechanism_are_joined() -> None:
    recipe = find_benchmark("fukuyamabench")
    (task,) = recipe.tasks_of([(recipe.sources[0], CASE)])
    assert task["responses_create_params"]["input"][-1]["content"] == STARTING
    wanted = {"case_id": "B001", "case_set": "B", "checkpoints": [[1], [2, 3]], "lenient": True}
    assert task["verifier_metadata"] == wanted | {"gt_pathway": [{"step_id": "1", "products": ["CN"]}]}
    assert find_benchmark("fukuyamabench:A").rows == 78


def test_a_recipe_without_public_rows_says_what_to_download() -> None:
    recipe = find_benchmark("lmarena_v3")
    with pytest.raises(DataError, match=r"Download lmarena_v3_validation\.jsonl: .* gym-llm data convert lmarena_v3"):
        prepare(recipe)


def test_a_framework_keeps_its_environments_beside_a_benchmark_of_its_name() -> None:
    assert is_benchmark("tau2") and is_benchmark("benchmark:tau2:retail") and not is_benchmark("tau2:retail")
