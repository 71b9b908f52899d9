"""Grading real outputs that have published verdicts: agreement, classes of difference, and examples."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from gym_llm.author.attack.attack_play import Played, Player, says
from gym_llm.core.tasks import PreparedTask
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.data.files.reading import read_objects
from gym_llm.data.recipes.catalogue import find_benchmark, is_benchmark
from gym_llm.errors import DataError, GymLLMError
from gym_llm.evaluation.page import tables_page
from gym_llm.evaluation.report import markdown_table
from gym_llm.evaluation.tables import Table
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.stats.intervals import interval
from gym_llm.utils.json_codec import dumps

TITLE = "Real outputs with published verdicts"
_SECONDS = 60.0  # for an episode
_EXAMPLES = 5  # of each class
_TAIL = 200  # characters of an answer
_UNREAD = "(not read)"
_Verdict: TypeAlias = StrictBool | float | list[StrictBool]


class RealOutput(BaseModel):
    """A model's output with the verdict that was published for it: a line of the file.

    Attributes:
        benchmark: The benchmark's name, or the environment's id.
        env: The id of the environment that grades it; None for the benchmark's own.
        env_kwargs: Further arguments of the environment.
        task: The row, as `env.reset(options={"task": row})` takes it.
        answer: The model's text, or its output items.
        official: The published verdict: true or false (is the reward 1?), a reward, or a list with an entry for each
            instruction, as in `info["follow_instruction_list"]`.
        official_loose: The same for `info["follow_instruction_list_loose"]`.
        official_read: What the official grader read in the answer.
        model: The model's name.
        source: Where it was published.
        known: The class of a difference that is known already (`class` in the file).
    """

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    benchmark: str | None = None
    env: str | None = None
    env_kwargs: dict[str, Any] = {}
    task: dict[str, Any]
    answer: str | list[Any]
    official: _Verdict
    official_loose: list[StrictBool] | None = None
    official_read: Any = None
    model: str = ""
    source: str = ""
    known: str | None = Field(None, alias="class")


@dataclass
class Agreement:
    """The share of verdicts that equal the published ones.

    Attributes:
        name: The benchmark, or the environment's id.
        sets: (outputs, agreeing) by file and known class.
        models: (outputs, agreeing) by model.
        differences: The number of outputs in each class of difference.
        examples: The first few of each class.
        origin: The digest of each file.
    """

    name: str
    sets: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    models: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    differences: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    origin: dict[str, str] = field(default_factory=dict)

    @property
    def outputs(self) -> int:
        """All outputs."""
        return sum(count for count, _ in self.sets.values())

    @property
    def is_clean(self) -> bool:
        """Whether all verdicts agree."""
        return self.agreed == self.outputs

    @property
    def agreed(self) -> int:
        """Outputs whose verdict equals the published one."""
        return sum(agreed for _, agreed in self.sets.values())

    def add(self, file: str, output: RealOutput, played: Played) -> None:
        """Count an output that has been played."""
        kind = difference(output, played)
        for counts in (self.sets[file, output.known or ""], self.models[output.model]):
            counts[0] += 1
            counts[1] += kind is None
        if kind is not None:
            self.differences[kind] += 1
            if len(self.examples[kind]) < _EXAMPLES:
                self.examples[kind].append(_example(output, played))

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "benchmark": self.name,
            "outputs": self.outputs,
            "agreed": self.agreed,
            "interval": list(_interval(self.outputs, self.agreed)),
            "sets": [
                {"file": file, "class": known or None, "outputs": count, "agreed": agreed}
                for (file, known), (count, agreed) in sorted(self.sets.items())
            ],
            "models": {model: {"outputs": count, "agreed": agreed} for model, (count, agreed) in self.models.items()},
            "differences": dict(self.differences.most_common()),
            "examples": dict(self.examples),
            "digests": self.origin,
        }

    def tables(self) -> Iterator[Table]:
        """Yield the tables of the report: agreement, models, classes of difference, examples of each class."""
        total = _cells(self.outputs, self.agreed)
        rows = [[file, known, *_cells(*counts)] for (file, known), counts in sorted(self.sets.items())]
        header = ["file", "known class of difference", "outputs", "agree", "share"]
        yield Table(TITLE, header, [*rows, ["all", "", *total]] if len(rows) > 1 else rows, 2)
        worst = sorted(self.models.items(), key=lambda item: (item[1][1] / item[1][0], item[0]))
        yield Table("Models", ["model", *header[2:]], [[model, *_cells(*counts)] for model, counts in worst], 1)
        if self.differences:
            kinds = [[kind, f"{count:,}"] for kind, count in self.differences.most_common()]
            yield Table("Classes of difference", ["class", "outputs"], kinds, 1)
        for kind in self.differences:
            examples = [[_short(value) for value in example.values()] for example in self.examples[kind]]
            yield Table(f"Examples: {kind}", list(self.examples[kind][0]), examples, len(examples[0]))

    def section(self, explanations: Sequence[str] = ()) -> str:
        """Return the section of the benchmark's card, in Markdown."""
        parts = [markdown_table(table) for table in self.tables() if table.title != "Models"]
        facts = [f"- models: {len(self.models):,}"]
        facts += [f"- digest of {name}: {value}" for name, value in self.origin.items()]
        return "\n\n".join([parts[0], *explanations, *parts[1:], "\n".join(facts)]) + "\n"

    def card(self, old: str = "") -> str:
        """Return a card with this report in place of an older one; lines that begin with `> ` explain, and stay."""
        head, _, section = old.partition(f"## {TITLE}")
        explanations = [block for block in section.split("\n\n") if block.startswith("> ")]
        return f"{head.rstrip() or f'# {self.name}'}\n\n{self.section(explanations)}"

    def page(self) -> str:
        """Return the report as HTML that needs no other file."""
        low, high = _interval(self.outputs, self.agreed)
        state = f"{self.agreed:,} of {self.outputs:,} verdicts agree, {low:.1%} to {high:.1%}"
        return tables_page(f"{self.name}: {TITLE.lower()}", state, list(self.tables()), is_good=self.is_clean)


