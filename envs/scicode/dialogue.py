"""Building the questions of the steps, and reading their answers."""

from __future__ import annotations

import ast

from gym_llm.envs.scicode.problem import Problem, Step
from gym_llm.types import Episode, message_text

_TASK = (
    "This problem is solved step by step, in Python. In each step write the function that is asked for, whole, in one "
    "```python block: no tests, no examples, and nothing of the steps before it, which is there already."
)


def question(task: Problem, place: int) -> str:
    """Return the question of a step, with the given code of earlier steps."""
    number = task.asked[place]
    first = 0 if place == 0 else task.asked[place - 1] + 1
    parts = []
    if place == 0:
        imports = f"These imports are there:\n```python\n{task.required_dependencies}\n```"
        parts += [_TASK, task.problem_description_main, imports if task.required_dependencies.strip() else ""]
    for step in task.sub_steps[first:number]:
        parts.append(f"{_described(step)}\n\nThis step's code is given:\n```python\n{step.ground_truth_code}\n```")
    step = task.sub_steps[number]
    ending = f"{step.function_header}\n{step.return_line}".rstrip()
    parts.append(f"{_described(step)}\n\nThe function, and how it ends:\n```python\n{ending}\n```")
    return "\n\n".join(part for part in parts if part)


def _described(step: Step) -> str:
    return "\n\n".join([f"Step {step.step_number}: {step.step_description_prompt}", step.step_background]).strip()


def turns(episode: Episode) -> list[str]:
    """Return the model's answer to each question."""
    questions = [place for place, item in enumerate(episode.items) if item.get("role") == "user"]
    ends = [*questions[1:], len(episode.items)]
    return [message_text(episode.items[start + 1 : end]) for start, end in zip(questions, ends, strict=True)]


def imported(source: str) -> set[str]:
    """Return the packages that a source imports; empty if it is not Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names if name}
