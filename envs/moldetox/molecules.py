"""Scores of molecules, by rdkit: for worker processes (`gym_llm.grading.molecules`).

The rules are those of the paper (MolDeTox, arXiv 2605.12181) and of datamol's package safe-mol, which decodes SAFE.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

from gym_llm.grading.molecules import MOST_CHARACTERS, limit_memory, molecule
from gym_llm.grading.text_metrics import edit_distance

_RING_MARK = re.compile(r"\[[^\]]+\]|%\((\d{1,5})\)|%(\d\d)|(\d)")


class Pair(NamedTuple):
    """An answer and the expected molecule, as SMILES or SAFE."""

    mode: str
    answer: str
    expected: str


def scores_in_worker(pair: Pair) -> dict[str, float] | None:
    """Return the scores of an answer, of which `exact_match` is the reward; None if the expected one is invalid."""
    from rdkit import Chem

    limit_memory()
    read = decode_safe if pair.mode == "safe" else molecule
    expected, answer = _read(read, pair.expected), _read(read, pair.answer)
    if expected is None:
        return None
    if answer is None:
        return {"exact_match": 0.0, "validity": 0.0, "tanimoto_rdk": 0.0, "tanimoto_maccs": 0.0, "tanimoto_morgan": 0.0}
    texts = [pair.answer, pair.expected]
    if pair.mode == "safe":
        texts = [Chem.MolToSmiles(mol, canonical=False) for mol in (answer, expected)]
        answer, expected = (molecule(text) for text in texts)
    exact = answer is not None and Chem.MolToSmiles(answer) == Chem.MolToSmiles(expected)
    return {
        "exact_match": float(exact),
        "validity": float(answer is not None),
        "levenshtein": float(edit_distance(*texts)),
        **(_similarities(answer, expected) if answer is not None else {}),
    }


def decode_safe(safe: str) -> Any:
    """Return the molecule of a SAFE: its fragments joined where they have the same ring mark.

    A mark without a partner is an open bond, which gets a hydrogen. None if it cannot be read.
    """
    from rdkit import Chem

    if not safe or len(safe) > MOST_CHARACTERS:
        return None
    marks = Counter(int(number) for groups in _RING_MARK.findall(safe) if (number := "".join(groups)))
    open_marks = [mark for mark, count in marks.items() if count % 2]
    ends = [f"[*:{place}]{_ring_mark(mark)}" for place, mark in enumerate(open_marks, 1)]
    mol = molecule(".".join([safe, *ends]))
    if mol is None or not any(atom.GetAtomicNum() == 0 for atom in mol.GetAtoms()):
        return mol
    # An open double bond gets a carbon, and every other one a hydrogen, as in safe-mol.
    for pattern, atom in (("[$([#0]!-!:*);$([#0;D1])]", "C"), ("[#0]", "[H]")):
        before, dummy = mol, Chem.MolFromSmarts(pattern)
        mol = Chem.ReplaceSubstructs(before, dummy, Chem.MolFromSmiles(atom), True)[0]
    try:
        return Chem.RemoveHs(mol)
    except (RuntimeError, ValueError):
        return Chem.DeleteSubstructs(before, dummy)


def _read(read: Any, text: str) -> Any:
    try:
        return read(text)
    except (MemoryError, RuntimeError, ValueError):  # rdkit's own errors about a molecule are among them
        return None


def _ring_mark(number: int) -> str:
    return str(number) if number < 10 else f"%{number}" if number < 100 else f"%({number})"


def _similarities(answer: Any, expected: Any) -> dict[str, float]:
    from rdkit.Chem import MACCSkeys
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator, GetRDKitFPGenerator
    from rdkit.DataStructs import TanimotoSimilarity

    fingerprints = {
        "rdk": GetRDKitFPGenerator(fpSize=2048).GetFingerprint,
        "maccs": MACCSkeys.GenMACCSKeys,
        "morgan": GetMorganGenerator(radius=2, fpSize=2048).GetFingerprint,
    }
    return {f"tanimoto_{name}": TanimotoSimilarity(of(answer), of(expected)) for name, of in fingerprints.items()}
