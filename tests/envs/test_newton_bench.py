"""NewtonBench: laws, experiments and rewards are those of its own code, and hostile laws earn nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from testing import function_call, message

from gym_llm.envs.newton_bench.env import NewtonBench
from gym_llm.envs.newton_bench.experiments import Noisy
from gym_llm.envs.newton_bench.laws import DOMAINS, code_of
from gym_llm.errors import DataError, JudgeError

ENV_ID = "gym_llm/NewtonBench-v0"
RECORDED = json.loads((Path(__file__).parent / "vectors" / "newton_bench.json").read_text("utf-8"))
"""Results of NewtonBench's own functions (912a4ba), made for this test."""
FIELDS = {"module_name": "m0_gravity", "difficulty": "easy", "system": "vanilla_equation", "noise_level": 0.0}


def make(*texts: str, **kwargs: Any) -> gym.Env:
    return gym.make(ENV_ID, judge={"engine": "replay:", "kwargs": {"answers": list(texts)}}, **kwargs)


def row(**fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "Well?"}, **FIELDS, "law_version": "v0", **fields}


def submit(code: str, *texts: str, task: dict[str, Any] | None = None, **kwargs: Any) -> tuple[float, dict[str, Any]]:
    env = make(*texts, **kwargs)
    env.reset(options={"task": task or row()})
    _, reward, terminated, _, info = env.step(message(f"So:\n<final_law>\n{code}\n</final_law>"))
    assert terminated
    return float(reward), info


def measure(task: dict[str, Any], **arguments: Any) -> Any:
    env = make()
    env.reset(options={"task": task})
    observation, *_ = env.step([function_call(f"run_experiment_{task['module_name']}", arguments)])
    return json.loads(observation["input"][-1]["output"])


@pytest.mark.parametrize("number", range(len(RECORDED["experiments"])))
def test_experiments_measure_what_newton_bench_measures(number: int) -> None:
    module, difficulty, version, system, arguments, expected = RECORDED["experiments"][number]
    task = row(module_name=module, difficulty=difficulty, law_version=version, system=system)
    result = measure(task, **arguments)["result"]
    if isinstance(expected, dict) and "error" in expected:
        assert set(result) == {"error"}
    elif isinstance(expected, float):
        assert result == pytest.approx(expected, rel=1e-12)  # another machine's libm
    elif isinstance(expected, dict):
        assert result.keys() == expected.keys()
        for name, series in expected.items():
            if isinstance(series, list):  # printed with seven digits, the last of which depends on the processor
                numbers = list(map(float, series))
                assert list(map(float, result[name])) == pytest.approx(numbers, rel=1e-6, nan_ok=True)
            else:
                assert result[name] == series
    else:
        assert result == expected


@pytest.mark.parametrize("number", range(len(RECORDED["verdicts"])))
def test_laws_are_worth_what_they_are_worth_to_nemo_gym(number: int) -> None:
    case = RECORDED["verdicts"][number]
    task = row(module_name=case["module"], difficulty=case["difficulty"], law_version=case["version"])
    reward, info = submit(case["code"], *case["judge"], task=task, conform="nemo")
    assert info.get("rmsle") == (None if case["rmsle"] is None else pytest.approx(case["rmsle"], abs=1e-9))
    assert info["symbolic_equivalent"] == case["symbolic"]
    assert reward == pytest.approx(case["reward"], abs=1e-9)


@pytest.mark.parametrize("module", DOMAINS)
def test_the_right_law_is_worth_1(module: str) -> None:
    task = row(module_name=module, difficulty="hard", law_version="v1")
    code = code_of(module, "hard", "v1")
    reward, info = submit(code, "Answer: YES", task=task)
    assert (reward, info["evaluation_error"]) == (1.0, None) and info["rmsle"] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "body",
    [
        "return float('nan')",
        "return float('nan') if mass1 > 2 else 6.674e-05 * mass1 * mass2 / distance ** 1.5",
        "return 1j",
        "while True: return (lambda: [0] * 10**12)()",
        "import os; os._exit(0); return 1",
        "print('[1.0]'); raise SystemExit; return 1",
    ],
)
def test_a_law_without_values_has_no_share_of_the_reward(body: str) -> None:
    code = f"def discovered_law(mass1, mass2, distance):\n    {body}"
    reward, info = submit(code, "Answer: NO", max_execution_time=5)
    assert reward == -0.3 and info["evaluation_error"] and "rmsle" not in info


