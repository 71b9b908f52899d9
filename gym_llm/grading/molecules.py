"""Molecules in answers, read by rdkit: for the worker processes of a pool.

rdkit is C++ that a hostile SMILES can hold up, crash or fill the memory with. A worker limits its own memory, and the
pool limits its CPU time. The main process only checks that rdkit is installed.
"""

from __future__ import annotations

import resource
from functools import cache
from importlib.util import find_spec
from typing import Any

from gymnasium.error import DependencyNotInstalled

from gym_llm.utils.extras import install

MOST_CHARACTERS = 2_000
"""The longest SMILES that is read; rdkit overflows the stack on a chain of 15,000 atoms."""
_MEMORY = 2 << 30


def check_rdkit(verifier: str) -> None:
    """Raise `DependencyNotInstalled` without rdkit."""
    if find_spec("rdkit") is None:
        raise DependencyNotInstalled(f"{verifier} reads molecules with rdkit, which is missing: {install('chem')}")


@cache
def limit_memory() -> None:
    """Limit the memory of this process, and silence rdkit's messages."""
    from rdkit import RDLogger

    RDLogger.DisableLog("rdApp.*")
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = _MEMORY if hard == resource.RLIM_INFINITY else min(_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def molecule(smiles: str, *, any_valence: bool = False) -> Any:
    """Return the molecule of a SMILES; None if it is invalid.

    Args:
        smiles: The text. What follows a space is a name, which rdkit does not read.
        any_valence: Whether to accept valences that rdkit does not know, as of metals in complexes.
    """
    from rdkit import Chem

    if not smiles or len(smiles) > MOST_CHARACTERS:
        return None
    mol = Chem.MolFromSmiles(smiles)
    if mol is not None or not any_valence:
        return mol
    mol = Chem.MolFromSmiles(smiles, sanitize=False)
    if mol is not None:
        try:
            Chem.SanitizeMol(mol, sanitizeOps=Chem.SANITIZE_ALL ^ Chem.SANITIZE_PROPERTIES)
        except (ValueError, RuntimeError):
            return None
    return mol


def canonical(smiles: str, *, any_valence: bool = False) -> str | None:
    """Return the canonical SMILES, the same for every way to write a molecule; None if it is not a molecule."""
    from rdkit import Chem

    mol = molecule(smiles, any_valence=any_valence)
    text: str | None = None if mol is None else Chem.MolToSmiles(mol)
    return text
