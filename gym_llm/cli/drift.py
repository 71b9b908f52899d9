"""`gym-llm drift`: how far recorded log probabilities are from those of an engine, and why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gym_llm.cli import shared_options as options
from gym_llm.cli.help import Command
from gym_llm.cli.refusals import printable
from gym_llm.cli.shared_options import panel, positive

if TYPE_CHECKING:
    from gym_llm.evaluation.drift.drift import Drift

_EXAMPLES = """\
examples:
  gym-llm drift runs/sums.jsonl --engine pocket                           are sampler and trainer apart, and why?
  gym-llm drift runs/r.jsonl --engine transformers:out/checkpoint-40 --checkpoint transformers:out/checkpoint-39
  gym-llm drift runs/r.jsonl --engine transformers:base --adapter transformers:out/lora
  gym-llm drift runs/r.jsonl --engine http://localhost:8000/v1 --tokenizer Qwen/Qwen3-4B --plots plots/
  gym-llm drift runs/r.jsonl --engine pocket --fail-on-drift              a gate: exit code 1 if they are apart

The file is a rollout file of this package or of NeMo Gym, or JSON Lines as verifiers and TRL write them. The engine has
the weights of the trainer and scores tokens: pocket, transformers:, vllm:, or a vLLM server.

exit codes: 0 measured, 1 there is drift and --fail-on-drift, 2 wrong arguments, data or engine; 130 after Ctrl-C.
"""
app = typer.Typer()
_FILE = "rollouts with token ids and log probabilities"
_sampler, _gate, _output = map(panel, ("Sampler", "Gate", "Output"))


@app.command("drift", cls=Command, epilog=_EXAMPLES)
def drift(
    path: Annotated[str, typer.Argument(metavar="FILE", help=_FILE, parser=options.run_file)],
    *,
    engine: Annotated[str, options.engine("SPEC", "the trainer's weights; default: pocket")] = "pocket",
    model: options.Model = None,
    engine_option: options.EngineOptions = None,
    tokenizer: Annotated[
        str | None, options.engine("NAME", "the tokenizer of a server's model: a name on the hub, or a folder")
    ] = None,
    temperature: Annotated[
        float | None, options.engine("T", "the trainer's temperature; default: that of the requests")
    ] = None,
    checkpoint: Annotated[
        list[str] | None, _sampler("SPEC", "other weights that may have sampled (several: give it again)")
    ] = None,
    adapter: Annotated[
        list[str] | None, _sampler("SPEC", "weights with another adapter, or none (several: give it again)")
    ] = None,
    template: Annotated[
        list[str] | None, _sampler("FILE", "a chat template that the sampler may have used (several: give it again)")
    ] = None,
    limit: Annotated[int | None, options.what("N", "look at the first N rows of tokens", positive)] = None,
    fail_on_drift: Annotated[
        bool, _gate(None, "exit with 1 if sampler and trainer are apart", None, "--fail-on-drift")
    ] = False,
    as_json: Annotated[bool, _output(None, "print everything as JSON", None, "--json")] = False,
    plots: Annotated[str | None, _output("DIR", "write plots into a folder, as PNG and SVG")] = None,
) -> int:
    """Recompute recorded log probabilities, and say how far sampler and trainer are apart and why."""
    from gym_llm.cli.bars import show_bars
    from gym_llm.errors import EngineError, EngineUnavailable, UsageError
    from gym_llm.evaluation.drift.drift import drift_of
    from gym_llm.utils.json_codec import dumps

    if temperature is not None and not 0 < temperature < 100:
        raise UsageError(f"--temperature is a number above 0; got {temperature}.")
    engine_options: dict[str, Any] = dict(engine_option or ())
    with show_bars() as draw:

        def on_step(what: str, done: int, total: int) -> None:
            draw(what, done, total or None, lambda: f"{done:,} of {total:,} rows" if total else "")

        try:
            found = drift_of(
                path,
                engine,
                options={**({"model": model} if model else {}), **engine_options},
                checkpoints=checkpoint or (),
                adapters=adapter or (),
                tokenizer=tokenizer,
                templates=template or (),
                temperature=temperature,
                limit=limit,
                on_step=on_step,
            )
        except EngineUnavailable:
            raise
        except EngineError as error:
            raise UsageError(str(error)) from error
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error
    if as_json:
        print(dumps(found.summary, indent=True).decode(errors="replace"))
    else:
        _print(found)
    if plots:
        from gym_llm.evaluation.drift.drift_plots import plot_drift

        print(f"plots: {len(plot_drift(found, plots))} files in {printable(plots)}", file=sys.stderr)
    return 1 if fail_on_drift and found.summary["cause"] else 0


def _print(found: Drift) -> None:
    from rich.text import Text

    from gym_llm.cli.bars import columns_table, figures_table, table_console
    from gym_llm.evaluation.drift.causes import CAUSES

    console, summary = table_console(), found.summary
    title = (
        f"{summary['path']} under {summary['engine']}: {summary['tokens']:,} sampled tokens in {summary['rows']:,} rows"
    )
    console.print(Text(printable(title), "bold"), soft_wrap=True)
    console.print(figures_table({name: printable(text) for name, text in _figures(summary).items()}))
    for name, groups in summary["by"].items():
        if len(groups) > 1:
            table = columns_table(name, "tokens", "mean distance", "largest", "KL (k3)")
            for label, each in groups.items():
                cells = f"{each['mean_absolute']:.2e}", f"{each['largest']:.2e}", f"{each['kl_k3']:.2e}"
                table.add_row(label, f"{each['tokens']:,}", *cells)
            console.print(table)
    cause = summary["cause"]
    if cause is None:
        console.print(Text("no drift: sampler and trainer agree", "green"), soft_wrap=True)
    else:
        share = f" ({summary['explained']:.0%} of the drift)" if summary["explained"] else ""
        console.print(Text(f"cause: {cause}{share}", "bold yellow"), soft_wrap=True)
        console.print(Text(printable(f"{CAUSES[cause]} {summary['detail']}")), soft_wrap=True)
    for other in summary["others"]:
        text = f"also explains {other['explained']:.0%}: {other['cause']}. {other['detail']}"
        console.print(Text(printable(text), "dim"), soft_wrap=True)
    for note in summary["notes"]:
        console.print(Text(printable(note), "yellow"), soft_wrap=True)


def _figures(summary: dict[str, Any]) -> dict[str, str]:
    tails, cut, quantiles = summary["ratio_tails"], summary["truncated"]["2"], summary["ratio_quantiles"]
    return {
        "mean distance": f"{summary['mean_absolute']:.3g} nats (largest {summary['largest']:.3g})",
        "KL(sampler, trainer)": f"{summary['kl_k1']:.3g} nats by k1, {summary['kl_k3']:.3g} by k3",
        "ratio trainer / sampler": f"{quantiles['0.01']:.3g} to {quantiles['0.99']:.3g} for 98% of the tokens",
        "ratios beyond 1.5, 2, 5": ", ".join(f"{tails[name]:.2%}" for name in ("1.5", "2", "5")),
        "effective sample size": f"{summary['effective_sample_size']:.2%}",
        "truncated at 2": f"{cut['tokens']:.2%} of the tokens, {cut['mass']:.2%} of the mass",
    }
