"""An environment's tasks as rows of a trainer's dataset, and which task a row is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.protocols.chat.requests import request_to_chat
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.plan import open_plan
from gym_llm.types import Rollout, Row
from gym_llm.utils.secrets import redacted_logger

if TYPE_CHECKING:
    from datasets import Dataset

_LOG = redacted_logger(__name__)

TASK_INDEX = "task_index"
"""The column that says which task a row is, and the key in a prompt's first message that says so, too: some trainers
hand over nothing but prompts, and chat templates ignore it."""


class TrainedEnv:
    """The environment that a trainer's hook is for.

    Args:
        env_id: A registered id, e.g. `"gym_llm/Arithmetic-v0"`.
        tasks: See `VerifierEnv`; None for the environment's own.
        env_kwargs: Further arguments of the environment.

    Attributes:
        env_id: The id.
        factory: Makes the environments; they share their tasks.
        name: The verifier's class, under which TRL logs its rewards.

    Raises:
        gymnasium.error.Error: If the id is unknown.
        DataError: If the tasks are wrong.
    """

    def __init__(
        self, env_id: str, *, tasks: str | list[Row] | None = None, env_kwargs: dict[str, Any] | None = None
    ) -> None:
        self.env_id = env_id
        self.factory = EnvFactory(env_id, tasks=tasks, env_kwargs=env_kwargs)
        self.verifier = cast(type[VerifierEnv], type(self.factory.make().unwrapped))  # EnvFactory makes nothing else
        self.name = self.verifier.__name__
        if self.factory.tasks is not None and (examples := self.factory.tasks.origin.get("tasks")):
            _LOG.warning("%s trains on its %s: give tasks, such as train or a file.", env_id, examples)

    def rows(self, limit: int | None = None, *, seed: int = 0) -> list[dict[str, Any]]:
        """The tasks, one row each: `prompt` (chat messages, the first of which has its `task_index`) and `task_index`.

        Args:
            limit: Only the first tasks, this many; where tasks are generated without end, 64 if it is None.
            seed: Where tasks are generated, another seed gives others: train on one and evaluate on another.

        Raises:
            ValueError: If a task shows images or files or nothing at all, or a number makes no sense.
        """
        plan = open_plan(self.factory, limit=limit, repeats=2, seed=seed)  # as in a group: the trainer repeats them
        rows = []
        for index in range(plan.first_task, plan.first_task + plan.num_tasks):
            request = self.factory.tasks[index].request  # type: ignore[index]
            messages = [_plain(message) for message in request_to_chat(request)["messages"]]
            if not messages:
                raise ValueError(f"Task {index} of {self.env_id} has an empty input: there is nothing to ask a model.")
            messages[0][TASK_INDEX] = index
            rows.append({"prompt": messages, TASK_INDEX: index})
        return rows

    def dataset(self, limit: int | None = None, *, seed: int = 0) -> Dataset:
        """`rows` as a `datasets.Dataset`.

        Raises:
            ImportError: If datasets is not installed.
            ValueError: As `rows`.
        """
        try:
            from datasets import Dataset
        except ImportError:
            raise ImportError("A trainer's dataset needs datasets: run `pip install datasets`.") from None
        return Dataset.from_list(self.rows(limit, seed=seed))


def task_indices(prompts: Sequence[Any]) -> list[int]:
    """Return the task index of each prompt of a `dataset`; raises ValueError for prompts of another dataset."""
    try:
        return [int(prompt[0][TASK_INDEX]) for prompt in prompts]
    except (LookupError, TypeError):
        raise ValueError(
            "The prompts name no tasks: make train_dataset and eval_dataset with the `dataset` method of the trainer's "
            "hook."
        ) from None


def task_of(record: Rollout) -> tuple[str, str, int]:
    """Return the key of a record's task: its dataset (may be empty), environment and task index."""
    return record.get("dataset", ""), record["env_id"], record["rollout_id"]["task_index"]


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A chat message whose content is a string."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        if any(part.get("type") != "text" for part in content):
            raise ValueError("A task's input has images or files, which a trainer cannot be given from here.")
        content = "".join(part["text"] for part in content)
    return {**message, "content": content}
