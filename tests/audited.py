"""A recipe's tasks, made of raw rows, played with right and wrong answers."""

from __future__ import annotations

from typing import Any, cast

import gymnasium as gym

from gym_llm.author.audit import audit
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.data.recipes.recipe import Benchmark, Source


def filled(recipe: Benchmark, task: dict[str, Any]) -> dict[str, Any]:
    """Return a task with the recipe's messages, as `tasks="benchmark:NAME"` does."""
    if recipe.prompt is None:
        return task
    system = [{"role": "system", "content": recipe.system.format_map(task)}] if recipe.system else []
    user = {"role": "user", "content": recipe.prompt.format_map(task)}
    return {**task, "responses_create_params": {"input": [*system, user]}}


def played(
    recipe: Benchmark, rows: list[dict[str, Any]], limit: int | None = None, source: Source | None = None
) -> Any:
    """Audit a recipe over the raw rows of one load, the first unless another is named."""
    tasks = list(recipe.tasks_of([(source or recipe.sources[0], rows)]))
    env_id = cast(str, recipe.env_id)

    def make() -> VerifierEnv:
        env = gym.make(
            env_id, tasks=[filled(recipe, task) for task in tasks], disable_env_checker=True, **recipe.env_kwargs
        )
        return cast(VerifierEnv, env.unwrapped)

    return audit(recipe, make, limit=limit)
