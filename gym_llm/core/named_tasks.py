"""Tasks by name: `benchmark:aime25`, and an environment's public `train` and `validation` data."""

from __future__ import annotations

import hashlib
import re
from typing import Any, NamedTuple

from gym_llm.core.prompts import PromptTexts, RowPrompt
from gym_llm.data.files.reading import BENCHMARK, is_named, parse_source, slice_source
from gym_llm.data.recipes.recipe import Benchmark
from gym_llm.errors import DataError
from gym_llm.types import Row
from gym_llm.utils.json_codec import dumps

_DRAWN = re.compile(r"#(\d+)@(\d+)$")


class NamedTasks(NamedTuple):
    """The tasks that a name stands for."""

    source: str
    """The file of prepared tasks, with the part that is read."""
    origin: dict[str, Any]
    """What records say of them: `benchmark`, `revision`, `digest`."""
    prompt: RowPrompt | None
    """The prompt of tasks without input."""
    drawn: tuple[int, int] | None
    """How many tasks are drawn, and with which seed; None for all."""


def find_tasks(name: str, module: str) -> NamedTasks | None:
    """Return the tasks of a name, fetched at first use; None if the name is no such name.

    Args:
        name: `benchmark:NAME` with an optional `#COUNT@SEED` (that number of tasks, drawn) or `[START:END]`; or `train`
            or `validation`, with `:NAME` for one data set of several.
        module: The module of the environment's class, whose `config.yaml` names its public data.

    Raises:
        DataError: If they cannot be fetched.
        UsageError: If there is no such benchmark.
    """
    if not is_named(name):
        return None
    from gym_llm.data.recipes.prepared import prepare

    drawn = None
    if match := _DRAWN.search(name):
        name, drawn = name[: match.start()], (int(match[1]), int(match[2]))
    parsed = parse_source(name)
    benchmark = _recipe(parsed.name, module)
    prepared = prepare(benchmark, tell=_tell)
    prompt = recipe_prompt(benchmark)
    source = slice_source(str(prepared.path), parsed.start, parsed.end)
    return NamedTasks(source, prepared.origin, prompt, drawn)


def recipe_prompt(benchmark: Benchmark) -> RowPrompt | None:
    """Return what makes the messages of a benchmark's tasks; None if they bring their own."""
    if benchmark.prompt is None:
        return None
    texts = PromptTexts(benchmark.prompt, benchmark.system)
    return RowPrompt(benchmark.task_source, texts, only_where_missing=True)


def task_id(row: Row) -> str:
    """Return a task's id: a hash of its content, the same on every machine.

    >>> task_id({"question": "1 + 1"})
    '634b60e38f69a2f2'
    """
    return hashlib.sha256(dumps(row)).hexdigest()[:16]


def draw(ids: list[str], count: int, seed: int) -> list[int]:
    """Return the indices of tasks drawn by a seed, in their order: the same on every machine.

    >>> len(draw(["a", "b", "c"], 2, 0)), draw(["a"], 5, 0)
    (2, [0])
    """
    order = sorted(range(len(ids)), key=lambda index: hashlib.sha256(f"{seed}:{ids[index]}".encode()).digest())
    return sorted(order[:count])


def _recipe(name: str, module: str) -> Benchmark:
    if name.startswith(BENCHMARK):
        from gym_llm.data.recipes.catalogue import find_benchmark

        return find_benchmark(name)
    from gym_llm.data.recipes.public_data import public_data

    split, _, wanted = name.partition(":")
    recipe = public_data(module, split)
    if recipe is None:
        raise DataError(
            f"{module} names no public {split} data in its config.yaml. `gym-llm list` says which environments have "
            "some."
        )
    return recipe.variant(wanted) if wanted else recipe


def _tell(sentence: str) -> None:
    import sys

    if sys.stderr.isatty():
        print(f"{sentence} …", file=sys.stderr)
