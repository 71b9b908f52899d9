"""FukuyamaBench: the products of a mechanism's steps, checkpoint by checkpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest
from testing import scored

from gym_llm.errors import DataError

ENV_ID = "gym_llm/FukuyamaBench-v0"
STEPS = [["CCC(C)(C)[OH2+]", "[Cl-]"], ["CC[C+](C)C", "O"], ["CC=C(C)C", "[OH3+]"]]


def graded(text: str, checkpoints: Any = ((1,), (2, 3)), lenient: bool = True, **kwargs: Any) -> tuple[float, Any]:
    pathway = [{"step_id": str(number), "products": products} for number, products in enumerate(STEPS, 1)]
    metadata = {"gt_pathway": pathway, "checkpoints": checkpoints, "lenient": lenient, "case_set": "B"}
    return scored(ENV_ID, text, kwargs, verifier_metadata=metadata)


def mechanism(*products: Any, name: str = "product_smiles") -> str:
    return "```json\n" + json.dumps([{"step_id": 1, name: each} for each in products]) + "\n```"


FIRST, SECOND, THIRD = map(".".join, STEPS)
RIGHT = mechanism(FIRST, SECOND)


@pytest.mark.parametrize(
    ("text", "lenient", "strict"),
    [
        (RIGHT, 1.0, 1.0),
        (mechanism(FIRST, THIRD), 1.0, 1.0),
        (mechanism("CCCCI", FIRST, "CCCCI", "O.C[C+](C)CC"), 1.0, 1.0),
        (mechanism(*STEPS[:2]), 1.0, 1.0),
        (mechanism(*STEPS[:2], name="products"), 1.0, 1.0),
        (mechanism(*[[{"smiles": each} for each in step] for step in STEPS[:2]], name="products"), 1.0, 1.0),
        (mechanism("[CH3:1]CC(C)(C)[OH2+:7].[Cl-:2]", SECOND), 1.0, 1.0),
        (mechanism(STEPS[0][0], STEPS[1][0]), 1.0, 0.0),
        (mechanism(SECOND, FIRST), 0.0, 0.0),
        (mechanism(FIRST), 0.0, 0.0),
        (mechanism(FIRST + ".CCI", SECOND), 0.0, 0.0),
        (mechanism(FIRST + ".C(C", SECOND), 0.0, 0.0),
        (mechanism([*STEPS[0], None], SECOND), 0.0, 0.0),
        (mechanism(None, 5, "", {"smiles": FIRST}, SECOND), 0.0, 0.0),
        (mechanism("C" * 20_000, SECOND), 0.0, 0.0),
    ],
)
def test_steps_pass_checkpoints_in_order(text: str, lenient: float, strict: float) -> None:
    for kwargs in ({}, {"conform": "nemo"}):
        reward, info = graded(text, **kwargs)
        assert (reward, graded(text, lenient=False, **kwargs)[0], info["status"]) == (lenient, strict, "scored")


def test_small_products_alone_pass_no_checkpoint_but_upstream() -> None:
    text = mechanism(*["O", "[Br-]", "[Cl-]", "[OH3+]"] * 2)
    assert (graded(text)[0], graded(text, conform="nemo")[0]) == (0.0, 1.0)


def test_reasoning_is_read_upstream_only() -> None:
    text = f"<think>{RIGHT}</think>"
    assert (graded(text)[0], graded(text, conform="nemo")[0]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        (f"## Reasoning\n{mechanism('CCI')}\n## Result\n{RIGHT}", 1.0),
        (f"{RIGHT}\nNo:\n{mechanism('CCI')}", 0.0),
        (f"[1] [c] see [O-]\n## Result\n{RIGHT[8:-4]}\nDone", 1.0),
        (f'{{"steps": {RIGHT[8:-4]}}}', 1.0),
        ("\n".join(json.dumps({"step_id": n, "product_smiles": each}) for n, each in enumerate((FIRST, SECOND))), 1.0),
        (f"<think>{RIGHT}</think>{mechanism('CCI')}", 0.0),
        (RIGHT.replace("CC[C+]", "C\\C[C+]"), 1.0),
        ("", 0.0),
        ("[" * 50_000, 0.0),
        ('{"step_id"' * 10_000, 0.0),
        ("```json[" * 10_000, 0.0),
    ],
)
def test_the_last_list_of_steps_counts(text: str, reward: float) -> None:
    assert graded(text)[0] == reward


def test_details_say_which_steps_passed() -> None:
    _, info = graded(mechanism(FIRST, "CCI", "CCCI"), checkpoints=[[1], [2], [3]])
    assert (info["checkpoint_matches"], info["checkpoints_correct"], info["pred_length"]) == ([1, None, None], 1, 3)
    assert (info["case_set"], info["gt_steps"], info["any_checkpoint_correct"]) == ("B", 3, True)


@pytest.mark.parametrize("checkpoints", [[], [[4]], [[]]])
def test_a_checkpoint_needs_a_step(checkpoints: Any) -> None:
    with pytest.raises(DataError, match="checkpoints"):
        graded(RIGHT, checkpoints)
