r"""NeMo Gym's own servers as an oracle: cases for them, what they pay, and where we pay something else.

The cases are rows of the wheel's example files, and of ours, with answers that are made from right ones, from recorded
ones and from texts: other forms (boxes, fences, letters), other characters, damaged calls, what is cut off.
"""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import yaml
from nemo_cases import draw_case, said, text_of
from peers import CACHE, ROOT, SCRIPTS, peer_python
from testing import Item

from gym_llm.author.conform import replay_vector
from gym_llm.core.registry.classes import env_class, nemo_gym_names
from gym_llm.core.registry.ids import env_ids, verifier_folder
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.rollouts.config.nemo_gym import env_of_server
from gym_llm.types import Row

NEEDS_MORE = {
    **dict.fromkeys(["bigcodebench", "evalplus", "scicode", "swebench"], "data or images of gigabytes"),
    "code_fim": "asks its library for data by a name that it does not have, and ends",
    "competitive_coding_challenges": "tests of 27 GB, and a server of sandboxes",
    "conversational_tool_use_simulation": "a simulated user",
    "ether0": "its process ends in the middle of a verdict",
    "genrm_compare": "groups of answers",
    "ns_tools": "hands its answers to math_with_judge, which is played",
    "reasoning_gym": "the library itself scores",
}
"""Servers that are not played, and why."""
REPOSITORIES = {
    "ifbench": ("allenai/IFBench", "c6767a19bd82ac0536cab950f2f8f6bcc6fabe7c", ".ifbench"),
    "instruction_following": (
        *("abukharin-nv/verifiable-instructions", "f46a5ac87b1400a4f8973039844b6be9b56e3faf"),
        ".code",
    ),
    "newton_bench": ("HKUST-KnowComp/NewtonBench", "912a4ba5f4356ddd06acc16e44460ca30be4abc2", "../../NewtonBench"),
}
"""Code that a server takes from a repository: its name, the commit, and where the server looks for it."""
SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {"should_use_judge": True} for name in ("math_with_judge", "polymath", "physics_judge")},
    **{name: {"should_use_judge": True} for name in ("ugphysics_judge", "math_with_autograder")},
    "assaybench": {"use_gene_mapper": False},  # ours needs HGNC's table for it
    "bbq": {"judge_retry_backoff_seconds": 0.0},
    "litmus_agent": {"float_rel_tol": 1e-6, "float_abs_tol": 1e-6},  # OmegaConf reads 1e-6 as a number, YAML does not
    "google_search": {"google_api_key": "x", "google_cx": "x"},
    "newton_bench": {"has_judge": True},
    "rolemrc": {"include_bertscore": False},
}
"""Values of a configuration that cases need."""
WHEEL_ONLY = {"bbq", "google_search", "tavily_search", "workplace_assistant"}
"""Servers that know nothing of our examples' data, or need fields that we do not."""
_OURS = {"expected_city"}
"""Fields of rows that NeMo Gym does not read."""
_UNSTEADY = ("x_{2016}", "words:start_verb")
"""Of rows: SymPy compares these answers by random numbers; NLTK's model that knows verbs is not here."""
_INTERPOLATED = re.compile(r"\$\{(?:[^},]*,)?([^}]*)\}")
"""An interpolated value, and its default."""
_RANDOM_POINTS = 0.02
"""Of rewards that depend on random points: the most by which NewtonBench's differ from run to run."""


@cache
def servers_folder() -> Path:
    """The folder of NeMo Gym's servers; a test is skipped if it cannot be had."""
    python = peer_python("nemo_servers")
    return next(python.parent.parent.glob("lib/python*/site-packages/resources_servers"))


def played_servers() -> list[str]:
    """The servers of which we have the verifier, in order."""
    names = {name for env_id in env_ids() for name in nemo_gym_names(env_id)} - NEEDS_MORE.keys()
    return sorted(name for name in names if (servers_folder() / name / "app.py").is_file() and _has_code(name))


@cache
def _has_code(server: str) -> bool:
    """Whether a server's repository is there, or can be had."""
    if server not in REPOSITORIES:
        return True
    name, commit, below = REPOSITORIES[server]
    folder = servers_folder() / server / below
    marker = folder / ".installed"  # NeMo Gym's own, for IFBench
    with suppress(OSError, subprocess.CalledProcessError):
        for command in (
            ()
            if marker.exists()
            else (
                ["init", "-q"],
                ["fetch", "-q", "--depth", "1", f"https://github.com/{name}", commit],
                ["checkout", "-q", "FETCH_HEAD"],
            )
        ):
            folder.mkdir(exist_ok=True)
            subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True)
        marker.touch()
    return marker.exists()


@cache
def settings_of(server: str) -> dict[str, Any]:
    """A server's section of a configuration, the one of its name if there is one; what is interpolated is a text."""
    folder = servers_folder() / server / "configs"
    for path in (folder / f"{server}.yaml", *sorted(folder.glob("*.yaml"))):
        sections = yaml.safe_load(_INTERPOLATED.sub(r"\1", path.read_text("utf-8"))) if path.is_file() else {}
        for section in sections.values():
            if isinstance(section, dict) and (own := section.get("resources_servers", {}).get(server)):
                return {**own, **SETTINGS.get(server, {}), **_files(server)}
    return SETTINGS.get(server, {})


