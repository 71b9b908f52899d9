"""Frameworks whose own loop asks the model: they run as a task, and each of their requests is a turn."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from testing import message

from gym_llm import Run
from gym_llm.core.registry.env_files import env_spec
from gym_llm.envs.theirs import environments
from gym_llm.envs.theirs.bridge import Bridge
from gym_llm.envs.theirs.environments import home_of
from gym_llm.envs.theirs.frameworks import frameworks
from gym_llm.envs.theirs.peer_process import PeerFailed
from gym_llm.errors import SandboxUnavailable, UsageError
from gym_llm.rollouts.plan import open_plan

DEMOS = Path(__file__).parent / "theirs"


@pytest.fixture
def demos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children can import the demonstrations."""
    monkeypatch.setenv("PYTHONPATH", str(DEMOS))


def needs(name: str) -> None:
    framework = frameworks()[name]
    if not (home_of(framework) / "bin" / "python").exists():
        pytest.skip(f"The environment of {framework.packages[0]} is not made: GYM_LLM_THEIRS names its folder.")


def call(name: str, arguments: str) -> list[dict[str, Any]]:
    return [{"type": "function_call", "call_id": "c1", "name": name, "arguments": arguments}]


def test_a_loop_is_answered_turn_by_turn() -> None:
    async def play() -> list[dict[str, Any]]:
        bridge = Bridge()

        async def loop() -> dict[str, Any]:
            first = await bridge.ask({"say": "first"})
            second, third = await asyncio.gather(bridge.ask({"say": "second"}), bridge.ask({"say": "third"}))
            return {"say": [first["text"], second["text"], third["text"]]}

        return [await bridge.start(loop()), *[await bridge.answer({"text": text}) for text in "abc"]]

    assert [turn["say"] for turn in asyncio.run(play())] == ["first", "second", "third", ["a", "b", "c"]]


def test_a_loops_exception_reaches_the_step() -> None:
    async def play() -> None:
        bridge = Bridge()

        async def loop() -> dict[str, Any]:
            action = await bridge.ask({})
            raise SystemExit(action["text"])

        await bridge.start(loop())
        with pytest.raises(SystemExit, match="mine"):
            await bridge.answer({"text": "mine"})

    asyncio.run(play())


def test_stop_cancels_the_loop() -> None:
    async def play() -> None:
        bridge, ended = Bridge(), asyncio.Event()

        async def loop() -> dict[str, Any]:
            try:
                return await bridge.ask({})
            finally:
                ended.set()

        await bridge.start(loop())
        bridge.stop()
        await asyncio.wait_for(ended.wait(), 5)

    asyncio.run(play())


def test_an_inspect_task_with_a_tool(demos: None) -> None:
    needs("inspect")
    env = gym.make("gym_llm/Inspect-v0", task="inspect_demo:sums", task_args={"largest": 9}, index=4).unwrapped
    observation, _ = env.reset(seed=0)
    assert [item["content"] for item in observation["input"]] == ["Use add.", "Question: 4+4?"]
    assert [tool["name"] for tool in observation["tools"]] == ["add"]
    observation, reward, terminated, *_ = env.step(call("add", '{"x": 4, "y": 4}'))
    assert (observation["input"][-1]["output"], reward, terminated) == ("8", 0.0, False)
    observation, reward, terminated, *_ = env.step(call("add", "4, 4"))
    assert "not a JSON object" in observation["input"][-1]["output"] and not terminated
    _, reward, terminated, *_ = env.step(message("It is 8"))
    assert (reward, terminated) == (1.0, True)
    env.close()


def test_an_inspect_sample_is_drawn_by_the_seed_and_asked_by_a_named_solver() -> None:
    needs("inspect")
    samples = [{"input": f"Question {n}", "target": "B", "choices": ["no", "yes"]} for n in range(3)]
    env = gym.make("gym_llm/Inspect-v0", samples=samples, solver="multiple_choice", scorer="choice").unwrapped
    rewards = []
    for seed, letter in ((0, "A"), (4, "B")):
        row = {"responses_create_params": {"input": []}, "seed": seed}
        observation, _ = env.reset(options={"task": row})
        shown = observation["input"][-1]["content"]
        assert f"Question {seed % 3}" in shown and "B) yes" in shown
        rewards.append(env.step(message(f"ANSWER: {letter}"))[1])
    assert rewards == [0.0, 1.0]
    env.close()


