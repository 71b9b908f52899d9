"""Listing a rollout file: what is read of its lines, while it is written, and from the index beside it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from testing import message_item

from gym_llm.concurrency.processes import ProcessPool
from gym_llm.errors import DataError, UsageError
from gym_llm.evaluation.view import index as index_module
from gym_llm.evaluation.view import scan
from gym_llm.evaluation.view.episode_page import episode_json
from gym_llm.evaluation.view.episode_table import MOST_FIELDS, EpisodeRow, EpisodeTable
from gym_llm.evaluation.view.index import RunIndex, index_paths, load_index, scan_pool
from gym_llm.utils.json_codec import dumps


def episode(task: int = 0, repeat: int = 0, **fields: Any) -> dict[str, Any]:
    reward = fields.get("reward", 1.0)
    return {
        "responses_create_params": {"input": [{"role": "user", "content": f"Question {task}"}]},
        "level": "hard" if task % 2 else "easy",
        "response": {
            "output": [message_item(f"Answer {task}.{repeat}")],
            "usage": {"input_tokens": 10, "output_tokens": task},
        },
        "rollout_id": {"task_index": task, "repeat_index": repeat},
        "env_id": "test/Env-v0",
        "outcome": "masked" if reward is None else "scored",
        "reward": reward,
        "terminated": True,
        "truncated": False,
        "failure_kind": "verifier_error" if reward is None else None,
        "error": "It broke." if reward is None else None,
        "error_phase": None,
        "traceback": None,
        "info": {"turn": 2, "tool_errors": 1, "extracted_answer": str(task), "score": task / 2, "is_good": True},
        "trajectory": [{"input_ids": [1, 2, task], "loss_mask": [0, 1, 1], "logprobs": [0.0, -0.5, -1.5]}],
        "timing": {"total": 0.5, "engine": 0.25},
        "schema_version": 2,
        **fields,
    }


def write(path: Path, records: list[Any], mode: str = "wb") -> Path:
    with open(path, mode) as file:
        file.writelines(record if isinstance(record, bytes) else dumps(record) for record in records)
    return path


def opened(path: Path, pool: ProcessPool | None = None) -> RunIndex:
    run = RunIndex(path)
    asyncio.run(run.update(pool))
    return run


def rows(run: RunIndex) -> list[dict[str, Any]]:
    return run.table.rows(range(len(run.table)))


def table_of(rows: list[EpisodeRow]) -> EpisodeTable:
    table = EpisodeTable()
    table.add(rows)
    return table


def outcomes(run: RunIndex) -> list[str]:
    return [row["outcome"] for row in rows(run)]


def test_a_row_says_what_the_list_shows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [episode(3, 1, dataset="maths"), episode(4, reward=None, timing={})])
    first, second = rows(opened(path))
    assert first == {
        **{"n": 0, "outcome": "scored", "task": 3, "repeat": 1, "turns": 2, "tool_errors": 1, "tokens": 13},
        **{"dataset": "maths", "env_id": "test/Env-v0", "failure_kind": None, "reward": 1.0, "seconds": 0.5},
        **{"bytes": len(path.read_bytes().splitlines()[0]), "answer": "3", "preview": "Answer 3.1", "error": None},
        **{"output_tokens": 3, "prompt": "Question 3"},
        "fields": {"score": 1.5, "is_good": 1, "level": "hard"},
    }
    assert (second["outcome"], second["reward"], second["failure_kind"]) == ("masked", None, "verifier_error")
    assert (second["dataset"], second["seconds"]) == ("", None)


def test_an_episode_that_said_nothing_is_listed_with_its_error(tmp_path: Path) -> None:
    lost = {name: value for name, value in episode(reward=None).items() if name != "response"}
    assert rows(opened(write(tmp_path / "a.jsonl", [lost])))[0]["preview"] == "It broke."


def test_lines_that_are_no_records_are_listed_with_the_reason(tmp_path: Path) -> None:
    lines: list[Any] = [b"{not json\n", b"\n", b"5\n", episode(), b"\xff\xfe\n", b"[" * 100_000 + b"\n"]
    lines += [episode(outcome="won"), episode(schema_version=99), {"a": 1}, episode(trajectory=[{"logprobs": ["x"]}])]
    run = opened(write(tmp_path / "a.jsonl", lines))
    expected = ["unreadable", "unreadable", "scored", *["unreadable"] * 5, "scored"]
    assert outcomes(run) == expected
    for n, outcome in enumerate(expected):
        shown = json.loads(episode_json(run, n))
        if outcome == "unreadable":
            assert rows(run)[n]["preview"].startswith("cannot be read: ")
            assert rows(run)[n]["task"] is None and rows(run)[n]["reward"] is None
            assert shown["view_error"].startswith("cannot be read: ") and isinstance(shown["view_text"], str)
        else:
            assert shown["rollout_id"] == {"task_index": 0, "repeat_index": 0}


def test_a_trajectory_that_is_not_json_is_told_when_its_episode_is_looked_at(tmp_path: Path) -> None:
    line = dumps(episode()).replace(b"[1,2,0]", b"[1,,0]")
    run = opened(write(tmp_path / "a.jsonl", [line]))
    assert outcomes(run) == ["scored"]
    assert json.loads(episode_json(run, 0))["view_error"] == "cannot be read: it is not JSON"


TRAPS: dict[str, dict[str, Any]] = {
    "a text that looks like a trajectory": {"text": ',"trajectory":[{"input_ids":[1]}],"reward":5.0'},
    "a field of an info": {"info": {"turn": 7, "trajectory": [{"input_ids": [5]}], "last": "kept"}},
    "a text in the trajectory": {"trajectory": [{"note": 'x]}],"turn":9', "input_ids": [1]}]},
    "objects in the trajectory": {"trajectory": [{"parts": [{"input_ids": [1]}], "last": [1]}]},
    "an empty one": {"trajectory": []},
    "none": {"trajectory": None},
    "several segments": {"trajectory": [{"input_ids": [1], "loss_mask": [1], "logprobs": [-0.5]}] * 3},
    "last": {"schema_version": 2, "trajectory": [{"input_ids": [1], "loss_mask": [1], "logprobs": [-0.5]}]},
    "columns of a wrapper": {"trajectory": [{"input_ids": [1], "loss_mask": [1], "logprobs": [-0.5], "versions": [3]}]},
    "rewards of turns": {"trajectory": [{"input_ids": [1], "loss_mask": [1], "logprobs": [-0.5], "rewards": [1.0]}]},
    "items with spans": {"response": {"output": [{**message_item("Hi"), "trajectory_span": [0, 1, 2]}]}},
    "a span to nowhere": {"response": {"output": [{**message_item("Hi"), "trajectory_span": [9, 9, 9]}]}},
}


@pytest.mark.parametrize("name", TRAPS)
def test_cutting_out_the_trajectory_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is what the whole line says."""
    line = dumps({**episode(5), **TRAPS[name]})[:-1]
    found = []
    for find in (scan.find_trajectory, lambda line: (len(line), 0)):
        monkeypatch.setattr(scan, "find_trajectory", find)
        found += scan.read_line(0, line)
    one, other = found
    assert table_of([one]).row(0) == table_of([other]).row(0)
    cut, length = one.cut, one.cut_length
    assert json.loads(line[:cut] + line[cut + length :])["rollout_id"]["task_index"] == 5


