"""Measure the time saved by a group's common prompt in the engine `transformers:`.

    python benchmarks/prefix_sharing.py                             a Qwen3 of 26M parameters, its weights random
    python benchmarks/prefix_sharing.py --model pocket              the pocket model
    python benchmarks/prefix_sharing.py --model Qwen/Qwen3-0.6B     any other: a folder, or a name on the hub

Each round asks the same engine twice for the same number of answers, all at once. The first time they are a group with
one prompt, which is read once. The second time they are separate requests. Their prompts are as long but differ from
the first word on, so each is read. The result is the median over the rounds of the ratio of tokens per second, because
the machine's speed changes from minute to minute.

The benchmark also checks a group's answers and log probabilities against the same requests one after the other. Sharing
saves more for longer prompts, shorter answers and larger models. The pocket model computes next to nothing, and its
sampling waits for memory. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from importlib import resources
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3Config

from gym_llm.engines.transformers import TransformersEngine
from gym_llm.types import Item, Request

POCKET = str(resources.files("gym_llm.engines.pocket") / "model")
PROMISED = 3.0


def load(args: argparse.Namespace) -> tuple[Any, Any]:
    """Model and tokenizer; the tokenizer of a random model is the pocket model's."""
    path = POCKET if args.model in ("pocket", None) else args.model
    tokenizer = AutoTokenizer.from_pretrained(path)
    if args.model:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="sdpa")
        return model.eval(), tokenizer
    width, layers = map(int, args.random.split("x"))
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=max(1, width // 128),
        head_dim=64,
        max_position_embeddings=8192,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
    return model.eval(), tokenizer


def make_request(tokenizer: Any, first: str, prompt_tokens: int, new_tokens: int) -> Request:
    """A request of nearly so many tokens that begins with a word."""
    text = f"{first} " + "How many apples are 17 apples and 25 apples? " * (prompt_tokens // 4)
    ids = tokenizer.encode(text, add_special_tokens=False)[: prompt_tokens - 10]
    return {"input": [{"role": "user", "content": tokenizer.decode(ids)}], "max_output_tokens": new_tokens}


async def ask(engine: TransformersEngine, requests: list[Request], name: str) -> tuple[float, list[Item]]:
    """Tokens per second of requests that are sent at once, and their answers."""
    started = time.perf_counter()
    asked = (engine.respond(request, episode_id=f"{name}-{number}") for number, request in enumerate(requests))
    turns = [response["output"][-1] for response in await asyncio.gather(*asked)]
    seconds = time.perf_counter() - started
    return sum(len(turn["generation_token_ids"]) for turn in turns) / seconds, turns


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    """All rounds."""
    model, tokenizer = load(args)
    shared, apart, ratios, lengths = [], [], [], []
    async with TransformersEngine.of(model, tokenizer, threads=args.threads) as engine:
        for number in range(args.rounds + 1):  # the first one warms everything up
            group = [make_request(tokenizer, f"Group {number}:", args.prompt_tokens, args.tokens)] * args.group_size
            separate = [
                make_request(tokenizer, f"{one} alone in {number}:", args.prompt_tokens, args.tokens)
                for one in range(args.group_size)
            ]
            together, turns = await ask(engine, group, f"group {number}")
            alone, _ = await ask(engine, separate, f"apart {number}")
            print(
                ("warm-up" if number == 0 else f"round {number}")
                + f": group {together:,.0f} tokens/s, separate {alone:,.0f}, load {os.getloadavg()[0]:.1f}",
                file=sys.stderr,
                flush=True,
            )
            if number:
                shared.append(together)
                apart.append(alone)
                ratios.append(together / alone)
                lengths += [len(turn["generation_token_ids"]) for turn in turns]
        difference = 0.0
        for one, turn in enumerate(turns):
            (again,) = (await engine.respond(group[one], episode_id=f"group {args.rounds}-{one}"))["output"]
            if again["generation_token_ids"] != turn["generation_token_ids"]:
                raise RuntimeError(f"Member {one} of a group has sampled other tokens than alone.")
            pairs = zip(again["generation_log_probs"], turn["generation_log_probs"], strict=True)
            difference = max(difference, *(abs(left - right) for left, right in pairs))
    return {
        "model": args.model or f"random {args.random}",
        "parameters": model.num_parameters(),
        "prompt_tokens": len(turns[0]["prompt_token_ids"]),
        "new_tokens": round(statistics.mean(lengths), 1),
        "group_tokens_per_s": round(statistics.median(shared), 1),
        "separate_tokens_per_s": round(statistics.median(apart), 1),
        "ratio": round(statistics.median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
        "promised": PROMISED,
        "largest_log_prob_difference": difference,
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="pocket, a folder, or a name on the hub (default: one of random weights)")
    parser.add_argument("--random", metavar="WIDTHxLAYERS", default="512x8", help="its size (default: 512x8)")
    parser.add_argument("--group-size", type=int, default=8, help="(default: 8)")
    parser.add_argument("--prompt-tokens", type=int, default=1000, help="(default: 1000)")
    parser.add_argument("--tokens", type=int, default=32, help="new tokens for each, at most (default: 32)")
    parser.add_argument("--rounds", type=int, default=5, help="(default: 5)")
    parser.add_argument("--threads", type=int, default=1, help="torch's (default: 1)")
    args = parser.parse_args()
    figures = asyncio.run(measure(args))
    load_now = round(os.getloadavg()[0], 1)
    print(
        json.dumps(
            {
                "benchmark": "prefix_sharing",
                "group_size": args.group_size,
                **figures,
                "cpus": os.cpu_count(),
                "threads": args.threads,
                "load": load_now,
            }
        )
    )


if __name__ == "__main__":
    main()