def difference(output: RealOutput, played: Played) -> str | None:
    """Return the class of the difference between an episode's result and the published verdict; None without one."""
    official, info = output.official, played.info
    if isinstance(official, list):
        strict = _instructions(output, official, info.get("follow_instruction_list"), "")
        if strict is not None or output.official_loose is None:
            return strict
        return _instructions(output, output.official_loose, info.get("follow_instruction_list_loose"), " (loose)")
    paid = played.reward or 0.0
    agrees = (paid == 1) is official if isinstance(official, bool) else math.isclose(paid, official, abs_tol=1e-6)
    if agrees:
        return None
    if played.reward is None:
        return "the verifier takes too long" if played.hung else "the task or the answer is refused"
    if paid > official:
        return "rewarded more here"
    return "published as right, not read here" if _read(info) == _UNREAD else "published as right, less here"


def grade_outputs(
    name: str,
    files: Sequence[str],
    *,
    env_kwargs: dict[str, Any] | None = None,
    limit: int | None = None,
    show: Callable[[int], None] = lambda done: None,
) -> Agreement:
    """Play real outputs through their verifier, and compare its verdicts with the published ones.

    Args:
        name: The benchmark, or the environment's id.
        files: JSON Lines of `RealOutput`, plain, `.gz` or `.zst`.
        env_kwargs: Further arguments of the environment; the rows' own come first.
        limit: Play the first outputs of each file only, this many.
        show: Called with the number of outputs that are done.

    Raises:
        DataError: If a file cannot be read, or a row does not fit or belongs to another benchmark.
    """
    report, players = Agreement(name), _Players(name, env_kwargs or {})
    try:
        for file in files:
            label = Path(file).name
            report.origin[label] = sha256(Path(file).read_bytes()).hexdigest() if Path(file).is_file() else ""
            for number, row in read_objects(file, end=limit):
                output = _checked(row, f"{file}, line {number}")
                report.add(label, output, players.play(output, f"{file}, line {number}"))
                show(report.outputs)
    finally:
        players.close()
    if not report.outputs:
        raise DataError(f"{', '.join(files)} must have outputs, got none.")
    return report