@cache
def _files(server: str) -> dict[str, Any]:
    """Files that a server needs: templates, or the databases of our examples."""
    if server == "jailbreak_detection":
        return {
            "policy_verifier_templates_path": str(
                servers_folder() / server / "configs" / "verifier_prompt_templates.yaml"
            )
        }
    if server == "tavily_search":
        excluded = CACHE / "nemo-excluded.json"
        excluded.write_text('{"notices": []}', "utf-8")
        return {"exclude_domains_file_path": str(excluded)}
    layouts = {"bird_sql": "dev_20240627/dev_databases/{0}/{0}.sqlite", "spider2_lite": "sqlite/{0}.sqlite"}
    if server not in layouts:
        return {}
    folder = CACHE / f"nemo-{server}"
    for script in (ROOT / "envs" / server / "data" / "databases").rglob("*.sql"):
        path = folder / layouts[server].format(script.stem)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database:
            database.executescript(script.read_text("utf-8"))
    return {f"{server}_dir": str(folder)}


def verdicts(cases: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What NeMo Gym's servers say, case by case: `reward` and `info`, or `error`."""
    command = [str(peer_python("nemo_servers")), "-P", str(SCRIPTS / "nemo_verify.py")]
    corpora = servers_folder().parent / "llama_index" / "core" / "_static" / "nltk_cache"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "importable"), "NLTK_DATA": str(corpora)}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=env, text=True, encoding="utf-8", **pipes) as child:
        assert child.stdin and child.stdout
        known: set[str] = set()
        for case in cases:
            server = case["source"].partition("/")[0]
            lines = [case] if server in known else [{"server": server, "settings": settings_of(server)}, case]
            known.add(server)
            child.stdin.writelines(f"{json.dumps(line)}\n" for line in lines)
            child.stdin.flush()
            yield json.loads(child.stdout.readline())


def make_cases(server: str, count: int, seed: int) -> list[dict[str, Any]]:
    """Draw cases of one server."""
    draw = random.Random(f"{seed} {server}")
    rows = list(_rows(server)) if _has_code(server) else []
    settings = settings_of(server)
    judged = any("judge" in name for name in settings)
    return (
        [draw_case(server, number, *draw.choice(rows), rows, draw, judged) for number in range(count)] if rows else []
    )


def _rows(server: str) -> Iterator[tuple[Row, list[Item]]]:
    """Rows of the wheel and of ours with an answer each: recorded, or right."""
    folder, env_id = servers_folder() / server / "data", env_of_server(server)
    assert env_id is not None
    mine = None if server in WHEEL_ONLY else verifier_folder(env_id)
    examples = [*_lines(folder / "example.jsonl"), *(_lines(mine / "data" / "example.jsonl") if mine else ())]
    examples = [row for row in examples if not any(each in json.dumps(row) for each in _UNSTEADY)]
    known = {_asked(row): row for row in reversed(examples)}
    recorded = [(known.get(_asked(row)), row) for row in _lines(folder / "example_rollouts.jsonl")]
    env = gym.make(env_id, **getattr(env_class(env_id), "dry_run_kwargs", {})).unwrapped
    assert isinstance(env, VerifierEnv)
    answered = [(row, (rollout.get("response") or {}).get("output")) for row, rollout in recorded if row is not None]
    for row, output in (*answered, *((row, None) for row in examples)):
        with suppress(Exception):  # a row that is not ours
            observation, _ = env.reset(options={"task": row})
            if output is None:
                request = {**row["responses_create_params"], **_strict(observation)}
                theirs = {name: value for name, value in row.items() if name not in _OURS}
                row = {**theirs, "responses_create_params": request}
            yield row, list(_items(output or env.playing.oracle(env.playing._task) or "I do not know."))
    env.close()


def _strict(observation: Any) -> dict[str, Any]:
    """The tools of a request, with a field that NeMo Gym requires."""
    tools = observation.get("tools")
    return {"tools": [{"strict": False, **each} for each in tools]} if tools else {}


def _items(right: Any) -> Iterator[Item]:
    """The items of an answer: a text, an item, or a list of such."""
    for part in right if isinstance(right, list) else [right]:
        if isinstance(part, list):
            yield from _items(part)
        else:
            yield said(part) if isinstance(part, str) else part


def _asked(row: Row) -> str:
    """What a row's request says, to find the row of a recorded episode by it."""
    items = (row.get("responses_create_params") or {}).get("input") or []
    return items if isinstance(items, str) else json.dumps([[item.get("role"), text_of(item)] for item in items])


def _lines(path: Path) -> Iterator[Row]:
    for line in path.read_text("utf-8").split("\n") if path.is_file() else ():
        with suppress(ValueError):
            yield json.loads(line)


def difference(case: dict[str, Any], verdict: dict[str, Any]) -> str | None:
    """How our reward differs from theirs; None if it does not."""
    server = case["source"].partition("/")[0]
    options = settings_of(server)
    for name, below in (("bird_sql_dir", "dev_20240627/dev_databases"), ("spider2_lite_dir", "sqlite")):
        if name in options:
            options = {**options, name: f"{options[name]}/{below}"}
    game = {"task": {**case["task"], **verdict.get("task", {})}, "output": case["output"][: verdict.get("played")]}
    vector = {**case, **game, "reward": verdict["reward"], "check": "derived", "options": options}
    masked = bool(verdict["info"].get("mask_sample"))
    replayed = replay_vector(vector)
    if masked and (replayed.skipped or any(each.field in ("judge", "episode") for each in replayed.disagreements)):
        return None
    if replayed.skipped is not None:
        return f"skipped: {replayed.skipped}"
    found = [each for each in replayed.disagreements if each.field in ("reward", "episode", "judge")]
    if server == "newton_bench":
        found = [each for each in found if each.field != "reward" or abs(each.expected - each.got) > _RANDOM_POINTS]
    return "; ".join(f"{field}: theirs {theirs}, ours {ours}" for _, field, theirs, ours in found) or None
