"""Damaged, hostile and slow places get one sentence, and nothing is lost in silence."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from hub_server import serving

from gym_llm.data.files.mapping import parse_mapping
from gym_llm.data.recipes import fetching, prepared
from gym_llm.data.recipes.catalogue import find_benchmark
from gym_llm.data.recipes.fetching import MIRROR
from gym_llm.data.recipes.offline import convert_files
from gym_llm.data.recipes.prepared import COPIES, prepare
from gym_llm.data.recipes.recipe import Benchmark, Source
from gym_llm.errors import DataError, UsageError

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("recipes_hub")]


def damaged() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.jsonl", "".join(json.dumps({"n": n}) + "\n" for n in range(20_000)))
    data = bytearray(file.getvalue())
    data[2_000:2_400] = bytes(400)
    return bytes(data)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    async def body(request: web.Request) -> web.StreamResponse:
        name = request.path.rpartition("/")[2]
        if name == "away.jsonl":
            raise web.HTTPFound("ftp://elsewhere.example/rows.jsonl")
        if name == "slow.jsonl":
            response = web.StreamResponse(headers={"Content-Length": "1000000"})
            await response.prepare(request)
            for _ in range(100):
                await response.write(b" ")
                await asyncio.sleep(0.05)
            return response
        bodies = {
            "damaged.zip": damaged(),
            "page.jsonl": b"<!doctype html><p>gone</p>",
            "rows.jsonl": b'{"n": 1}\n',
            "long.jsonl": json.dumps({"n": "x" * 3_000}).encode(),
            "broken.json": b'{"n": ',
        }
        return web.Response(body=bodies[name])

    app = web.Application()
    app.router.add_get("/{path:.*}", body)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(COPIES, raising=False)
    with serving(app) as url:
        monkeypatch.setenv(MIRROR, url)
        yield url


def by_url(name: str) -> Benchmark:
    source = Source(f"https://data.example/{name}")
    convert = lambda row: {"n": row["n"] * 2}  # noqa: E731
    return Benchmark(name=name.partition(".")[0], title="own", domain="math", sources=(source,), convert=convert)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("damaged.zip", "damaged.zip is damaged"),
        ("away.jsonl", "leads to ftp://elsewhere.example/rows.jsonl, which is not fetched"),
        ("page.jsonl", "page.jsonl, line 1: not JSON"),
        ("broken.json", "broken.json is not JSON"),
    ],
)
def test_damaged_places(place: str, name: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        prepare(by_url(name))


def test_a_place_that_trickles_is_left(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "_SECONDS", 1.0)
    with pytest.raises(DataError, match="sends less than 1,000 bytes per second"):
        prepare(by_url("slow.jsonl"))


def test_a_server_that_speaks_no_http(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import socket
    import threading

    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            connection.recv(1_000)
            connection.sendall(b"hello\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        monkeypatch.setenv(MIRROR, f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(DataError, match="could not be read"):
            prepare(by_url("rows.jsonl"))
        thread.join()
    monkeypatch.setenv(MIRROR, "not a url")
    with pytest.raises(UsageError, match="is an address"):
        prepare(by_url("rows.jsonl"))


def test_a_task_that_could_not_be_read_again_is_not_written(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYM_LLM_MAX_ROW_BYTES", "5000")
    with pytest.raises(DataError, match=r"task 0 is longer than .* GYM_LLM_MAX_ROW_BYTES"):
        prepare(by_url("long.jsonl"))


def test_a_damaged_lock_is_not_written_over(place: str) -> None:
    prepare(by_url("rows.jsonl"))
    lock = prepared.cache_folder() / "benchmarks.lock"
    for content in ("{broken", '{"rows": 5}', '{"rows": {"revisions": 3}}', '{"rows": {"raw": "a"}}'):
        lock.write_text(content)
        with pytest.raises(DataError, match="is damaged"):
            prepare(by_url("rows.jsonl"), update=True)
        assert lock.read_text() == content


@pytest.mark.parametrize("about", ['{"digest": 5}', '{"digest": "a", "rows": 1}', "[]"])
def test_a_damaged_description_is_fetched_again(place: str, about: str) -> None:
    first = prepare(by_url("rows.jsonl"))
    (first.path.parent / "benchmark.json").write_text(about)
    assert prepare(by_url("rows.jsonl")).digest == first.digest


def test_variants_stay_in_the_cache() -> None:
    for name in ("m_arena_hard:../../../evil", "m_arena_hard:/tmp/x", "m_arena_hard:."):
        with pytest.raises(UsageError, match=r"has no variant|There is no benchmark"):
            find_benchmark(name)
    folder = prepared._folder(Path("/cache"), find_benchmark("livecodebench_x:v5/de"))
    assert folder == Path("/cache/livecodebench_x--v5--de")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"loader": ["x"], "raw": [[]]}', "an object for each list"),
        ('{"loader": 5, "raw": [[]]}', "an object for each list"),
        ('{"loader": [{}], "raw": [5]}', "a list of lists"),
    ],
)
def test_described_loads_are_checked(tmp_path: Path, line: str, said: str) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_text(line)
    with pytest.raises(DataError, match=said):
        list(convert_files(find_benchmark("aime25"), [raw]))


def test_loads_of_no_source_are_left_out(tmp_path: Path) -> None:
    row = {"id": "nile", "name": "Nile", "subtask": "01", "score": 6, "problem": "Cross it."}
    loader = [
        {"args": ["open-r1/ioi"], "split": "test"},
        {"url": "https://example.org/run"},
        {"url": "https://example.org/compile"},
        {"args": ["open-r1/ioi-test-cases"], "name": "2024", "split": "train"},
    ]
    raw = tmp_path / "raw.jsonl"
    raw.write_text(json.dumps({"loader": loader, "raw": [[row], [{"text": "#!"}], [{"text": "#!"}], []]}))
    (task,) = convert_files(find_benchmark("ioi"), [raw])
    assert task["problem_id"] == "nile"


def test_an_invalid_pattern_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="is not a regular expression"):
        parse_mapping("a|regex(()=expected_answer")
