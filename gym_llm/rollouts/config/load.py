"""From YAML files to typed sections whose references to each other hold."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from gym_llm.data.files.datasets import found_from
from gym_llm.data.files.reading import parse_source
from gym_llm.errors import ConfigError
from gym_llm.rollouts.config.compose import COMMAND_LINE, ENV_FILE, WELL_KNOWN, Composed, compose
from gym_llm.rollouts.config.inherit import AGENTS, SERVER_TYPES
from gym_llm.rollouts.config.mapped import MappedSections
from gym_llm.rollouts.config.nemo_gym import map_nemo_gym
from gym_llm.rollouts.config.sections import EngineSection, EnvironmentSection
from gym_llm.utils.secrets import mask
from gym_llm.utils.text import did_you_mean

POLICY = "policy"
"""The engine made of `policy_base_url`, `policy_model_name` and `policy_api_key`."""

DEFAULT_ENGINE = "pocket"

NEMO_OPTIONS = {
    "agent_name": "Give the sections that are to be played.",
    "data_source": "Give --source.",
    "disable_health_check": "`gym-llm health` checks a run.",
    "input_jsonl_fpath": "Give `datasets` in the section.",
    "interleave_repeats": "Episodes of a task are played beside each other anyway.",
    "limit": "Give --limit.",
    "mode": "Give --mode.",
    "num_repeats": "Give --repeats.",
    "num_repeats_add_seed": "Give --seed.",
    "num_samples_in_parallel": "Give --concurrency.",
    "output_dirpath": "Give --output-dir.",
    "output_jsonl_fpath": "Give --output.",
    "overwrite_metrics_conflicts": "Give --overwrite-metrics.",
    "profiling_enabled": "`gym-llm profile` profiles a verifier.",
    "prompt_config": "Give `prompt_config` in the `kwargs` of the section.",
    "ray_head_node_address": "Give --ray-address.",
    "resume_from_cache": "Give --resume.",
    "should_download": "Give --download.",
}
"""Options of NeMo Gym's commands, and what to give in their place."""

_Section = TypeVar("_Section", bound=BaseModel)


@dataclass(frozen=True)
class Config:
    """The configuration of a run.

    Attributes:
        variables: Other top-level values, e.g. `hf_organization`.
        environments: By section name, in the order of the files; `engine` is filled in, see `load_config`.
        engines: By section name.
        unmapped: Parts of NeMo Gym's configuration without a counterpart, one sentence each.
        secrets: Strings to hide.
    """

    variables: dict[str, Any]
    environments: dict[str, EnvironmentSection]
    engines: dict[str, EngineSection]
    unmapped: list[str]
    secrets: frozenset[str]

    def engine_of(self, environment: str) -> EngineSection:
        """The engine that plays an environment section."""
        name = self.environments[environment].engine or DEFAULT_ENGINE
        return self.engines.get(name) or EngineSection(engine=name)

    def as_dict(self) -> dict[str, Any]:
        """A configuration that says the same, secrets masked, every default filled in."""
        sections: dict[str, BaseModel] = {**self.environments, **self.engines}
        values = {name: section.model_dump(mode="json", exclude_none=True) for name, section in sections.items()}
        return mask({**self.variables, **values}, self.secrets)  # type: ignore[no-any-return]


def load_config(
    paths: Sequence[str | Path],
    settings: Sequence[str] = (),
    *,
    folder: str | Path = ".",
    one_engine: bool = True,
    reads: Collection[str] = (),
) -> Config:
    """Compose a configuration and check it.

    Args:
        paths: As the others of `compose`.
        settings: Of `compose`.
        folder: Of `compose`.
        one_engine: Whether an environment that names no engine, where there are several, is a mistake; else it stays
            without.
        reads: Top-level values that the caller reads. Others that only settings have are refused.

    Raises:
        ConfigError: As `compose`, or if sections are wrong; all that is wrong is named at once.
    """
    composed = compose(paths, settings, folder=folder)
    sections = {name: value for name, value in composed.values.items() if isinstance(value, dict)}
    variables = {name: value for name, value in composed.values.items() if name not in sections}
    foreign = {name: value for name, value in sections.items() if SERVER_TYPES & value.keys()}
    mapped = map_nemo_gym(foreign, composed)
    _check_read(variables, reads, mapped, bool(foreign))
    problems = list(mapped.problems)
    environments: dict[str, EnvironmentSection] = {}
    engines: dict[str, EngineSection] = {}
    for name, value in _in_order(sections, mapped):
        if "env" in value:
            _add(environments, name, EnvironmentSection, value, composed, problems)
        elif "engine" in value:
            _add(engines, name, EngineSection, value, composed, problems)
        elif foreign and not any(did_you_mean(str(key), ("env", "engine")) for key in value):
            mapped.leave_out(name, "it is no section of an environment, an engine or a server; it changes nothing")
        else:
            problems.append(_neither(name, value, sections, composed))
    if policy := _policy(variables):
        engines.setdefault(POLICY, policy)
    declared = [name for name in engines if name in sections]
    for name, environment in environments.items():
        try:
            engine = _engine_name(environment, engines, declared, variables, one_engine)
        except ConfigError as error:
            problems.append(f"{composed.place(name)}: {error}")
        else:
            located = _located(name, environment, composed)
            environments[name] = environment.model_copy(update={"engine": engine, **located})
    if problems:
        raise unusable(mask(problem, composed.secrets) for problem in problems)
    if POLICY not in declared and all(environment.engine != POLICY for environment in environments.values()):
        engines.pop(POLICY, None)
    return Config(variables, environments, engines, mapped.unmapped, composed.secrets)