def test_lines_are_found_wherever_a_part_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random.seed(0)
    lines = [random.choice([dumps(episode(n, text="x" * random.randrange(300))), b"\n", b"no\n"]) for n in range(12)]
    path = write(tmp_path / "a.jsonl", [*lines, dumps(episode(99))[:-1]])
    whole = [row for _, rows in scan.scan(path, 0, path.stat().st_size) for row in rows]
    for block in (64, 1000, 1 << 20):
        monkeypatch.setattr(scan, "BLOCK", block)
        for part in (61, 777, 5000):
            parts = [scan.scan_part((str(path), at, at + part)) for at in range(0, path.stat().st_size, part)]
            assert max(end for end, _ in parts) == path.stat().st_size - len(dumps(episode(99))) + 1
            assert [row for _, rows in parts for row in rows] == whole


def test_a_line_that_is_too_long_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LONGEST_LINE", 5000)
    monkeypatch.setattr(scan, "BLOCK", 1000)
    run = opened(write(tmp_path / "a.jsonl", [episode(0), episode(1, text="x" * 20_000), episode(2)]))
    assert outcomes(run) == ["scored", "unreadable", "scored"]
    assert "bytes, and the viewer reads lines of up to 5,000" in rows(run)[1]["preview"]


def test_a_record_too_large_for_a_browser_is_cut(tmp_path: Path) -> None:
    large = episode(0, text="x" * 17_000_000, numbers=list(range(6000)))
    run = opened(write(tmp_path / "a.jsonl", [large]))
    shown = episode_json(run, 0)
    assert len(shown) < 1_000_000
    record = json.loads(shown)
    assert record["view_note"].startswith("This record has 17,0") and record["reward"] == 1.0
    assert record["text"].endswith("… (17,000,000 characters)") and len(record["numbers"]) == 5000


