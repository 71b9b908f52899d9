"""`gym-llm env`: start a verifier, and check that one is complete."""

from __future__ import annotations

import argparse
from typing import Any

from gym_llm.cli.report import printable
from gym_llm.errors import UsageError

_EXAMPLES = """\
examples:
  gym-llm env init CapitalCities
  gym-llm env test capital_cities
  gym-llm env test --all

`gym-llm env COMMAND --help` says more about each command.
"""
_INIT_EXAMPLES = """\
examples:
  gym-llm env init CapitalCities
  gym-llm env init capital_cities --dir verifiers

writes capital_cities/ with env.py, five example rows, config.yaml, README.md, test_env.py and the pyproject.toml that
makes it installable: a verifier that works and passes its tests, to be changed into yours. In gym_llm's own repository
it becomes one of ours: envs/capital_cities/, tests/envs/test_capital_cities.py and a line of README.md.
"""
_TEST_EXAMPLES = """\
examples:
  gym-llm env test capital_cities                a folder
  gym-llm env test multiple_choice               a registered verifier, by its folder's name or by its id
  gym-llm env test gym_llm/MultipleChoice-v0
  gym-llm env test --all                         all that are registered

Looked at: config.yaml (licences of train and validation data included), the five example rows, their statistics, the
example rollouts, the README's licence, and the tests. What is only missing (statistics, rollouts) is no failure.

exit codes: 0 all is well; 1 something failed; 2 wrong arguments; 130 interrupted.
"""
_MARKS = {"ok": "ok", "failed": "FAILED", "missing": "-"}


def add_env_command(commands: Any) -> None:
    """Add `env` to the parser's subcommands."""
    parser = commands.add_parser(
        "env",
        help="start a verifier, or check one",
        description="Verifiers: a new folder, and whether one is complete.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    env_commands = parser.add_subparsers(dest="env_command", metavar="COMMAND", required=True)
    init = env_commands.add_parser(
        "init",
        help="write a new verifier",
        description="Write the folder of a new verifier.",
        epilog=_INIT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    init.add_argument("name", metavar="NAME", help="such as CapitalCities")
    init.add_argument("--dir", metavar="DIR", help="where its folder goes (default: here; in this repository envs/)")
    init.set_defaults(run=run_init, command_parser=init)
    test = env_commands.add_parser(
        "test",
        help="run a verifier's tests and check its artefacts",
        description="Run verifiers' tests and check that their artefacts are there and right.",
        epilog=_TEST_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    test.add_argument("names", metavar="NAME", nargs="*", help="folders, ids, or names of folders")
    test.add_argument("--all", action="store_true", help="every registered verifier")
    test.set_defaults(run=run_test, command_parser=test)


def run_init(args: argparse.Namespace) -> int:
    """Write a verifier."""
    from gym_llm.scaffold import write_verifier

    folder = write_verifier(args.name, args.dir)
    print(f"{folder}: a verifier that works. Change env.py and data/example.jsonl into yours, then:")
    print(f"gym-llm env test {folder}")
    return 0


def run_test(args: argparse.Namespace) -> int:
    """Check verifiers."""
    from gym_llm.registration import env_ids
    from gym_llm.scaffold import check_verifier, find_verifier

    if bool(args.names) == args.all:
        raise UsageError("Which verifiers? Give names, or --all.")
    failed = 0
    for name in args.names or env_ids():
        print(name)
        for check in check_verifier(find_verifier(name)):
            failed += check.state == "failed"
            first, *more = printable(check.detail).split("\n")
            print(
                f"  {_MARKS[check.state]:<7}{check.subject}: {first}", *(f"         {line}" for line in more), sep="\n"
            )
    return 1 if failed else 0
