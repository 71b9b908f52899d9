"""Ether0: rewards as FutureHouse's functions gave them, refused rows, and hostile molecules."""

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import pytest
from testing import cpu_seconds, row, scored

from gym_llm.envs.ether0.answers import answer_in, same_reaction, same_string
from gym_llm.errors import DataError

ENV = "gym_llm/Ether0-v0"
VECTORS = json.loads((Path(__file__).parent / "vectors" / "ether0.json").read_text("utf-8"))
"""[function, answer, argument, reward, reason]: by the functions of Future-House/ether0, on our own answers.

The filters were those of `known_filters`. They were recorded with rdkit 2026.9.1, exmol 3.3.0 and molbloom 2.3.4.
"""
KNOWN = [
    "CCO", "CC(=O)O", "c1ccccc1", "CC(=O)Oc1ccccc1C(=O)O", "C1CCCCC1O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "O=C1CCCCC1",
    "c1ccncc1C(=O)N", "C[C@H](N)C(=O)O", "CC(C)Cc1ccc(cc1)C(C)C(=O)O", "CCN(CC)CC", "CCCCO", "CCOCC",
]  # fmt: skip

with_rdkit = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("rdkit", "exmol", "molbloom")), reason="the extra chem is not installed"
)


def fields(function, argument, **more):
    solution = f"{function}!:!{argument}!:!own"
    return {"verifier_metadata": {"solution": solution, "problem_type": "own", "ideal": None, **more}}


def score(answer, function, argument, kwargs=None, **more):
    return scored(ENV, f"<answer>{answer}</answer>", kwargs, **fields(function, argument, **more))


@pytest.fixture(scope="module")
def known_filters(tmp_path_factory):
    """Filters that know the rings and fragments of `KNOWN`."""
    from molbloom import CustomFilter
    from rdkit import Chem

    from gym_llm.envs.ether0.molecules import _fragments, _rings

    folder = tmp_path_factory.mktemp("filters")
    for name, parts_of, bits in (("rings", _rings, 1 << 16), ("fingerprints", _fragments, 1 << 18)):
        bloom = CustomFilter(bits, 200 if name == "rings" else 2_000, name)
        for smiles in KNOWN:
            for part in parts_of(Chem.MolFromSmiles(smiles)):
                bloom.add(part)
        bloom.save(str(folder / f"{name}.bloom"))
    return str(folder)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>C</answer> or <answer> CCO\n</answer>", "CCO"),
        ("<|answer_start|>CCO<|answer_end|>", "CCO"),
        ("<answer>C <answer>N</answer>", None),
        ("<answer>C <answer>N</answer> \\boxed{O}", "O"),
        ("<answer></answer>", None),
        ("\\boxed{C} and \\boxed{CO}", "CO"),
        ("Answer: a\nAnswer: B \n", "B"),
        ("**Answer: (B)**", "B"),
        ("Answer: B or C", None),
        ("Answer: Both", None),
        ("Answer: BC", None),
        ("", None),
    ],
)
def test_the_answer_is_the_last_tag_or_box_or_letter(text, answer):
    assert answer_in(text) == answer


def test_a_long_answer_is_searched_in_linear_time():
    for text in ("<answer>" * 200_000, "<answer> " * 200_000 + "</answer>", "Answer" + " " * 400_000, "^{" * 300_000):
        assert cpu_seconds(answer_in, text) < 1.0
        assert cpu_seconds(same_reaction, text, "x") < 2.0


@pytest.mark.parametrize(
    ("answer", "expected", "same", "same_as_reaction"),
    [
        ("  cco ", "CCO", True, True),
        ("2-(methyl)-propane", "2-Methyl propane", True, True),
        ("tricyclo[2.2.1.0^{2,6}]heptane", "tricyclo[2.2.1.0^(2,6)]heptane", True, True),
        ("-[a}-{b)-", "a-b", False, False),
        ("Suzuki\u2013Miyaura coupling", "suzuki-miyaura coupling", False, True),
        ("Diels, Alder", "Diels-Alder", False, True),
        ("Heck", "Diels-Alder", False, False),
    ],
)
def test_names_are_compared_without_what_does_not_matter(answer, expected, same, same_as_reaction):
    assert (same_string(answer, expected), same_reaction(answer, expected)) == (same, same_as_reaction)


