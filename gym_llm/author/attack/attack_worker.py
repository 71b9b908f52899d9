"""The process in which a verifier is attacked: it may hang, crash or take all memory.

First line of the input: the job. Lines of the output: `{"check": name}` as each begins, `{"report": {...}}` last. The
attack's own process reads them, and kills this one if it is silent for too long.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import resource
import statistics
import sys
import time
import warnings
from functools import partial
from typing import Any, TextIO

import gymnasium as gym
import numpy as np

from gym_llm.author.attack import answer_checks as answers
from gym_llm.author.attack import cost, near_misses
from gym_llm.author.attack import determinism as repeats
from gym_llm.author.attack import scripted_judge as judge
from gym_llm.author.attack import source_strings as own_words
from gym_llm.author.attack import task_rows as rows
from gym_llm.author.attack import tool_checks as tools
from gym_llm.author.attack.attack_play import OutOfTime, Played, Player, Turn
from gym_llm.author.attack.context import Check, Context, NotApplicable
from gym_llm.author.attack.finding import CheckResult, Report
from gym_llm.author.attack.gold import contrast
from gym_llm.author.attack.right_answers import find_gold
from gym_llm.core.registry.classes import env_arguments, env_class
from gym_llm.core.registry.env_files import dry_run_kwargs, env_spec
from gym_llm.core.tasks import PreparedTask
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.errors import DataError, UsageError
from gym_llm.judge.judged_env import JudgedEnv
from gym_llm.records.failures import reason
from gym_llm.types import Row

_MEMORY = 12 << 30
_SHARE_OF_GOLDS, _SHARE_OF_CHECK = 0.5, 0.35
_LEAST_SECONDS = 1.5
"""A check may take a share of the time that is left, and no less than this: slow ones leave some to those after it."""

_CHECKS: dict[str, Check] = {
    "non-answer": answers.check_non_answers,
    "near miss": near_misses.check_near_misses,
    "all options": answers.check_options,
    "said elsewhere": answers.check_elsewhere,
    "history": repeats.check_repeats,
    "left behind": repeats.check_left_behind,
    "more than the right answer": near_misses.check_more,
    "leak": tools.check_prompt_leaks,
    "seen": rows.check_observations,
    "tools": tools.check_tools,
    "farming": tools.check_farming,
    "judge": judge.check_judge,
    "empty expectation": rows.check_empty_rows,
    "prompt echoed": answers.check_prompt_echo,
    "look-alike": near_misses.check_look_alikes,
    "code": answers.check_code,
    "own words": own_words.check_own_words,
    "tampering": repeats.check_tampering,
    "equivalent form": near_misses.check_equivalents,
    "cost": cost.check_cost,
}
"""Every check, in the order in which they are made: what is likeliest to find something comes first."""


def main() -> None:
    """Do the job that stands on stdin."""
    job = json.loads(sys.stdin.readline())
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a verifier that prints does not write into the report
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    gym.logger.min_level = gym.logger.ERROR + 1
    if job.get("shift"):
        _shift_clock(job["shift"])
        random.seed(job["shift"])
    _tell(lines, {"check": "start"})
    try:
        report = _attack(job, lines)
    except (DataError, UsageError, gym.error.Error, ImportError, ValueError, TypeError) as error:
        _tell(lines, {"error": str(error), "kind": type(error).__name__})
        return
    _tell(lines, report)


def _tell(lines: TextIO, message: dict[str, Any]) -> None:
    lines.write(json.dumps(message, default=str) + "\n")
    lines.flush()


def _shift_clock(seconds: float) -> None:
    for name in ("time", "monotonic", "perf_counter"):
        real = getattr(time, name)
        if name == "time":
            setattr(time, name, lambda real=real: real() + seconds)


def _attack(job: dict[str, Any], lines: TextIO) -> dict[str, Any]:
    began = time.monotonic()
    sys.path += [entry for entry in job["path"] if entry not in sys.path]
    if job["env_id"] not in gym.registry and ":" in str(job["entry_point"]):
        gym.register(job["env_id"], entry_point=job["entry_point"])
    spec = env_spec(job["env_id"])
    arguments = {**dry_run_kwargs(spec), **job["env_kwargs"]}
    if job.get("rows"):
        arguments["tasks"] = job["rows"]
    label = _scripted(arguments)
    if label is not None and "judge_cache" in (env_arguments(env_class(spec.id)) or ()):
        arguments["judge_cache"] = False

    def make() -> VerifierEnv:
        env = gym.make(spec, disable_env_checker=True, **arguments).unwrapped
        if not isinstance(env, VerifierEnv):
            raise DataError(f"{job['env_id']} is not a VerifierEnv: its reward is not a verdict on an answer.")
        return env

    watch = _Watch()
    player = Player(make, job["play_seconds"], watch)
    if label is not None and not isinstance(player.env, JudgedEnv):
        label = None
    tasks = _tasks(player.env, job["limit"], job["seed"])
    context = Context(player, tasks, began + job["seconds"], job["seed"], judge=label)
    watch.context = context
    if label is not None:
        player.before = partial(_decide, label)
    if job.get("episodes") is not None:
        player.deadline = context.deadline
        with contextlib.suppress(OutOfTime):  # what was not compared is not said to differ
            repeats.compared(context, job["episodes"], job["alone"])
        return {"findings": [vars(finding) for finding in context.findings.values()]}
    report = Report(job["env_id"], len(tasks))
    _tell(lines, {"check": "right answers"})
    player.deadline = began + _SHARE_OF_GOLDS * job["seconds"]
    with contextlib.suppress(OutOfTime):  # those that were found will do
        for index, task in tasks.items():
            context.golds[index] = find_gold(player, index, task)
    player.deadline = context.deadline
    contrast(context.golds)
    _describe(report, context, player)
    for name, check in _CHECKS.items():
        _tell(lines, {"check": name})
        report.checks.append(_made(context, name, check))
    for result in report.checks:
        if result.state == "clean" and any(key[0] == result.name for key in context.findings):
            result.state = "found"
    report.findings = list(context.findings.values())
    _accept(report, player.env)
    report.forms = list(context.forms.values())
    report.seconds = time.monotonic() - began
    report.cost = 1000 * statistics.median(watch.costs) if watch.costs else 0.0
    options = context.options
    return {"report": report.as_json(), "episodes": options.get("episodes"), "alone": options.get("alone")}


def _scripted(arguments: dict[str, Any]) -> str | None:
    """Put the attack's own judge in the place of a dry run's; what that says is the verdict that pays."""
    spec = arguments.get("judge")
    if not isinstance(spec, str) or not spec.startswith("constant:"):
        return None
    label = spec.partition(":")[2]
    arguments["judge"] = f"scripted:{label}"
    return label


def _decide(label: str, row: Row, turns: list[Turn]) -> None:
    no = judge.opposite(label) or "I cannot decide this."
    judge.ScriptedJudge.verdict = label if judge.is_right(row, turns) else no


def _tasks(env: VerifierEnv, limit: int, seed: int) -> dict[int, PreparedTask]:
    if env.tasks is None:
        raise DataError("it has no tasks of its own: give some with --tasks FILE.")
    size = env.tasks.size
    indices = range(min(limit, size)) if size is not None else [seed + number for number in range(limit)]
    return {index: env.tasks[index] for index in indices}


def _describe(report: Report, context: Context, player: Player) -> None:
    golds = list(context.golds.values())
    report.oracle = [gold.reward if gold else None for gold in golds]
    report.floor = [gold.floor if gold else None for gold in golds]
    report.oracle_from = next((gold.source for gold in golds if gold), "")


def _made(context: Context, name: str, check: Check) -> CheckResult:
    before, now, end = context.player.plays, time.monotonic(), context.deadline
    result = CheckResult(name)
    context.deadline = min(end, now + max(_LEAST_SECONDS, _SHARE_OF_CHECK * (end - now)))
    try:
        check(context)
    except NotApplicable as error:
        result.state, result.why = "not applicable", str(error)
    except OutOfTime:
        result.state, result.why = "not run", "the time was over" if now >= end else "its time was over before it ended"
    except Exception as error:  # a row of any shape may be too much for one check: the others are made all the same
        result.state, result.why = "not run", f"it failed: {reason(error)}"
    finally:
        context.deadline = end
    result.plays = context.player.plays - before
    return result


def _accept(report: Report, env: VerifierEnv) -> None:
    for finding in report.findings:
        reasons = {**env.playing.accepted_findings, **env.accepted_findings}
        finding.accepted = reasons.get(f"{finding.check}/{finding.attack}", reasons.get(finding.check))


class _Watch:
    """Sees every episode: what raises, hangs, or is paid beyond all bounds is found wherever it happens."""

    context: Context | None = None

    def __init__(self) -> None:
        self.costs: list[float] = []

    def __call__(self, played: Played, index: int) -> None:
        """Note an episode."""
        if len(self.costs) < 500 and played.reward is not None:
            self.costs.append(played.cpu)
        context = self.context
        if context is None or context.quiet or played.judge_failed or played.refused:
            return
        if played.hung:
            context.find("hangs", "too long", "high", index, played.turns, "an end", "none in time")
        elif played.error is not None:
            kind = played.error.partition(":")[0][:60]
            context.find("raises", kind, "medium", index, played.turns, "a reward, whatever a model says", played)
        elif played.reward is not None and not -1.0 - 1e-9 <= played.reward <= 1.0 + 1e-9:
            name = "above 1" if played.reward > 0 else "below -1"
            context.find("range", name, "medium", index, played.turns, "a reward from -1 to 1", played)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
