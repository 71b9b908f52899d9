"""Schemathesis finds no address, of any wire or of a model's API, that answers with a 5xx."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from peers import in_peer

pytestmark = pytest.mark.slow
TOKEN = "let-me-in-6!"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


@contextmanager
def command(*arguments: str) -> Iterator[str]:
    """A command that serves; the address that it says."""
    argv = [sys.executable, "-m", "gym_llm.cli", *arguments, "--port", "0"]
    environment = {**os.environ, "GYM_LLM_TOKEN": TOKEN}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            line = process.stdout.readline()
            yield next(word for word in line.split() if word.startswith("http://"))
        finally:
            process.terminate()
            _, said = process.communicate(timeout=60)
            assert "Traceback" not in said, said


def ask(url: str, body: Any) -> Any:
    """The answer to a POST, with its headers."""
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), HEADERS), timeout=20)


def test_all_wires_at_once() -> None:
    with command("serve", "gym_llm/Weather-v0") as url:
        row = json.loads(Path("envs/weather/data/example.jsonl").read_text().splitlines()[0])
        with ask(f"{url}/seed_session", row) as answer:  # so that some addresses have a session to play
            cookie = answer.headers["Set-Cookie"].partition(";")[0]
        headers = {**HEADERS, "Cookie": cookie}
        told = in_peer("schemathesis", "schemathesis_routes.py", f"{url}/openapi.json", url, json.dumps(headers))
    assert told["operations"] > 40 and told["generated"] == told["passed"] > 500


_GOT: dict[str, Any] = {"get": {"responses": {"200": {"description": ""}}}}


def message(**properties: Any) -> dict[str, Any]:
    """An operation whose body has these properties, if it likes."""
    schema = {"type": "object", "properties": properties}
    body = {"content": {"application/json": {"schema": schema}}}
    return {"requestBody": body, "responses": {"200": {"description": ""}}}


def test_models_apis(tmp_path: Path) -> None:
    text = {"type": "object", "properties": {"role": {"enum": ["user", "assistant", "tool"]}, "content": {}}}
    texts = {"type": "array", "items": text}
    common = {"model": {"const": "constant"}, "stream": {"type": "boolean"}, "tools": {"type": "array"}}
    paths = {
        "/v1/responses": {"post": message(input={"anyOf": [{"type": "string"}, texts]}, **common)},
        "/v1/chat/completions": {"post": message(messages=texts, **common)},
        "/v1/messages": {"post": message(messages=texts, max_tokens={"type": "integer"}, **common)},
        "/v1/messages/count_tokens": {"post": message(messages=texts)},
        "/v1/models": _GOT,
        "/metrics": _GOT,
    }
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps({"openapi": "3.1.0", "info": {"title": "m", "version": "1"}, "paths": paths}))
    with command("serve-model", "constant:yes") as url:
        root = url.removesuffix("/v1")
        told = in_peer("schemathesis", "schemathesis_routes.py", str(document), root, json.dumps(HEADERS))
    assert told["operations"] == sum(map(len, paths.values()))
    assert told["generated"] == told["passed"] > 100
