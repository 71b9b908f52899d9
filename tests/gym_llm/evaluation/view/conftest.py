"""A server of rollout files, the chromium of this machine, and records that are made for looking at them."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ARGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WATCH = """
window.__violations = [];
addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
  __violations.push(`${violatedDirective} ${blockedURI}`);
});
"""


class Visitor:
    """A page of the browser, and all that it tried."""

    def __init__(self, context: Any) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(20_000)
        self.page.add_init_script(WATCH)
        self.requests: list[str] = []
        self.events: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        for name in ("pageerror", "popup", "download", "crash"):
            self.page.on(name, lambda event, name=name: self.events.append(f"{name}: {event}"))
        self.page.on("dialog", self._refuse)
        self.page.on("console", lambda message: self.events.append(f"{message.type}: {message.text}"))

    def _refuse(self, dialog: Any) -> None:
        self.events.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def went_nowhere(self, origin: str) -> None:
        """Nothing but the page's own origin was asked for, no script of others ran, and no policy was violated."""
        assert self.page.evaluate("[window.__pwned ?? null, __violations]") == [None, []]
        assert self.events == []
        assert [url for url in self.requests if not url.startswith((origin, "data:,", "data:font/woff2;"))] == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The chromium of this machine, or the test is skipped."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium on PATH")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=ARGS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visitor]]:
    """Opens addresses, each in a profile of its own: `visit(url, color_scheme="dark")`."""
    contexts = []

    def open_page(url: str, **settings: Any) -> Visitor:
        contexts.append(browser.new_context(viewport={"width": 1280, "height": 800}, **settings))
        visitor = Visitor(contexts[-1])
        visitor.page.goto(url)
        return visitor

    yield open_page
    for context in contexts:
        context.close()


@contextmanager
def serving(*paths: Path) -> Iterator[str]:
    """Serves files from another thread; gives the address to open."""
    from gym_llm.evaluation.view.view_server import ViewServer

    started, ends = threading.Event(), threading.Event()
    server = ViewServer(paths)
    errors: list[BaseException] = []

    async def serve() -> None:
        async with server:
            started.set()
            await asyncio.to_thread(ends.wait)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            errors.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        started.wait()
        yield server.url
    finally:
        ends.set()
        thread.join()
    assert errors == []


@pytest.fixture(scope="module")
def serve() -> Callable[..., Any]:
    """`with serve(path, ...) as url`."""
    return serving


def said(text: str, role: str = "assistant") -> dict[str, Any]:
    """A message."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def thought(text: str) -> dict[str, Any]:
    """Reasoning."""
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


def called(name: str, arguments: str, output: str, call_id: str = "call_1") -> list[dict[str, Any]]:
    """A call and its result."""
    call = {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}
    return [call, {"type": "function_call_output", "call_id": call_id, "output": output}]


def record(task: int, repeat: int = 0, reward: float | None = 1.0, *output: Any, **fields: Any) -> dict[str, Any]:
    """A record; `fields` go over its own."""
    items = list(output) or [said(f"The answer to task {task} is {repeat}.")]
    return {
        "responses_create_params": {"input": [said(f"Question {task}?", "user")]},
        "response": {"id": "r", "model": "test", "output": items, "usage": {"input_tokens": 10, "output_tokens": 5}},
        "rollout_id": {"task_index": task, "repeat_index": repeat},
        "env_id": "gym_llm/Test-v0",
        "outcome": "masked" if reward is None else "scored",
        "reward": reward,
        "terminated": True,
        "truncated": False,
        "failure_kind": "verifier_error" if reward is None else None,
        "error": "The verifier could not read it." if reward is None else None,
        "error_phase": "verify" if reward is None else None,
        "traceback": None,
        "info": {"task_index": task, "turn": 1, "tool_errors": 0},
        "trajectory": None,
        "timing": {"total": 1.5, "engine": 1.0},
        "schema_version": 2,
        **fields,
    }


def write(path: Path, records: list[Any], mode: str = "w") -> Path:
    """Writes records as JSON Lines."""
    with open(path, mode, encoding="utf-8") as file:
        file.writelines(json.dumps(each) + "\n" for each in records)
    return path


@pytest.fixture(scope="session")
def make() -> Any:
    """The makers of records: `make.record`, `make.said`, `make.thought`, `make.called`, `make.write`."""

    class Makers:
        record = staticmethod(record)
        said = staticmethod(said)
        thought = staticmethod(thought)
        called = staticmethod(called)
        write = staticmethod(write)

    return Makers
