"""Databases and tests that a verifier reads beside the tasks are fetched with them, whole or not at all."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sqlite3
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import pytest
from aiohttp import web
from hub_server import serving

from gym_llm.author.audit import audit
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.data.benchmarks.code import olympiad_tests
from gym_llm.data.recipes.catalogue import find_benchmark
from gym_llm.data.recipes.fetching import MIRROR
from gym_llm.data.recipes.prepared import COPIES, copy_to, local_path, prepare
from gym_llm.errors import DataError, UsageError

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("recipes_hub")]


def zipped(**members: bytes | str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def database(tmp_path: Path, rows: int) -> bytes:
    path = tmp_path / "made.sqlite"
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE town (name TEXT, people INTEGER)")
    connection.executemany("INSERT INTO town VALUES (?, ?)", [(f"town  {n}\nof {n}", n) for n in range(rows)])
    connection.commit()
    connection.close()
    return path.read_bytes()


def bird(tmp_path: Path) -> bytes:
    question = {"question": "How many?", "SQL": "SELECT COUNT(*) FROM town", "db_id": "towns", "difficulty": "simple"}
    inner = zipped(**{"dev_databases/towns/towns.sqlite": database(tmp_path, 40)})
    return zipped(**{"dev/dev.json": json.dumps([question]), "dev/dev_databases.zip": inner})


def spider(tmp_path: Path) -> bytes:
    root = "Spider2-main/spider2-lite/"
    questions = [
        {"instance_id": "local012", "db": "City-Towns", "question": "How many people?"},
        {"instance_id": "local003", "db": "City-Towns", "question": "How many towns?"},
        {"instance_id": "bq001", "db": "far", "question": "Left out"},
    ]
    rules = [{"instance_id": name, "ignore_order": True} for name in ("local003", "local012")]
    gold = f"{root}evaluation_suite/gold/"
    return zipped(
        **{
            f"{root}spider2-lite.jsonl": "\n".join(map(json.dumps, questions)),
            f"{gold}spider2lite_eval.jsonl": "\n".join(map(json.dumps, rules)),
            f"{root}resource/databases/sqlite/city_towns/DDL.csv": 't,DDL\ntown,"CREATE TABLE town (\nname TEXT)"\n',
            f"{gold}exec_result/local003.csv": "n\n3\n",
            f"{gold}exec_result/local012_a.csv": "sum,sum\n3,x\n",
            f"{gold}exec_result/local012_b.csv": "s\n3.0\n",
            f"{gold}exec_result/local012_d.csv": "s\n9\n",
            f"{gold}sql/local003.sql": "SELECT COUNT(*) FROM town\n",
        }
    )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    files: dict[str, bytes] = {}
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        if request.path not in files:
            raise web.HTTPNotFound
        seen.append(request.path)
        return web.Response(body=files[request.path])

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(COPIES, raising=False)
    with serving(app) as url:
        monkeypatch.setenv(MIRROR, url)
        yield files
    assert len(seen) == len(set(seen)), "a file of two loads is fetched once"


def answer(env: gym.Env[Any, Any], text: str) -> float:
    env.reset(seed=0)
    return float(env.step([{"type": "message", "role": "assistant", "content": text}])[1])


def test_bird_comes_with_its_databases(site: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site["/bird-bench.oss-cn-beijing.aliyuncs.com/dev.zip"] = bird(tmp_path)
    recipe = find_benchmark("birdbench")
    env = recipe.make()
    assert answer(env, "```sql\nSELECT 40\n```") == 1.0 and answer(env, "```sql\nSELECT 41\n```") == 0.0
    assert env.spec is not None and env.spec.kwargs["bird_sql_dir"] == "benchmark:birdbench/bird_sql_dir"
    prepared = prepare(recipe)
    (task,) = map(json.loads, prepared.path.read_text().splitlines())
    shown = task["sql_context"].splitlines()
    assert sum(line.startswith("INSERT") for line in shown) == 10 and "..." in shown
    assert "'town 0 of 0'" in task["sql_context"], "spaces and line breaks are one space"
    copies = tmp_path / "copies"
    copy_to(prepared, copies)
    shutil.rmtree(tmp_path / "home")
    site.clear()
    monkeypatch.setenv(COPIES, str(copies))
    assert answer(recipe.make(), "```sql\nSELECT COUNT(*) FROM town\n```") == 1.0
    next(copies.rglob("*.sqlite")).write_bytes(b"half")
    with pytest.raises(DataError, match="404"):
        prepare(recipe)


def test_spider_keeps_local_questions_with_all_accepted_results(site: dict[str, bytes], tmp_path: Path) -> None:
    site["/github.com/xlang-ai/Spider2/archive/refs/heads/main.zip"] = spider(tmp_path)
    sqlite = {"local_sqlite/City-Towns.sqlite": database(tmp_path, 3), "local_sqlite/__MACOSX/x.txt": b""}
    site["/drive.usercontent.google.com/download"] = zipped(**sqlite)
    recipe = find_benchmark("spider2_lite")
    tasks = list(map(json.loads, prepare(recipe).path.read_text().splitlines()))
    assert [task["instance_id"] for task in tasks] == ["local003", "local012"]
    assert tasks[0]["gold_sql"] == "SELECT COUNT(*) FROM town" and tasks[0]["gold_result"] == [[[3]]]
    assert tasks[1]["gold_result"] == [[[3, "x"]], [[3.0]]] and "gold_sql" not in tasks[1]
    assert "CREATE TABLE town (\nname TEXT)" in tasks[0]["responses_create_params"]["input"][1]["content"]
    assert answer(recipe.make(), "```sql\nSELECT COUNT(*) FROM town\n```") == 1.0


def test_an_unfit_attachment_is_an_error(site: dict[str, bytes], tmp_path: Path) -> None:
    site["/bird-bench.oss-cn-beijing.aliyuncs.com/dev.zip"] = zipped(**{"dev/dev_databases.zip": zipped()})
    with pytest.raises(DataError, match="no tasks"):
        prepare(find_benchmark("birdbench"))
    with pytest.raises(UsageError, match="no attachments"):
        local_path("benchmark:aime25/folder")
    assert local_path("/a/folder") == "/a/folder"
    assert not list((tmp_path / "home").rglob("*.jsonl"))


def test_olympiad_s_problems_have_their_tests() -> None:
    from gym_llm.envs.competitive_coding.problems import Problem

    part = {"id": "nile", "name": "Nile", "score_precision": 2, "grader_files": [["nile.h", ""]]}
    problems = [
        part | {"subtask": "00-samples", "score": 0, "test_names": ["0-0"]},
        part | {"subtask": "01-one", "score": 6, "test_names": ["1-0", "1-1"]},
    ]
    tests = [
        {"problem_name": name, "test_name": f"1-{n}", "test_input": f"{n}\n", "test_output": f"{n * n}\n"}
        for name in ("Nile", "Hieroglyphs")
        for n in range(2)
    ]
    (row,) = olympiad_tests({"problems": problems, "tests": tests})
    problem = Problem.model_validate(row)
    assert problem.scored["01-one"].score == 6 and problem.all_tests["1-1"].output == "1\n"


def jsonl(*rows: dict[str, Any]) -> bytes:
    return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())


def test_inputs_of_mbpp_that_json_cannot_hold_and_long_integers(site: dict[str, bytes]) -> None:
    problems = [
        {
            "task_id": "Mbpp/252",
            "prompt": '"""\nTurn a complex number.\n"""\n',
            "entry_point": "turn",
            "canonical_solution": "import cmath\ndef turn(number):\n    return cmath.polar(number)\n",
            "base_input": [["1+2j"]],
            "plus_input": [["3"]],
        },
        {
            "task_id": "Mbpp/237",
            "prompt": '"""\nCount pairs.\n"""\n',
            "entry_point": "count",
            "canonical_solution": "from collections import Counter\ndef count(pairs):\n"
            "    return len(Counter(tuple(sorted(pair)) for pair in pairs)) + sum(type(p) is tuple for p in pairs)\n",
            "base_input": [[[[3, 1], [1, 3]]]],
            "plus_input": [[[[3, 1]]]],
        },
        {
            "task_id": "Mbpp/9",
            "prompt": '"""\nCount bits.\n"""\n',
            "entry_point": "bits",
            "canonical_solution": "def bits(number):\n    return bin(number).count('1')\n",
            "base_input": [[7]],
            "plus_input": [[(1 << 70) + 1]],
        },
    ]
    site["/github.com/evalplus/mbppplus_release/releases/download/v0.2.0/MbppPlus.jsonl.gz"] = jsonl(*problems)
    recipe = find_benchmark("mbpp")
    tasks = list(map(json.loads, prepare(recipe).path.read_text().splitlines()))
    assert tasks[0]["verifier_metadata"] == {"task_id": "Mbpp/252"}, "as NeMo Gym's rows"
    found = audit(recipe, lambda: cast(VerifierEnv, recipe.make(disable_env_checker=True).unwrapped))
    assert found.official == found.rows == 3, found.card()
    assert not found.junk["another task's answer"]
