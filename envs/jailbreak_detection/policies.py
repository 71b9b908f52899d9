"""Policies: which verifiers an answer has to pass, and what each asks the judge."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import yaml

from gym_llm.judge import Prompt, make_prompt
from gym_llm.judge.judge_prompts import check_fields

_OUTCOMES = ("positive", "negative", "unclear")
_VALUES = ("adversarial_prompt", "model_response")


class Verifier(NamedTuple):
    """A question for the judge: its prompt, its two labels, and the reward of each outcome."""

    prompt: Prompt
    positive: str
    negative: str
    rewards: dict[str, float]


class Policy(NamedTuple):
    """The verifiers of a policy, and whether their rewards are multiplied or averaged."""

    verifiers: list[str]
    averages: bool

    def combine(self, rewards: list[float]) -> float:
        """Combine several rewards into one."""
        return sum(rewards) / len(rewards) if self.averages else prod(rewards)


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
    rewards = {outcome: float(fields["rewards"].get(outcome, 0.0)) for outcome in _OUTCOMES}
    return Verifier(prompt, str(fields["labels"]["positive"]), str(fields["labels"]["negative"]), rewards)


def _policy(fields: dict[str, Any], verifiers: dict[str, Verifier]) -> Policy:
    names, combination = fields["verifiers"], fields.get("reward_combination", "product")
    if not names or not all(name in verifiers for name in names):
        raise ValueError(f"verifiers are some of {', '.join(verifiers)}, got {names}")
    if combination not in ("product", "average"):
        raise ValueError(f"reward_combination is product or average, got {combination!r}")
    return Policy(list(names), combination == "average")
