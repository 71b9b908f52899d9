"""MolDeTox: molecules and fragments of molecules."""

from __future__ import annotations

import json
from typing import Any

import pytest
from testing import scored

from gym_llm.errors import DataError

ENV_ID = "gym_llm/MolDeTox-v0"
TOLUENE = "Cc1ccccc1"


def graded(text: str, expected: str, mode: str = "smiles", **kwargs: Any) -> tuple[float, dict[str, Any]]:
    metadata = {"answer": expected, "scoring_mode": mode, "endpoint": "ames"}
    return scored(ENV_ID, text, kwargs, verifier_metadata=metadata)


def said(answer: Any) -> str:
    return json.dumps({"answer": answer})


@pytest.mark.parametrize(
    ("answer", "expected", "mode", "reward"),
    [
        ("c1ccccc1C", TOLUENE, "smiles", 1.0),
        ("C1=CC=CC=C1C", TOLUENE, "smiles", 1.0),
        ("Cc1ccncc1", TOLUENE, "smiles", 0.0),
        ("[Na+].[Cl-]", "[Cl-].[Na+]", "smiles", 1.0),
        ("C[C@H](F)O", "C[C@@H](F)O", "smiles", 0.0),
        ("c1ccccc1C.C", TOLUENE, "smiles", 0.0),
        ("C1CC", TOLUENE, "smiles", 0.0),
        ("C" * 1999, TOLUENE, "smiles", 0.0),
        ("c16ccccc1.C6", "C7.c17ccccc1", "safe", 1.0),
        ("C%12.c1%12ccccc1", "C7.c17ccccc1", "safe", 1.0),
        (TOLUENE, "C7.c17ccccc1", "safe", 1.0),
        ("C.c1ccccc1", "C7.c17ccccc1", "safe", 0.0),
        ("C7.C7", "C7.c17ccccc1", "safe", 0.0),
        ("c16ccccc1", "c1ccccc1", "safe", 1.0),  # the open bond gets a hydrogen
        ("C=5", "C=C", "safe", 1.0),
        ("N7.C46", "C46.N7", "fragments_task1", 1.0),
        ("C46 . N7.", "C46.N7", "fragments_task2", 1.0),
        ("C46", "C46.N7", "fragments_task1", 0.0),
        ("C46.N7.N7", "C46.N7", "fragments_task1", 0.0),
        ("C64.N7", "C46.N7", "fragments_task2", 0.0),
    ],
)
def test_the_answer_has_to_be_the_expected_one(answer: str, expected: str, mode: str, reward: float) -> None:
    for kwargs in ({}, {"conform": "nemo"}):
        got, info = graded(said(answer), expected, mode, **kwargs)
        assert (got, info["status"], info["extracted_answer"]) == (reward, "scored", answer)


@pytest.mark.parametrize(
    ("text", "status", "reward"),
    [
        (f"```json\n{said('C')}\n```\nNo: {said(TOLUENE)}", "scored", 1.0),
        (f"{said('C')}\n```json\n{said(TOLUENE)}\n```", "scored", 1.0),
        (f"{said(TOLUENE)} or {said('')}", "scored", 1.0),
        (f"{said(TOLUENE)} no: {said('C')}", "scored", 0.0),
        (said(5), "no_answer", 0.0),
        (TOLUENE, "no_answer", 0.0),
        ("", "empty_output", 0.0),
        (said("C" * 2001), "answer_too_long", 0.0),
        ("{" * 50_000, "no_answer", 0.0),
        ("```json{" * 5_000, "no_answer", 0.0),
        ("[" * 50_000, "no_answer", 0.0),
    ],
)
def test_the_last_answer_counts(text: str, status: str, reward: float) -> None:
    for kwargs in ({}, {"conform": "nemo"}):
        got, info = graded(text, TOLUENE, **kwargs)
        assert (got, info["status"]) == (reward, status)


@pytest.mark.parametrize(
    ("text", "expected", "here", "theirs"),
    [
        ('{"answer": "C/C=C\\C"}', r"C/C=C\C", 1.0, 0.0),
        (said("CCO or CCN"), "CCO", 0.0, 1.0),
        (f"<think>{said('CCO')}</think>It is hard.", "CCO", 0.0, 1.0),
    ],
)
def test_where_it_differs_from_upstream(text: str, expected: str, here: float, theirs: float) -> None:
    assert (graded(text, expected)[0], graded(text, expected, conform="nemo")[0]) == (here, theirs)


def test_details_tell_how_near_an_answer_is() -> None:
    _, molecule = graded(said("Cc1ccncc1"), TOLUENE)
    assert molecule["validity"] == 1.0 and molecule["levenshtein"] == 1.0 and 0 < molecule["tanimoto_morgan"] < 1
    _, fragments = graded(said("C46.N8.N8"), "C46.N7", "fragments_task2")
    assert (fragments["fragment_f1"], fragments["n_fragments_predicted"]) == (0.5, 3.0)
    assert fragments["levenshtein"] == pytest.approx(2 / 3)
    assert "levenshtein" not in graded(said("C46"), "C46.N7", "fragments_task1")[1]


def test_a_row_without_a_molecule_is_not_the_models_fault() -> None:
    with pytest.raises(DataError, match="molecule"):
        graded(said("C"), "c1cc")
    for wrong in ({"answer": ""}, {"answer": "C", "scoring_mode": "inchi"}, {}):
        with pytest.raises(DataError):
            scored(ENV_ID, "", {}, verifier_metadata=wrong)