def unusable(problems: Iterable[str]) -> ConfigError:
    """Return the error of a configuration with these problems: a line for each, or one line."""
    lines = list(problems)
    return ConfigError("\n  ".join(["The configuration cannot be used:", *lines][len(lines) == 1 :]))


def _check_read(variables: dict[str, Any], reads: Collection[str], mapped: MappedSections, is_foreign: bool) -> None:
    """Refuse values of the command line that nothing reads; list those of files.

    NeMo Gym's files have values for other tools, so of those only options of its commands are listed.
    """
    composed = mapped.composed
    for name in (name for name in variables if name in composed.unread and name not in reads):
        hint = NEMO_OPTIONS.get(name) or did_you_mean(name, WELL_KNOWN).strip()
        sentence = f"nothing reads it here. {hint}".rstrip()
        if name in composed.added:
            mapped.refuse(name, sentence)
        elif name in NEMO_OPTIONS or not (is_foreign or str(composed.places.get(name)).endswith(ENV_FILE)):
            mapped.leave_out(name, sentence.rstrip("."))


def _in_order(sections: dict[str, dict[str, Any]], mapped: MappedSections) -> list[tuple[str, dict[str, Any]]]:
    ours = {name: value for name, value in sections.items() if not SERVER_TYPES & value.keys()}
    merged = {**ours, **mapped.sections}
    return [(name, merged[name]) for name in sections if name in merged and name not in mapped.ignored]


def _add(
    sections: dict[str, _Section],
    name: str,
    kind: type[_Section],
    value: dict[str, Any],
    composed: Composed,
    problems: list[str],
) -> None:
    try:
        sections[name] = kind.model_validate(value)
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_context=False, include_input=False):
            key = ".".join(map(str, [name, *problem["loc"]]))
            sentence = problem["msg"].removeprefix("Value error, ")
            if problem["type"] == "extra_forbidden":
                fields = kind.model_fields if len(problem["loc"]) == 1 else ()
                sentence = f"there is no such key.{did_you_mean(str(problem['loc'][-1]), fields)}"
            problems.append(f"{composed.place(key)}: {sentence}")


def _located(name: str, environment: EnvironmentSection, composed: Composed) -> dict[str, Any]:
    """The section's datasets, tasks and prompt, each file looked for from the configuration file that names it."""

    def folder(key: str, value: str) -> str:
        """Beside the file that names it, in the working directory, or the nearest above the file that has it."""
        file, source = composed.places.get(key), parse_source(value)
        if file is None or file == COMMAND_LINE or source.is_hub:
            return ""
        above = map(str, Path(file).absolute().parent.parents)
        folders = (str(Path(file).parent), "", *above)
        return next((folder for folder in folders if os.path.exists(os.path.join(folder, source.name))), "")

    tasks, kwargs = environment.tasks, dict(environment.kwargs)
    if tasks:
        tasks = found_from(tasks, folder(f"{name}.tasks", tasks))
    if isinstance(prompt := kwargs.get("prompt_config"), str):
        kwargs["prompt_config"] = found_from(prompt, folder(f"{name}.kwargs.prompt_config", prompt))
    datasets = list(environment.datasets)
    path_key = re.compile(rf"{re.escape(name)}\.(?:{AGENTS}\.[^.]+\.)?datasets\.(\d+)\.(jsonl_fpath|prompt_config)")
    for key in composed.places:
        if match := path_key.fullmatch(key):
            dataset, field = datasets[int(match[1])], match[2]
            if path := getattr(dataset, field):
                datasets[int(match[1])] = dataset.found_from(field, folder(key, path))
    return {"datasets": datasets, "tasks": tasks, "kwargs": kwargs}


def _neither(name: str, value: dict[str, Any], sections: dict[str, Any], composed: Composed) -> str:
    hint = did_you_mean(name, (other for other in sections if other != name))
    for key in value:
        hint = did_you_mean(str(key), ("env", "engine")) or hint
    return f"{composed.place(name)}: a section has `env: ID` (an environment) or `engine: SPEC` (an engine).{hint}"


def _policy(variables: dict[str, Any]) -> EngineSection | None:
    url = variables.get("policy_base_url")
    if not url:
        return None
    options = {"model": variables.get("policy_model_name"), "api_key": variables.get("policy_api_key")}
    spec = ",".join(map(str, url)) if isinstance(url, list) else str(url)
    return EngineSection(engine=spec, kwargs={name: str(value) for name, value in options.items() if value})


def _engine_name(
    environment: EnvironmentSection,
    engines: dict[str, EngineSection],
    declared: list[str],
    variables: dict[str, Any],
    one_engine: bool,
) -> str | None:
    name = environment.engine
    if name is not None:
        if name in engines or name == DEFAULT_ENGINE or ":" in name:
            return name
        raise ConfigError(
            f"`engine: {name}` names no section of an engine, nor an engine such as {DEFAULT_ENGINE}."
            f"{did_you_mean(name, [*engines, DEFAULT_ENGINE])}"
        )
    if POLICY in declared:
        return POLICY
    if len(declared) == 1:
        return declared[0]
    if POLICY in engines:
        return POLICY
    if declared and not one_engine:
        return None
    if declared:
        raise ConfigError(f"it names no `engine`, and there are several: {', '.join(declared)}.")
    if incomplete := [key for key in ("policy_model_name", "policy_api_key") if variables.get(key)]:
        raise ConfigError(f"it names no `engine`; {' and '.join(incomplete)} need policy_base_url as well.")
    return DEFAULT_ENGINE
