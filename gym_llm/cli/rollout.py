"""`gym-llm rollout`: its arguments. What it does is in `gym_llm.cli.play`, imported when it runs."""

from __future__ import annotations

import argparse
import json
from typing import Any

import typer

from gym_llm.cli.parsers import add_parser_options
from gym_llm.did_you_mean import did_you_mean

EXAMPLES = """\
examples:
  gym-llm rollout gym_llm/Arithmetic-v0                          the built-in model, 64 generated tasks
  gym-llm rollout gym_llm/Weather-v0 --show 1                    ... and see one conversation
  gym-llm rollout gym_llm/Arithmetic-v0 --episodes 500 --env-kwargs '{"digits": 3}'
  gym-llm rollout gym_llm/MultipleChoice-v0 --tasks test.jsonl --repeats 8 \\
      --engine http://localhost:8000/v1 --model Qwen/Qwen3-4B --output runs/mcqa.jsonl
  gym-llm rollout gym_llm/Weather-v0 --engine vllm:Qwen/Qwen3-4B \\
      --engine-option max_model_len=4096 --engine-option history=append
  gym-llm rollout --config envs/weather/config.yaml --config envs/arithmetic/config.yaml arithmetic.kwargs.digits=1
  gym-llm rollout ... --concurrency 16384 --workers 8            in 8 processes, over Ray
  gym-llm rollout ... --workers 64 --ray-address head:6379       on a cluster
  gym-llm rollout ... --output runs/mcqa.jsonl --resume          complete an interrupted run

Without --episodes, --limit or --repeats each task is played once (64 tasks where they are generated without end).
exit codes: 0 done, 1 every episode failed, 2 wrong arguments, data or engine, 130 interrupted.
"""


SETTINGS = {"context_settings": {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}}


def rollout(context: typer.Context) -> int:
    """Play an environment with a model and score it."""
    parser = make_parser()
    argv = context.args
    try:
        args, rest = parser.parse_known_args(argv, argparse.Namespace(argv=["rollout", *argv]))
        settings = [argument for argument in rest if "=" in argument and not argument.startswith("-")]
        if len(settings) < len(rest):
            wrong = next((argument.partition("=")[0] for argument in rest if argument.startswith("--")), "")
            hint = did_you_mean(wrong, parser._option_string_actions) if wrong else ""
            parser.error(f"unrecognized arguments: {' '.join(rest)}.{hint}")
    except SystemExit as end:
        return int(end.code or 0)
    args.settings = [*args.settings, *settings]
    return run(args)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "gym-llm rollout",
        description="Play episodes of an environment with a model, many at once. Each finished episode is one JSON\n"
        "line of the output; a table of the results is printed, and written beside it as FILE.summary.json.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "settings",
        metavar="ENV_ID",
        nargs="*",
        help="e.g. gym_llm/Arithmetic-v0; `gym-llm list` names all. With --config: key=value, over what the files say",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        action="append",
        default=[],
        help="instead of ENV_ID: YAML that names environments, their datasets and engines (several: later ones win)",
    )
    parser.add_argument(
        "--tasks",
        metavar="FILE",
        help="tasks instead of the environment's own: JSON Lines (.jsonl, .jsonl.gz, .jsonl.zst), .parquet, or "
        "hf:ORG/NAME[:SPLIT]; FILE[10:20] for a part of them",
    )
    parser.add_argument("--env-kwargs", metavar="JSON", help="the environment's further arguments")

    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--engine",
        metavar="SPEC",
        help="pocket (default, a tiny built-in model), vllm:MODEL, transformers:MODEL, replay:FILE, or the URL of an "
        "OpenAI-compatible server, http://host:port/v1 (several, separated by commas, share the load)",
    )
    engine.add_argument("--model", metavar="NAME", help="the model to ask an http engine for")
    engine.add_argument(
        "--engine-option",
        metavar="NAME=VALUE",
        dest="engine_options",
        action="append",
        default=[],
        type=_engine_option,
        help="a further argument of the engine, e.g. timeout=60 or history=append; VALUE is JSON, or else a text "
        "(several: give it again)",
    )
    engine.add_argument("--temperature", metavar="T", type=_temperature, help="instead of the tasks' own")
    engine.add_argument("--top-p", metavar="P", type=_probability, help="instead of the tasks' own")
    engine.add_argument("--max-output-tokens", metavar="M", type=_positive, help="per turn, instead of the tasks' own")
    add_parser_options(engine)

    size = parser.add_argument_group("episodes")
    size.add_argument("--episodes", metavar="N", type=_positive, help="play N episodes, going round the tasks")
    size.add_argument("--limit", metavar="N", type=_positive, help="play only the first N tasks")
    size.add_argument("--repeats", metavar="K", type=_positive, help="play each task K times (pass@1 ... pass@K)")
    size.add_argument("--concurrency", metavar="C", type=_positive, default=64, help="episodes at once (default: 64)")
    size.add_argument(
        "--seed",
        metavar="S",
        type=_natural,
        help="of generated tasks, and of sampling where that is done here (default: 0; vllm:MODEL samples without one, "
        "which is faster, unless it is given)",
    )

    spread = parser.add_argument_group("processes")
    spread.add_argument(
        "--workers", metavar="N", type=_natural, default=0, help="play in N processes, over Ray (default: 0, this one)"
    )
    spread.add_argument("--ray-address", metavar="A", help="a cluster's address (default: a Ray of this machine's own)")

    output = parser.add_argument_group("output")
    output.add_argument("--output", metavar="FILE", help="records (default: rollouts/<name>-<date>-<time>.jsonl)")
    output.add_argument("--resume", action="store_true", help="go on with the output of an interrupted run")
    output.add_argument("--retry-failed", action="store_true", help="with --resume: play failed episodes again")
    output.add_argument("--show", metavar="N", type=_natural, default=0, help="print the first N conversations")
    output.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return parser


def run(args: argparse.Namespace) -> int:
    """Play."""
    from gym_llm.cli.play import play_and_report

    return play_and_report(args)


def _engine_option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier()):
        # What was given may be a secret.
        raise argparse.ArgumentTypeError("expected NAME=VALUE such as max_model_len=4096")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _natural(text: str) -> int:
    return _number(text, int, lambda value: value >= 0, "an integer, 0 or more")


def _positive(text: str) -> int:
    return _number(text, int, lambda value: value >= 1, "an integer, 1 or more")


def _temperature(text: str) -> float:
    return _number(text, float, lambda value: 0 <= value < float("inf"), "a number, 0 or more")


def _probability(text: str) -> float:
    return _number(text, float, lambda value: 0 < value <= 1, "a number in (0, 1]")


def _number(text: str, kind: Any, holds: Any, expected: str) -> Any:
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not holds(value):
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
    return value
