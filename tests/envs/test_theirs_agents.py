"""BFCL and tau2-bench: conversations with tools, equal to the benchmarks' own code, which is in environments apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from model_server import ModelServer
from testing import message
from their_packages import own, python_of, replayed

from gym_llm.core.registry.env_files import env_spec
from gym_llm.data.recipes.catalogue import find_benchmark
from gym_llm.envs.theirs import environments
from gym_llm.envs.theirs.frameworks import frameworks
from gym_llm.envs.theirs.peer_process import PeerFailed
from gym_llm.errors import UsageError

BFCL = "gym_llm/BFCLEval-v0"


def calls(*made: tuple[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function_call",
            "call_id": f"c{number}",
            "name": name,
            "arguments": given if isinstance(given, str) else json.dumps(given),
        }
        for number, (name, given) in enumerate(made)
    ]


def bfcl(task: str, **arguments: Any) -> Any:
    python_of("bfcl")
    env = gym.make(BFCL, task=task, **arguments).unwrapped
    env.reset(seed=0)
    return env


FIRST = [
    calls(
        ("cd", {"folder": "document"}),
        ("mkdir", {"dir_name": "temp"}),
        ("mv", {"source": "final_report.pdf", "destination": "temp"}),
    ),
    calls(("cd", {"folder": "temp"}), ("grep", {"file_name": "final_report.pdf", "pattern": "budget analysis"})),
    calls(("sort", {"file_name": "final_report.pdf"})),
    calls(
        ("cd", {"folder": ".."}),
        ("mv", {"source": "previous_report.pdf", "destination": "temp"}),
        ("cd", {"folder": "temp"}),
        ("diff", {"file_name1": "final_report.pdf", "file_name2": "previous_report.pdf"}),
    ),
]


def converse(env: Any, turns: list[list[dict[str, Any]]]) -> tuple[float, dict[str, Any]]:
    for made in turns:
        if made:
            observation, *_ = env.step(made)
            assert [item["type"] for item in observation["input"][-len(made) :]] == ["function_call_output"] * len(made)
        _, reward, terminated, _, info = env.step(message("Done."))
    assert terminated
    return reward, info


def test_a_conversation_of_bfcl_is_paid_for_its_last_state() -> None:
    """Two take turns in one process: their services are each episode's own."""
    env = bfcl("multi_turn_base_0")
    other = bfcl("multi_turn_base_0")
    other.step(calls(("cd", {"folder": "document"})))
    reward, info = converse(env, FIRST)
    assert (reward, info["error"]) == (1.0, None)
    env.reset(seed=0)
    reward, info = converse(env, [*FIRST[:3], []])
    assert (reward, info["error"]) == (0.0, "multi_turn:empty_turn_model_response")
    observation, *_ = other.step(calls(("pwd", {})))
    assert json.loads(observation["input"][-1]["output"])["current_working_directory"].endswith("/document")
    env.close()
    other.close()


def test_what_a_model_writes_is_not_run_as_python(tmp_path: Any) -> None:
    env = bfcl("multi_turn_base_15", max_turns=100)
    file = tmp_path / "made"
    begun = time.monotonic()
    hostile = calls(
        (f"open({str(file)!r}, 'w').close() or sort", {"file_name": "a"}),
        ("sort", {f"file_name=open({str(file)!r}, 'w').close(), **": {}}),
        ("sort", {"file_name": f"'+str(open({str(file)!r}, 'w'))+'"}),
        ("power", {"base": 9, "exponent": 10**9}),
        ("logarithm", {"value": 2, "base": 3, "precision": 10**9}),
        ("no_such_function", {}),
    )
    observation, reward, terminated, *_ = env.step(hostile)
    said = [item["output"] for item in observation["input"][-len(hostile) :]]
    assert all("rror" in each for each in said), said
    assert (reward, terminated, file.exists()) == (0.0, False, False)
    assert time.monotonic() - begun < 60
    observation, *_ = env.step(calls(("sort", "{not json")))
    assert observation["input"][-1]["role"] == "user", "their loop ends the user's turn"
    for _ in range(21):
        assert not terminated
        _, reward, terminated, _, info = env.step(calls(("ls", {})))
    assert (reward, terminated, info["error"]) == (0.0, True, "multi_turn:force_terminated")
    env.close()


