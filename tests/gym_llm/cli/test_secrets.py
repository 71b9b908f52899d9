"""A key that comes in anywhere goes out nowhere: each way in is tried with a key of its own, every way out is read."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import leaky  # noqa: F401 - registers LEAKY
import pytest

from gym_llm.cli import main

LEAKY = "gym_llm_tests/Leaky-v0"
KEYED = ("--engine-option", "api_key={key}")


class Echo:
    """A Chat Completions server that says the key wherever it is told to."""

    def __init__(self) -> None:
        self.key, self.how = "", ""
        echo = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                models = {"401": 401, "503 models": 503}.get(echo.how, 200)
                name = f"model-{echo.key}" if echo.how == "model" else "stub"
                self.answer(models, {"data": [{"id": name}], "error": {"message": f"{echo.key} is no key"}})

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                key, how = echo.key, echo.how
                if how == "status line":
                    self.wfile.write(f"HTTP/{key} 200 OK\r\n\r\n".encode())
                    self.close_connection = True
                elif how == "header":
                    self.wfile.write(f"HTTP/1.1 200 OK\r\n{key} \x00: {key}\r\n\r\n".encode())
                    self.close_connection = True
                elif how == "reason":
                    self.answer(418, "", reason=f"no {key}")
                elif how.isdigit():
                    self.answer(int(how), {"error": {"message": f"{'x' * 280} {key} is wrong", "code": key}})
                elif how == "no JSON":
                    self.answer(200, f"{' ' * 180}{key}")
                elif how == "no answer":
                    self.answer(200, {"choices": key, "api_key": key})
                else:
                    call = {"id": key, "type": "function", "function": {"name": key, "arguments": f'{{"a": "{key}"}}'}}
                    said = f"Your key is {key}, in a URL {quote(key, safe='')}, in JSON {json.dumps(json.dumps(key))}."
                    message = {"role": "assistant", "content": said, "reasoning_content": key}
                    if how == "call":
                        message["tool_calls"] = [call]
                    choice = {"index": 0, "finish_reason": "stop", "message": message}
                    self.answer(200, {"id": f"chatcmpl-{key}", "model": key, "choices": [choice]}, header=key)

            def answer(self, status: int, value: Any, reason: str | None = None, header: str = "") -> None:
                data = (
                    value.encode() if isinstance(value, str) else b"" if value is None else json.dumps(value).encode()
                )
                self.send_response(status, reason)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("X-Your-Key", header)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    running = Echo()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def option(name: str, value: Any) -> list[str]:
    return ["--engine-option", f"{name}={json.dumps(value)}"]


def body(value: Any) -> list[str]:
    return option("extra_body", value)


def told(how: str, **arguments: Any) -> list[str]:
    """An environment that has the key and tells it; it knows it backwards, so only `arguments` say what is secret."""
    return ["--env-kwargs", json.dumps({"told": "{yek}", "how": how, **arguments})]


CONFIG = "e:\n  env: LEAKY\n  engine: m\n  kwargs: {told: '{yek}', how: raise}\nm:\n  engine: '{url}'\n"
POLICY = "e:\n  env: LEAKY\npolicy_base_url: '{url}'\npolicy_model_name: m\n"
RUN = ["rollout", LEAKY, "--engine", "{url}"]
BASIC = {"Authorization": "Basic {basic}"}


def configured(extra: str = "", base: str = CONFIG, **files: str) -> dict[str, Any]:
    texts = {"c.yaml": base.replace("LEAKY", LEAKY) + extra, **{f"{name}.yaml": text for name, text in files.items()}}
    return {"argv": ["rollout", "--config", "c.yaml"], "files": texts}


# The command ends before it plays: 2.
REFUSED = {
    *("the engine's user", "the engine's query", "the engine's fragment", "extra_headers, which there is not"),
    *("env kwargs that are wrong", "env kwargs that are no JSON", "env kwargs that are no object"),
    *("an argument that is none", "an option that is none", "config: key:value", "config: a broken env.yaml"),
    *("config: an env.yaml that names nothing", "config: a section that is wrong", "a server that says it: 401"),
    "a server that says it: 503 models",
}
# What is run (a list: the arguments of `rollout LEAKY --engine URL`), with {key} for the key.
WAYS: dict[str, list[str] | dict[str, Any]] = {
    "api_key": [*KEYED],
    "api_key, short form": ["--engine-option=api_key={key}"],
    "api_key, quoted": ["--engine-option", 'api_key="{key}"'],
    "extra_body.headers.Authorization": body({"headers": {"Authorization": "Bearer {key}"}}),
    "extra_body.headers.Authorization Basic": body({"headers": BASIC}),
    "extra_body.extra_headers": body({"extra_headers": {"x-api-key": "{key}"}}),
    "extra_body.cookie": body({"Cookie": "a=b; session={key}"}),
    "extra_body, in lists": body({"a": {"b": [{"passwords": ["{key}"]}]}}),
    "extra_body.token": body({"token": "{key}"}),
    "extra_body: a URL's password": body({"url": "http://me:{key}@host/x"}),
    "extra_body: a URL's user": body({"url": "http://{key}@host/x"}),
    "extra_body: a URL's query": body({"url": "http://host/x?n=1&sig={key}"}),
    "extra_body: a URL's parameter": body({"url": "http://host/x?whatever={key}"}),
    "extra_body: a URL's fragment": body({"url": "http://host/x#{key}"}),
    "the engine's path": {"argv": ["rollout", LEAKY, "--engine", "{url}/{key}"]},
    "the engine's user": {"argv": ["rollout", LEAKY, "--engine", "http://me:{key}@127.0.0.1:1/v1"]},
    "the engine's query": {"argv": ["rollout", LEAKY, "--engine", "http://127.0.0.1:1/v1?api_key={key}"]},
    "the engine's fragment": {"argv": ["rollout", LEAKY, "--engine", "ftp://127.0.0.1:1/v1#{key}"]},
    "extra_headers, which there is not": option("extra_headers", {"Authorization": "Bearer {key}"}),
    "OPENAI_API_KEY": {"env": {"OPENAI_API_KEY": "{key}"}},
    "HF_TOKEN": {"env": {"HF_TOKEN": "{key}"}},
    "SOME_PASSWORD": {"env": {"SOME_PASSWORD": "{key}"}},
    "AWS_SECRET_ACCESS_KEY": {"env": {"AWS_SECRET_ACCESS_KEY": "{key}"}},
    "DATABASE_URL": {"env": {"DATABASE_URL": "postgres://me:{key}@host/db"}},
    "env kwargs": told("raise", judge_api_key="{key}"),
    "env kwargs, printed": told("print", judge_api_key="{key}"),
    "env kwargs, logged": told("log", judge_api_key="{key}"),
    "env kwargs, in a cause": told("chain", judge_api_key="{key}"),
    "env kwargs, in info": told("", judge_api_key="{key}"),
    "env kwargs, nested": told("raise", judge={"options": [{"api_key": "{key}"}]}),
    "env kwargs, in a header": told("raise", headers={"authorization": "Bearer {key}"}),
    "env kwargs, a URL's password": told("raise", judge="https://me:{key}@host/v1"),
    "env kwargs, a URL's query": told("raise", judge="https://host/v1?code={key}"),
    "env kwargs, a URL's path": told("raise", judge="https://host/{key}/v1"),
    "env kwargs, JSON in a text": told("raise", judge='{"api_key": "{key}"}'),
    "env kwargs that are wrong": told("raise", secret="{key}", tasks=3),
    "env kwargs that are no JSON": ["--env-kwargs", '{"judge_api_key": "{key}"'],
    "env kwargs that are no object": ["--env-kwargs", '[{"judge_api_key": "{key}"}]'],
    "an argument that is none": ["policy_api_key={key}"],
    "an option that is none": ["--api-key={key}"],
    "config: env.yaml": configured(base=POLICY, env="policy_api_key: {key}\n"),
    "config: key=value": {**configured(base=POLICY), "more": ["policy_api_key={key}"]},
    "config: key:value": {**configured(base=POLICY), "more": ["policy_api_key: {key}"]},
    "config: engine options": configured("  kwargs: {api_key: '{key}'}\n"),
    "config: oc.env": {**configured("  kwargs: {extra_body: {x: '${oc.env:MY_KEY}'}}\n"), "env": {"MY_KEY": "{key}"}},
    "config: nested oc.env": {
        **configured("  kwargs: {extra_body: {x: '${oc.env:${a}_KEY}'}}\na: MY_OPENAI_API\n"),
        "env": {"MY_OPENAI_API_KEY": "{key}"},
    },
    "config: a variable that tells nothing": {
        **configured("  kwargs: {extra_body: {x: 'a ${y} b'}}\ny: ${oc.env:UNTOLD}\n"),
        "env": {"UNTOLD": "{key}"},
    },
    "config: env kwargs": configured().copy()
    | {"files": {"c.yaml": CONFIG.replace("LEAKY", LEAKY).replace("how: raise", "judge_api_key: '{key}', how: raise")}},
    "config: a broken env.yaml": configured(env="policy_api_key: !{key} x"),
    "config: an env.yaml that names nothing": configured(env="policy_api_key: ${oc.env:{key}}"),
    "config: a section that is wrong": configured("  kwargs: {api_key: '{key}'}\n  engin: {key}\nx: {env: '{key}'}\n"),
    **{
        f"a server that says it: {how}": {"argv": [*RUN, *KEYED], "how": how}
        for how in (
            *(
                "content",
                "call",
                "status line",
                "header",
                "reason",
                "400",
                "401",
                "404",
                "500",
                "503 models",
                "no JSON",
            ),
            *("no answer", "model"),
        )
    },
}


@pytest.mark.parametrize("way", WAYS)
def test_a_key_goes_nowhere(way, echo, monkeypatch, capfd, caplog):
    spec = WAYS[way]
    if isinstance(spec, list):
        spec = {"argv": [*RUN, *spec]}
    key = f"sk-{secrets.token_hex(12)}"
    basic = base64.b64encode(f"me:{key}".encode()).decode()
    values = {"{key}": key, "{yek}": key[::-1], "{url}": echo.url, "{basic}": basic}

    def filled(text: str) -> str:
        return re.sub(r"\{(key|yek|url|basic)\}", lambda match: values[match[0]], text)

    echo.key, echo.how = key, spec.get("how", "content")
    for name, value in spec.get("env", {}).items():
        monkeypatch.setenv(name, filled(value))
    for name, text in spec.get("files", {}).items():
        Path(name).write_text(filled(text), "utf-8")
    outputs = ["--output", "a.jsonl", "--show", "3", "--max-failures", "0", "--concurrency", "1"]
    if "how" in spec:
        outputs += ["--engine-option", "max_retries=1"]
    argv = [filled(part) for part in [*spec.get("argv", RUN), *spec.get("more", []), *outputs]]
    if spec.get("how") == "call":
        argv += ["--limit", "1"]
    caplog.set_level(logging.DEBUG, "gym_llm")
    code = main(argv)
    assert (code == 2) == (way in REFUSED), capfd.readouterr().err
    if "files" in spec:
        assert main(["config", *(part for part in argv if re.search("config|yaml|_key", part))]) in (0, code)
    files = {path.name: path.read_text("utf-8") for path in Path().iterdir() if path.suffix != ".yaml"}
    assert set(files) == (set() if code == 2 else {"a.jsonl", "a.summary.json"})
    ours = [record for record in caplog.records if record.name.startswith("gym_llm")]
    log = "\n".join(logging.Formatter().format(record) for record in ours)
    out, err = capfd.readouterr()
    for place, text in {"stdout": out, "stderr": err, "log": log, **files}.items():
        flat = re.sub(r"[\s│]", "", text)  # a frame breaks lines
        for form in (key, key[:16], quote(key, safe=""), basic):
            assert form not in text and form not in flat, f"{place}: {text}"
    assert code == 2 or ("***" in files["a.jsonl"] and json.loads(files["a.summary.json"]))
    assert ("Resume with" in err) == (code == 1)


def test_a_run_whose_settings_held_secrets_is_resumed(echo, capfd):
    """What identifies a run is compared without its secrets; another key is no other run."""
    echo.how = "model"
    for key in (f"sk-{secrets.token_hex(12)}", f"sk-{secrets.token_hex(12)}"):
        echo.key = key
        argv = [*RUN[:3], echo.url, *KEYED, "--env-kwargs", '{"judge": {"api_key": "{key}"}}', "--output", "a.jsonl"]
        argv += ["--limit", "2"] if not Path("a.jsonl").exists() else ["--resume"]
        assert main([part.replace("{key}", key) for part in argv]) == 0
        assert key not in "".join(capfd.readouterr()) + Path("a.jsonl").read_text() + Path("a.summary.json").read_text()
    assert len(Path("a.jsonl").read_text().splitlines()) == 3


def test_secrets_that_could_be_any_word_do_not_touch_what_a_model_says(echo, capfd):
    """Nor the names of fields, nor numbers: neither short texts, nor plain words, nor a few digits are looked for."""
    echo.key, echo.how = "message assistant 1234567 k1 response", "content"
    for secret in ("message", "assistant", "1234567", "k1", "response", "output_text", "function_call_output"):
        argv = [*RUN[:3], echo.url, *option("api_key", secret), "--limit", "1", "--output", f"{secret}.jsonl"]
        assert main(argv) == 0
        record = json.loads(Path(f"{secret}.jsonl").read_text())
        assert f"Your key is {echo.key}" in json.dumps(record["response"]["output"])
        assert json.loads(Path(f"{secret}.summary.json").read_text())["settings"]["engine_options"]["api_key"] == "***"


def test_an_error_that_nobody_expected_is_told_without_the_key(monkeypatch, capfd):
    key = f"sk-{secrets.token_hex(12)}"

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError(f"with {key}")

    monkeypatch.setattr("gym_llm.rollouts.workload.open_plan", fail)
    for lines, said in ((["quiz.py:3, in verify"], "gym-llm: ZeroDiv"), ([], "Traceback (most recent call last)")):
        monkeypatch.setattr("gym_llm.cli.author_frames", lambda _, lines=lines: lines)
        assert main(["rollout", LEAKY, "--engine-option", f"api_key={key}"]) == 1
        err = capfd.readouterr().err
        assert err.startswith(said) and "ZeroDivisionError: with ***" in err and key not in err


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["rollout", LEAKY, "--env-kwargs", "[" * 100_000], "--env-kwargs is nested too deeply"),
        (["rollout", LEAKY, "--env-kwargs", '{"digits": ' + "1" * 5000 + "}"], "--env-kwargs is not JSON"),
        (["rollout", LEAKY, "--engine-option", "seeds=" + "[" * 100_000], "pocket has no option 'seeds'"),
        (["env", "init", "a" * 300], "A verifier's name has at most 100 characters, that one has 300."),
    ],
    ids=["deep JSON", "a long number", "a deep option", "a long name"],
)
def test_what_is_too_long_or_too_deep_is_one_sentence(argv, sentence, capfd):
    assert main(argv) == 2
    err = capfd.readouterr().err
    assert sentence in err and err.count("\n") == 1 and len(err) < 1000


@pytest.mark.slow
def test_in_workers_a_key_is_in_no_process_s_arguments_and_in_no_log_of_ray_s(echo):
    """Keys of the engine, the environment, the environment's variables, and those that `runtime_env` sets."""
    keys = {name: f"sk-{secrets.token_hex(12)}" for name in ("engine", "variable", "runtime")}
    echo.key, echo.how = keys["engine"], "content"
    env_kwargs = json.dumps({"told": keys["engine"][::-1], "how": "log", "judge_api_key": keys["engine"]})
    runtime_env = json.dumps({"env_vars": {"MY_API_KEY": keys["runtime"], "PLAIN": "plain"}})
    command = [sys.executable, "-m", "gym_llm.cli", "rollout", f"leaky:{LEAKY}", "--engine", echo.url]
    command += [*option("api_key", keys["engine"]), "--env-kwargs", env_kwargs, "--output", "a.jsonl"]
    arguments: dict[int, bytes] = {}
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:  # sockets have short paths
        process = subprocess.Popen(
            [*command, "--workers", "1", "--runtime-env", runtime_env],
            env={**os.environ, "RAY_TMPDIR": folder, "OPENAI_API_KEY": keys["variable"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while process.poll() is None:
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    line = path.read_bytes()
                    if b"gym_llm.cli" not in line:  # what the user has typed
                        arguments[int(path.parent.name)] = line
            time.sleep(0.02)
        said = "".join(process.communicate())
        assert process.returncode == 0, said
        logs = {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
    assert any(b"The judge got ***" in log for log in logs.values())
    for name, key in keys.items():
        assert key not in said + Path("a.jsonl").read_text() + Path("a.summary.json").read_text()
        assert not [path for path, log in logs.items() if key.encode() in log], name
        assert not [line for line in arguments.values() if key.encode() in line], name
