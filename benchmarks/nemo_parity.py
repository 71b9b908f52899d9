"""Plays cases through NeMo Gym 0.7.0's own servers and through our verifiers with conform="nemo": are rewards equal?

    python benchmarks/nemo_parity.py [SERVER ...] [--count 15000] [--seed 0] [--keep FILE]

The cases are drawn anew for each seed (tests/nemo_oracle.py); NeMo Gym's wheel gets an environment of its own, made
once. It prints the first differences of each server, and last one JSON line. `--keep` writes the cases that differ.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests")]

from nemo_oracle import NEEDS_MORE, difference, make_cases, played_servers, verdicts  # noqa: E402

_SHOWN = 3


def main() -> None:
    """Print what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="*", metavar="SERVER")
    parser.add_argument("--count", type=int, default=15_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    servers = args.servers or played_servers()
    counts = {server: Counter(compared=0, differ=0, failed_there=0) for server in servers}
    cases = [case for server in servers for case in make_cases(server, -(-args.count // len(servers)), args.seed)]
    kept = []
    for case, verdict in zip(cases, verdicts(cases), strict=True):
        mine = counts[case["source"].partition("/")[0]]
        if "error" in verdict:
            mine["failed_there"] += 1
            if mine["failed_there"] == 1:
                print(f"{case['source']}: theirs failed: {verdict['error'][:200]}", flush=True)
            continue
        mine["compared"] += 1
        if (found := difference(case, verdict)) is not None:
            mine["differ"] += 1
            kept.append({**case, "reward": verdict["reward"], "info": verdict["info"], "difference": found})
            if mine["differ"] <= _SHOWN:
                print(f"{case['source']}: {found}\n    {json.dumps(case['output'])[-300:]}", flush=True)
    for server, mine in counts.items():
        print(f"{server}: {mine['compared']} compared, {mine['differ']} differ, {mine['failed_there']} failed there")
    if args.keep:
        args.keep.write_text("".join(json.dumps(each) + "\n" for each in kept), "utf-8")
    total = sum(counts.values(), Counter[str]())
    share = 1 - total["differ"] / max(1, total["compared"])
    differing = {server: mine["differ"] for server, mine in counts.items() if mine["differ"]}
    figures = {"seed": args.seed, "servers": len(servers), **total, "equal_share": share, "differ": total["differ"]}
    print(json.dumps({**figures, "differing": differing, "not_played": NEEDS_MORE}))


if __name__ == "__main__":
    main()
