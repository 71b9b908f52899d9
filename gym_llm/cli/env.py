"""`gym-llm env`: create a verifier, and check one."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import chain
from typing import Annotated, Any

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.attack import EXAMPLES as ATTACK_EXAMPLES
from gym_llm.cli.attack import attack
from gym_llm.cli.help import Command, Group
from gym_llm.cli.refusals import complete_env, printable
from gym_llm.errors import UsageError

_EXAMPLES = """\
examples:
  gym-llm env init CapitalCities
  gym-llm env test capital_cities
  gym-llm env test --all
  gym-llm env attack capital_cities/env.py
  gym-llm env conform vectors/mcqa.jsonl

`gym-llm env COMMAND --help` says more about each command.
"""
_INIT_EXAMPLES = """\
examples:
  gym-llm env init CapitalCities
  gym-llm env init capital_cities --dir verifiers

Writes capital_cities/ with env.py, five example rows, config.yaml, README.md, test_env.py and an installable
pyproject.toml: a verifier that works and passes its tests. Change it into yours. In gym_llm's own repository it writes
envs/capital_cities/, tests/envs/test_capital_cities.py and a line of docs/environments.md.
"""
_TEST_EXAMPLES = """\
examples:
  gym-llm env test capital_cities                a folder
  gym-llm env test multiple_choice               a registered verifier, by its folder's name or by its id
  gym-llm env test gym_llm/MultipleChoice-v0
  gym-llm env test ./my_env.py                   a file with a verifier (of several: ./my_env.py:mine/Quiz-v0)
  gym-llm env test --all                         all that are registered
  gym-llm env test ./my_env.py --tasks rows.jsonl
  gym-llm env test capital_cities --attack       and play wrong answers, too

Checks config.yaml (with the licences of train and validation data), the five example rows, their statistics, the
example rollouts, the README's licence, and the tests. Plays the first five tasks: `verify` must not pay every answer
the same, no hook may block the event loop, and an error of a hook must mask the episode. Missing statistics or rollouts
do not fail the check. Tests that cannot run because pytest is missing fail it. --all skips verifiers whose packages are
not installed.

exit codes: 0 all checks passed; 1 a check failed or could not run; 2 wrong arguments; 130 interrupted.
"""
_CONFORM_EXAMPLES = """\
examples:
  gym-llm env conform vectors/mcqa.jsonl
  gym-llm env conform vectors/*.jsonl
  gym-llm env conform vectors/blackjack.jsonl --all-checks
  gym-llm env conform --rows Gym/resources_servers/*/data/example.jsonl
  gym-llm env conform terminus.jsonl --env-kwargs '{"check_twice_swap": true}'

A vector is a line with `source` ("mcqa/2": the server's name, a slash, a number), `task` (the row), `output` (all items
of the episode) and `reward`. It may have `info` (other reported fields), `judge` (`[{"text": "…"}]`, the judge's
answers), `options` (of the environment), `check`, `row_missing` and `recorded_input`. The environment is the one whose
config.yaml names the server. It is made with conform="nemo" if it takes that, and its judge repeats the recorded
answers. The model's turns are played. Rewards, answers of tools (as JSON) and of the user, and reported fields must
equal the record. Vectors whose `check` is not reproduced, derived or judge are skipped unless --all-checks is given.

With --rows nothing is played: each row of a server's data must be a valid task of its environment.

Prints one JSON object: for each server how many vectors agreed and were tried, the reported fields that are missing
here, and why vectors were skipped. Differences are printed on stderr as they are found.

