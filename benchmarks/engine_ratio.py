"""Measure the share of vLLM's tokens per second that is left when its prompts are episodes.

    python benchmarks/engine_ratio.py                                  the pocket model, on a CPU or a GPU
    python benchmarks/engine_ratio.py --engine vllm:Qwen/Qwen3-0.6B    any other model

The same Arithmetic prompts, each answered with a fixed number of tokens (no end-of-turn token ends them earlier):

- `raw`: vLLM's AsyncLLM alone, all prompts at once, as prepared token ids, without decoding.
- `local`: as whole episodes (chat template, tokens, text, parsing, grading, records) through LocalVectorEnv, in the
  process of the same AsyncLLM.
- `ray`: the same through RayVectorEnv, whose shards share a vLLM in a Ray actor.

Each round measures all three one after the other, because the machine's speed changes from minute to minute. A ratio is
the median of the rounds' ratios. `cpu_ms_per_episode_here` is the driving process's time per episode; the model, and
with `ray` the environments, are in other processes. Prefix caching is off, so no round profits from another. Prints one
JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import gymnasium as gym

import gym_llm  # noqa: F401 - registers the environments
from gym_llm.engines.vllm import VLLMEngine
from gym_llm.rollouts.plan import open_plan
from gym_llm.rollouts.ray.shared_engine import shared_engine
from gym_llm.rollouts.settings import DEFAULT_WRAPPERS, RolloutSettings
from gym_llm.tokens.template import chat_prompt
from gym_llm.types import Rollout, Row
from gym_llm.vector import LocalVectorEnv, RayVectorEnv

ENV_ID = "gym_llm/Arithmetic-v0"
PROMISED = {"local": 0.95, "ray": 0.90}


def make_rows(count: int) -> list[Row]:
    """The tasks, generated as the environment does it."""
    env: Any = gym.make(ENV_ID)
    rows = []
    for index in range(count):
        env.reset(options={"task_index": index})
        rows.append(env.unwrapped.episode.row)
    return rows


async def play_raw(engine: VLLMEngine, prompts: list[list[int]], tokens: int) -> dict[str, float]:
    """All prompts through AsyncLLM at once."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    assert engine.llm is not None
    llm = engine.llm
    started, cpu = time.perf_counter(), time.process_time()
    first: list[float] = []
    round_name = f"raw-{time.monotonic_ns()}"

    async def play(number: int) -> int:
        params = SamplingParams(
            max_tokens=tokens,
            ignore_eos=True,
            logprobs=0,
            detokenize=False,
            flat_logprobs=True,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_clone=True,
        )
        answers = llm.generate({"type": "token", "prompt_token_ids": prompts[number]}, params, f"{round_name}-{number}")
        sampled = 0
        async for answer in answers:
            sampled = len(answer.outputs[0].token_ids)
        if not first:
            first.append(time.perf_counter() - started)
        return sampled

    sampled = sum(await asyncio.gather(*(play(number) for number in range(len(prompts)))))
    seconds = time.perf_counter() - started
    return {"tokens_per_s": sampled / seconds, "first_s": first[0], "cpu_s": time.process_time() - cpu}


async def play_episodes(records: AsyncIterator[Rollout], tokens: int) -> dict[str, float]:
    """Take the records of a rollout."""
    started, cpu = time.perf_counter(), time.process_time()
    first, sampled = 0.0, 0
    async with aclosing(records):  # type: ignore[type-var]
        async for record in records:
            first = first or time.perf_counter() - started
            if record["error"]:
                raise RuntimeError(f"An episode failed: {record['error']}")
            usage = record["response"]["usage"]
            if usage is None or usage["output_tokens"] != tokens:
                raise RuntimeError(f"An episode did not have {tokens} tokens but {usage}.")
            sampled += tokens
    seconds = time.perf_counter() - started
    return {"tokens_per_s": sampled / seconds, "first_s": first, "cpu_s": time.process_time() - cpu}


async def measure(args: argparse.Namespace) -> list[dict[str, dict[str, float]]]:
    """All rounds: for each way its figures."""
    rows = make_rows(args.episodes)
    plan = open_plan(ENV_ID, tasks=rows)
    options: dict[str, Any] = {"enable_prefix_caching": False, **json.loads(args.engine_options)}
    sampling: dict[str, Any] = {"max_output_tokens": args.tokens, "ignore_eos": True}
    settings = RolloutSettings(sampling=sampling)
    rounds = []
    local = LocalVectorEnv(plan.factory, args.episodes, env_wrappers=DEFAULT_WRAPPERS)
    engine = VLLMEngine(args.engine.partition(":")[2], **options)
    async with engine, shared_engine(args.engine, options) as shared:
        assert engine.llm is not None
        tokenizer = engine.llm.get_tokenizer()
        texts = [chat_prompt(row["responses_create_params"], tokenizer) for row in rows]
        prompts = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
        spread = RayVectorEnv(ENV_ID, args.episodes, num_shards=args.workers, tasks=rows, env_wrappers=DEFAULT_WRAPPERS)
        for number in range(args.rounds + 1):  # the first one warms everything up
            figures = {"raw": await play_raw(engine, prompts, args.tokens)}
            gc.collect()
            figures["local"] = await play_episodes(local.rollout(engine, plan.jobs(), settings), args.tokens)
            gc.collect()
            figures["ray"] = await play_episodes(spread.rollout(shared, plan.jobs(), settings), args.tokens)
            print(
                ("warm-up " if number == 0 else f"round {number} ")
                + ", ".join(f"{way} {found['tokens_per_s']:,.0f}/s" for way, found in figures.items())
                + f", load {os.getloadavg()[0]:.1f}",
                file=sys.stderr,
                flush=True,
            )
            if number:
                rounds.append(figures)
        spread.close()
    local.close()
    return rounds


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="vllm:pocket", help="vllm:MODEL (default: vllm:pocket)")
    parser.add_argument("--engine-options", default="{}", help="vLLM's engine arguments as JSON")
    parser.add_argument("--episodes", type=int, default=2048, help="prompts, all at once (default: 2048)")
    parser.add_argument("--tokens", type=int, default=64, help="new tokens for each (default: 64)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: 3)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="Ray shards (default: one per CPU)")
    args = parser.parse_args()
    rounds = asyncio.run(measure(args))
    result: dict[str, Any] = {}
    for way in ("raw", "local", "ray"):
        result[way] = {
            "tokens_per_s": round(statistics.median(figures[way]["tokens_per_s"] for figures in rounds)),
            "first_episode_s": round(statistics.median(figures[way]["first_s"] for figures in rounds), 3),
            "cpu_ms_per_episode_here": round(
                statistics.median(figures[way]["cpu_s"] for figures in rounds) / args.episodes * 1e3, 3
            ),
        }
        if way in PROMISED:
            ratios = [figures[way]["tokens_per_s"] / figures["raw"]["tokens_per_s"] for figures in rounds]
            result[way] |= {
                "ratio": round(statistics.median(ratios), 3),
                "ratios": [round(ratio, 3) for ratio in ratios],
                "promised": PROMISED[way],
            }
    print(
        json.dumps(
            {
                "benchmark": "engine_ratio",
                "engine": args.engine,
                "episodes": args.episodes,
                "new_tokens": args.tokens,
                "cpus": os.cpu_count(),
                "load": round(os.getloadavg()[0], 1),
                **result,
            }
        )
    )


if __name__ == "__main__":
    main()
