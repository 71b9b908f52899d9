"""What is learned is looked for in every form and place; what is not secret stays as it is."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing import ROOT

from gym_llm.records.rollout_file import RolloutFile
from gym_llm.utils import secrets
from gym_llm.utils.json_codec import dumps, dumps_record


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(secrets, "_known", type(secrets._known)())


@pytest.mark.parametrize(
    "write",
    [
        str,
        repr,
        json.dumps,
        lambda key: json.dumps(key, ensure_ascii=False),
        lambda key: json.dumps({"arguments": json.dumps({"key": key})}),
        lambda key: quote(key, safe=""),
        lambda key: re.sub("%..", lambda match: match[0].lower(), quote(key, safe="")),
        quote_plus,
    ],
)
@pytest.mark.parametrize("key", ["sk-0123abcd", 'p@ss/w"or\\d', "schlüssel+ 1&2", "päss%20word"])
def test_a_secret_is_found_however_it_is_written(key, write):
    secrets.register_secrets({"api_key": key})
    shown = secrets.redact(f"before {write(key)} after")
    assert "***" in shown and key not in shown and write(key).strip("'\"") not in shown


def test_of_a_header_the_key_alone_is_a_secret_too():
    basic = base64.b64encode(b"me:pass-word-1").decode()
    secrets.register_secrets(
        {"headers": {"Authorization": "Bearer sk-0123abcd", "Proxy-Authorization": f"Basic {basic}"}}
    )
    secrets.register_secrets("https://me:pass-word-2@host/")
    shown = secrets.redact(f"sk-0123abcd {basic} pass-word-1 {base64.b64encode(b'me:pass-word-2').decode()}")
    assert shown == "*** *** *** ***"


@given(st.text(min_size=6, max_size=30), st.text(max_size=40))
def test_a_record_with_a_secret_anywhere_is_written_without_it_and_stays_json(key, text):
    secrets._known.__init__()
    secrets.register_secrets({"api_key": key})
    trajectory = [{"input_ids": [1234567890, 1], "logprobs": [-0.123456789]}]
    said = f"{text}{key}{text}"
    record = {"info": {"a": [said], said: json.dumps(said)}, "trajectory": trajectory, "reward": 1234567.0}
    line = dumps_record(record)
    read = json.loads(line)
    assert (read["trajectory"], read["reward"]) == (trajectory, 1234567.0)
    if secrets.has_secrets():
        assert key not in str([read["info"]["a"], list(read["info"])]) or key in "***'['\"], "
    else:
        assert line == dumps(record)


def test_digits_that_are_secret_leave_token_ids_and_numbers_alone():
    secrets.register_secrets({"password": "1234567890"})
    record = {"response": {"ids": [1234567890]}, "said": "1234567890", "trajectory": [{"input_ids": [1234567890]}]}
    assert json.loads(dumps_record(record)) == {**record, "said": "***"}


def test_the_id_of_an_environment_stays_as_it_is():
    secrets.register_secrets({"password": "Arithmetic"})
    record = {"env_id": "gym_llm/Arithmetic-v0", "dataset": "Arithmetic/train", "said": "Arithmetic!"}
    assert json.loads(dumps_record(record)) == {**record, "said": "***!"}


def test_a_summary_is_written_without_secrets(tmp_path):
    secrets.register_secrets({"api_key": "sk-0123abcd"})
    with RolloutFile(tmp_path / "a.jsonl") as file:
        file.append({"rollout_id": {"task_index": 0, "repeat_index": 0}, "reward": 1.0, "error": "no sk-0123abcd"})
        file.write_summary({"model": "sk-0123abcd", "settings": {"api_key": "k", "url": "http://me:pw@host/v1"}})
    assert "sk-0123abcd" not in (tmp_path / "a.jsonl").read_text()
    shown = json.loads((tmp_path / "a.summary.json").read_text())
    assert shown["model"] == "***" and shown["settings"] == {"api_key": "***", "url": "http://***@host/v1"}


@pytest.mark.parametrize(
    "value",
    [
        {"max_output_tokens": 100_000, "tokenizer": "Qwen/Qwen3-4B", "url": "http://localhost:8000/v1"},
        {"url": "https://host/v1/projects/my-project/deployments/gpt-4o-mini?api-version=2024-02-01&stream=true"},
        {"api_key": None, "token": True, "password": ""},
        {"model": "DeepSeek-R1-0528-Qwen3-8B", "engine": "https://host/models/DeepSeek-R1-0528-Qwen3-8B"},
    ],
)
def test_what_is_no_secret_is_not_learned(value):
    secrets.register_secrets(value)
    assert not secrets.has_secrets()
    assert secrets.mask(value) == value


def test_the_log_of_the_package_has_no_secret_in_messages_and_tracebacks(caplog):
    secrets.register_secrets({"api_key": "sk-0123abcd"})
    logger = secrets.redacted_logger("gym_llm.test")
    try:
        raise ValueError("sk-0123abcd is wrong")
    except ValueError:
        logger.warning("With %r: %s", "sk-0123abcd", 3, exc_info=True)
    assert "With '***': 3" in caplog.text and "ValueError: *** is wrong" in caplog.text
    assert "sk-0123abcd" not in caplog.text and "sk-0123abcd" not in str(vars(caplog.records[0]))


def test_every_logger_of_the_package_is_without_secrets():
    plain = [
        path.relative_to(ROOT)
        for folder in ("gym_llm", "envs", "vector", "wrappers", "data")
        for path in (ROOT / folder).rglob("*.py")
        if "getLogger(__name__)" in path.read_text("utf-8")
    ]
    assert plain == [], "make these loggers with gym_llm.utils.secrets.redacted_logger(__name__)"


def test_recorded_rollouts_are_without_the_keys_of_the_environments_arguments(tmp_path):
    code = f"""
import sys; sys.path.append({str(ROOT / "tests/importable")!r})
import gymnasium as gym, leaky
from gym_llm.wrappers import RecordRollouts
key = "sk-0123abcd"
env = gym.make("gym_llm_tests/Leaky-v0", told=key[::-1], judge={{"api_key": key}})
env = RecordRollouts(env, {str(tmp_path / "a.jsonl")!r})
env.reset(seed=0)
env.step([{{"type": "message", "role": "assistant", "content": f"It is {{key}}."}}])
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    written = Path(tmp_path, "a.jsonl").read_text()
    assert "It is ***." in written and "sk-0123abcd" not in written