def test_hostile_fields_are_bounded(tmp_path: Path) -> None:
    info = {f"field {n}": n for n in range(1000)} | {"\ud800": "\ud800", "huge": 10**300, "x" * 500: 1}
    run = opened(write(tmp_path / "a.jsonl", [episode(0, info=info, env_id="e" * 5000), episode(1, info={"z": 1})]))
    assert len(run.table.fields) == MOST_FIELDS
    assert len(rows(run)[0]["env_id"]) == 200
    dumps(rows(run))


# -- sorting -----------------------------------------------------------------------------------------------------------


def test_rows_are_sorted_by_any_column_with_the_missing_last(tmp_path: Path) -> None:
    records = [
        episode(0, reward=0.5, info={"score": 3, "mark": "b"}),
        episode(1, reward=None, info={"mark": 5}),
        episode(2, reward=1.0, info={"score": -1.5, "mark": "a"}),
        b"broken\n",
        episode(3, reward=0.5, info={"score": 7, "mark": 2}),
    ]
    table = opened(write(tmp_path / "a.jsonl", records)).table

    def order(name: str, descending: bool = False) -> list[int]:
        _, found = table.find("1", [], sort=name, descending=descending, offset=0, limit=9)
        return [row["n"] for row in found]

    assert order("n", True) == [4, 3, 2, 1, 0]
    assert order("reward") == [0, 4, 2, 1, 3]
    assert order("reward", True) == [2, 0, 4, 1, 3]
    assert order("score") == [2, 0, 4, 1, 3]
    assert order("mark") == [4, 1, 2, 0, 3]  # numbers before texts
    assert order("level") == [0, 2, 1, 4, 3]
    assert order("level", True) == [1, 4, 0, 2, 3]
    assert order("task", True) == [4, 2, 1, 0, 3]
    assert order("outcome") == [0, 2, 4, 1, 3]
    with pytest.raises(KeyError):
        order("nothing")


@pytest.mark.parametrize("name", ["n", "task", "answer", "dataset", "outcome", "reward", "bytes"])
def test_a_table_without_rows_can_be_sorted(name: str) -> None:
    assert EpisodeTable().find("1", [], sort=name, descending=True, offset=0, limit=9) == (0, [])


# -- following ---------------------------------------------------------------------------------------------------------


def test_a_file_that_is_written_is_followed(tmp_path: Path) -> None:
    async def follow() -> None:
        path = write(tmp_path / "a.jsonl", [])
        run = RunIndex(path)
        assert not await run.update() and len(run.table) == 0 and run.indexed == 1.0
        line = dumps(episode(1))
        write(path, [episode(0), line[:100]], "ab")
        assert await run.update() and outcomes(run) == ["scored"]
        assert not await run.update()
        write(path, [line[100:-1]], "ab")  # whole, but for its newline
        assert await run.update() and outcomes(run) == ["scored"] * 2
        write(path, [b"\n", episode(2)], "ab")
        assert await run.update() and [row["task"] for row in rows(run)] == [0, 1, 2]
        assert [json.loads(episode_json(run, n))["rollout_id"]["task_index"] for n in range(3)] == [0, 1, 2]
        run.close()

    asyncio.run(follow())


