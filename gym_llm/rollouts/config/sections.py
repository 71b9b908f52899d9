"""The sections of a configuration: environments and engines, checked."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gym_llm.data.files.datasets import DatasetConfig, Name
from gym_llm.engines import make_engine
from gym_llm.engines.engine import Engine


class EngineSection(BaseModel):
    """A section that names an engine.

    Attributes:
        engine: Its spec; see `gym_llm.engines.make_engine`.
        kwargs: Its further arguments.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine: Name
    kwargs: dict[str, Any] = {}

    def make(self, **more: Any) -> Engine:
        """Build the engine, not started; `more` goes over the section's arguments. Errors: as `make_engine`."""
        return make_engine(self.engine, **{**self.kwargs, **more})


class EnvironmentSection(BaseModel):
    """A section that names an environment.

    Attributes:
        env: A registered id.
        kwargs: Its arguments besides the tasks.
        engine: The section of the engine that plays it, or an engine's spec.
        domain: What it is about, e.g. `math`; part of the names under which its datasets are published.
        datasets: Its task files; without any, the environment's own tasks are played.
        tasks: Or one source of tasks, where there is nothing else to say of it; see `gym_llm.data.files.reading`.
        repeats: How often each task is played; None for what its dataset says, or once.
        limit: How many of the tasks of each dataset are played; None for all.
        sampling: Request fields to set over the tasks' own, e.g. `{temperature: 0.6, max_output_tokens: 32768}`.
        nemo_gym: In the `config.yaml` beside a verifier: NeMo Gym's names of it.
        nemo_gym_kwargs: There: the arguments that a resources server of NeMo Gym has under the same names.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    env: Name
    kwargs: dict[str, Any] = {}
    engine: Name | None = None
    domain: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")] | None = None
    datasets: list[DatasetConfig] = []
    tasks: Name | None = None
    repeats: Annotated[int, Field(ge=1, strict=True)] | None = None
    limit: Annotated[int, Field(ge=1, strict=True)] | None = None
    sampling: dict[str, Any] | None = None
    nemo_gym: list[Name] = Field([], exclude=True)
    nemo_gym_kwargs: list[Name] = Field([], exclude=True)

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [dataset.name for dataset in self.datasets]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two datasets are called {repeated[0]}: give each its own name")
        sources = {"datasets": self.datasets, "tasks": self.tasks, "kwargs.tasks": self.kwargs.get("tasks")}
        if len(given := [f"`{name}`" for name, source in sources.items() if source]) > 1:
            raise ValueError(f"{' and '.join(given)} both say which tasks are played: give one of them")
        return self