def test_a_law_that_hangs_is_ended() -> None:
    code = "def discovered_law(mass1, mass2, distance):\n    while True: pass\n    return 1"
    assert submit(code, "Answer: NO", max_execution_time=1)[0] == -0.3


def test_no_law_is_worth_0_and_a_wrong_form_less() -> None:
    env = make()
    env.reset(options={"task": row()})
    assert env.step(message("<final_law>def"))[1] == 0.0
    assert submit("def discovered_law(m1, m2, distance):\n    return 1")[0] == -0.3
    assert submit("x" * 30_000)[1]["evaluation_error"].startswith("The law has more")


def test_a_judge_that_does_not_decide_masks() -> None:
    code = code_of("m0_gravity", "easy", "v0")
    with pytest.raises(JudgeError):
        submit(code, "Hm.", judge_retries=0)


def test_noise_is_relative_and_the_same_again() -> None:
    task = row(noise_level=0.01)
    arguments = {"mass1": 100.0, "mass2": 10.0, "distance": 2.0}
    one, again = measure(task, **arguments)["result"], measure(task, **arguments)["result"]
    exact = measure(row(), **arguments)["result"]
    assert one == again != exact and one == pytest.approx(exact, rel=0.1)
    noisy = Noisy(0.01, np.random.default_rng(0))
    values = np.array([noisy(5.0, 1e-9) for _ in range(4000)])
    assert values.mean() == pytest.approx(5.0, rel=0.001) and values.std() == pytest.approx(0.05, rel=0.05)


def test_a_null_is_the_default_and_an_error_with_conform() -> None:
    task = row(system="simple_system")
    arguments = {"mass1": 1.0, "mass2": 1.0, "distance": 2.0, "initial_velocity": None, "duration": None}
    assert len(measure(task, **arguments)["result"]["time"]) == 20
    env = make(conform="nemo")
    env.reset(options={"task": task})
    observation, *_ = env.step([function_call("run_experiment_m0_gravity", arguments)])
    assert "error" in json.loads(observation["input"][-1]["output"])["result"]


@pytest.mark.parametrize("arguments", [{"num_points": 10**9}, {"num_points": 0}])
def test_an_experiment_is_bounded(arguments: dict[str, Any]) -> None:
    task = row(module_name="m3_fourier_law", system="simple_system")
    assert "num_points" in measure(task, k=1.0, A=1.0, delta_T=1.0, d=1.0, **arguments)["error"]


def test_a_run_of_a_million_steps_is_measured_at_once() -> None:
    task = row(system="complex_system")
    result = measure(task, mass1=1.0, mass2=1.0, distance=1.0, duration=1e12, time_step=1e-9)["result"]
    assert len(result["position"]) == 20


def test_another_domains_apparatus_is_not_there() -> None:
    env = make()
    env.reset(options={"task": row()})
    observation, *_ = env.step([function_call("run_experiment_m9_hooke_law", {"x": 1.0})])
    assert "not here" in observation["input"][-1]["output"]


def test_rows_are_made_of_every_domain_and_checked() -> None:
    env = make()
    seen = set()
    for seed in range(120):
        request, _ = env.reset(seed=seed)
        task = env.unwrapped.episode.row
        seen.add(task["module_name"])
        assert [each["name"] for each in request["tools"]] == [
            f"run_experiment_{task['module_name']}",
            "execute_python",
        ]
    assert seen == set(DOMAINS)
    for wrong in ({"module_name": "m12"}, {"law_version": "v3"}, {"noise_level": math.inf}):
        with pytest.raises(DataError):
            env.reset(options={"task": row(**wrong)})


def test_the_tools_have_newton_benchs_arguments() -> None:
    schemas = {each["name"]: each["parameters"] for each in NewtonBench.tool_schemas()}
    decay = schemas["run_experiment_m5_radioactive_decay"]
    assert decay["required"] == ["t"] and len(decay["properties"]) == 8
    assert len(schemas) == 14
