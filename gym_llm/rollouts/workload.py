"""Workloads: environments, each with its tasks and its engine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import gymnasium as gym
from gymnasium.error import DependencyNotInstalled

from gym_llm.agents.agent_specs import agent_name
from gym_llm.core.registry.env_files import not_found
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.data.files.reading import parse_source, slice_source
from gym_llm.engines import Capabilities, Engine, capabilities, make_engine
from gym_llm.engines.specs import model_spec, seeded_options
from gym_llm.errors import UsageError
from gym_llm.rollouts.factory import Wrap
from gym_llm.rollouts.made_by import MadeBy, made_by
from gym_llm.rollouts.plan import Plan, open_plan
from gym_llm.rollouts.recorded_task import MADE_BY_HOOKS, changed_fields
from gym_llm.rollouts.settings import RolloutSettings
from gym_llm.stats.run_summary import PASS_THRESHOLD, Summary
from gym_llm.types import Rollout, Row
from gym_llm.utils.extras import install_of
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.secrets import mask, register_secrets
from gym_llm.wrappers import parser_wrappers


@dataclass(frozen=True)
class Workload:
    """An environment with one source of tasks, and who plays it.

    Attributes:
        env_id: A registered id, or a file that has the environment (`gym_llm.core.registry.env_files.find_env`).
        engine: A spec, or an engine that the caller started.
        tasks: A source of tasks or a list of rows; None for the environment's own.
        env_kwargs: The environment's further arguments.
        engine_options: The engine's arguments, where it is a spec.
        repeats: How often each task is played.
        dataset: The part's name in its run, which its records carry; "" where it is the only one.
        secrets: Strings that are not to be written down, besides the values of keys such as `api_key`.
        limit: How many of the tasks are played; None for all.
        sampling: Request fields to set over the tasks' own, under those of the run.
    """

    env_id: str
    engine: str | Engine = "pocket"
    tasks: str | list[Row] | None = None
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    engine_options: dict[str, Any] = field(default_factory=dict)
    repeats: int = 1
    dataset: str = ""
    secrets: frozenset[str] = frozenset()
    limit: int | None = None
    sampling: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        register_secrets(self.engine, self.engine_options, self.env_kwargs)

    @property
    def capabilities(self) -> Capabilities:
        """The engine's capabilities.

        Raises:
            UsageError: If there is no such engine.
        """
        try:
            if isinstance(self.engine, Engine):
                return self.engine.capabilities
            return capabilities(model_spec(self.engine, self.engine_options)[0])
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from None

    @property
    def tokenizer(self) -> str | None:
        """The name of the model whose tokenizer the engine uses, as far as it is known."""
        if isinstance(self.engine, str) and self.capabilities.loads_model:
            kind, _, model = model_spec(self.engine, self.engine_options)[0].strip().partition(":")
            return model or kind
        return self.engine_options.get("tokenizer") or self.engine_options.get("model")

    def make_engine(self, seed: int) -> Engine:
        """Return the engine; one that is made here is not started.

        Raises:
            UsageError: If there is no such engine, or it has no such option.
        """
        if isinstance(self.engine, Engine):
            return self.engine
        try:
            return make_engine(self.engine, **seeded_options(self.engine, self.engine_options, seed))
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from None

    def wrappers(self, reasoning_parser: str | None, tool_call_parser: str | None) -> Sequence[Wrap] | None:
        """Return the wrappers for parsers of these names; None for the default ones.

        Raises:
            UsageError: If a parser is unknown, cannot be used, or no model says which tokenizer it is for.
        """
        try:
            return parser_wrappers(reasoning_parser, tool_call_parser, self.tokenizer, engine=str(self.engine))
        except (DependencyNotInstalled, ValueError, OSError) as error:
            raise UsageError(str(error)) from None

    def plan(
        self,
        settings: RolloutSettings,
        wrappers: Sequence[Wrap] | None = None,
        *,
        episodes: int | None = None,
        limit: int | None = None,
        pass_threshold: float = PASS_THRESHOLD,
        needs_tasks: bool = True,
    ) -> OpenWorkload:
        """Make the environment once, so that whatever is wrong with it shows now, and count its episodes.

        A limit goes over the part's own. For `needs_tasks` see `open_plan`.

        Raises:
            UsageError: If the environment or its tasks cannot be used.
        """
        try:
            RolloutSettings(sampling=self.sampling)
            plan = open_plan(
                self.env_id,
                tasks=self.tasks,
                env_kwargs=self.env_kwargs,
                episodes=episodes,
                limit=limit or (None if episodes else self.limit),
                repeats=self.repeats,
                seed=settings.seed,
                needs_tasks=needs_tasks,
            )
        except gym.error.UnregisteredEnv:
            raise not_found(self.env_id) from None
        except ModuleNotFoundError as error:
            if command := install_of(error.name or ""):
                raise UsageError(f"{self.env_id} needs the package {error.name}: {command}.") from None
            raise UsageError(f"{self.env_id} cannot be imported: {error}") from None
        except (gym.error.Error, TypeError, ValueError) as error:
            raise UsageError(f"{self.dataset}: {error}" if self.dataset else str(error)) from None
        summary = Summary(self.repeats, pass_threshold)
        return OpenWorkload(self, plan, cast(VerifierEnv, plan.factory.make().unwrapped), wrappers, summary)


Part = Workload
"""The name of a workload in the public API."""


@dataclass
class OpenWorkload:
    """A part of a run under way.

    Attributes:
        spec: What it was opened from.
        plan: Its episodes.
        verifier: One of its environments, asked which records are its own; nothing is played in it.
        wrappers: What its environments are wrapped with; None for the usual.
        summary: Of its records, earlier runs' too.
        finished: Task index and repeat index of these records.
        model: Who plays it, as far as known: the engine's own name for it.
    """

    spec: Workload
    plan: Plan
    verifier: VerifierEnv
    wrappers: Sequence[Wrap] | None
    summary: Summary
    finished: set[tuple[int, int]] = field(default_factory=set)
    model: str | None = None

    @property
    def env_id(self) -> str:
        """The environment's full id: the part's may be `module:id`, or lack the version."""
        return self.verifier.spec.id  # type: ignore[union-attr]

    def check_task(self, record: Rollout, settings: RolloutSettings) -> str:
        """Describe how a record's task differs from the one that would be played now; "" if it does not."""
        index = record["rollout_id"]["task_index"]
        if self.verifier.tasks is None:
            return ""
        try:
            row = self.verifier.tasks[index].row
        except IndexError:
            return f"there is no task {index} any more"
        changed = changed_fields(row, record, self.sampling(settings))
        if record.get("task_sha256") == self.verifier.tasks.identity_of(index, row).sha256:
            # The environment itself set these after the row was read.
            changed = [name for name in changed if name not in MADE_BY_HOOKS]
        return f"task {index} was another one when it was played, by {', '.join(changed)}" if changed else ""

    def sampling(self, settings: RolloutSettings) -> dict[str, Any]:
        """The request fields that are set in a run of these settings."""
        return {**self.spec.sampling, **(settings.sampling or {})}

    def remaining(self) -> int:
        """Return the number of unfinished episodes."""
        return sum(job not in self.finished for job in self.plan.jobs())

    def made_by(self, settings: RolloutSettings) -> MadeBy:
        """Return the identity of this part in a run of these settings."""
        part = self.spec
        settings = replace(settings, wrappers=self.wrappers, sampling=self.sampling(settings))
        return made_by(self.plan.factory, part.engine, part.engine_options, settings)

    @property
    def origin(self) -> dict[str, Any]:
        """The origin of the tasks (`task_source` in records); {} for nothing."""
        return {} if self.verifier.tasks is None else self.verifier.tasks.origin

    def describe(self) -> dict[str, Any]:
        """Describe the workload as JSON values without secrets."""
        part = self.spec
        arguments = {
            "env_kwargs": part.env_kwargs,
            "engine": part.engine if isinstance(part.engine, str) else type(part.engine).__name__,
            "engine_options": {
                name: agent_name(value) if callable(value) else value for name, value in part.engine_options.items()
            },
        }
        prompt = self.verifier.row_prompt
        return {
            "env_id": self.env_id,
            "tasks": mask(part.tasks) if isinstance(part.tasks, str) else None,
            "tasks_sha256": None if part.tasks is None else _digest(part.tasks, self.verifier),
            **({"task_source": origin} if (origin := self.origin) else {}),
            **({} if prompt is None else {"prompt_sha256": _digest(list(prompt.texts.by_role.items()), self.verifier)}),
            **mask(arguments, part.secrets),
            "repeats": part.repeats,
            **({"limit": part.limit} if part.limit else {}),
            **({"sampling": part.sampling} if part.sampling else {}),
        }


def tells_apart(digest: Any) -> bool:
    """Whether a `tasks_sha256` is one: of what a hub has it is only the name."""
    return bool(digest) and not parse_source(str(digest)).is_hub


def _digest(tasks: str | list[Any], verifier: VerifierEnv) -> str:
    if not isinstance(tasks, str):
        return hashlib.sha256(dumps(tasks)).hexdigest()
    if verifier.tasks is not None and (digest := verifier.tasks.origin.get("digest")):
        return f"{digest}{''.join(re.findall(r'[#[].*', tasks))}"
    source = parse_source(tasks)
    if source.is_hub:
        return tasks  # it is not here to be read twice
    with open(source.name, "rb") as file:
        return slice_source(hashlib.file_digest(file, "sha256").hexdigest(), source.start, source.end)
