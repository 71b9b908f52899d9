"""Every recipe makes tasks that its verifier takes, and the catalogue's vectors come out value for value."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from string import Formatter
from typing import Any, get_args

import gymnasium as gym
import pytest
from audited import filled
from testing import ROOT

import gym_llm
from gym_llm.data.recipes.catalogue import benchmarks, benchmarks_of, find_benchmark, is_benchmark
from gym_llm.data.recipes.offline import convert_files
from gym_llm.data.recipes.recipe import Benchmark, Need, Source
from gym_llm.data.recipes.suites import SUITES
from gym_llm.errors import DataError, UsageError

VECTORS = next(
    (
        folder
        for parent in (ROOT.parent, ROOT.parent.parent)
        if (folder := parent / "shared/benchmarks/vectors").is_dir()
    ),
    Path("no-vectors"),
)
EVERY = list(benchmarks().values())


def vectors() -> list[Any]:
    return [json.loads(line) for path in sorted(VECTORS.glob("*.jsonl")) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector["benchmark"])
def test_raw_rows_become_the_catalogue_s_tasks(vector: dict[str, Any], tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_text(json.dumps({"loader": vector["loader"], "raw": vector["raw"]}))
    tasks = json.loads(json.dumps(list(convert_files(find_benchmark(vector["benchmark"]), [raw]))))
    shared = min(len(tasks), len(vector["rows"]))  # vectors of many loads are cut
    assert shared and tasks[:shared] == vector["rows"][:shared]


INVENTED = {"gpqa_x", "imo_gradingbench", "longmemeval", "mmlu_pro", "swebench_verified", "ugphysics"}
"""Vectors whose made-up values verifiers refuse: an answer beyond the letters, an unknown grade, a missing instance."""


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector["benchmark"])
def test_verifiers_take_the_catalogue_s_tasks(vector: dict[str, Any], tmp_path: Path) -> None:
    recipe = find_benchmark(vector["benchmark"])
    if recipe.env_id is None or recipe.name in INVENTED:
        pytest.skip("no verifier, or no valid values")
    raw = tmp_path / "raw.jsonl"
    raw.write_text(json.dumps({"loader": vector["loader"], "raw": vector["raw"]}))
    tasks = [filled(recipe, task) for task in convert_files(recipe, [raw])]
    judge = {"judge": "random"} if "judge" in recipe.needs else {}
    gym.make(recipe.env_id, tasks=tasks, disable_env_checker=True, **recipe.env_kwargs, **judge).reset(seed=0)


def test_there_are_a_hundred_names() -> None:
    names = [name for each in EVERY for name in (each.name, *each.aliases)]
    assert len(EVERY) >= 99 and len(names) == len(set(names)) >= 110
    assert gym_llm.benchmark("MMLU-Pro") is gym_llm.benchmark("mmlu_pro")
    assert gym_llm.benchmark("swebench/verified").name == "swebench_verified"
    assert is_benchmark("gpqa_diamond") and not is_benchmark("gym_llm/GPQADiamond-v0")
    assert "gpqa" in benchmarks_of("gym_llm/GPQADiamond-v0")


@pytest.mark.parametrize("recipe", EVERY, ids=lambda recipe: recipe.name)
def test_a_recipe_is_whole(recipe: Benchmark) -> None:
    assert recipe.title and recipe.domain and recipe.facts, "where it comes from is written down"
    assert (recipe.sources and all(source.place.count("/") == 1 or source.is_url for source in recipe.sources)) or (
        "gym-llm data convert" in recipe.notes
    )
    assert not any(source.place.startswith("http://") for source in recipe.sources)
    assert set(recipe.needs) <= set(get_args(Need)) and recipe.repeats >= 1
    assert re.fullmatch(r"mean|f1|majority|(macro|metric):\w+", recipe.headline)
    assert inspect.getdoc(recipe.convert) or recipe.variants
    for text in (recipe.prompt, recipe.system):
        assert text is None or all(name is None or name.isidentifier() for _, name, _, _ in Formatter().parse(text))
    if recipe.env_id is not None:
        arguments = inspect.signature(gym.envs.registration.load_env_creator(gym.spec(recipe.env_id).entry_point))
        assert set(recipe.env_kwargs) <= set(arguments.parameters), recipe.env_kwargs


def test_suites_name_benchmarks_that_need_no_judge() -> None:
    for names in SUITES.values():
        assert all("judge" not in find_benchmark(name).needs for name in names)


def test_variants() -> None:
    german = find_benchmark("mmlu_prox:de")
    assert german.name == "mmlu_prox:de" and [source.label for source in german.sources] == ["instructions", "de"]
    assert find_benchmark("m_arena_hard:ja").sources[0].config == "ja"
    assert find_benchmark("bigcodebench:full").rows == 1140
    with pytest.raises(UsageError, match=r"no variant 'dee'\. Did you mean de"):
        find_benchmark("mmlu_prox:dee")
    with pytest.raises(UsageError, match=r"no benchmark 'aim25'\. Did you mean aime25"):
        find_benchmark("aim25")


def _benchmark(convert: Any) -> Benchmark:
    return Benchmark(name="own", title="own", domain="math", sources=(Source("a/b"),), convert=convert)


def test_a_row_that_does_not_fit_names_its_columns(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_text('{"question": "1 + 1", "solution": "2"}\n')
    with pytest.raises(DataError, match="row 0 of a/b lacks 'answer'; the columns are question, solution"):
        list(convert_files(_benchmark(lambda row: {"a": row["answer"]}), [raw]))
    with pytest.raises(DataError, match="cannot be converted"):
        list(convert_files(_benchmark(lambda row: int(row["solution"] + "x")), [raw]))
    assert list(convert_files(_benchmark(lambda row: None), [raw])) == []


def test_tests_of_livecodebench_are_not_unpickled() -> None:
    import base64
    import pickle
    import zlib

    from gym_llm.data.benchmarks.code import cases

    tests = [{"input": "1", "output": "2"}]
    packed = base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()
    assert cases(packed) == tests == cases(json.dumps(tests))

    class Hostile:
        def __reduce__(self) -> Any:
            return (print, ("run",))

    with pytest.raises(pickle.UnpicklingError, match="print"):
        cases(base64.b64encode(zlib.compress(pickle.dumps(Hostile()))).decode())


def test_iheval_takes_its_place_from_the_file() -> None:
    from gym_llm.data.benchmarks.instruction_hierarchy import hierarchy

    tool = {
        "definition": {"name": "get_user", "description": "d", "parameters": {"id": {"type": "string"}}},
        "call": {"id": "c1", "name": "get_user", "arguments": {"id": "7"}},
        "return": {"content": "Ann"},
    }
    row = {"id": 3, "system": "S", "instruction": "Who?", "tool": tool, "answer": ["Ann"]}
    task = hierarchy({**row, "_member": "IHEval-main/benchmark/tool-use/slack-user/conflict/strong/input_data.json"})
    assert task is not None
    kinds = [item.get("type", item.get("role")) for item in task["responses_create_params"]["input"]]
    assert kinds == ["system", "user", "function_call", "function_call_output"]
    assert (task["domain"], task["task"], task["setting"]) == ("tool-use", "slack-user", "conflict/strong")
    env = gym.make("gym_llm/IHEval-v0", tasks=[task])
    assert env.reset(options={"task_index": 0})[0]["tools"][0]["name"] == "get_user"
    assert hierarchy({**row, "_member": "IHEval-main/benchmark/tool-use/other/a/input_data.json"}) is None