def test_a_letter_stands_for_its_choice():
    choices = {"A": "CCO", "B": "CCN"}
    assert score("b", "str_eval", "CCN", choices=choices)[0] == 1.0
    assert score(r"\textbf{(B)}", "str_eval", "CCN", choices=choices)[0] == 1.0
    assert score("B or A", "str_eval", "CCN", choices=choices)[0] == 0.0
    assert score("A", "str_eval", "CCN", choices=choices)[0] == 0.0
    reward, info = scored(ENV, "No idea.", **fields("str_eval", "CCN", choices=choices))
    assert (reward, info["reason"], info["extracted_answer"]) == (0.0, "format_failed", None)


@pytest.mark.parametrize(
    ("function", "argument", "word"),
    [
        ("sol_eval", "('scaffold', 'CCO', -1.0, 'increase')", "solubility"),
        ("rxn_forward", "CCO", "reactions"),
        ("smell_eval", "CCO", "unknown"),
        ("functional_group_eval", "__import__('os')", "FORMULA"),
        ("functional_group_eval", "('C', [1])", "FORMULA"),
    ],
)
def test_a_row_that_cannot_be_graded_is_refused_when_it_is_read(function, argument, word):
    with pytest.raises(DataError, match=word):
        gym.make(ENV, tasks=[row(**fields(function, argument))]).reset()
    with pytest.raises(DataError, match="FUNCTION"):
        gym.make(ENV, tasks=[row(verifier_metadata={"solution": "str_eval"})]).reset()


@pytest.mark.skipif(find_spec("rdkit") is not None, reason="rdkit is installed")
def test_a_row_of_molecules_names_the_extra_without_rdkit():
    with pytest.raises(gym.error.DependencyNotInstalled, match="chem"):
        gym.make(ENV, tasks=[row(**fields("product_eval", "CCO"))]).reset()


def test_filters_that_are_missing_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"rings\.bloom"):
        gym.make(ENV, filters=str(tmp_path))


@with_rdkit
def test_rewards_are_those_of_the_reference(known_filters):
    from gym_llm.envs.ether0.molecules import Question, filters_in, reason_in_worker

    assert len(VECTORS) >= 60 and sum(reward for *_, reward, _ in VECTORS) >= 15
    filters = filters_in(known_filters)
    questions = [Question(function, answer, argument, filters) for function, answer, argument, *_ in VECTORS]
    # In a process of its own: it limits its memory, and this one may have more already.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as worker:
        reasons = list(worker.map(reason_in_worker, questions))
    for (function, answer, argument, reward, reason), said in zip(VECTORS, reasons, strict=True):
        assert (said == "right_answer", said) == (reward == 1.0, reason), (function, answer, argument)


@with_rdkit
def test_an_episode_is_graded_in_a_worker(known_filters):
    kwargs = {"filters": known_filters}
    assert score("CCO", "product_eval", "CCCO")[0] == 0.0
    assert score("OCCC", "product_eval", "CCCO")[0] == 1.0
    assert score("C1CC2CC1CC2O", "valid_mol_eval", "C1")[0] == 1.0
    assert score("C1CC2CC1CC2O", "valid_mol_eval", "C1", kwargs)[1]["reason"] == "failed_ring_check"
    group = "('C4H10O', ['alcohol'])"
    assert score("CCCCO", "functional_group_eval", group, kwargs)[0] == 1.0
    assert score("CCOCC", "functional_group_eval", group, kwargs)[1]["reason"] == "wrong_answer"


@with_rdkit
@pytest.mark.parametrize(
    "answer",
    ["C(" * 20_000, "[" * 50_000, "C1" * 20_000, "C" * 100_000, "\x00", "C\ud800", "(" * 100_000, "🧪", "C%99%98" * 9],
)
def test_a_hostile_molecule_earns_nothing_and_the_next_is_graded(answer):
    reward, info = score(answer, "product_eval", "CCCO", {"deadline": 5.0})
    assert reward == 0.0 and info["reason"] in {"invalid_mol", "too_slow", "wrong_answer"}
    assert score("OCCC", "product_eval", "CCCO", {"deadline": 5.0})[0] == 1.0


@with_rdkit
def test_a_row_whose_right_answer_is_unreadable_masks_the_episode():
    for argument in ("C1CC(", "CCO"):  # fragments of three characters count as counter-ions
        with pytest.raises(DataError, match="right answer"):
            score("OCCC", "product_eval", argument)