TAKE = {"function": "take_first"}
ADDITION: dict[str, Any] = {
    "task": "addition",
    "output_type": "generate_until",
    "test_split": "test",
    "doc_to_text": "Q: {{question}}\nA:",
    "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": ["Q:"]},
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    "filter_list": [
        {"name": "strict", "filter": [{"function": "regex", "regex_pattern": "#### ([0-9]+)"}]},
        {"name": "last", "filter": [{"function": "regex", "regex_pattern": "([0-9]+)", "group_select": -1}]},
    ],
}


@pytest.mark.parametrize(("chosen", "expected"), [(None, [1.0, 0.0, 0.0]), ("last", [1.0, 1.0, 0.0])])
def test_an_lm_eval_answer_is_cut_filtered_and_scored(chosen: str | None, expected: list[float]) -> None:
    needs("lm_eval")
    docs = [{"question": f"{n}+{n}?", "answer": str(2 * n)} for n in range(5)]
    task = {
        **ADDITION,
        "filter_list": [{**each, "filter": [*each["filter"], TAKE]} for each in ADDITION["filter_list"]],
    }
    env = gym.make("gym_llm/LMEval-v0", task=task, docs=docs, index=4, filter=chosen).unwrapped
    rewards = []
    for answer in ("#### 8 Q: 5+5? #### 10", "it is 8", "none"):
        observation, _ = env.reset(seed=0)
        assert observation["input"][-1]["content"] == "Q: 4+4?\nA:"
        rewards.append(env.step(message(answer))[1])
    assert rewards == expected
    env.close()


def test_a_verifiers_rollout_with_a_tool(demos: None) -> None:
    needs("verifiers")
    env = gym.make("gym_llm/Verifiers-v0", env="demo-v0", env_args={"tool": True}, index=3).unwrapped
    observation, _ = env.reset(seed=0)
    assert observation["input"][-1]["content"] == "What is 3+3?"
    assert [tool["name"] for tool in observation["tools"]] == ["add"]
    observation, reward, terminated, *_ = env.step(call("add", '{"x": 3, "y": 3}'))
    assert (observation["input"][-1]["output"], reward, terminated) == ("6", 0.0, False)
    assert env.step(message("6"))[1:3] == (1.0, True)
    env.close()


def test_a_verifiers_taskset_pays_its_weights(demos: None) -> None:
    needs("verifiers_v1")
    env = gym.make("gym_llm/VerifiersV1-v0", taskset="demo-v1", index=2).unwrapped
    rewards = []
    for answer in ("4", "please", "5"):
        observation, _ = env.reset(seed=0)
        assert [item["content"] for item in observation["input"]] == ["Be brief.", "What is 2+2?"]
        rewards.append(env.step(message(answer))[1])
    assert rewards == [1.0, 0.25, 0.0]
    env.close()


SAMPLES: list[tuple[str, str, dict[str, Any], int | None]] = [
    ("inspect", "Inspect", {"task": "inspect_demo:sums", "task_args": {"largest": 10}}, 10),
    ("inspect", "Inspect", {"task": "inspect_demo:sums", "index": 2}, 1),
    ("inspect", "Inspect", {"samples": [{"input": "a", "target": "b"}]}, 1),
    ("lm_eval", "LMEval", {"task": ADDITION, "docs": [{"question": "1+1?", "answer": "2"}] * 3}, 3),
    ("verifiers", "Verifiers", {"env": "demo-v0"}, 12),
    ("verifiers_v1", "VerifiersV1", {"taskset": "demo-v1", "most": 2}, 2),
    ("bfcl", "BFCLEval", {"task": "multi_turn_base"}, 200),
    ("bfcl", "BFCLEval", {"task": "multi_turn_base_17"}, 1),
    ("", "NeMoGym", {"url": "http://127.0.0.1:9", "row": {"question": "?"}}, 1),
    ("", "Gymnasium", {"env": "FrozenLake-v1"}, None),
]


