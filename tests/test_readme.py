"""Every Python example of README.md, run as it is printed."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

pytestmark = pytest.mark.slow

README = Path(__file__).parents[1] / "README.md"


def example(name: str) -> str:
    found = re.search(rf"<!-- test: {name} -->\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None, f"README.md has no example {name!r}"
    return found[1]


def run(code: str) -> str:
    environment = {**os.environ, "PYTHONWARNINGS": "error::UserWarning"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=180, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture
def responses_url() -> Iterator[str]:
    """A Responses server that answers B to everything, on loopback."""

    async def create(request: web.Request) -> web.Response:
        body = await request.json()
        assert body["model"] == "my-model"
        assert body["input"][0]["role"] == "user"
        part = {"type": "output_text", "text": "It is \\boxed{B}", "annotations": []}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        return web.json_response({"id": "resp_1", "object": "response", "created_at": 0, "status": "completed",
                                  "model": "my-model", "output": [message], "parallel_tool_calls": True,
                                  "tool_choice": "auto", "tools": []})  # fmt: skip

    loop = asyncio.new_event_loop()
    application = web.Application()
    application.router.add_post("/v1/responses", create)
    runner = web.AppRunner(application)
    loop.run_until_complete(runner.setup())
    loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
    address: Any = runner.addresses[0]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield f"http://127.0.0.1:{address[1]}/v1"
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_the_loop_with_the_official_client_plays_an_episode(responses_url: str) -> None:
    printed = run(example("openai").replace("http://localhost:8000/v1", responses_url))
    assert re.fullmatch(r"[01]\.0 \{.*'extracted_answer': 'B'.*\}\n", printed)


def test_collect_plays_the_pocket_model() -> None:
    assert 0.0 < float(run(example("collect"))) <= 1.0


def test_a_run_is_completed_by_the_same_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = (run(example("run")) for _ in range(2))
    assert first.startswith("256 episodes to play\n") and second.startswith("0 episodes to play\n")
    assert first.splitlines()[1] == second.splitlines()[1]
    assert len(Path("runs/sums.jsonl").read_bytes().splitlines()) == 256


def test_parsers_are_made_by_name() -> None:
    assert run(example("parsers") + "print([item.get('type') for item in items])") == "['reasoning', None]\n"


def test_the_trainer_of_the_readme_trains(tmp_path: Path) -> None:
    code = example("trl")
    small = "per_device_train_batch_size=8, max_steps=1, use_cpu=True, bf16=False, report_to='none', save_strategy='no'"
    model = README.parent / "gym_llm" / "engines" / "pocket" / "model"
    code = code.replace('"Qwen/Qwen3-0.6B"', repr(str(model))).replace('"runs/weather"', repr(str(tmp_path)))
    code = code.replace("max_completion_length=1024", f"max_completion_length=1024, {small}")
    printed = run("import os\nos.environ['TRL_EXPERIMENTAL_SILENCE'] = '1'\n" + code)
    assert "'rewards/Weather/mean'" in printed and "'episodes/turns'" in printed


def test_the_verifier_of_the_readme_works_and_passes_check_env() -> None:
    code = example("verifier")
    play = """
env = gym.make("mine/GuessTheNumber-v0")
request, info = env.reset(options={"task_index": 0})
tool_names = [tool["name"] for tool in request["tools"]]
call = {"type": "function_call", "call_id": "c", "name": "guess"}
low, high, over = 1, 100, False
while request["input"][-1].get("output") != "right":
    middle = (low + high) // 2
    request, *_ = env.step([{**call, "arguments": f'{{"number": {middle}}}'}])
    if request["input"][-1]["output"] == "higher":
        low = middle + 1
    else:
        high = middle - 1
_, reward, terminated, _, info = env.step([{"type": "message", "role": "assistant", "content": "Found it."}])
print(tool_names, terminated, reward == 1 / info["guesses"], info["tool_errors"])
"""
    assert run(code + play).splitlines()[-1] == "['guess'] True True 0"


def test_the_vector_environment_of_the_readme_steps_and_sends() -> None:
    assert re.search(r"^\[[\d\s]+\]$", run(example("vector")), re.MULTILINE | re.DOTALL)


def test_the_shell_examples_run_one_after_another(tmp_path: Path) -> None:
    shutil.copytree(README.parent / "envs", tmp_path / "envs", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    scripts = re.findall(r"<!-- test: shell -->\n```bash\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(scripts) >= 5
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for script in scripts:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env={**os.environ, "PATH": path},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    code = example("data")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_examples_are_as_short_as_the_readme_says() -> None:
    assert len(example("openai").strip().splitlines()) <= 14
    assert len([line for line in example("verifier").splitlines() if line.strip()]) <= 33
