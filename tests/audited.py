"""A recipe's tasks, made of raw rows, played with right and wrong answers."""

from __future__ import annotations

from typing import Any, cast

import gymnasium as gym

from gym_llm.author.audit import audit
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.data.recipes.recipe import Benchmark, Source


def played(
    recipe: Benchmark, rows: list[dict[str, Any]], limit: int | None = None, source: Source | None = None
) -> Any:
    """Audit a recipe over the raw rows of one load, the first unless another is named."""
    tasks = list(recipe.tasks_of([(source or recipe.sources[0], rows)]))
    env_id, prompt = cast(str, recipe.env_id), recipe.prompt

    def filled(task: dict[str, Any]) -> dict[str, Any]:
        if prompt is None:
            return task
        content = prompt.format_map(task)
        return {**task, "responses_create_params": {"input": [{"role": "user", "content": content}]}}

    def make() -> VerifierEnv:
        env = gym.make(env_id, tasks=[filled(task) for task in tasks], disable_env_checker=True, **recipe.env_kwargs)
        return cast(VerifierEnv, env.unwrapped)

    return audit(recipe, make, limit=limit)
