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


_TEXT = {"type": "object", "properties": {"role": {"enum": ["user", "assistant", "tool"]}, "content": {}}}
_TEXTS = {"type": "array", "items": _TEXT}


def model_paths(prefix: str) -> dict[str, Any]:
    """The three APIs of models."""
    common = {"model": {"const": "constant"}, "stream": {"type": "boolean"}, "tools": {"type": "array"}}
    return {
        f"{prefix}/v1/responses": {"post": message(input={"anyOf": [{"type": "string"}, _TEXTS]}, **common)},
        f"{prefix}/v1/chat/completions": {"post": message(messages=_TEXTS, **common)},
        f"{prefix}/v1/messages": {"post": message(messages=_TEXTS, max_tokens={"type": "integer"}, **common)},
        f"{prefix}/v1/models": _GOT,
        "/metrics": _GOT,
    }


def check(paths: dict[str, Any], url: str, folder: Path) -> None:
    document = folder / "openapi.json"
    document.write_text(json.dumps({"openapi": "3.1.0", "info": {"title": "m", "version": "1"}, "paths": paths}))
    told = in_peer("schemathesis", "schemathesis_routes.py", str(document), url, json.dumps(HEADERS))
    assert told["operations"] == sum(map(len, paths.values()))
    assert told["generated"] == told["passed"] > 100


def test_a_models_apis(tmp_path: Path) -> None:
    with command("serve-model", "constant:yes") as url:
        check(
            {**model_paths(""), "/v1/messages/count_tokens": {"post": message(messages=_TEXTS)}},
            url.removesuffix("/v1"),
            tmp_path,
        )


def test_a_capture_servers_apis(tmp_path: Path) -> None:
    with command("capture", "constant:yes") as url:
        url = url.rstrip(".")
        ask(f"{url}/sessions", {"session_id": "mine"}).close()
        own = [{"name": "id", "in": "path", "required": True, "schema": {"enum": ["mine", "other", "%00", "a/b"]}}]
        got = {"parameters": own, "responses": {"200": {"description": ""}}}
        opened = message(session_id={"type": "string"}, sampling={}, defaults={}, metadata={}, max_model_calls={})
        paths = {
            **model_paths("/s/mine"),
            **{f"/sessions/{{id}}{name}": {"get": got} for name in ("", "/rollout", "/trace_entries", "/trajectory")},
            "/sessions": {"post": opened, "get": _GOT["get"]},
            "/ng-rollout/{id}/v1/chat/completions": {"post": {**message(messages=_TEXTS), "parameters": own}},
        }
        check(paths, url, tmp_path)