exit codes: 0 all tried vectors agree; 1 some differ; 2 wrong arguments or data; 130 interrupted.
"""
_REPLAY_EXAMPLES = """\
examples:
  gym-llm env replay textarena.jsonl
  gym-llm env replay vectors/*.jsonl

Each line is an episode that was recorded from another framework's environment: `framework`, `version`, `env`, `seed`,
`kwargs`, `actions`, `observations`, `rewards`, `done`. The environment is made again, the actions are played, and
observations, rewards and the end must be equal, value for value. Episodes of a file are played in between each other.
A framework that is not installed gets an environment of Python of its own, once. Episodes of another version, or whose
files are not here, are skipped.

Prints one JSON object: `agreed`, `tried`, and how many were skipped, by the reason.

exit codes: 0 all tried episodes agree; 1 some differ; 2 wrong arguments or data; 130 interrupted.
"""
_MOST_SHOWN = 200
_MARKS = {"ok": "ok", "failed": "FAILED", "missing": "-", "not run": "NOT RUN"}
app = typer.Typer(cls=Group, help="Create a verifier, or check one.", epilog=_EXAMPLES, no_args_is_help=True)

app.command(cls=Command, epilog=ATTACK_EXAMPLES)(attack)


@app.command(cls=Command, epilog=_INIT_EXAMPLES)
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="such as CapitalCities")],
    folder: Annotated[
        str | None,
        typer.Option("--dir", metavar="DIR", help="parent of its folder (default: here; in this repository envs/)"),
    ] = None,
) -> int:
    """Write the folder of a new verifier."""
    from gym_llm.author.scaffold import write_verifier

    path = write_verifier(name, folder)
    print(f"{path}: a verifier that works. Change env.py and data/example.jsonl into yours, then:")
    print(f"gym-llm env test {path}")
    return 0


@app.command(cls=Command, epilog=_TEST_EXAMPLES)
def test(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="folders, files, ids, or names of folders", autocompletion=complete_env),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="every registered verifier")] = False,
    tasks: Annotated[str | None, typer.Option(metavar="FILE", help="tasks instead of the verifier's own")] = None,
    attacked: Annotated[bool, typer.Option("--attack", help="attack them, too; see gym-llm env attack")] = False,
) -> int:
    """Run verifiers' tests and check their files."""
    from gym_llm.author.scaffold import (
        check_attack,
        check_file,
        check_verifier,
        find_verifier,
        is_file,
        missing_package,
    )
    from gym_llm.core.registry.ids import env_ids

    if bool(names) == every:
        raise UsageError("No verifier is given: name one or more, or add --all.")
    if tasks is not None and (every or len(names or ()) > 1):
        raise UsageError("--tasks is for one verifier: name that one.")
    failures = 0
    for name in names or env_ids():
        print(name)
        if is_file(name):
            checks = check_file(name, tasks)
        elif every and (missing := missing_package(find_verifier(name))):
            print(f"  -      skipped: {missing}")
            continue
        else:
            checks = check_verifier(find_verifier(name), tasks)
        for check in chain(checks, check_attack(name, tasks) if attacked else ()):
            failures += check.state in ("failed", "not run")
            first, *details = printable(check.detail).split("\n")
            print(
                f"  {_MARKS[check.state]:<6} {check.subject}: {first}",
                *(f"         {line}" for line in details),
                sep="\n",
            )
    return 1 if failures else 0


@app.command(cls=Command, epilog=_CONFORM_EXAMPLES)
def conform(
    files: Annotated[list[str], typer.Argument(metavar="FILE.jsonl", help="vectors: recorded episodes, scored")],
    all_checks: Annotated[
        bool, typer.Option("--all-checks", help="also try vectors that need not be reproduced")
    ] = False,
    rows: Annotated[
        bool, typer.Option("--rows", help="check that the rows of SERVER/data/NAME.jsonl files are valid tasks")
    ] = False,
    env_kwargs: Annotated[str | None, typer.Option(metavar="JSON", help="the environments' further arguments")] = None,
) -> int:
    """Replay episodes that NeMo Gym's servers scored, and compare rewards and reports."""
    from gym_llm.author.conform import check_rows, replay_file

    kwargs = options.read_env_kwargs(env_kwargs)
    servers: dict[str, Counter[str]] = {}
    missing: dict[str, list[str]] = {}
    skipped: dict[str, str] = {}
    whys: Counter[str] = Counter()
    for file in files:
        for replayed in check_rows(file) if rows else replay_file(file, all_checks=all_checks, env_kwargs=kwargs):
            if replayed.skipped is not None:
                skipped[replayed.source] = replayed.skipped
                whys[replayed.skipped] += 1
                continue
            counts = servers.setdefault(replayed.server, Counter(agreed=0, tried=0))
            counts.update(agreed=not replayed.disagreements, tried=1)
            for source, name, expected, got in replayed.disagreements:
                difference = f"{source}  {name}: expected {_short(expected)}, got {_short(got)}"
                print(printable(difference), file=sys.stderr)
            known = missing.setdefault(replayed.server, [])
            known.extend(name for name in replayed.missing if name not in known)
    total = sum(servers.values(), Counter())
    print(
        f"{total['agreed']} of {total['tried']} agree, of {len(servers)} servers; {whys.total()} skipped",
        file=sys.stderr,
    )
    for why, count in whys.most_common():
        print(printable(f"  {count}: {why}"), file=sys.stderr)
    figures = {"agreed": total["agreed"], "tried": total["tried"], "servers": servers}
    print(
        json.dumps(
            {**figures, "missing": {name: names for name, names in missing.items() if names}, "skipped": skipped}
        )
    )
    return 0 if total["agreed"] == total["tried"] else 1


@app.command("replay", cls=Command, epilog=_REPLAY_EXAMPLES)
def replay_theirs(
    files: Annotated[list[str], typer.Argument(metavar="FILE.jsonl", help="episodes recorded from other frameworks")],
) -> int:
    """Replay episodes of other frameworks' environments, and compare rewards and observations."""
    import asyncio

    from gym_llm.envs.theirs.replay import replay

    agreed, tried, skipped = 0, 0, Counter[str]()
    for file in files:
        with _stdout_as_stderr():
            found = asyncio.run(replay(file, lambda difference: print(printable(difference), file=sys.stderr)))
        agreed, tried = agreed + found.agreed, tried + found.tried
        skipped.update(found.skipped)
    print(json.dumps({"agreed": agreed, "tried": tried, "skipped": dict(skipped)}))
    return 0 if agreed == tried else 1


@contextmanager
def _stdout_as_stderr() -> Iterator[None]:
    """Write what a framework prints, in Python or in C, to standard error: standard output is for the figures."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN // 2]} … {text[-_MOST_SHOWN // 2 :]}"
