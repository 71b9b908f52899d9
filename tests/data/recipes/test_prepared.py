"""Benchmarks are fetched once, pinned, and the same for everybody; a hostile or broken place does no harm."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hub_server import HubServer, Repo, serving

from gym_llm.data.recipes import prepared
from gym_llm.data.recipes.catalogue import find_benchmark
from gym_llm.data.recipes.fetching import MIRROR
from gym_llm.data.recipes.prepared import COPIES, copy_to, pin_of, prepare
from gym_llm.data.recipes.recipe import Benchmark, Source
from gym_llm.errors import DataError

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("recipes_hub")]
AIME = "MathArena/aime_2025"


def parquet(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return file.getvalue()


def problems(count: int = 30) -> bytes:
    return parquet([{"problem": f"What is {n} + {n}?", "answer": 2 * n, "problem_idx": n} for n in range(1, count + 1)])


@pytest.fixture(scope="module")
def server() -> Iterator[HubServer]:
    hub = HubServer()
    with serving(hub.app()) as url:
        hub.url = url
        yield hub


@pytest.fixture
def hub(server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubServer:
    from huggingface_hub import constants

    for state in (server.repos, server.faults, server.seen, server.headers, server.info):
        state.clear()
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    monkeypatch.delenv(COPIES, raising=False)
    server.repos[AIME] = Repo(False, {"main": {"data/train-00000.parquet": problems()}})
    return server


def by_file(**fields: Any) -> Benchmark:
    """A recipe of one file, which needs no `datasets`."""
    source = Source("acme/sums", files=("rows.jsonl",), **fields)
    return Benchmark(name="sums", title="sums", domain="math", sources=(source,), convert=lambda row: dict(row))


def test_fetched_once_and_then_read_from_the_cache(hub: HubServer) -> None:
    first = in_process(hub, "aime25")
    assert first["rows"] == 30 and len(first["revision"]) == 40
    hub.seen.clear()
    assert in_process(hub, "aime25") == first and hub.seen == []
    line = json.loads(Path(first["path"]).read_text().splitlines()[0])
    assert line == {"question": "What is 1 + 1?", "expected_answer": "2"}
    hub.repos.clear()  # not even the repository is needed
    assert in_process(hub, "aime25") == first


SCRIPT = """
import json, sys
from gym_llm.data.recipes.catalogue import find_benchmark
from gym_llm.data.recipes.prepared import prepare
found = prepare(find_benchmark(sys.argv[1]))
print(json.dumps({"rows": found.rows, "revision": found.revision, "digest": found.digest, "path": str(found.path)}))
"""


def started(hub: HubServer, name: str) -> subprocess.Popen[str]:
    variables = {**os.environ, "HF_ENDPOINT": hub.url}
    command = [sys.executable, "-P", "-c", SCRIPT, name]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def in_process(hub: HubServer, name: str) -> dict[str, Any]:
    with started(hub, name) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_many_processes_download_once_and_a_killed_one_leaves_nothing_half(hub: HubServer) -> None:
    processes = [started(hub, "aime25") for _ in range(6)]
    time.sleep(1.0)
    processes[0].kill()
    ended = [process.communicate(timeout=240) for process in processes]
    found = [json.loads(out) for out, _ in ended[1:] if out]
    assert len(found) == 5 and all(each == found[0] for each in found), ended
    assert sum(seen.startswith("GET") and seen.endswith(".parquet") for seen in hub.seen) <= 2  # once by the killed one


def test_changed_rows_are_refused_until_they_are_asked_for(hub: HubServer, tmp_path: Path) -> None:
    hub.repos["acme/sums"] = Repo(False, {"main": {"rows.jsonl": b'{"n": 1}\n'}})
    recipe = by_file()
    first = prepare(recipe)
    pin = pin_of(recipe)
    assert pin["digest"] == first.digest and pin["rows"] == 1
    lock = json.loads((prepared.cache_folder() / "benchmarks.lock").read_text())
    assert lock["sums"] == pin
    hub.repos["acme/sums"].branches["main"]["rows.jsonl"] = b'{"n": 2}\n'
    assert prepare(recipe).digest == first.digest, "the commit is pinned"
    newer = prepare(recipe, update=True)
    assert newer.digest != first.digest and pin_of(recipe)["digest"] == newer.digest
    # A place that gives other bytes for the same name is refused, with both digests.
    lock["sums"]["revisions"] = {}
    (prepared.cache_folder() / "benchmarks.lock").write_text(json.dumps(lock))
    for file in (prepared.cache_folder() / "sums").glob("*"):
        file.unlink()
    with pytest.raises(DataError, match=rf"changed upstream.*{pin['raw'][:16]}"):
        prepare(recipe)


def test_a_damaged_cache_is_not_read(hub: HubServer) -> None:
    hub.repos["acme/sums"] = Repo(False, {"main": {"rows.jsonl": b'{"n": 1}\n'}})
    found = prepare(by_file())
    found.path.write_bytes(b'{"n": 99}\n')
    assert prepare(by_file()).path.read_bytes() == b'{"n":1}\n'


def test_copies_need_no_hub(hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repos["acme/sums"] = Repo(False, {"main": {"rows.jsonl": b'{"n": 1}\n'}})
    found = prepare(by_file())
    copy_to(found, tmp_path / "copies")
    hub.repos.clear()
    monkeypatch.setenv("HF_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match="gated or not found"):
        prepare(by_file())
    monkeypatch.setenv(COPIES, str(tmp_path / "copies"))
    assert prepare(by_file()).digest == found.digest


def test_offline_mode_and_missing_copies_are_named(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv(COPIES, str(tmp_path / "copies"))
    with pytest.raises(DataError, match=r"HF_HUB_OFFLINE is set\. .*copies \(GYM_LLM_BENCHMARKS\) has no copy of it"):
        prepare(find_benchmark("ifeval"))


def test_a_gated_dataset_says_where_its_terms_are(hub: HubServer) -> None:
    hub.repos["acme/sums"] = Repo(True, {"main": {"rows.jsonl": b'{"n": 1}\n'}})
    with pytest.raises(
        DataError, match=r"accept its terms at https://huggingface.co/datasets/acme/sums, and set HF_TOKEN"
    ):
        prepare(by_file())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"not json\n", "sums|rows"),
        (b'{"n": "' + b"x" * 3_000_000 + b'"}\n', "longer than"),
        (b"\n", "no tasks"),
    ],
)
def test_hostile_rows_get_a_sentence(hub: HubServer, monkeypatch: pytest.MonkeyPatch, data: bytes, said: str) -> None:
    monkeypatch.setenv("GYM_LLM_MAX_ROW_BYTES", "1000000")
    hub.repos["acme/sums"] = Repo(False, {"main": {"rows.jsonl": data}})
    with pytest.raises(DataError, match=said):
        prepare(by_file())
    assert not list((prepared.cache_folder() / "sums").glob("*.jsonl"))


def test_a_file_of_a_hub_that_is_too_large_is_not_downloaded(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GYM_LLM_MAX_FILE_BYTES", "1000")
    hub.repos["acme/sums"] = Repo(False, {"main": {"rows.jsonl": b'{"n": 1}\n' * 1_000_000}})
    with pytest.raises(DataError, match="GYM_LLM_MAX_FILE_BYTES"):
        prepare(by_file())
    assert not any(path.stat().st_size > 1_000_000 for path in tmp_path.rglob("*") if path.is_file())


def test_names_that_lead_elsewhere_are_refused(hub: HubServer) -> None:
    hub.repos["acme/sums"] = Repo(False, {"main": {"rows.jsonl": b'{"n": 1}\n'}})
    recipe = Benchmark(
        name="sums",
        title="sums",
        domain="math",
        sources=(Source("acme/sums", files=("../../etc/passwd",)),),
        convert=lambda row: dict(row),
    )
    with pytest.raises(DataError, match="not a valid name"):
        prepare(recipe)


def site() -> web.Application:
    async def bomb(_: web.Request) -> web.Response:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("../evil.jsonl", b'{"n": 1}\n')
            archive.writestr("rows.jsonl", b'{"n": "' + b" " * 300_000_000 + b'"}\n')
        return web.Response(body=file.getvalue())

    async def rows(_: web.Request) -> web.Response:
        return web.Response(text="question,answer\n1 + 1,2\n")

    async def around(request: web.Request) -> web.Response:
        raise web.HTTPFound(request.path)

    async def missing(_: web.Request) -> web.Response:
        raise web.HTTPNotFound

    app = web.Application()
    for path, handler in (("bomb.zip", bomb), ("rows.csv", rows), ("around.csv", around), ("missing.csv", missing)):
        app.router.add_get(f"/data.example/{path}", handler)
    return app


def by_url(name: str) -> Benchmark:
    source = Source(f"https://data.example/{name}")
    convert = lambda row: dict(row)  # noqa: E731
    return Benchmark(name=name.partition(".")[0], title="own", domain="math", sources=(source,), convert=convert)


def test_urls(hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(site()) as url:
        monkeypatch.setenv(MIRROR, url)
        found = prepare(by_url("rows.csv"))
        assert found.path.read_bytes() == b'{"question":"1 + 1","answer":"2"}\n' and found.revision.startswith(
            "sha256:"
        )
        monkeypatch.setenv("GYM_LLM_MAX_EXPANSION", "10")
        for name, said in (
            ("bomb.zip", "expands to more than"),
            ("around.csv", "leads round in a circle"),
            ("missing.csv", "answers 404"),
        ):
            with pytest.raises(DataError, match=said):
                prepare(by_url(name))
        monkeypatch.setenv("GYM_LLM_MAX_FILE_BYTES", "10")
        with pytest.raises(DataError, match="GYM_LLM_MAX_FILE_BYTES"):
            prepare(by_url("rows.csv"), update=True)
    assert not list(tmp_path.parent.rglob("evil.jsonl"))
    monkeypatch.setenv(MIRROR, "http://127.0.0.1:9")
    with pytest.raises(DataError, match="Offline, set GYM_LLM_BENCHMARKS=DIR"):
        prepare(by_url("other.csv"))


def test_all_recipes_of_urls_name_an_encrypted_place() -> None:
    plain = Source("http://data.example/rows.csv")
    recipe = Benchmark(name="own", title="own", domain="math", sources=(plain,), convert=lambda row: dict(row))
    with pytest.raises(DataError, match="not encrypted"):
        prepare(recipe)
    assert find_benchmark("ifeval").sources[0].place.startswith("https://")


def test_a_recipe_s_digest_covers_the_modules_it_imports() -> None:
    for name, others in (
        ("ruler", {"ruler_lengths.py", "ruler_texts.py"}),
        ("mmlu_prox", {"mmlu.py"}),
        ("aime25", set()),
    ):
        own, *beside = prepared._modules(find_benchmark(name).convert)
        assert {path.name for path in beside} == others, own
