"""Measure what a grammar's masks cost: tokens per second of turns with a forced call, and of turns without.

    python benchmarks/grammar_masks.py                           the pocket model, and a random Qwen3 of 26M parameters
    python benchmarks/grammar_masks.py --model Qwen/Qwen3-0.6B   any other: a folder, or a name on the hub

Each round asks the same engine (`pocket` or `transformers:`) twice for the same number of turns, all at once. The first
time the turns are free. The second time each is a call whose arguments hold a list of 1,000 numbers, so it is as long
as the limit allows. The result is the median over the rounds of the ratio of tokens per second, because the machine's
speed changes from minute to minute. A mask's cost grows with the vocabulary: the models without `--model` have 1,024
ids. The benchmark fails if a turn is not of its form. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
from typing import Any

from prefix_sharing import ask, load

from gym_llm.engines.transformers import TransformersEngine
from gym_llm.types import Request

NUMBERS = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "minItems": 1000}
SCHEMA = {"type": "object", "properties": {"numbers": NUMBERS}, "required": ["numbers"], "additionalProperties": False}
TOOL = {"type": "function", "name": "add", "description": "Add.", "parameters": SCHEMA, "strict": True}


async def measure(args: argparse.Namespace, model: Any, tokenizer: Any) -> dict[str, Any]:
    """All rounds of one model."""
    free: Request = {
        "input": [{"role": "user", "content": "What is 17 + 25? Then add all numbers below 1,000."}],
        "max_output_tokens": args.tokens,
        "tools": [TOOL],
        "reasoning": {"effort": "none"},
    }
    forced: Request = {**free, "tool_choice": "required"}
    rates: dict[str, list[float]] = {"free": [], "forced": []}
    lengths: dict[str, list[int]] = {"free": [], "forced": []}
    async with TransformersEngine.of(model, tokenizer, threads=args.threads) as engine:
        for number in range(args.rounds + 1):  # the first one warms everything up, and compiles the grammar
            for name, request in (("free", free), ("forced", forced)):
                rate, turns = await ask(engine, [request] * args.turns, f"{name} {number}")
                if name == "forced" and not all(_is_forced(turn) for turn in turns):
                    raise RuntimeError("A turn with a forced call is not of its form.")
                if number:
                    rates[name].append(rate)
                    lengths[name] += [len(turn["generation_token_ids"]) for turn in turns]
            if number:
                pair = f"free {rates['free'][-1]:,.0f} tokens/s, forced {rates['forced'][-1]:,.0f}"
                print(f"round {number}: {pair}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    ratios = [forced / free for free, forced in zip(rates["free"], rates["forced"], strict=True)]
    return {
        "parameters": model.num_parameters(),
        "vocabulary": model.config.get_text_config().vocab_size,
        **{f"{name}_tokens_per_s": round(statistics.median(each), 1) for name, each in rates.items()},
        **{f"{name}_tokens": round(statistics.mean(each), 1) for name, each in lengths.items()},
        "ratio": round(statistics.median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
    }


def _is_forced(turn: Any) -> bool:
    text = turn["content"][0]["text"]
    return turn.get("generation_constrained") is True and "add" in text and '"numbers"' in text


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a folder, or a name on the hub (default: pocket, and one of random weights)")
    parser.add_argument("--random", metavar="WIDTHxLAYERS", default="512x8", help="its size (default: 512x8)")
    parser.add_argument("--turns", type=int, default=16, help="at once (default: 16)")
    parser.add_argument("--tokens", type=int, default=48, help="new tokens for each, at most (default: 48)")
    parser.add_argument("--rounds", type=int, default=5, help="(default: 5)")
    parser.add_argument("--threads", type=int, default=1, help="torch's (default: 1)")
    args = parser.parse_args()
    names = [args.model] if args.model else ["pocket", None]
    results = {}
    for name in names:
        args.model = name
        results[name or f"random {args.random}"] = asyncio.run(measure(args, *load(args)))
    load_now = round(os.getloadavg()[0], 1)
    setting = {"turns": args.turns, "cpus": os.cpu_count(), "threads": args.threads, "load": load_now}
    print(json.dumps({"benchmark": "grammar_masks", **setting, "models": results}))


if __name__ == "__main__":
    main()
