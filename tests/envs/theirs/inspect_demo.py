"""A task of Inspect AI with a tool, for tests."""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate, prompt_template, system_message, use_tools
from inspect_ai.tool import tool


@tool
def add():
    async def execute(x: int, y: int) -> str:
        """Add two numbers.

        Args:
            x: The first.
            y: The second.
        """
        return str(x + y)

    return execute


@task
def sums(largest: int = 3) -> Task:
    return Task(
        dataset=[Sample(input=f"{n}+{n}?", target=str(2 * n)) for n in range(largest)],
        solver=[system_message("Use add."), use_tools(add()), prompt_template("Question: {prompt}"), generate()],
        scorer=match(numeric=True),
    )
