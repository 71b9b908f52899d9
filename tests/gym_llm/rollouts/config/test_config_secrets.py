"""What is secret in a configuration is not shown, not by its errors either; and what is too large is one sentence."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from gym_llm.errors import ConfigError
from gym_llm.rollouts.config import load_config

ARITHMETIC = "arithmetic:\n  env: gym_llm/Arithmetic-v0\n  kwargs: {digits: 2}\n"


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> str:
    Path(name).write_text(text, "utf-8")
    return name


def load(text: str, settings: tuple[str, ...] = ()):
    return load_config([write("a.yaml", text)], settings)


def problem(text: str, settings: tuple[str, ...] = ()) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text, settings)
    return str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "policy_api_key: *{key}",
        "policy_api_key: !{key} x",
        'policy_api_key: "{key}',
        "policy_api_key: {{{key}",
        "policy_api_key={key}",
        "policy_api_key: ${{{key}",
        "policy_api_key: ${{{key}}}",
        "policy_api_key: ${{oc.env:{key}}}",
        "policy_api_key: a{key}${{nowhere}}",
        'policy_api_key: ${{oc.decode:"[{key}"}}',
        "policy_api_key: {key}: x",
        "policy_api_key: {key}\n\tx: 1",
        "hf_token: {key}\nx: *nothing",
        "%{key} 1",
    ],
)
def test_a_broken_env_yaml_is_not_quoted_with_its_key(line):
    key = f"sk-{secrets.token_hex(12)}"
    write("env.yaml", line.format(key=key))
    said = problem(ARITHMETIC + "  engine: ${hf_token}\n")
    assert key not in said
    assert "env.yaml" in said or "not complete" in said


def test_a_broken_file_is_told_with_line_and_column():
    write("env.yaml", "policy_base_url: http://x/v1\npolicy_api_key: *sk-0123456789\n")
    assert "env.yaml is not YAML that can be used: line 2, column 17: found undefined alias" in problem(ARITHMETIC)


def test_a_variable_that_is_missing_is_named():
    said = problem(ARITHMETIC + "policy_api_key: ${oc.env:NOT_SET_HERE}\n")
    assert "policy_api_key: ${oc.env:NOT_SET_HERE}" in said and "'NOT_SET_HERE' not found" in said


def test_what_comes_from_the_environment_is_shown_only_where_it_is_no_secret(monkeypatch):
    for name in ("UNTOLD", "MY_OPENAI_API_KEY", "MODEL", "NUMBER", "FOLDER"):
        monkeypatch.setenv(name, f"{name.lower()}-4711-value")
    monkeypatch.setenv("NUMBER", "4711471147")
    monkeypatch.setenv("FOLDER", "/models/of/mine")
    text = """
a: MY_OPENAI_API
x: ${oc.env:${a}_KEY}
y: ${oc.env:UNTOLD}
z: before ${oc.env:'UNTOLD',nothing} after
copy: ${y}
number: ${oc.decode:${oc.env:NUMBER}}
folder: ${oc.env:FOLDER}/x
standard: ${oc.env:NOT_SET,standard-value}
policy_base_url: http://x/v1
policy_model_name: ${oc.env:MODEL}
"""
    shown = load(ARITHMETIC + text).as_dict()
    assert {name: shown[name] for name in ("x", "y", "z", "copy", "number")} == {
        **{"x": "***", "y": "***", "z": "before *** after", "copy": "***", "number": "***"}
    }
    assert (shown["folder"], shown["standard"]) == ("/models/of/mine/x", "standard-value")
    assert shown["policy"]["kwargs"]["model"] == "model-4711-value"


@pytest.mark.parametrize(
    "url",
    [
        "http://me:{key}@host/v1",
        "http://{key}@host/v1",
        "http://host/v1?api-version=2024-02-01&key={key}",
        "http://host/v1?whatever={key}",
        "http://host/v1#{key}",
        "http://host/{key}/v1",
    ],
)
def test_keys_in_urls_are_not_shown(url):
    key = secrets.token_hex(12)
    text = f"judge:\n  engine: pocket\n  kwargs: {{base_urls: ['{url.format(key=key)}']}}\n"
    shown = str(load(ARITHMETIC + "  engine: judge\n" + text).as_dict())
    assert key not in shown and "host" in shown and "***" in shown
    assert ("2024-02-01" in shown) == ("2024-02-01" in url)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: " + "[" * 3000 + "]" * 3000, "nest"),  # PyYAML 6.0.4 has a limit of its own
        ("a: " + "{a: " * 300 + "1" + "}" * 300, "nested more than 100 levels deep"),
        ("a: " + "1" * 5000, "more than 4,300 digits"),
        ("a: 0x" + "1" * 5000, "more than 4,300 digits"),
    ],
)
def test_what_cannot_be_worked_with_is_one_sentence(text, said):
    assert said in problem(ARITHMETIC + text) and "\n" not in problem(ARITHMETIC + text)
    assert "q=…" in problem(ARITHMETIC, settings=(text.replace("a: ", "+q=", 1),))