@pytest.mark.parametrize(("package", "name", "arguments", "count"), SAMPLES)
def test_each_sample_of_a_framework_is_one_task(
    demos: None, package: str, name: str, arguments: dict[str, Any], count: int | None
) -> None:
    if package:
        needs(package)
    env_id = f"gym_llm/{name}-v0"
    plan = open_plan(env_id, env_kwargs=arguments, limit=300)
    assert plan.factory.tasks is not None and plan.factory.tasks.size == count
    assert len(plan) == (count or 300) and bool(plan.note) == (count is not None)
    if count is not None:
        rows = [plan.factory.tasks[index].row for index in range(count)]
        assert count == 1 or len({str(row) for row in rows}) == count


def test_each_sample_is_played_once_under_its_own_number(demos: None, tmp_path: Path) -> None:
    needs("verifiers")
    engine, path = "constant:<think>.</think><answer>6</answer>", tmp_path / "a.jsonl"
    with Run("gym_llm/Verifiers-v0", engine, env_kwargs={"env": "demo-v0"}, output=path) as run:
        assert run.play().episodes == 12
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["rollout_id"]["task_index"] for record in records if record["reward"] >= 1] == [3]  # What is 3+3?


def test_a_list_that_cannot_be_read_is_refused_before_anything_is_played(demos: None) -> None:
    needs("inspect")
    with pytest.raises(UsageError, match="no attribute 'nothing'"):
        open_plan("gym_llm/Inspect-v0", env_kwargs={"task": "inspect_demo:nothing"})


def test_an_installation_says_what_it_does_and_why_it_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environments, "_SAID_SECONDS", 0.1)
    code = "import time; print('Collecting x', flush=True); time.sleep({}); print('WARNING: old'); {}"
    environments._run([sys.executable, "-c", code.format(1, "")])
    assert "s: Collecting x" in capsys.readouterr().err
    with pytest.raises(SandboxUnavailable, match="cannot be installed: No matching distribution"):
        environments._run([sys.executable, "-c", code.format(0, "raise SystemExit('No matching distribution')")])


def test_more_packages_make_another_environment_of_python() -> None:
    framework = frameworks()["verifiers"]
    assert home_of(framework.with_packages([])) == home_of(framework) != home_of(framework.with_packages(["sympy"]))
    env = gym.make("gym_llm/Gymnasium-v0", env="FrozenLake-v1", extra_packages=["sympy"]).unwrapped
    assert not env._is_here  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="where='here'"):
        gym.make("gym_llm/Gymnasium-v0", env="FrozenLake-v1", extra_packages=["sympy"], where="here")


def test_an_own_module_is_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("verifiers")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vf_my.py").write_text((DEMOS / "demo_v0.py").read_text())
    assert len(open_plan("gym_llm/Verifiers-v0", env_kwargs={"env": "vf-my"})) == 12


def test_a_dead_server_of_mcp_says_its_last_words_without_secrets(tmp_path: Path) -> None:
    needs("mcp")
    (tmp_path / "dead.py").write_text("import os, sys; sys.exit('no DB_URL, ' + os.environ['KEY'])")
    command = ["python", str(tmp_path / "dead.py")]
    env = gym.make("gym_llm/MCP-v0", command=command, env={"KEY": "s3cret-key"}, answer="yes")
    with pytest.raises(PeerFailed, match=r"It wrote at last: no DB_URL, \*\*\*"):
        env.reset(seed=0)


def test_short_names_of_these_frameworks() -> None:
    names = {"inspect:inspect_evals/gpqa_diamond": "task", "verifiers:demo-v0": "env"}
    names |= {"lm-eval:gsm8k": "task", "lm_eval:gsm8k": "task"}
    for name, argument in names.items():
        assert env_spec(name).kwargs[argument] == name.partition(":")[2]