def test_a_function_that_comes_later_is_offered_then() -> None:
    env = bfcl("multi_turn_miss_func_0")
    observation, _ = env.reset(seed=0)
    turns = 0
    while "sort" not in [tool["name"] for tool in observation["tools"]]:
        observation, _, terminated, *_ = env.step(message("I cannot."))
        turns += 1
        assert not terminated
    assert turns == 3 and "updated some more functions" in observation["input"][-1]["content"]
    env.close()


@pytest.mark.parametrize(
    ("task", "made", "reward"),
    [
        ("simple_python_0", [("calculate_triangle_area", {"base": 10, "height": 5})], 1.0),
        ("simple_python_0", [("calculate_triangle_area", {"base": "10", "height": 5})], 0.0),
        ("simple_python_0", [("calculate_triangle_area", "{")], 0.0),
        ("simple_python_2", [("math_hypot", {"x": 4, "y": 5})], 1.0),
        ("irrelevance_0", [], 1.0),
        ("irrelevance_0", [("determine_body_mass_index", {"weight": 70, "height": 2})], 0.0),
        ("live_relevance_0-0-0", [], 0.0),
        ("simple_java_0", [("GeometryPresentation_createPresentation", {"controller": "mapController"})], 0.0),
        (
            "simple_java_0",
            [("GeometryPresentation_createPresentation", {"controller": "mapController", "parent": "mapArea"})],
            1.0,
        ),
    ],
)
def test_calls_of_one_turn(task: str, made: list[Any], reward: float) -> None:
    env = bfcl(task)
    _, paid, terminated, *_ = env.step(calls(*made) or message("No."))
    assert (paid, terminated) == (reward, True)
    env.close()


def test_what_bfcl_cannot_play_is_refused() -> None:
    for task, why in (("web_search_base", "network"), ("memory_kv_3-customer-3", "earlier conversations")):
        with pytest.raises(ValueError, match=why):
            gym.make(BFCL, task=task)


def test_recipes_name_the_packages_tasks() -> None:
    python_of("bfcl")
    recipe = find_benchmark("bfcl_multi_turn_base")
    assert find_benchmark("bfcl_v4_multi_turn_base").name == recipe.name
    tasks = list(recipe.tasks_of([(recipe.sources[0], [{"id": "multi_turn_base_0", "question": []}])]))
    env = gym.make(recipe.env_id, tasks=tasks, **recipe.arguments).unwrapped
    observation, _ = env.reset(options={"task_index": 0})
    assert "final_report.pdf" in observation["input"][-1]["content"]
    assert converse(env, FIRST)[0] == 1.0
    env.close()


CHECKED = """
import json, os, sys, types
os.environ["BFCL_PROJECT_ROOT"] = os.path.join(sys.prefix, "bfcl")
stub = sys.modules["bfcl_eval.constants.model_config"] = types.ModuleType("model_config")
stub.MODEL_CONFIG_MAPPING = {"m": types.SimpleNamespace(underscore_to_dot=False)}
from bfcl_eval.constants.enums import Language
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker
from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry
asked = load_dataset_entry("parallel", include_language_specific_hint=False)[3]
answer = load_ground_truth_entry("parallel")[3]["ground_truth"]
made = [{name: {key: values[0] for key, values in given.items()}} for each in answer for name, given in each.items()]
episodes = []
for kind in (made, made[::-1], made[:1], []):
    paid = ast_checker(asked["function"], kind, answer, Language.PYTHON, "parallel", "m")["valid"]
    episodes.append({"framework": "bfcl_eval", "version": "2026.3.23", "env": "parallel", "seed": None, "done": True,
        "kwargs": {"id": asked["id"]}, "actions": [kind], "observations": [asked["question"], asked["function"]],
        "rewards": [float(paid)]})
print(json.dumps(episodes))
"""


