"""Verifications per second of MathVerify: many concurrent episodes through the environment, against the bare library.

The texts are like those of a training run. Every task has several answers, mostly in the same few forms, after a line
or two of prose. CPU seconds count this process and its workers. Prints one JSON line last.

    python benchmarks/math_verification.py [--answers typical|symbolic] [--episodes N] [--concurrency C] [--workers W]
"""

import argparse
import asyncio
import json
import random
import resource
import time

import gymnasium as gym
import psutil

import gym_llm  # noqa: F401 - registers the ids
from gym_llm.concurrency import drive

# Expected answer and ways to write it, the first one being the usual. Most answers of the usual training sets (GSM8K,
# MATH, DAPO) are numbers; "symbolic" is what costs SymPy most.
FORMS = {
    "typical": [
        *[("{n}", ["{n}", "{m}", "{n}.0", "\\text{{{n}}}"])] * 6,
        ("\\frac{{{n}}}{{{d}}}", ["\\frac{{{n}}}{{{d}}}", "\\dfrac{{{n}}}{{{d}}}", "{n}/{d}", "\\frac{{{m}}}{{{d}}}"]),
        ("{n}.{d}", ["{n}.{d}", "{n}.{m}"]),
    ],
    "symbolic": [
        ("{n}\\sqrt{{{p}}}", ["{n}\\sqrt{{{p}}}", "\\sqrt{{{p}}}\\cdot {n}", "{m}\\sqrt{{{p}}}"]),
        ("\\({n}x^2+{d}\\)", ["{n}x^2+{d}", "{d}+{n}x^2", "{n}x^2-{d}"]),
        ("({n}, {m})", ["({n}, {m})", "({n},{m})", "({m}, {n})"]),
        ("\\{{{n}, {m}\\}}", ["\\{{{n}, {m}\\}}", "{m}, {n}", "{n}"]),
    ],
}
PROSE = "Let me work it out. Substituting and collecting the terms leaves one value that meets the conditions. So "


def make_pairs(kind: str, count: int, repeats: int = 16) -> list[tuple[str, str]]:
    """(expected answer, model text) pairs: groups of `repeats` answers to one task, groups shuffled together."""
    rng = random.Random(0)
    pairs: list[tuple[str, str]] = []
    while len(pairs) < count:
        gold, answers = rng.choice(FORMS[kind])
        values = {name: rng.randint(2, 999) for name in "nmd"} | {"p": rng.choice([2, 3, 5, 7, 11])}
        weights = [8] + [1] * (len(answers) - 1)
        pairs += [
            (gold.format(**values), f"{PROSE}the answer is \\boxed{{{answer.format(**values)}}}.")
            for answer in rng.choices(answers, weights, k=repeats)
        ]
    rng.shuffle(pairs)
    return pairs[:count]


def cpu_seconds() -> float:
    """User and system time of this process and of its workers, dead or alive."""
    total = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    for child in psutil.Process().children(recursive=True):
        times = child.cpu_times()
        total += times.user + times.system
    return total


async def through_the_env(pairs: list[tuple[str, str]], concurrency: int, workers: int | None) -> list[float]:
    """Play every pair as an episode, `concurrency` at a time, and return the rewards."""
    rewards = [0.0] * len(pairs)
    numbers = iter(range(len(pairs)))

    async def slot() -> None:
        env = gym.make("gym_llm/MathVerify-v0", workers=workers, disable_env_checker=True)
        for number in numbers:
            expected, text = pairs[number]
            task = {"responses_create_params": {"input": "Solve it."}, "expected_answer": expected}
            action = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]

            def episode(task: dict = task, action: list = action) -> float:
                env.reset(options={"task": task})
                return float(env.step(action)[1])

            rewards[number] = await drive(episode)

    await asyncio.gather(*(slot() for _ in range(min(concurrency, len(pairs)))))
    return rewards


def with_the_library(pairs: list[tuple[str, str]]) -> tuple[list[float], float]:
    """The rewards of the bare library, as it is, and the CPU seconds it took."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    from gym_llm.grading.answers import strip_delimiters

    gold_config, config = (LatexExtractionConfig(),), (ExprExtractionConfig(), LatexExtractionConfig())
    parse("\\boxed{1}", config)
    start = time.process_time()
    rewards = [
        float(verify(parse(f"\\boxed{{{strip_delimiters(expected)}}}", gold_config), parse(text, config)))
        for expected, text in pairs
    ]
    return rewards, time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", choices=sorted(FORMS), default="typical")
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=512)
    parser.add_argument("--workers", type=int, default=None)
    arguments = parser.parse_args()
    pairs = make_pairs(arguments.answers, arguments.episodes)
    asyncio.run(through_the_env(pairs[: arguments.concurrency], arguments.concurrency, arguments.workers))  # warm up
    cpu, wall = cpu_seconds(), time.perf_counter()
    rewards = asyncio.run(through_the_env(pairs, arguments.concurrency, arguments.workers))
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    sample = pairs[:4000]
    library_rewards, library_cpu = with_the_library(sample)
    mean = sum(rewards) / len(rewards)
    print(f"{len(pairs)} episodes in {wall:.1f} s, {cpu:.1f} CPU seconds, mean reward {mean:.3f}")
    result = {
        "benchmark": "math_verify",
        "answers": arguments.answers,
        "episodes": len(pairs),
        "concurrency": arguments.concurrency,
        "verifications_per_second": round(len(pairs) / wall),
        "verifications_per_second_per_core": round(len(pairs) / cpu),
        "library_per_second_per_core": round(len(sample) / library_cpu),
        "same_rewards_as_library": library_rewards == rewards[: len(sample)],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
