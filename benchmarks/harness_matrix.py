"""Play harnesses in environments with a scripted model; compare each pair with the same actions played directly.

    python benchmarks/harness_matrix.py --harness codex --harness pi --environment Weather [--in machine]

The model's prompts and texts are tokens of the included model. It says the right answer of the verifier's oracle, in
the harness's own words: its names of tools, its shell, its way to finish. Harnesses are installed at first use.

With `--in machine` each harness runs inside of its episode's machine. Harbor and SWEBench are played there only: the
model repairs the task's files with the harness's own shell, if it has one. Starts then include the machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

import gymnasium as gym
from harness_script import Script, calls_in

import gym_llm
from gym_llm.agents import Program, parse_agent_spec
from gym_llm.agents.harnesses import HarnessFile
from gym_llm.agents.harnesses.catalogue import harness_files
from gym_llm.author.attack.right_answers import oracle_turns
from gym_llm.engines import Engine
from gym_llm.errors import EngineUnavailable
from gym_llm.trainers.shared.trainer_engine import Sampled, TrainerEngine
from gym_llm.types import Item

ENVIRONMENTS = (
    "Weather",
    "Counter",
    "SynonymExtraction",
    "WorkplaceAssistant",
    "MathAdvancedCalculations",
    "Arithmetic",
    "MultipleChoice",
    "SQLQuery",
)
WITH_MACHINES = ("Harbor", "SWEBench")


class Scripted:
    """A model that follows a script, and keeps what it was asked and what it sampled."""

    def __init__(self, script: Script, tokenizer: Any) -> None:
        self.truth: list[tuple[list[int], list[int], list[float]]] = []
        self.first: float | None = None
        self._script, self._tokenizer = script, tokenizer
        self.engine: Engine = TrainerEngine(self._generate, tokenizer, model="scripted")

    async def _generate(self, prompt: list[int], arguments: dict[str, Any], episode_id: str) -> Sampled:
        self.first = self.first or time.monotonic()
        text = self._script.say(self._tokenizer.decode(prompt))
        ids = [*self._tokenizer.encode(text, add_special_tokens=False), self._tokenizer.eos_token_id]
        log_probs = [-(len(self.truth) + 1) / (place + 3) for place in range(len(ids))]  # each differs
        self.truth.append((list(prompt), ids, log_probs))
        return Sampled(ids, log_probs)

    def share_kept(self, trajectory: list[dict[str, Any]]) -> float:
        """Return the share of sampled tokens that stand in exactly one branch, after exactly their prompt."""
        kept = total = 0
        for prompt, ids, log_probs in self.truth:
            start, end = len(prompt), len(prompt) + len(ids)
            homes = [
                branch
                for branch in trajectory
                if branch["input_ids"][:end] == prompt + ids
                and branch["logprobs"][start:end] == log_probs
                and set(branch["loss_mask"][start:end]) == {1}
            ]
            total += len(ids)
            kept += len(ids) * (len(homes) == 1)
        return kept / total if total else 0.0


class Directly(Engine):
    """Plays the turns of a script as they are."""

    model = "directly"

    def __init__(self, turns: list[list[Item]]) -> None:
        self._turns = turns

    async def respond(self, request: Any, *, episode_id: str = "") -> Any:
        """Return the turn after the calls of the request."""
        said = sum(item.get("type") == "function_call" for item in request["input"])
        before = [sum(map(calls_in, self._turns[:index])) for index in range(len(self._turns))]
        index = before.index(said)
        return {"id": "resp", "object": "response", "model": self.model, "output": self._turns[index], "usage": None}


@dataclass(frozen=True)
class Timed(Program):
    """A program that notes when its engine starts, just before the episode."""

    starts: list[float] = field(default_factory=list, hash=False, compare=False)

    def resolved(self) -> Program:
        """Note the time."""
        self.starts.append(time.monotonic())
        return self


def play(
    harness: HarnessFile, name: str, index: int, tokenizer: Any, timeout: float, where: Mapping[str, Any]
) -> dict[str, Any]:
    """Play one task directly and with a harness; return the figures."""
    env_id = f"gym_llm/{name}-v0"
    env: Any = gym.make(env_id).unwrapped
    try:
        task = env.tasks[index]
        turns: Any = oracle_turns(env, task)
    finally:
        env.close()
    has_tools = any(calls_in(turn) for turn in turns)
    if has_tools and harness.tools == "none":
        return {"outcome": "no tools"}
    spec: Any = parse_agent_spec(harness.name)
    try:
        program: Program = spec.resolved()  # an installation is not the episode's time
    except EngineUnavailable as error:
        return {"outcome": "not installed", "error": str(error)[:2_000]}
    direct = _episode(env_id, Directly(turns), index)
    script = Script(turns, harness.tools != "none", in_shell=name in WITH_MACHINES)
    scripted = Scripted(script, tokenizer)
    agent = Timed(**{each.name: getattr(program, each.name) for each in fields(program)})
    record = _episode(env_id, scripted.engine, index, agent=agent, agent_timeout=timeout, **where)
    info = record["info"].get("agent") or {}
    return {
        "outcome": record["outcome"],
        "error": (record["error"] or "")[:2_000],
        "turns": info.get("model_calls", 0),
        "branches": info.get("branches", 0),
        "tokens_kept": round(scripted.share_kept(record["trajectory"] or []), 4),
        "reward": record["reward"],
        "reward_directly": direct["reward"],
        "prompt_tokens": max((len(prompt) for prompt, _, _ in scripted.truth), default=0),
        "start_seconds": round(scripted.first - agent.starts[0], 2) if scripted.first else None,
    }


def is_right(figures: dict[str, Any]) -> bool:
    """Whether every sampled token was kept, and the reward is that of the same actions played directly."""
    return (
        figures["outcome"] == "scored"
        and figures["tokens_kept"] == 1.0
        and figures["reward"] == figures["reward_directly"]
    )


def markdown(results: dict[str, dict[str, dict[str, Any]]], environments: list[str]) -> str:
    """Return the two tables of the documentation: one of all columns would be wider than a page."""
    files = {each.name: each for each in harness_files()}
    about = ["| harness | dialect | start, s | own prompt, tokens |", "|---|---|---:|---:|"]
    lines = ["| harness | " + " | ".join(environments) + " |", "|---|" + "---|" * len(environments)]
    for name, played in results.items():
        starts = [each["start_seconds"] for each in played.values() if each.get("start_seconds")]
        prompts = [each["prompt_tokens"] for each in played.values() if each.get("prompt_tokens")]
        cells = []
        for environment in environments:
            figures = played.get(environment)
            if figures is None:
                cells.append("")
            elif figures["outcome"] == "no tools":
                cells.append("-")
            elif is_right(figures):
                cells.append(f"{figures['turns']} / {figures['branches']}")
            else:
                cells.append("failed")
        start = f"{min(starts):.1f}" if starts else ""
        own = f"{round(min(prompts), -2):,}" if prompts else ""
        about.append(f"| `{name}` | {files[name].dialect} | {start} | {own} |")
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join([*about, "", *lines]) + "\n"


def main() -> None:
    """Play the pairs, print a line for each, the table, and one JSON line last."""
    playable = {each.name: each for each in harness_files() if each.is_playable}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harness", action="append", choices=sorted(playable), help="default: all that can play")
    parser.add_argument("--environment", action="append", choices=[*ENVIRONMENTS, *WITH_MACHINES], help="default: all")
    parser.add_argument("--task", type=int, default=0, help="index of the task that each plays (default: 0)")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for one episode (default: 180)")
    parser.add_argument("--in", dest="place", choices=("host", "machine"), default="host", help="where harnesses run")
    parser.add_argument("--image", default="host", help="image of the machines: `host`, a folder or an archive")
    parser.add_argument("--output", type=Path, help="file for the results as JSON; pairs in it are not played again")
    arguments = parser.parse_args()

    from transformers import AutoTokenizer

    warnings.simplefilter("ignore")
    tokenizer = AutoTokenizer.from_pretrained(str(resources.files("gym_llm.engines.pocket") / "model"))
    tokenizer.model_max_length = 1 << 30
    where = {"agent_in": arguments.place, "agent_image": arguments.image}
    known = [*ENVIRONMENTS, *(WITH_MACHINES if arguments.place == "machine" else ())]
    environments = arguments.environment or known
    if unknown := set(environments) - set(known):
        parser.error(f"{', '.join(unknown)} needs --in machine")
    output: Path | None = arguments.output
    results: dict[str, dict[str, dict[str, Any]]] = json.loads(output.read_text()) if output and output.exists() else {}
    for name in arguments.harness or sorted(playable):
        played = results.setdefault(name, {})
        for environment in environments:
            if environment in played and (
                played[environment]["outcome"] == "no tools" or is_right(played[environment])
            ):
                continue
            played[environment] = play(playable[name], environment, arguments.task, tokenizer, arguments.timeout, where)
            print(name, environment, json.dumps(played[environment]), flush=True)
            if output:
                output.write_text(json.dumps(results, indent=1))
    print(markdown(results, environments))
    pairs = [figures for played in results.values() for figures in played.values() if figures["outcome"] != "no tools"]
    print(json.dumps({"harnesses": len(results), "pairs": len(pairs), "right": sum(map(is_right, pairs))}))


def _episode(env_id: str, engine: Engine, index: int, **more: Any) -> Any:
    async def last() -> Any:
        records = gym_llm.rollout(env_id, engine, limit=index + 1, concurrency=1, retries=0, **more)
        return [record async for record in records][-1]

    return asyncio.run(last())


if __name__ == "__main__":
    main()
