"""Suites: the benchmarks that people publish together, by name."""

from __future__ import annotations

from gym_llm.errors import UsageError
from gym_llm.utils.text import did_you_mean

SUITES: dict[str, tuple[str, ...]] = {
    "reasoning": (
        "aime24",
        "aime25",
        "hmmt_feb25",
        "math_500",
        "gpqa_diamond",
        "mmlu_pro",
        "supergpqa",
        "bbh",
        "musr",
        "livecodebench_v6",
    ),
    "instruct": (
        "ifeval",
        "ifbench",
        "mmlu_redux",
        "mmlu_pro",
        "gpqa_diamond",
        "gsm8k",
        "math_500",
        "drop",
        "truthfulqa_mc1",
        "human_eval",
        "mbpp",
        "wmt24pp",
    ),
    "agentic": ("swebench_verified", "swebench_multilingual"),
    "code": ("human_eval", "mbpp", "bigcodebench", "livecodebench_v5", "livecodebench_v6", "human_eval_infilling"),
}
"""Benchmarks by the suite's name. None of them needs a judge."""


def suite(name: str) -> list[str]:
    """Return the benchmarks of a suite.

    Raises:
        UsageError: If there is no such suite.

    >>> suite("code")[0]
    'human_eval'
    """
    if name not in SUITES:
        raise UsageError(f"There is no suite {name!r}.{did_you_mean(name, SUITES)} There are {', '.join(SUITES)}.")
    return list(SUITES[name])