@pytest.mark.parametrize("how", ["replaced", "rewritten", "cut", "written over, and longer"])
def test_another_file_of_the_same_name_is_noticed(tmp_path: Path, how: str) -> None:
    async def follow() -> None:
        path = write(tmp_path / "a.jsonl", [episode(n) for n in range(10)])
        run = RunIndex(path)
        await run.update()
        generation = run.generation
        if how == "replaced":
            os.replace(write(tmp_path / "b.jsonl", [episode(7)]), path)
        elif how == "cut":
            os.truncate(path, 10)
            with pytest.raises(DataError, match="was cut short"):
                run.line(5, 1000)
            write(path, [b"", b"\n", episode(7)])
        else:
            write(path, [episode(7, text="x" * (1 if how == "rewritten" else 100_000))])
        assert await run.update()
        assert [row["task"] for row in rows(run)] == [7] and run.generation > generation
        run.close()

    asyncio.run(follow())


def test_a_file_that_is_removed_stays_as_it_was_seen(tmp_path: Path) -> None:
    async def follow() -> None:
        run = RunIndex(write(tmp_path / "a.jsonl", [episode(5)]))
        await run.update()
        os.unlink(run.path)
        assert not await run.update()
        assert json.loads(episode_json(run, 0))["rollout_id"]["task_index"] == 5
        run.close()

    asyncio.run(follow())