def test_episodes_of_bfcl_itself_are_replayed(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    episodes = own("bfcl", CHECKED)
    assert [episode["rewards"] for episode in episodes] == [[1.0], [1.0], [0.0], [0.0]]
    for episode in episodes:
        assert replayed(episode, tmp_path, capsys) == {"agreed": 1, "tried": 1, "skipped": {}}
    assert replayed({**episodes[0], "rewards": [0.0]}, tmp_path, capsys)["agreed"] == 0


TAU2 = "gym_llm/Tau2-v0"


def tau2(domain: str, **arguments: Any) -> Any:
    if not (source := os.environ.get("TAU2_SOURCE")):
        pytest.skip("TAU2_SOURCE names no checkout of tau2-bench, which is not on the index.")
    python_of("tau2", source=source)
    return gym.make(TAU2, domain=domain, source=source, **arguments).unwrapped


MEETING = {"user_id": "user_1", "title": "Important Meeting"}


def test_the_agent_is_paid_for_the_database_and_its_words() -> None:
    env = tau2("mock:create_task_1", user=["Make a task 'Important Meeting' for user_1."])
    observation, _ = env.reset(seed=0)
    assert [item["role"] for item in observation["input"]] == ["system", "assistant", "user"]
    assert "create_task" in [tool["name"] for tool in observation["tools"]]
    observation, reward, terminated, *_ = env.step(calls(("create_task", MEETING)))
    assert (json.loads(observation["input"][-1]["output"])["task_id"], reward, terminated) == ("task_2", 0.0, False)
    assert env.step(message("Done."))[1:4] == (1.0, True, False)
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(message("No."))
    assert (reward, terminated, info["reward_breakdown"]["DB"]) == (0.0, True, 0.0)
    env.close()


def test_what_an_agent_gets_wrong_is_said_or_ends_the_episode() -> None:
    env = tau2("mock:create_task_1", user=["Hello"] * 3, max_errors=3)
    env.reset(seed=0)
    observation, *_ = env.step(calls(("create_task", "{"), ("get_users", {})))
    assert [item["output"][:7] for item in observation["input"][-2:]] == ["Not run"] * 2
    observation, *_ = env.step(calls(("no_such_tool", {}), ("create_task", {"user": 1})))
    assert all("Error" in item["output"] for item in observation["input"][-2:])
    _, reward, terminated, _, info = env.step(calls(("create_task", {"title": ["x"]})))
    assert (reward, terminated, info["termination_reason"]) == (0.0, True, "too_many_errors")
    env.reset(seed=0)
    assert env.step(message(" "))[1:3] == (0.0, True)
    env.close()
    env = tau2("mock:create_task_1", user=["Hello"] * 100, max_steps=6)
    env.reset(seed=0)
    over = (False, False)
    while over == (False, False):
        _, reward, *over_now, info = env.step(message("What else?"))
        over = tuple(over_now)
    assert (reward, over, info["termination_reason"]) == (0.0, (False, True), "max_steps")
    env.close()


def test_alone_the_agent_has_a_ticket_and_says_when_it_is_done() -> None:
    env = tau2("mock:create_task_1", solo=True)
    observation, _ = env.reset(seed=0)
    assert "<ticket>" in observation["input"][0]["content"] and observation["tools"][-1]["name"] == "done"
    env.step(calls(("create_task", MEETING)))
    assert env.step(calls(("done", {})))[1:3] == (1.0, True)
    env.reset(seed=0)
    assert env.step(message("I write to the user."))[1:3] == (0.0, True)
    env.close()


def test_an_engine_plays_the_user_with_tools_of_its_own() -> None:
    """The user looks at the notifications, and at the end dismisses one: the task asserts that."""
    said = iter(
        [("check_notifications", {}), "Complete task_1.", ("dismiss_notification", {"notification_id": "notif_1"})]
    )

    def answer(body: dict[str, Any]) -> str | dict[str, Any]:
        assert [tool["function"]["name"] for tool in body["tools"]] == ["check_notifications", "dismiss_notification"]
        if isinstance(each := next(said, "###STOP###"), str):
            return each
        function = {"name": each[0], "arguments": json.dumps(each[1])}
        made = {"id": f"u{len(server.bodies)}", "type": "function", "function": function}
        return {"message": {"role": "assistant", "content": None, "tool_calls": [made]}, "finish_reason": "tool_calls"}

    tau2("mock").close()
    tasks = json.loads((Path(os.environ["TAU2_SOURCE"]) / "data/tau2/domains/mock/tasks.json").read_text())
    task = next(task for task in tasks if task["id"] == "update_task_with_user_tools")
    task["evaluation_criteria"]["reward_basis"].remove("DB")  # its expected actions leave out the user's
    with closing(ModelServer()) as server:
        server.answer = answer
        engine = {"engine": server.url, "kwargs": {"api": "chat", "model": "m"}}
        env = tau2("mock", task=task, user=engine)
        observation, _ = env.reset(seed=0)
        assert observation["input"][-1]["content"] == "Complete task_1."
        env.step(calls(("update_task_status", {"task_id": "task_1", "status": "completed"})))
        _, reward, terminated, _, info = env.step(message("It is completed."))
        assert (reward, terminated) == (1.0, True), info["reward_breakdown"]
        env.close()
        asked = [[each["role"] for each in body["messages"]] for body in server.bodies]
    assert asked[0] == ["system", "user"] and asked[1] == ["system", "user", "assistant", "tool"]
    assert asked[-1][-3:] == ["user", "assistant", "tool"]


def test_tasks_that_assert_in_words_need_a_judge() -> None:
    env = tau2("retail:2", user=["I want a refund."])
    with pytest.raises(PeerFailed, match="give an engine as `judge`"):
        env.reset(seed=0)
    env.close()
    for met, paid in ((True, 1.0), (False, 0.0)):
        verdict = {"results": [{"expectedOutcome": "x", "reasoning": "y", "metExpectation": met}]}
        env = tau2("retail:2", user=["I want a refund."], judge=f"constant:```json\n{json.dumps(verdict)}\n```")
        env.reset(seed=0)
        *_, info = env.step(message("No."))
        assert info["reward_breakdown"] == {"DB": 0.0, "NL_ASSERTION": paid}
        env.close()


def test_a_row_of_nemo_gyms_agent_is_played() -> None:
    env = tau2("retail", user=["Make a task."])
    task = {"id": "own", "user_scenario": {"instructions": "Ask for a task."}, "ticket": "A task."}
    task["evaluation_criteria"] = {"actions": [{"action_id": "a", "name": "create_task", "arguments": MEETING}]}
    row = {"responses_create_params": {"input": []}, "config": {"domain": "mock"}, "task": task}
    env.reset(options={"task": row})
    env.step(calls(("create_task", MEETING)))
    assert env.step(message("Done."))[1:3] == (1.0, True)
    env.close()


GYMNASIUM = """
import json, os, sys
sys.argv.append("")
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
from loguru import logger
logger.remove()
import tau2.registry
from tau2.gym.gym_agent import AgentGymEnv
episodes = []
call = json.dumps({"name": "create_task", "arguments": {"user_id": "user_1", "title": "Important Meeting"}})
for actions in ([call, "done()"], ["create_task(user_id='user_1', title='Other')", "done()"], [" ", "Hello"]):
    env = AgentGymEnv("mock", "create_task_1", solo_mode=True)
    observation, _ = env.reset(seed=0)
    observations, rewards = [observation], []
    for action in actions:
        observation, reward, done, _, _ = env.step(action)
        observations.append(observation)
        rewards.append(reward)
    episodes.append({"framework": "tau2", "version": "1.0.1", "env": "mock", "seed": 0, "done": done,
        "actions": actions, "kwargs": {"task_id": "create_task_1", "solo_mode": True},
        "observations": observations, "rewards": rewards})
print(json.dumps(episodes))
"""


def test_episodes_of_their_gymnasium_environment_are_replayed(tmp_path: Path, capsys: Any) -> None:
    tau2("mock").close()
    python = python_of("tau2", source=os.environ["TAU2_SOURCE"])
    if subprocess.run([python, "-c", "import gymnasium"], capture_output=True, check=False).returncode:
        pytest.skip("The environment of tau2 has no gymnasium, which tau2.gym imports.")
    episodes = own("tau2", GYMNASIUM, python)
    assert [episode["rewards"] for episode in episodes] == [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    for episode in episodes:
        assert replayed(episode, tmp_path, capsys) == {"agreed": 1, "tried": 1, "skipped": {}}
    assert replayed({**episodes[1], "rewards": [0.0, 1.0]}, tmp_path, capsys)["agreed"] == 0


def test_a_checkout_that_is_missing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAU2_SOURCE", raising=False)
    with pytest.raises(ValueError, match="is not a checkout"):
        gym.make(TAU2, source=str(tmp_path))
    with pytest.raises(ValueError, match="user names no engine"):
        gym.make(TAU2, user="http//host")
    with pytest.raises(UsageError, match="not on the index"):
        gym.make(TAU2, user=["Hello"]).unwrapped.reset(seed=0)
    assert env_spec("tau2:retail").kwargs["domain"] == "retail"
    assert env_spec("bfcl:multi_turn_base").kwargs["task"] == "multi_turn_base"


def test_another_version_of_python_is_found_or_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYM_LLM_THEIRS", str(tmp_path))
    here = ".".join(map(str, sys.version_info[:2]))
    framework = replace(frameworks()["bfcl"], pythons=("2.1", here))
    assert environments._interpreter(framework) == sys.executable
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(environments.SandboxUnavailable, match=r"python2\.1 is not installed"):
        environments.python_of(replace(framework, pythons=("2.1",)))
