"""WorkplaceAssistant: an office with 27 tools; what counts is how it is left (NeMo Gym's `workplace_assistant`)."""

from __future__ import annotations

import os
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, field_validator

from gym_llm import BaseTask, Episode
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.tools.calls import run_calls
from gym_llm.envs.workplace_assistant.analytics import AnalyticsTools
from gym_llm.envs.workplace_assistant.calendar import CalendarTools
from gym_llm.envs.workplace_assistant.customers import CustomerTools
from gym_llm.envs.workplace_assistant.emails import EmailTools
from gym_llm.envs.workplace_assistant.files import read_office
from gym_llm.envs.workplace_assistant.generated import generated_office
from gym_llm.envs.workplace_assistant.projects import ProjectTools
from gym_llm.envs.workplace_assistant.tables import Office, OfficeData
from gym_llm.envs.workplace_assistant.tasks import make_row
from gym_llm.errors import DataError
from gym_llm.grading.call_matching import call_items
from gym_llm.types import Item, Row
from gym_llm.utils.json_codec import loads

DATA_VARIABLE = "GYM_LLM_WORKPLACE_ASSISTANT_DATA"
_OFFICES = 16


class GoldCall(BaseModel):
    """A call that belongs to doing the task."""

    name: str
    arguments: str
    call_id: str = ""

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in WorkplaceAssistant._tools:
            raise ValueError(f"the office has no tool {name!r}")
        return name

    @field_validator("arguments")
    @classmethod
    def _object(cls, text: str) -> str:
        if not isinstance(loads(text.encode()), dict):
            raise ValueError("arguments is a text with a JSON object")
        return text


class WorkplaceAssistant(EmailTools, CalendarTools, AnalyticsTools, ProjectTools, CustomerTools, NemoCompatible):
    """Do what is asked in an office; the reward is 1.0 if it is left as the row's own calls would leave it.

    Args:
        data_dir: The folder of the tables for every row, laid out as NeMo Gym's `csv_data`. None for the folder in the
            variable `GYM_LLM_WORKPLACE_ASSISTANT_DATA`, or else for the offices of the rows' `office_seed`.
        **kwargs: As for every `NemoCompatible`.

    Raises:
        DataError: If the folder has no such tables.
    """

    default_max_turns = 6
    reverify_mode = "stateless"

    class Task(BaseTask):
        """The calls that do the task, and the seed of a generated office; None where it plays in a `data_dir`."""

        ground_truth: list[GoldCall]
        office_seed: int | None = None

        @field_validator("ground_truth", mode="before")
        @classmethod
        def _read(cls, calls: Any) -> Any:
            return loads(calls.encode()) if isinstance(calls, str) else calls

    def __init__(self, tasks: str | list[Row] | None = None, *, data_dir: str | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        folder = data_dir or os.environ.get(DATA_VARIABLE)
        self.data_dir = str(Path(folder).resolve()) if folder else None
        if self.data_dir:
            read_office(self.data_dir)

    def generate(self, rng: np.random.Generator) -> Row:
        """Draw one of 16 offices (or take the one of `data_dir`), and something to do in it."""
        seed = int(rng.integers(_OFFICES))
        chooser = random.Random(int(rng.integers(2**63)))
        if self.data_dir is not None:
            return make_row(read_office(self.data_dir), chooser)
        return make_row(generated_office(seed), chooser) | {"office_seed": seed}

    def setup(self, task: Task) -> Office:
        """The office as it is at first."""
        return Office(self._data(task))

    def oracle(self, task: Task) -> list[list[Item]]:
        """Return the row's own calls, one a turn."""
        return [call_items([(call.name, call.arguments)]) for call in task.ground_truth]

    def verify(self, task: Task, episode: Episode) -> float:
        """Compare the office after the calls that were made with the one after the row's."""
        data = self._data(task)
        made = Office(data)
        calls: list[Item] = []
        for item in episode.items:  # again, call by call, so that a stored episode is scored alike
            if item.get("type") == "function_call":
                calls.append(item)
            elif item.get("type") == "function_call_output" and calls:
                run_calls(self, self._tools, calls, made)
                calls = []
        return float(made.same(_expected(data, tuple((call.name, call.arguments) for call in task.ground_truth))))

    def _data(self, task: Task) -> OfficeData:
        if self.data_dir is not None:
            return read_office(self.data_dir)
        if task.office_seed is None:
            raise DataError(
                f"The row has no office_seed: give data_dir or {DATA_VARIABLE}, the folder of NeMo Gym's csv_data."
            )
        return generated_office(task.office_seed)


@lru_cache(1_024)
def _expected(data: OfficeData, calls: tuple[tuple[str, str], ...]) -> Office:
    """The office after a row's calls, which many episodes are compared with: it is never changed.

    The tools ask nothing of the environment whose methods they are.
    """
    office = Office(data)
    items = [{"name": name, "arguments": arguments, "call_id": ""} for name, arguments in calls]
    run_calls(None, WorkplaceAssistant._tools, items, office)
    return office