class _Players:
    """A player for each environment and its arguments."""

    def __init__(self, name: str, kwargs: dict[str, Any]) -> None:
        self._benchmark = find_benchmark(name) if is_benchmark(name) else None
        self._names = {name} if self._benchmark is None else {self._benchmark.name, *self._benchmark.aliases}
        self._kwargs = kwargs
        self._players: dict[bytes, Player] = {}

    def play(self, output: RealOutput, place: str) -> Played:
        benchmark = self._benchmark
        if output.benchmark is not None and not {output.benchmark, output.env} & self._names:
            raise DataError(f"{place}: `benchmark` must be {min(self._names)}, got {output.benchmark}.")
        env_id = output.env or (benchmark.env_id if benchmark else min(self._names))
        if env_id is None:
            raise DataError(f"{min(self._names)} has no verifier here yet.")
        own = dict(benchmark.env_kwargs) if benchmark and benchmark.env_id == env_id else {}
        kwargs = {**own, **self._kwargs, **output.env_kwargs}
        key = dumps([env_id, kwargs])
        if key not in self._players:
            self._players[key] = Player(partial(_make, env_id, kwargs), _SECONDS)
        player = self._players[key]
        try:
            task: PreparedTask = player.env.task_kind().prepare(output.task)
        except GymLLMError as error:
            return Played(error=str(error), refused=True)
        return player.play(0, task, says(output.answer) if isinstance(output.answer, str) else [output.answer])

    def close(self) -> None:
        for player in self._players.values():
            player.env.close()


def _make(env_id: str, kwargs: dict[str, Any]) -> VerifierEnv:
    return cast(VerifierEnv, EnvFactory(env_id, env_kwargs=kwargs).make().unwrapped)


def _checked(row: dict[str, Any], place: str) -> RealOutput:
    try:
        return RealOutput.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"{place}: `{'.'.join(map(str, first['loc']))}`: {first['msg']}.") from None


def _instructions(output: RealOutput, official: list[bool], ours: Any, mark: str) -> str | None:
    if ours == official:
        return None
    if not isinstance(ours, list) or len(ours) != len(official):
        return f"the verifier returns no list of instructions{mark}"
    number = next(index for index, pair in enumerate(zip(ours, official, strict=True)) if pair[0] != pair[1])
    metadata = output.task.get("verifier_metadata") or output.task
    names = metadata.get("instruction_id_list") or [str(index) for index in range(len(official))]
    return f"{names[number]}: {'followed' if ours[number] else 'not followed'} here only{mark}"


def _read(info: dict[str, Any]) -> Any:
    """What the verifier says that it read in the answer; its details name that `extracted_…`."""
    values = [value for key, value in info.items() if key.startswith("extracted")]
    return _UNREAD if values and values[0] in (None, "") else next(iter(values), "")


def _example(output: RealOutput, played: Played) -> dict[str, Any]:
    answer = output.answer if isinstance(output.answer, str) else dumps(output.answer).decode()
    return {
        "model": output.model,
        "known class": output.known or "",
        "expected": output.task.get("expected_answer", output.task.get("answer", "")),
        "published": output.official,
        "read there": "" if output.official_read is None else output.official_read,
        "here": played.info.get("follow_instruction_list") or played.ending,
        "read here": _read(played.info),
        "end of the answer": answer[-_TAIL:],
    }


def _interval(outputs: int, agreed: int) -> tuple[float, float]:
    if outputs < 2:
        return 0.0, 1.0
    ones: Any = np.zeros(outputs)
    ones[:agreed] = 1.0
    return interval(ones, np.ones(outputs), bounded=True)


def _cells(outputs: int, agreed: int) -> list[str]:
    low, high = _interval(outputs, agreed)
    return [f"{outputs:,}", f"{agreed:,}", f"{agreed / outputs:.2%} [{low:.2%}, {high:.2%}]"]


def _short(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value).decode().strip()
