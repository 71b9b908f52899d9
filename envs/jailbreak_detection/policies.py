"""Policies: which verifiers an answer has to pass, and what each asks the judge."""

from __future__ import annotations

from math import prod
from typing import Any, Literal, NamedTuple, get_args

import yaml

from gym_llm.judge import Prompt, make_prompt
from gym_llm.judge.judge_prompts import check_fields

Combination = Literal["product", "average", "single"]
_DEFAULT_REWARDS = {"positive": 1.0, "negative": 0.0, "unclear": 0.0}
_VALUES = ("adversarial_prompt", "model_response")


class Verifier(NamedTuple):
    """A question for the judge: its prompt, its two labels, and the reward of each outcome."""

    prompt: Prompt
    positive: str
    negative: str
    rewards: dict[str, float]


class Policy(NamedTuple):
    """The verifiers of a policy, and how their rewards become one: the product, the average, or only the first."""

    verifiers: list[str]
    combination: Combination

    def combine(self, rewards: list[float]) -> float:
        """Combine the verifiers' rewards into one."""
        if self.combination == "single":
            return rewards[0]
        return sum(rewards) / len(rewards) if self.combination == "average" else prod(rewards)


class Policies(NamedTuple):
    """The verifiers, and the policies that name them."""

    verifiers: dict[str, Verifier]
    map: dict[str, Policy]


def read_policies(path: str) -> Policies:
    """The policies in a YAML file; the README says how it is written.

    Raises:
        ValueError: If it is not so; one sentence that names the file.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file)
        mapped = content.pop("policy_verifier_map")
        verifiers = {name: _verifier(name, fields) for name, fields in content.items()}
        return Policies(verifiers, {name: _policy(fields, verifiers) for name, fields in mapped.items()})
    except (OSError, yaml.YAMLError, LookupError, TypeError, AttributeError, ValueError) as error:
        problem = " ".join(str(error).split())
        raise ValueError(f"{path} describes no policies ({type(error).__name__}: {problem}).") from None


def _verifier(name: str, fields: dict[str, Any]) -> Verifier:
    prompt = make_prompt({"user": fields["prompt_template"]}, name)
    check_fields(prompt, name, _VALUES)
    given = fields.get("rewards", {})
    rewards = {outcome: float(given.get(outcome, default)) for outcome, default in _DEFAULT_REWARDS.items()}
    return Verifier(prompt, str(fields["labels"]["positive"]), str(fields["labels"]["negative"]), rewards)


def _policy(fields: dict[str, Any], verifiers: dict[str, Verifier]) -> Policy:
    names, combination = fields["verifiers"], fields.get("reward_combination", "product")
    if not names or not all(name in verifiers for name in names):
        raise ValueError(f"verifiers are some of {', '.join(verifiers)}, got {names}")
    if combination not in get_args(Combination):
        raise ValueError(f"reward_combination is one of {', '.join(get_args(Combination))}; got {combination!r}")
    return Policy(list(names), combination)
