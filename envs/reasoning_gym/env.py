r"""ReasoningGym: the tasks and the scorers of the reasoning-gym library (NeMo Gym's `reasoning_gym`)."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

import numpy as np
from pydantic import field_validator

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.concurrency import wait
from gym_llm.concurrency.processes import check_settings, shared_pool
from gym_llm.core.compat import NemoCompatible
from gym_llm.envs.reasoning_gym.names import dataset_names
from gym_llm.errors import DataError, DeadlinePassed, WorkerDied
from gym_llm.grading.answers import last_box, last_boxed
from gym_llm.grading.denials import is_withdrawn
from gym_llm.grading.extraction import last_fence, last_tagged
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Row
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.text import did_you_mean

_FINAL = re.compile(r"\bfinal answer(?:[ \t]+is)?[*_ \t]{0,9}(?::|\n)[*_ \t]{0,9}", re.IGNORECASE)
ASK = "Write your final answer between <answer> and </answer>."


class ReasoningGym(NemoCompatible):
    """Solve a procedural puzzle; the reward is what the library's scorer of that kind of puzzle says.

    Args:
        dataset: What is generated without `tasks`: a dataset's name, several, or several with their weights; None for
            all.
        config: The dataset's settings; where there are several, a dict of them by dataset.
        level: How hard, from 0: the level of the datasets' curricula; None for their defaults.
        composite: A mixture of the library's own class instead: the fields of its `CompositeConfig`, `datasets` (of
            each its `name`, `weight` and `config`), `size` and `seed`. Entries are drawn from its `size`.
        deadline: Seconds of CPU time that a scorer may take; an answer that takes longer is worth 0.
        conform: `"nemo"` scores as NeMo Gym does; the README says what differs.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        DependencyNotInstalled: If the library is not there.
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    accepted_findings = dict.fromkeys(
        ("near miss", "all options", "look-alike", "empty expectation", "non-answer"),
        "the verdict of reasoning-gym's own scorer; docs/how-to/attack.md lists what they pay",
    )
    dry_run_kwargs = {"dataset": ["chain_sum", "knights_knaves", "mini_sudoku"]}  # others take a second

    class Task(BaseTask):
        """The entry of a dataset; `metadata` has what its scorer needs, and the dataset's name."""

        question: str
        answer: str | None = None
        metadata: dict[str, Any]

        @field_validator("metadata")
        @classmethod
        def _of_a_dataset(cls, metadata: dict[str, Any]) -> dict[str, Any]:
            _check_name(metadata.get("source_dataset"), "source_dataset")
            return metadata

    def __init__(
        self,
        tasks: str | list[Row] | None = None,
        *,
        dataset: str | list[str] | dict[str, float] | None = None,
        config: dict[str, Any] | None = None,
        level: int | None = None,
        composite: dict[str, Any] | None = None,
        deadline: float = 10.0,
        **kwargs: Any,
    ) -> None:
        known = dataset_names()
        named = [dataset] if isinstance(dataset, str) else sorted(known) if dataset is None else list(dataset)
        for name in named:
            _check_name(name, "dataset")
        weights = [float(dataset[name]) if isinstance(dataset, dict) else 1.0 for name in named]
        if not named or min(weights) < 0 or not 0 < sum(weights) < float("inf"):
            raise ValueError(
                f"dataset names at least one dataset, with weights that are not negative; got {dataset!r}."
            )
        if level is not None and (not isinstance(level, int) or level < 0):
            raise ValueError(f"level is a whole number from 0, or None; got {level!r}.")
        configs = {dataset: config or {}} if isinstance(dataset, str) else config or {}
        for name, settings in configs.items():
            if name not in named or not isinstance(settings, dict):
                raise ValueError(f"config is a dict of settings for each of several datasets, by name; got {name!r}.")
        if composite is not None and (dataset is not None or config is not None or level is not None):
            raise ValueError("composite has datasets of its own: leave out dataset, config and level.")
        self._composite = None if composite is None else _checked(composite)
        check_settings(deadline, None)
        super().__init__(tasks, **kwargs)
        self.deadline, self.level = deadline, level
        self._names, self._configs = named, configs
        self._shares = [weight / sum(weights) for weight in weights]

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw a dataset and an entry of it; the prompt also asks for the tags in which the answer is looked for."""
        job: tuple[Any, ...]
        if self._composite is not None:
            name = "composite"
            job = ("pick", dumps(self._composite).decode(), int(rng.integers(self._composite["size"])))
        else:
            name = self._names[int(rng.choice(len(self._names), p=self._shares))]
            job = ("make", name, self._configs.get(name, {}), self.level, int(rng.integers(2**31)))
        try:
            entry = wait(self._ask(job))
        except (DeadlinePassed, WorkerDied, RuntimeError) as error:
            raise DataError(f"reasoning-gym makes no task of {name!r}: {error}") from None
        content = f"{entry['question']}\n\n{ASK}"
        return self.row(content, **entry)

    def oracle(self, task: Task) -> str | None:
        """Return the dataset's answer in its tags, if the row has one."""
        return None if task.answer is None else f"<answer>{task.answer}</answer>"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Have the library score what stands in the tags, or in a box, or all of it."""
        answer = _find_as_nemo_gym(episode.text) if self.conform else _find(strip_thinking(episode.text))
        name = task.metadata["source_dataset"]
        entry = {"question": task.question, "answer": task.answer, "metadata": task.metadata}
        score, timed_out = 0.0, False
        try:
            score = await self._ask(("score", name, answer.strip(), entry, self.conform is not None))
        except DeadlinePassed:
            timed_out = True
        except WorkerDied:
            pass  # what a model writes can exhaust a worker's memory or stack: no answer, but no failure of ours either
        details = {"task_name": name, "score": score, "extracted_answer": answer, "timed_out": timed_out}
        return Verdict(score, details)

    async def _ask(self, job: tuple[Any, ...]) -> Any:
        return await shared_pool("gym_llm.envs.reasoning_gym.library:run", deadline=self.deadline).call(job)


def _check_name(name: Any, what: str) -> None:
    known = dataset_names()
    if not isinstance(name, str) or name not in known:
        hint = did_you_mean(str(name)[:100], known)
        raise ValueError(f"{what} is the name of a dataset of reasoning-gym, got {str(name)[:100]!r}.{hint}")


def _checked(composite: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a composite with the defaults of its size and seed.

    Raises:
        ValueError: If a field is unknown, or a dataset, a weight, the size or the seed makes no sense.
    """
    fields = {"size": 500, "seed": 0, **composite}
    specs, size, seed = fields.get("datasets"), fields["size"], fields["seed"]
    if unknown := fields.keys() - {"datasets", "size", "seed"}:
        raise ValueError(f"composite has datasets, size and seed; got {sorted(map(str, unknown))[0][:100]!r}.")
    if type(size) is not int or size < 1 or type(seed) is not int or not isinstance(specs, list) or not specs:
        raise ValueError("composite has a list of datasets, a size of 1 or more, and a seed.")
    for spec in specs:
        if not isinstance(spec, dict) or spec.keys() - {"name", "weight", "config"}:
            raise ValueError(f"A dataset of composite has a name, a weight and a config; got {str(spec)[:100]}.")
        _check_name(spec.get("name"), "name")
    filled = [{"weight": 1.0, "config": {}, **spec} for spec in specs]
    weights, configs = [spec["weight"] for spec in filled], [spec["config"] for spec in filled]
    if not all(isinstance(each, (int, float)) and 0 < each < float("inf") for each in weights):
        raise ValueError(f"The weights of composite are numbers above 0; got {weights}.")
    if not all(isinstance(each, dict) for each in configs) or len({spec["name"] for spec in specs}) < len(specs):
        raise ValueError("A composite has each dataset once, with an object of settings.")
    return {**fields, "datasets": filled}


