"""RewardFunc: verifiers for completions that TRL generated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gym_llm.engines.engine import Engine
from gym_llm.protocols.chat.chat_messages import items_of
from gym_llm.rollouts.factory import EnvFactory
from gym_llm.rollouts.plan import Job
from gym_llm.trainers.shared.batch_failures import BatchFailures
from gym_llm.trainers.shared.env_pool import EnvPool
from gym_llm.trainers.shared.trainer_tasks import TASK_INDEX, TrainedEnv
from gym_llm.trainers.trl.completion_messages import turn_items
from gym_llm.types import Item, Request, ResponseDict, Rollout, Row

_NOT_THE_ROWS = {TASK_INDEX, "trainer_state", "log_extra", "log_metric", "environments", "completion_ids"}


class RewardFunc(TrainedEnv):
    """A reward function for TRL: an environment's verifier scores completions that TRL generated.

    ```python
    arithmetic = RewardFunc("gym_llm/Arithmetic-v0")
    trainer = GRPOTrainer(model, train_dataset=arithmetic.dataset(2048), reward_funcs=arithmetic)
    ```

    A completion is played as an episode. Each of its assistant messages is a turn, and `DEFAULT_WRAPPERS` find
    reasoning and calls in its text. An episode that needs more turns than the completion has is truncated and scored.

    Rows of another dataset work, too, if they have the columns that the verifier needs: `prompt` and, for example,
    `expected_answer`.

    Wrap other reward functions beside this one with `scored_only`.

    Args:
        env_id: A registered id, e.g. `"gym_llm/MathVerify-v0"`.
        tasks: See `VerifierEnv`; None for the environment's own.
        env_kwargs: Further arguments of the environment.
        concurrency: Maximum number of verifications at once.

    Attributes:
        rewards: The result of the last call.
    """

    rewards: list[float | None] | None = None

    def __init__(
        self,
        env_id: str,
        *,
        tasks: str | list[Row] | None = None,
        env_kwargs: dict[str, Any] | None = None,
        concurrency: int = 1024,
    ) -> None:
        super().__init__(env_id, tasks=tasks, env_kwargs=env_kwargs)
        self.__name__ = self.name
        self._concurrency = concurrency
        self._failures = BatchFailures("completion")
        self._pool = EnvPool(self.factory, concurrency=concurrency)

    def __call__(self, prompts: list[Any], completions: list[Any], **columns: Any) -> list[float | None]:
        """Score completions; see TRL's `RewardFunc`.

        Args:
            prompts: The rows' prompts, chat messages or texts.
            completions: Chat messages (`[{"role": "assistant", "content": …}]`) or texts, one per prompt.
            **columns: The rows' other columns, one value per prompt, and what else TRL hands over.

        Returns:
            One reward per completion; None where an episode failed, which TRL leaves out.

        Raises:
            DataError: If the columns are not what the verifier needs.
            RuntimeError: If every episode failed, in the first batch or in several one after the other.
        """
        engine = _Completions([_turns(completion) for completion in completions])
        if TASK_INDEX in columns:
            jobs = [Job(int(task), number) for number, task in enumerate(columns[TASK_INDEX])]
            records = self._pool.play_all(jobs, engine)
        else:
            records = self._play_rows(_rows(prompts, columns), engine)
        self._failures.check([record["error"] for record in records])
        self.rewards = [record["reward"] for record in records]
        return self.rewards

    def _play_rows(self, rows: list[Row], engine: Engine) -> list[Rollout]:
        factory = EnvFactory(**{**self.factory.arguments, "tasks": rows})
        pool = EnvPool(factory, concurrency=min(len(rows), self._concurrency))
        try:
            return pool.play_all([Job(number, number) for number in range(len(rows))], engine)
        finally:
            pool.close()


class _Completions(Engine):
    """Answers with the turns of completion n in the episode whose repeat index is n, from the first if it is retried.

    An episode begins anew where the conversation is again as long as at its first request.
    """

    model = "completions"

    def __init__(self, completions: list[list[list[Item]]]) -> None:
        self._completions = completions
        self._turns: dict[int, tuple[int, Iterator[list[Item]]]] = {}  # and how long the first request was

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """The episode's next turn; a cut-off one after the last."""
        number, length = int(episode_id.rpartition("-")[2]), len(request["input"])
        if number not in self._turns or length == self._turns[number][0]:
            self._turns[number] = length, iter(self._completions[number])
        items = next(self._turns[number][1], None)
        return {
            "id": f"resp_{episode_id}",
            "object": "response",
            "created_at": 0.0,
            "model": self.model,
            "status": "incomplete" if items is None else "completed",
            "output": items or [],
        }


def _turns(completion: Any) -> list[list[Item]]:
    """The items of each assistant message."""
    if isinstance(completion, str):
        completion = [{"role": "assistant", "content": completion}]
    return [turn_items(message) for message in completion if message["role"] == "assistant"]


def _rows(prompts: list[Any], columns: dict[str, Any]) -> list[Row]:
    """Tasks made of a dataset's columns."""
    row_columns = {name: values for name, values in columns.items() if name not in _NOT_THE_ROWS}
    rows = []
    for number, prompt in enumerate(prompts):
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else items_of(prompt)
        fields = {name: values[number] for name, values in row_columns.items()}
        rows.append({"responses_create_params": {"input": messages}, **fields})
    return rows
