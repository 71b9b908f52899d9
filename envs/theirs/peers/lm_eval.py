"""Generative tasks of the LM Evaluation Harness: one answer, filtered and scored by the task."""

from __future__ import annotations

import functools
import json
from typing import Any

ENV_ID = "gym_llm/LMEval-v0"
PACKAGES = ("lm-eval==0.4.13",)
MODULE = "lm_eval"
FRAMEWORKS = ("lm_eval",)
APART = True


class Peer:
    """A document of a task of the LM Evaluation Harness.

    Args:
        task: Its name, or an object with a task's configuration.
        index: Which document of the evaluated split; None for each in turn.
        docs: Documents that replace the data set, for a task whose configuration is an object.
        num_fewshot: How many examples precede the question; None for that of the task.
        filter: Which of the task's filters is paid; None for the first.
        metric: Which metric is paid; None for the first that has a number.
        include_path: A folder with more tasks.
    """

    recording = False

    def __init__(
        self,
        task: str | dict[str, Any] = "gsm8k",
        index: int | None = None,
        docs: list[Any] | None = None,
        num_fewshot: int | None = None,
        filter: str | None = None,
        metric: str | None = None,
        include_path: str | None = None,
    ) -> None:
        self._task = _task(json.dumps([task, docs, num_fewshot, include_path]))
        self._index, self._filter, self._metric = index, filter, metric

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Begin with the context: a prompt for completion, with its examples."""
        task = self._task
        docs = task.eval_docs
        index = (seed or 0) % len(docs) if self._index is None else self._index
        self._doc = docs[index]
        shots = task.config.num_fewshot or 0
        task.set_fewshot_seed(1234)  # the harness's own default: each document has the same examples as alone
        context = task.fewshot_context(self._doc, num_fewshot=shots, gen_prefix=task.doc_to_prefix(self._doc))
        metadata = (task.config.task, index, task.config.repeats)
        self._request = task.construct_requests(doc=self._doc, ctx=context, metadata=metadata)
        self._options = self._request.args[1]
        return {"say": context, "observation": context, "info": {"generation_kwargs": self._options}}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Cut the answer at the task's stop texts, as the harness's models do; filter it and score it."""
        text, until = action["text"], self._options.get("until") or []
        for stop in [until] if isinstance(until, str) else until:
            text = text.partition(stop)[0] if stop else text
        self._request.resps = [text]
        for each in self._task._filters:
            each.apply([self._request])
        filtered = self._request.filtered_resps
        name = next(iter(filtered)) if self._filter is None else self._filter
        if name not in filtered:
            raise ValueError(f"The task has no filter {name!r}, but {', '.join(filtered)}.")
        metrics = self._task.process_results(self._doc, [filtered[name]])
        info = {"metrics": metrics, "filtered": filtered[name], "filter": name}
        return {"reward": self._reward(metrics), "terminated": True, "info": info}

    def _reward(self, metrics: dict[str, Any]) -> float:
        numbers = {key: float(value) for key, value in metrics.items() if hasattr(value, "__float__")}
        metric = next(iter(numbers), "") if self._metric is None else self._metric
        if metric not in numbers:
            raise ValueError(f"The task's metrics are {metrics}: choose a number of these with `metric`.")
        return numbers[metric]


def samples(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the index of each document."""
    if arguments["index"] is not None:
        return [{}]
    names = ("task", "docs", "num_fewshot", "include_path")
    return [{"index": index} for index in range(len(_task(json.dumps([arguments[name] for name in names])).eval_docs))]


@functools.lru_cache(maxsize=64)
def _task(arguments: str) -> Any:
    """Return a task of the harness: loading its data set once.

    Raises:
        ValueError: If it is not one task, or not a generative one.
    """
    from lm_eval.api.task import ConfigurableTask

    named, docs, num_fewshot, include_path = json.loads(arguments)
    if isinstance(named, dict):
        config = dict(named)
        if docs is not None:
            split = config.get("test_split") or config.get("validation_split") or "test"
            config.update(custom_dataset=lambda **_: {split: _Docs(docs)}, test_split=split)
        task: Any = ConfigurableTask(config=config)
    else:
        if docs is not None:
            raise ValueError("`docs` needs a task whose configuration is an object.")
        found = list(_manager(include_path).load(named)["tasks"].items())
        if len(found) != 1:
            raise ValueError(f"{named!r} is {len(found)} tasks: name one of them, such as {found[0][0]!r}.")
        task = found[0][1]
    if task.OUTPUT_TYPE != "generate_until":
        raise ValueError(f"The task is {task.OUTPUT_TYPE}: only generate_until can be played.")
    if num_fewshot is not None:
        task.set_config(key="num_fewshot", value=num_fewshot)
    return task


@functools.cache
def _manager(include_path: str | None) -> Any:
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=include_path)


class _Docs(list[Any]):
    """Rows that look like a data set's."""

    @property
    def features(self) -> dict[str, None]:
        """The names of the columns."""
        return dict.fromkeys(self[0])


_configs: dict[str, Any] = {}


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode: only the first of a task has its configuration."""
    kwargs = episode["kwargs"]
    config = _configs.setdefault(episode["env"], kwargs["config"])
    return {"task": config, "docs": [episode["doc"]], "index": 0, "filter": kwargs["filter"]}, episode["seed"]
