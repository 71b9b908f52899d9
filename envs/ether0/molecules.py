"""The reward functions that read molecules, by rdkit: for worker processes.

Only `reason_in_worker` calls rdkit, and only processes of a pool call that (`gym_llm.grading.molecules`).

The rules are those of FutureHouse's package ether0 (`rewards.py`, `data.py`; arXiv 2506.17238).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from gymnasium.error import DependencyNotInstalled

from gym_llm.envs.ether0.answers import formula_and_groups
from gym_llm.grading.molecules import limit_memory
from gym_llm.utils.extras import install

BAD_GROUND_TRUTH = "invalid_ground_truth"
RIGHT, WRONG, INVALID = "right_answer", "wrong_answer", "invalid_mol"

_SIMILAR = 0.7
"""The least Tanimoto similarity, of Morgan fingerprints of radius 2 with 2,048 bits, of an elucidated molecule."""
_LARGEST_COUNTER_ION = 5
"""Heavy atoms of a second fragment."""
_SHORTEST_FRAGMENT = 4
"""Characters of a fragment that can be the main one of a product."""


class Question(NamedTuple):
    """An answer to grade: `filters` are the files of known rings and known fingerprints."""

    function: str
    answer: str
    argument: str
    filters: tuple[str, str] | None = None


def check_libraries() -> None:
    """Raise DependencyNotInstalled without rdkit, exmol and molbloom."""
    for name in ("rdkit", "exmol", "molbloom"):
        if find_spec(name) is None:
            raise DependencyNotInstalled(f"Ether0 reads molecules with {name}, which is missing: {install('chem')}")


def filters_in(folder: str | Path) -> tuple[str, str]:
    """Return the two files of a folder of Bloom filters.

    Raises:
        ValueError: If one of them is missing.
    """
    rings, fingerprints = (Path(folder) / f"{name}.bloom" for name in ("rings", "fingerprints"))
    for file in (rings, fingerprints):
        if not file.is_file():
            raise ValueError(f"filters is a folder with rings.bloom and fingerprints.bloom; {file} is missing.")
    return str(rings), str(fingerprints)


def reason_in_worker(question: Question) -> str:
    """Return the reason of a reward, `right_answer` for 1.0; `invalid_ground_truth` if the row is wrong."""
    limit_memory()
    for file in question.filters or ():
        _bloom(file)  # a file that cannot be read is not the answer's fault
    try:
        return _GRADERS[question.function](question)
    except (MemoryError, RuntimeError, ValueError):  # rdkit's own errors about a molecule are among them
        return INVALID


def _mol(smiles: str) -> Any:
    from rdkit import Chem

    return Chem.MolFromSmiles(smiles)


def _is_valid(question: Question) -> str:
    return RIGHT if question.answer and _mol(question.answer) is not None else WRONG


def _completes(question: Question) -> str:
    """Grade a completion: the whole SMILES or the rest of it."""
    if not question.answer:
        return INVALID
    for smiles in (question.answer, question.argument + question.answer):
        if smiles.startswith(question.argument) and (mol := _mol(smiles)) is not None:
            return _implausible(mol, None, question.filters) or RIGHT
    return INVALID


def _is_same(question: Question) -> str:
    from rdkit import Chem

    answer, expected = _main_fragment(question.answer), _main_fragment(question.argument)
    if expected is None:
        return BAD_GROUND_TRUTH
    if answer is None:
        return INVALID
    return RIGHT if Chem.MolToSmiles(answer) == Chem.MolToSmiles(expected) else WRONG


def _is_elucidated(question: Question) -> str:
    from rdkit import DataStructs
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
    from rdkit.Chem.rdMolDescriptors import CalcMolFormula

    answer, expected = _mol(question.answer), _mol(question.argument)
    if expected is None:
        return BAD_GROUND_TRUTH
    if answer is None:
        return INVALID
    if CalcMolFormula(answer) != CalcMolFormula(expected):
        return "wrong_formula"
    if problem := _implausible(answer, expected, question.filters):
        return problem
    generator = GetMorganGenerator(radius=2, fpSize=2048)
    prints = generator.GetFingerprint(answer), generator.GetFingerprint(expected)
    return RIGHT if DataStructs.TanimotoSimilarity(*prints) >= _SIMILAR else WRONG


def _has_groups(question: Question) -> str:
    from rdkit.Chem.rdMolDescriptors import CalcMolFormula

    formula, groups = formula_and_groups(question.argument)
    answer = _mol(question.answer)
    if answer is None:
        return INVALID
    if CalcMolFormula(answer) != formula:
        return "wrong_formula"
    if problem := _implausible(answer, None, question.filters):
        return problem
    from exmol import get_functional_groups  # seconds of importing, which only this function needs

    return RIGHT if groups <= {name.lower() for name in get_functional_groups(answer, return_all=True)} else WRONG


_GRADERS: dict[str, Callable[[Question], str]] = {
    "should_answer_eval": _is_valid,
    "valid_mol_eval": _completes,
    "product_eval": _is_same,
    "caption_eval": _is_same,
    "formula_eval": _is_elucidated,
    "functional_group_eval": _has_groups,
}


def _main_fragment(smiles: str) -> Any:
    """Return the fragment with the most atoms of those that are not a short counter-ion; None without one."""
    parts = (_mol(part) for part in smiles.split(".") if len(part) >= _SHORTEST_FRAGMENT)
    return max((mol for mol in parts if mol is not None), key=lambda mol: mol.GetNumAtoms(), default=None)


def _implausible(mol: Any, reference: Any, filters: tuple[str, str] | None) -> str | None:
    """Return why a molecule is implausible, or None: more than a counter-ion beside it, unknown rings or fragments.

    Rings and fragments of the reference are known.
    """
    from rdkit import Chem

    main, *others = sorted(Chem.GetMolFrags(mol, asMols=True), key=lambda part: part.GetNumAtoms(), reverse=True)
    if len(others) > 1 or any(other.GetNumHeavyAtoms() > _LARGEST_COUNTER_ION for other in others):
        return "failed_counterion_check"
    if filters is None:
        return None
    for path, parts_of, reason in zip(
        filters, (_rings, _fragments), ("failed_ring_check", "failed_reos_check"), strict=True
    ):
        parts = parts_of(main)
        known = parts_of(reference) if reference is not None else set()
        if not all(part in _bloom(path) for part in parts - known):
            return reason
    return None


@cache
def _bloom(path: str) -> Any:
    from molbloom import BloomFilter

    return BloomFilter(path)


def _fragments(mol: Any) -> set[str]:
    """Return the numbers of a molecule's circular fragments up to radius 2, not folded."""
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    return {str(bit) for bit in GetMorganGenerator(radius=2).GetSparseCountFingerprint(mol).GetNonzeroElements()}


def _rings(mol: Any) -> set[str]:
    """Return a molecule's ring systems as canonical SMILES: what stays together without single bonds outside rings."""
    from molbloom import canon
    from rdkit import Chem

    single = [
        bond.GetIdx() for bond in mol.GetBonds() if bond.GetBondType() == Chem.BondType.SINGLE and not bond.IsInRing()
    ]
    pieces = Chem.FragmentOnBonds(mol, single) if single else Chem.Mol(mol)
    Chem.SanitizeMol(pieces)
    systems = set()
    for piece in Chem.GetMolFrags(pieces, asMols=True):
        if not piece.GetRingInfo().NumRings():
            continue
        for atom in piece.GetAtoms():
            if atom.GetAtomicNum() == 0:  # where a bond was cut
                atom.SetAtomicNum(1)
                atom.SetIsotope(0)
        ring = Chem.RemoveAllHs(piece)
        for bond in ring.GetBonds():
            ends = bond.GetBeginAtom().GetDegree(), bond.GetEndAtom().GetDegree()
            if bond.GetBondType() == Chem.BondType.DOUBLE and 1 in ends:
                bond.SetStereo(Chem.BondStereo.STEREONONE)
        systems.add(str(canon(Chem.MolToSmiles(ring))))
    return systems
