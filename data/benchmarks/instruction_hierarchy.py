"""IHEval: whether the system's instructions go before the user's, and the user's before a tool's."""

from __future__ import annotations

import json
from typing import Any

from gym_llm.data.recipes.recipe import Benchmark, Source
from gym_llm.types import Row

_TASKS = {
    "task-execution": "verb-extract translation lang-detect",
    "safety": "system-prompt-extract user-prompt-hijack",
    "tool-use": "slack-user get-webpage",
    "rule-following": "single-turn multi-turn",
}
_DOMAIN = {task: domain for domain, tasks in _TASKS.items() for task in tasks.split()}


def hierarchy(row: dict[str, Any]) -> Row | None:
    """Make the messages of a row, whose file names the domain, the task and the setting."""
    _, _, path = row["_member"].partition("benchmark/")
    domain, task, *setting = path.split("/")[:-1]
    if _DOMAIN.get(task) != domain:
        return None
    items: list[Row] = [
        {"role": ("user", "assistant")[number % 2], "content": text}
        for number, text in enumerate(row.get("conversation_history") or ())
    ]
    items.append({"role": "user", "content": row["instruction"]})
    params: Row = {"input": items}
    if tool := row.get("tool"):
        call, result, definition = tool["call"], tool["return"], tool["definition"]
        arguments = json.dumps(call["arguments"])
        items += [
            {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": arguments},
            {"type": "function_call_output", "call_id": call["id"], "output": result["content"]},
        ]
        properties = definition["parameters"]
        params["tools"] = [
            {
                "type": "function",
                "name": definition["name"],
                "description": definition["description"],
                "parameters": {"type": "object", "properties": properties, "required": list(properties)},
                "strict": None,
            }
        ]
    if row.get("system") is not None:
        items.insert(0, {"role": "system", "content": row["system"]})
    return {
        "responses_create_params": params,
        "id": str(row.get("id")),
        "task": task,
        "domain": domain,
        "setting": "/".join(setting),
        "instruction": str(row["instruction"]),
        "answer": json.dumps(row.get("answer"), ensure_ascii=False),
    }


BENCHMARKS = [
    Benchmark(
        name="iheval",
        title="IHEval: nine tasks on the order of instructions",
        domain="instruction_following",
        sources=(
            Source(
                "https://github.com/ytyz1307zzh/IHEval/archive/refs/heads/main.zip",
                member="*/benchmark/*/input_data.json",
                label="benchmark",
            ),
        ),
        convert=hierarchy,
        env_id="gym_llm/IHEval-v0",
        license="Apache 2.0",
        headline="macro:task",
        facts="NeMo Gym 07d6b0d, benchmarks/iheval and resources_servers/iheval",
    )
]
