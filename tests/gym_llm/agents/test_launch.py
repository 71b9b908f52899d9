"""Tests for what one episode of a program is started with."""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
import tomllib
from contextlib import aclosing
from pathlib import Path
from typing import Any

from testing import row

import gym_llm
from gym_llm.agents import Program
from gym_llm.agents.agent_episode import Addresses

ADDRESSES = Addresses("http://h:1/v1", "http://h:1", "http://h:2/s/k", "http://h:2/s/k/mcp", "gl-key", 'a "model"')
TASKS = [row("4+5?", expected_answer="9")]
TASK = {"request": {"input": []}, "prompt": "How cold?", "tools": [], "model": 'a "model"'}


def harness(*command: str, **more: Any) -> Program:
    return Program(command, "", harness="tests 1", **more)


def test_a_command_is_started_as_it_is_written() -> None:
    launch = Program(("echo", "${model}"), "/here").launch(ADDRESSES, "/episode", TASK)
    assert (launch.command, launch.workdir, launch.stdin) == (("echo", "${model}"), "/here", b"How cold?")
    assert launch.environment["OPENAI_BASE_URL"] == "http://h:1/v1" and "HOME" not in launch.environment
    assert json.loads(launch.files["task.json"])["prompt"] == "How cold?"


def test_a_harness_gets_its_placeholders_a_home_and_its_layers_on_the_path() -> None:
    program = harness(
        "${layer}/bin/x",
        "--model",
        "${model}",
        "$HOME ${other}",
        environment={"X_URL": "${anthropic_url}"},
        files={"home/x.toml": 'model = "${model}"\nkey = "${api_key}"', "note.txt": "${model}"},
        layers=(Path("/layers/x"), Path("/layers/node")),
    )
    launch = pickle.loads(pickle.dumps(program)).launch(ADDRESSES, "/episode", TASK)
    assert launch.command == ("/layers/x/bin/x", "--model", 'a "model"', "$HOME ${other}")
    assert tomllib.loads(launch.files["home/x.toml"].decode()) == {"model": 'a "model"', "key": "gl-key"}
    assert launch.files["note.txt"] == b'a "model"' and launch.workdir == "/episode/work"
    assert launch.environment["X_URL"] == "http://h:1" and launch.environment["HOME"] == "/episode/home"
    assert launch.environment["PATH"].startswith("/episode/bin:/layers/x/bin:/layers/node/bin:/usr/local")


def test_a_task_in_the_command_leaves_the_standard_input_empty() -> None:
    launch = harness("x", "-t", "${prompt}").launch(ADDRESSES, "/episode", TASK)
    assert launch.command == ("x", "-t", "How cold?") and launch.stdin == b""


def test_a_harness_gets_none_of_our_variables_and_its_own_files(monkeypatch: Any) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret-of-the-user")
    code = (
        "import os, subprocess; said = subprocess.run(['said'], capture_output=True, text=True).stdout; "
        "print(os.environ.get('GITHUB_TOKEN'), os.path.basename(os.getcwd()), said, os.listdir())"
    )
    program = harness(sys.executable, "-c", code, files={"bin/said": "#!/bin/sh\nprintf '9 %s' ${model}"})
    (record,) = gym_llm.collect(
        "gym_llm/FollowUp-v0", "constant:nine", agent=program, tasks=[row("4+5?", expected_answer="9")], progress=False
    )
    said = record["response"]["output"][0]["content"][0]["text"]
    assert record["outcome"] == "scored" and said == "None work 9 constant []"


def test_the_models_last_words_can_be_the_answer() -> None:
    post = (
        "import json, os, urllib.request as u; print('noise'); u.urlopen(u.Request(os.environ['OPENAI_BASE_URL'] + "
        "'/responses', json.dumps({'input': 'hi'}).encode(), {'Content-Type': 'application/json', "
        "'Authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']}))"
    )
    program = harness(sys.executable, "-c", post, answer="model")
    (record,) = gym_llm.collect(
        "gym_llm/FollowUp-v0", "constant:9", agent=program, tasks=[row("4+5?", expected_answer="9")], progress=False
    )
    assert record["reward"] == 1.0 and record["info"]["agent"]["model_calls"] == 1


def test_the_end_of_a_transcript_says_why_a_silent_harness_has_failed() -> None:
    code = "import os, sys; open(os.environ['HOME'] + '/log.txt', 'w').write('no space left'); sys.exit(3)"
    program = harness(sys.executable, "-c", code, transcript="home/*.txt")
    settings = gym_llm.RolloutSettings(agent=program, retries=0)

    async def record() -> Any:
        played = gym_llm.rollout("gym_llm/FollowUp-v0", "constant:nine", settings=settings, tasks=TASKS)
        async with aclosing(played):
            return [each async for each in played].pop()

    failed = asyncio.run(record())
    assert failed["failure_kind"] == "agent_run_error" and failed["error"].endswith("exit code 3: no space left")
