"""A durable run over Ray with a model server that counts what it is asked. Alone: two nodes, of which one dies."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

if __name__ == "__main__":  # alone it runs with `python -P`
    sys.path.append(str(Path(__file__).parent))

from model_server import ModelServer

from gym_llm import Run

TURNS, TASKS = 8, 24


class CountingServer(ModelServer):
    """Calls the tool in every turn but the last; `disturb` is called once, at this number of answers."""

    def __init__(self, at: int, disturb: Callable[[CountingServer], Any]) -> None:
        super().__init__()
        self.answered: list[tuple[str, int]] = []
        self.left_down = 0
        self.is_disturbed = False
        self.latency = 0.05
        self._at, self._disturb = at, disturb
        self.answer = self.reply

    def reply(self, body: dict[str, Any]) -> dict[str, Any] | int:
        """Answer with a call, or with 503 while it is down."""
        messages = body["messages"]
        turn = sum(message["role"] == "tool" for message in messages)
        if self.left_down:
            self.left_down -= 1
            return 503
        self.answered.append((messages[0]["content"], turn))
        if len(self.answered) == self._at:
            threading.Thread(target=self._begin_to_disturb).start()
        if turn == TURNS - 1:
            return {"message": {"role": "assistant", "content": f"It rains in {messages[0]['content']}."}}
        function = {"name": "get_weather", "arguments": json.dumps({"city": f"City {turn}"})}
        call = {"id": f"call_{turn}", "type": "function", "function": function}
        return {"message": {"role": "assistant", "content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}

    def _begin_to_disturb(self) -> None:
        self._disturb(self)
        self.is_disturbed = True

    def asked_again(self) -> tuple[int, int]:
        """Return the answers given again though a later turn shows that they had been used, and all given again."""
        newest: Counter[str] = Counter()
        seen: set[tuple[str, int]] = set()
        used = again = 0
        for task, turn in self.answered:
            if (task, turn) in seen:
                again += 1
                used += turn < newest[task]
            seen.add((task, turn))
            newest[task] = max(newest[task], turn)
        return used, again


def play(output: Path, server: CountingServer, **options: Any) -> list[dict[str, Any]]:
    """Play all tasks durably with two shards, and return the records."""
    tasks = [{"responses_create_params": {"input": f"Task {number}"}} for number in range(TASKS)]
    engine_options = {"max_retries": 0, "timeout": 20.0}
    options = {"workers": 2, "concurrency": 12, "retries": 3, "durable": True, "max_failures": None, **options}
    with Run(
        *("gym_llm/Weather-v0", server.url), tasks=tasks, engine_options=engine_options, output=output, **options
    ) as run:
        run.play()
    return [json.loads(line) for line in output.read_text().splitlines()]


def main(folder: str) -> None:
    """Play on two nodes, of which one dies; print what came out as JSON."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    second = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    server = CountingServer(90, lambda _: cluster.remove_node(second, False))
    records = play(Path(folder) / "run.jsonl", server, ray_address=cluster.address)
    found = {
        "rewards": [record["reward"] for record in records],
        "asked_again": server.asked_again(),
        "nodes": sum(node["Alive"] for node in ray.nodes()),
    }
    print(json.dumps(found), flush=True)
    closing = threading.Thread(target=lambda: (ray.shutdown(), cluster.shutdown()), daemon=True)
    closing.start()
    closing.join(30)  # Ray can wait for ever for the node that was killed
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
