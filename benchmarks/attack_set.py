"""Measure the planted holes that `gym-llm env attack` finds, its false findings, and its time.

The sets are `tests/importable/attack_set` (40 pairs) and `attack_set_blind` (21 pairs, whose author had not read the
attacks). A finding that the sound verifier of a pair has, too, does not count. Prints one JSON line last.

    python benchmarks/attack_set.py [--sets attack_set attack_set_blind] [--workers 2]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gym_llm.author.attack import Report, attack

ROOT = Path(__file__).resolve().parents[1]
SETS = ROOT / "tests" / "importable"


def measure(name: str, workers: int) -> dict[str, Any]:
    """Attack both verifiers of every pair of a set.

    Args:
        name: The set's package.
        workers: How many verifiers at a time; more than there are cores make each slower.

    Returns:
        Counts, the ids missed and accused, and seconds per verifier.
    """
    holes = importlib.import_module(f"{name}.holes").HOLES
    ids = [each for hole in holes for each in (hole.holed, hole.sound)]
    with ThreadPoolExecutor(workers) as pool:
        results = dict(zip(ids, pool.map(_timed, ids), strict=True))
    missed = [hole.holed for hole in holes if not _shown(results[hole.holed][0], results[hole.sound][0])]
    accused = {hole.sound for hole in holes if results[hole.sound][0].open_findings}
    for each in sorted(accused):
        for finding in results[each][0].open_findings:
            print(f"{each}: {finding.check}/{finding.attack}: {str(finding.action)[:120]!r}: {finding.got}")
    seconds = [each for _, each in results.values()]
    return {
        "holes": len(holes),
        "found": len(holes) - len(missed),
        "false_alarms": len(accused),
        "missed": missed,
        "accused": sorted(accused),
        "mean_seconds": round(sum(seconds) / len(seconds), 2),
        "worst_seconds": round(max(seconds), 1),
    }


def _timed(env_id: str) -> tuple[Report, float]:
    began = time.perf_counter()
    return attack(env_id), time.perf_counter() - began


def _shown(holed: Report, sound: Report) -> bool:
    """Whether anything is found that is not found in the sound one as well."""
    known = {(finding.check, finding.attack) for finding in sound.open_findings}
    return any((finding.check, finding.attack) not in known for finding in holed.open_findings)


def main() -> None:
    """Measure, and print one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["attack_set", "attack_set_blind"])
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    sys.path.insert(0, str(SETS))
    os.environ["PYTHONPATH"] = f"{ROOT}:{SETS}"
    print(json.dumps({name: measure(name, options.workers) for name in options.sets}))


if __name__ == "__main__":
    main()