@pytest.mark.parametrize("kind", ["folder", "pipe", "nothing"])
def test_what_is_no_file_is_refused_in_a_sentence(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.jsonl"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(UsageError, match=r"Cannot (read|show) .*x\.jsonl"):
        RunIndex(path)


# -- the index beside it -----------------------------------------------------------------------------------------------


@pytest.fixture
def saves_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Indexes are written for files of any size, and parts are small."""
    monkeypatch.setattr(index_module, "SAVED_FROM", 0)
    monkeypatch.setattr(index_module, "PART", 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the reading of lines has begun."""
    begun: list[int] = []
    real = index_module.scan_open

    def counted(descriptor: int, start: int, stop: int, **options: Any) -> Any:
        begun.append(start)
        return real(descriptor, start, stop, **options)

    monkeypatch.setattr(index_module, "scan_open", counted)
    return begun


def test_a_saved_index_says_the_same_as_the_file(tmp_path: Path, saves_all: None, scans: list[int]) -> None:
    records = [episode(n, dataset=f"d{n % 3}", reward=None if n % 4 == 0 else n / 10) for n in range(40)]
    path = write(tmp_path / "a.jsonl", [*records, b"broken\n"])
    before = rows(opened(path))
    assert (tmp_path / ".a.jsonl.index").exists()
    assert rows(opened(path)) == before
    write(path, [episode(50)], "ab")
    assert [row["n"] for row in rows(opened(path))] == list(range(42))
    size = path.stat().st_size
    assert scans[0] == 0 and 0 < scans[1] == scans[2] < size  # only what is new was read


def test_an_index_is_no_more_readable_than_its_file(tmp_path: Path, saves_all: None) -> None:
    path = write(tmp_path / "a.jsonl", [episode()])
    path.chmod(0o600)
    opened(path)
    assert (tmp_path / ".a.jsonl.index").stat().st_mode & 0o777 == 0o600


def test_an_index_goes_to_the_cache_where_the_folder_is_not_to_be_written(tmp_path: Path, saves_all: None) -> None:
    path = write(tmp_path / "a.jsonl", [episode()])
    (tmp_path / ".a.jsonl.index").mkdir()  # for root every folder can be written
    opened(path)
    assert index_paths(path)[1].is_relative_to(tmp_path / "cache") and index_paths(path)[1].exists()
    assert len(opened(path).table) == 1


def test_an_index_of_another_file_is_not_used(tmp_path: Path, saves_all: None, scans: list[int]) -> None:
    path = write(tmp_path / "a.jsonl", [episode(n) for n in range(5)])
    opened(path)
    os.replace(write(tmp_path / "b.jsonl", [episode(9) for n in range(5)]), path)
    assert [row["task"] for row in rows(opened(path))] == [9] * 5
    assert scans == [0, 0]


def test_a_broken_or_hostile_index_is_not_used(tmp_path: Path, saves_all: None) -> None:
    path = write(tmp_path / "a.jsonl", [episode(n) for n in range(8)])
    run = opened(path)
    before, place = rows(run), tmp_path / ".a.jsonl.index"
    good = place.read_bytes()

    def refused(data: bytes) -> None:
        place.write_bytes(data)
        with pytest.raises(ValueError, match=r"index|database"):
            load_index(place, EpisodeTable())

    refused(b"")
    refused(good[:-1])
    refused(good + b"x")
    refused(good[:100] + bytes([good[100] ^ 1]) + good[101:])
    random.seed(1)
    for _ in range(200):  # changes with a right checksum
        data = bytearray(good[16:])
        for _ in range(random.choice([1, 2, 8])):
            data[random.randrange(len(data))] = random.randrange(256)
        place.write_bytes(blake2b(bytes(data), digest_size=16).digest() + bytes(data))
        table = EpisodeTable()
        with suppress(ValueError):
            end = load_index(place, table)["end"]
            dumps(table.rows(range(len(table))))  # wrong perhaps, but nowhere that is not there
            assert all(offset + length <= end for offset, length in table.select("offset, length"))
        opened(path)
    place.unlink()
    os.mkfifo(place)
    assert rows(opened(path)) == before


@pytest.mark.parametrize(
    "change",
    [
        *(f"UPDATE episodes SET {each}" for each in ("offset = 1 << 40", "length = -1", "cut = -5", "offset = 7")),
        "UPDATE episodes SET cut_length = 1 << 62",
        "UPDATE episodes SET outcome = 9",
        "UPDATE episodes SET n = 99 WHERE n = 7",
        "DELETE FROM meta",
        "CREATE TRIGGER t AFTER DELETE ON meta BEGIN DELETE FROM episodes; END",
        "DROP TABLE episodes",
    ],
)
def test_a_wrong_column_is_noticed(tmp_path: Path, saves_all: None, change: str) -> None:
    path = write(tmp_path / "a.jsonl", [episode(n) for n in range(8)])
    before, place = rows(opened(path)), tmp_path / ".a.jsonl.index"
    database = sqlite3.connect(":memory:")
    database.deserialize(place.read_bytes()[16:])
    database.execute("PRAGMA ignore_check_constraints = ON")
    database.execute(change)
    database.commit()
    data = database.serialize()
    place.write_bytes(blake2b(data, digest_size=16).digest() + data)
    with pytest.raises(ValueError, match=r"index|database"):
        load_index(place, EpisodeTable())
    assert rows(opened(path)) == before


@pytest.mark.slow
def test_worker_processes_read_a_large_file(tmp_path: Path, saves_all: None) -> None:
    path = write(tmp_path / "a.jsonl", [episode(n, text="x" * 500) for n in range(50)] + [b"broken\n", b'{"torn'])
    with scan_pool() as pool:
        in_workers = rows(opened(path, pool))
    (tmp_path / ".a.jsonl.index").unlink()
    assert in_workers == rows(opened(path)) and len(in_workers) == 51


def test_a_summary_that_is_a_link_is_not_followed(tmp_path):
    from gym_llm.evaluation.view.run_files import read_summary

    private, linked, own = (tmp_path / name for name in ("private.json", "a.summary.json", "b.summary.json"))
    private.write_text('{"key": "mine"}')
    linked.symlink_to(private)
    own.write_text('{"episodes": 1}')
    assert read_summary(tmp_path / "a.jsonl") is None
    assert read_summary(tmp_path / "b.jsonl") == {"episodes": 1}
