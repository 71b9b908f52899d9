"""`gym_llm.evaluate` and what it returns; results.json, read again."""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from played import Scripted
from testing import row

import gym_llm
from gym_llm.errors import DataError, TooManyFailures, UsageError
from gym_llm.evaluation.results import read_results
from gym_llm.rollouts.workload import Part
from gym_llm.stats.prices import read_prices

ENV = "gym_llm/FollowUp-v0"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # drawing is slow, and tested elsewhere


def rows(count: int) -> list[Any]:
    return [row(f"Question {n}", expected_answer="yes", level=n % 2) for n in range(count)]


def sometimes(request: Any, task: int, repeat: int) -> str:
    return "yes" if (task + repeat) % 3 else "no"


def test_a_function_plays_and_returns_what_the_folder_says():
    engines = {"good": Scripted(lambda *_: "yes"), "fair": Scripted(sometimes)}
    result = gym_llm.evaluate(ENV, engines, tasks=rows(6), repeats=3, output="out", by="level")
    assert result.complete
    assert result.metrics(engine="good")["mean_reward"]["value"] == 1.0
    assert result.metrics("FollowUp", "fair")["pass_at"]["3"]["value"] == 1.0
    assert result.metrics(engine="fair")["pass_all"]["3"]["value"] == 0.0
    assert read_results("out").data == read_results(Path("out/results.json")).data == result.data
    assert [len(each["groups"]["level"]) for each in result.results] == [2, 2]
    assert sum(result.results[1]["histogram"]["counts"]) == 18
    with pytest.raises(UsageError, match=r"There is no engine 'god'\. Did you mean good\?"):
        result.metrics(engine="god")
    with pytest.raises(UsageError, match="Say which engine: good, fair"):
        result.metrics()


def test_the_function_that_is_a_package_too_shows_its_arguments():
    assert list(inspect.signature(gym_llm.evaluate).parameters)[:2] == ["env_id", "engines"]
    from gym_llm.stats.figures import evaluate_scores  # still a package

    assert callable(evaluate_scores)


def test_parts_bring_their_own_tasks_and_names():
    parts = [Part(ENV, tasks=rows(2), dataset="two"), Part(ENV, tasks=rows(3), dataset="three", repeats=2)]
    result = gym_llm.evaluate(parts, Scripted(sometimes), output="out")
    assert [(each["dataset"], each["metrics"]["episodes"]) for each in result.results] == [("two", 2), ("three", 6)]
    assert result.results[0]["engine"] == "scripted"  # an engine's own name
    with pytest.raises(UsageError, match="Two of the environments are called x"):
        gym_llm.evaluate([Part(ENV, dataset="x"), Part(ENV, dataset="x")], "random")
    with pytest.raises(UsageError, match="Several environments have their own tasks"):
        gym_llm.evaluate([ENV, "gym_llm/Weather-v0"], "random", tasks=rows(2))
    with pytest.raises(UsageError, match="Name a benchmark"):
        gym_llm.evaluate([], "random")


def test_a_suite_is_played_by_its_path():
    Path("suite.yaml").write_text(f"chat: {{env: {ENV}, limit: 2, repeats: 2}}\nchance: {{engine: random}}\n")
    result = gym_llm.evaluate("suite.yaml", output="out")
    assert result.metrics("chat", "chance")["episodes"] == 4
    with pytest.raises(UsageError, match="A suite says itself which tasks"):
        gym_llm.evaluate("suite.yaml", tasks=rows(2))


@pytest.mark.parametrize("ended", ["interrupt", "failures"])
def test_what_ends_it_leaves_a_report_and_the_rest_is_played_later(ended):
    answers = 0

    def until_the_sixth(request: Any, task: int, repeat: int) -> str:
        nonlocal answers
        answers += 1
        if answers > 6 and ended == "failures":
            raise gym_llm.JudgeError("it is down")
        if answers == 6 and ended == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        return "yes"

    options: dict[str, Any] = {"tasks": rows(20), "output": "out", "concurrency": 1, "max_failures": 2, "retries": 0}
    with pytest.raises((KeyboardInterrupt, TooManyFailures)):
        gym_llm.evaluate(ENV, {"me": Scripted(until_the_sixth)}, **options)
    part_way = read_results("out")
    assert not part_way.complete
    assert 0 < part_way.metrics()["episodes"] < 20
    result = gym_llm.evaluate(ENV, {"me": Scripted(lambda *_: "yes")}, resume=True, retry_failed=True, **options)
    assert result.complete and result.metrics()["episodes"] == result.metrics()["scored"] == 20


def test_a_result_that_is_none_is_refused_with_what_is_wrong(tmp_path):
    gym_llm.evaluate(ENV, "random", limit=2, output="out")
    file = Path("out/results.json")
    whole = json.loads(file.read_text())
    result = whole["results"][0]
    for wrong, sentence in (
        ("nothing", "out/results.json is not a result of an evaluation: expected a JSON object."),
        ([], "expected a JSON object"),
        ({**whole, "schema_version": 2}, "is of schema version 2, and this gym_llm reads up to 1: update it."),
        ({**whole, "schema_version": "1"}, "its schema_version is '1', expected 1."),
        ({**whole, "results": {}}, "it has no list of `results`."),
        ({**whole, "results": [result, 3]}, r"results\[1\] is no object."),
        ({**whole, "results": [{**result, "metrics": None}]}, r"results\[0\].metrics is missing or of another kind."),
    ):
        file.write_text(wrong if isinstance(wrong, str) else json.dumps(wrong))
        with pytest.raises(DataError, match=sentence):
            read_results("out")
    with pytest.raises(DataError, match=r"Cannot read nowhere/?.*: No such file or directory\."):
        read_results("nowhere")


@pytest.mark.parametrize("output", [-1, "2", True, float("nan"), None])
def test_a_price_is_two_numbers(output):
    with pytest.raises(DataError, match="expected dollars per million tokens"):
        read_prices({"m": {"input": 1, "output": output}})
