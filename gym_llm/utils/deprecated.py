"""Old names of the public API: they work until the next version, with a DeprecationWarning.

An old module is an object in `sys.modules` that imports the new module when a name is looked up in it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MODULES = {
    "agents.sync": "agents.run_agent",
    "envs.text_game": "core.text_game",
    "trainers.full_weights": "trainers.shared.full_weights",
    "agents.engine": "agents.agent_engine",
    "agents.episode": "agents.agent_episode",
    "agents.exchange": "agents.mailbox",
    "agents.program": "agents.agent_program",
    "attack": "author.attack",
    "attack.campaign": "author.attack.campaign",
    "attack.card": "author.attack.card",
    "attack.context": "author.attack.context",
    "attack.finding": "author.attack.finding",
    "byte_search": "utils.byte_matcher",
    "capture": "agents.capture",
    "capture.server": "agents.capture.capture_server",
    "capture.session": "agents.capture.capture_session",
    "catalogue": "author.catalogue",
    "chaos": "author.chaos",
    "chat": "protocols.chat",
    "chat.template": "tokens.template",
    "concurrency.garbage": "concurrency.relaxed_gc",
    "config": "rollouts.config",
    "conforming": "core.compat",
    "cut_short": "core.driver",
    "data.files.records": "records.record_files",
    "data.files.rollout_file": "records.rollout_file",
    "dialects": "protocols",
    "did_you_mean": "utils.text",
    "engines.base": "engines.engine",
    "env": "core.verifier_env",
    "env_class": "core.registry.classes",
    "env_config": "core.registry.classes",
    "env_files": "core.registry.env_files",
    "evaluate": "evaluation",
    "evaluate.compare": "evaluation.compare",
    "evaluate.episodes": "stats.episode_scores",
    "evaluate.evaluation": "evaluation.evaluation",
    "evaluate.filter": "evaluation.filter",
    "evaluate.intervals": "stats.intervals",
    "evaluate.metrics": "stats.figures",
    "evaluate.paired": "stats.paired",
    "evaluate.profile": "author.profile",
    "evaluate.results": "evaluation.results",
    "evaluate.reverify": "evaluation.reverify.reverify",
    "evaluate.sign_flip": "stats.sign_flip",
    "export": "evaluation.export",
    "export.atif": "evaluation.export.atif",
    "export.conversation": "evaluation.export.record_conversation",
    "export.export": "evaluation.export.formats",
    "extras": "utils.extras",
    "grading.formats": "grading.document_formats",
    "grading.options": "core.checks",
    "grading.thinking": "tokens.parsers.thinking",
    "hooks": "core.hooks",
    "http_metrics": "protocols.http.metrics",
    "http_server": "protocols.http.access",
    "judge.env": "judge.judged_env",
    "judge.parsers": "judge.verdicts",
    "judge.prompts": "judge.judge_prompts",
    "judge.replay": "judge.recorded_answers",
    "judge.user_simulator": "judge.simulated_user",
    "judge.side_engine": "judge.engine_argument",
    "limits": "utils.limits",
    "loopback": "protocols.http.access",
    "mcp": "protocols.mcp",
    "metric": "core.rewards",
    "outcomes": "records.failures",
    "parsers": "tokens.parsers",
    "parsers.base": "tokens.parsers.parser",
    "parsers.harmony": "tokens.parsers.harmony",
    "parsers.registry": "tokens.parsers.parser_registry",
    "pictures": "utils.png",
    "printable": "utils.text",
    "prompt_files": "core.prompts",
    "ray": "rollouts.ray",
    "ray.shared_engine": "rollouts.ray.shared_engine",
    "record": "records.record",
    "registration": "core.registry.ids",
    "responses": "protocols.responses",
    "responses.actions": "protocols.responses.actions",
    "right_answers": "core.author_hooks",
    "rollout": "rollouts",
    "rollout.episode": "rollouts.episode",
    "rollout.part": "rollouts.workload",
    "rollout.plan": "rollouts.plan",
    "rollout.play": "rollouts.play",
    "rollout.run": "rollouts.run",
    "rollout.settings": "rollouts.settings",
    "rollout.summary": "stats.run_summary",
    "row_prompts": "core.prompts",
    "sandbox.dockerfile": "sandbox.machines.dockerfile",
    "sandbox.env": "sandbox.sandboxed_env",
    "sandbox.image_archive": "sandbox.machines.image_archive",
    "sandbox.in_order": "sandbox.run_tests",
    "sandbox.interpreter": "sandbox.backends",
    "sandbox.limits": "sandbox.run_limits",
    "sandbox.machine": "sandbox.machines.machine",
    "sandbox.rootfs": "sandbox.machines.rootfs",
    "sandbox.session": "sandbox.python_session",
    "scaffold": "author.scaffold",
    "secrets": "utils.secrets",
    "seeding": "core.seeding",
    "serve.episode": "serve.episode_session",
    "serve.openenv.export": "serve.openenv.hub_folder",
    "serve.server": "engines.model_server",
    "serve.wires": "serve.frontend",
    "serve.workers": "serve.worker_processes",
    "spaces": "core.spaces",
    "sql": "grading.sql",
    "sql.answers": "grading.sql.statements",
    "sql.comparison": "grading.sql.comparison",
    "sql.databases": "grading.sql.question",
    "sql.extraction": "grading.sql.statements",
    "sql.grading": "grading.sql.grade",
    "sql.types": "grading.sql.question",
    "tasks": "core.tasks",
    "token_spans": "records.token_spans",
    "tools": "core.tools",
    "tools.calls": "core.tools.calls",
    "tools.tool": "core.tools.tool",
    "tracking": "evaluation.tracking",
    "tracking.otel": "evaluation.tracking.otel",
    "tracking.run_log": "evaluation.tracking.run_log",
    "tracking.trackers": "evaluation.tracking.trackers",
    "trainers.advantages": "trainers.shared.advantages",
    "trainers.engine": "trainers.shared.trainer_engine",
    "trainers.player": "trainers.shared.env_pool",
    "trainers.rows": "trainers.shared.token_rows",
    "trainers.tasks": "trainers.shared.trainer_tasks",
    "trainers.trl_async": "trainers.trl.async_worker",
    "trainers.trl_async_cpu": "trainers.trl.async_cpu",
    "trainers.trl_environment": "trainers.trl.environment_factory",
    "trainers.trl_masks": "trainers.trl.masks",
    "trainers.trl_reward": "trainers.trl.reward_function",
    "trainers.trl_rollout": "trainers.trl.rollout_func",
    "vector.base": "vector.vector_env",
    "vector.local": "vector.local_vector_env",
    "verdicts": "core.rewards",
    "view": "evaluation.view",
    "wrappers.parsing": "wrappers.parse_response",
    "wrappers.record": "wrappers.record_rollouts",
}
"""Old module -> new module, both below `gym_llm`."""

NAMES: dict[str, str] = {
    "concurrency.CLOSING": "SHUTDOWN_ERRORS",
    "concurrency.Suspended": "Waiting",
    "concurrency.begin": "run_until_wait",
    "concurrency.driven": "in_driver",
    "concurrency.gives_up": "is_cancellation",
    "concurrency.bridge.CLOSING": "SHUTDOWN_ERRORS",
    "concurrency.bridge.Suspended": "Waiting",
    "concurrency.bridge.begin": "run_until_wait",
    "concurrency.bridge.driven": "in_driver",
    "concurrency.bridge.gives_up": "is_cancellation",
    "concurrency.relaxed_gc.collect_rarely": "relax_gc",
    "concurrency.relaxed_gc.spare_the_living": "freeze_gc",
    "concurrency.relaxed_gc.rare_collection": "relaxed_gc",
    "agents.read_agent": "parse_agent_spec",
    "protocols.http.access.Door": "AccessControl",
    "protocols.http.access.Unwelcome": "AccessDenied",
    "serve.env_server.WIRES": "FRONTENDS",
    "serve.frontend.MakeWire": "MakeFrontend",
    "serve.frontend.Wire": "Frontend",
    "core.compat.ConformingEnv": "NemoCompatible",
    "sandbox.Box": "Mounts",
    "sandbox.backends.Box": "Mounts",
    "sandbox.languages.box_for": "mounts_for",
    "grading.sql.Outcome": "QueryResult",
    "grading.sql.question.Outcome": "QueryResult",
    "judge.UserSimulator": "SimulatedUser",
    "judge.engine_argument.side_engine": "auxiliary_engine",
    "judge.side_engine": "auxiliary_engine",
    "judge.simulated_user.UserSimulator": "SimulatedUser",
    "core.driver.with_score": "score_step",
    "trainers.shared.env_pool.EpisodePlayer": "EnvPool",
}
"""Old name in a new module -> the name that replaces it: `"judge.UserSimulator": "SimulatedUser"`."""


class _OldModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        old, new = self.__name__, MODULES[self.__name__.removeprefix("gym_llm.")]
        warnings.warn(f"{old} has moved to gym_llm.{new}", DeprecationWarning, stacklevel=2)
        home = import_module(f"gym_llm.{new}")
        return getattr(home, NAMES.get(f"{new}.{name}", name))


def alias_old_modules() -> None:
    """Make every old module importable."""
    for old in MODULES:
        sys.modules.setdefault(f"gym_llm.{old}", _OldModule(f"gym_llm.{old}", "Moved; see `MODULES`."))


def renamed(module: str, name: str) -> Any:
    """Return what an old name of a module stands for, with a DeprecationWarning; a module's `__getattr__` calls it.

    Args:
        module: The module's `__name__`.
        name: The name that it does not have.

    Raises:
        AttributeError: If the name is not an old one.
    """
    new = NAMES.get(f"{module.removeprefix('gym_llm.')}.{name}")
    if new is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(f"{module}.{name} is {new} now", DeprecationWarning, stacklevel=3)
    return getattr(sys.modules[module], new)


def renamed_argument(old: str, new: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that accepts a keyword argument under its old name, too, with a DeprecationWarning."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if old in kwargs:
                warnings.warn(f"The argument {old} is {new} now", DeprecationWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