def _find(text: str) -> str:
    """Return the answer in a text; copies of the prompt stay, since a puzzle's answer may be one."""
    if is_withdrawn(text):
        return ""
    for found in (last_tagged(text, "answer"), last_boxed(text), _named(text)):
        if found is not None:
            return found.strip()
    is_denied = 0 <= text.find("<answer>") < text.rfind("</answer>") or last_box(text, mentions=True) is not None
    return "" if is_denied else text.strip()


def _named(text: str) -> str | None:
    r"""Return the paragraph or the block after the last "final answer is", or None.

    >>> _named("Adding.\n\nThe final answer is:\n1 2\n2 1\n\nI hope that helps.")
    '1 2\n2 1'
    """
    markers = deque(_FINAL.finditer(text), maxlen=1)
    rest = text[markers[0].end() :].strip() if markers else ""
    if rest.startswith(("```", "~~~")):
        return last_fence(rest, closed=False)
    return rest.partition("\n\n")[0] or None


def _find_as_nemo_gym(text: str) -> str:
    r"""What is in the last tags, read from the front; else in the first flat `\boxed{…}`; else all, spaces included."""
    tagged = _pairs(text, "<answer>", "</answer>")
    if tagged:
        return tagged[-1].strip()
    boxes = [box for box in _pairs(text, "\\boxed{", "}") if box]
    if boxes:
        return boxes[0].strip()
    return text if text.strip() else ""


def _pairs(text: str, opening: str, closing: str) -> list[str]:
    found, start = [], text.find(opening)
    while start >= 0 and (end := text.find(closing, start := start + len(opening))) >= 0:
        found.append(text[start:end])
        start = text.find(opening, end + len(closing))
    return found
