from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys

import gymnasium as gym
import pytest
from testing import row

from gym_llm.data.files.reading import parse_source, read_objects, read_rows, slice_source
from gym_llm.errors import DataError
from gym_llm.utils.limits import LIMITS, ROW_BYTES

ROWS = [{"n": n, "text": "é" * n} for n in range(10)]
LINES = [json.dumps(row).encode() + b"\n" for row in ROWS]


def write(path, data: bytes):
    """Write bytes to a file, compressed as its name says."""
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        data = pytest.importorskip("zstandard").ZstdCompressor().compress(data)
    path.write_bytes(data)
    return path


def write_parquet(path, rows, **options):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, **options)
    return path


ALL = ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet"]


def make(tmp_path, name):
    path = tmp_path / name
    return write_parquet(path, ROWS, row_group_size=3) if name.endswith("parquet") else write(path, b"".join(LINES))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("start", "end"), [(None, None), (0, 3), (3, None), (4, 5), (2, 7), (9, 99), (10, None), (5, 5)]
)
def test_every_format_gives_the_same_rows(tmp_path, name, start, end):
    path = make(tmp_path, name)
    expected = list(enumerate(ROWS, 1))[start:end]
    assert list(read_objects(path, start=start, end=end)) == expected
    assert list(read_objects(slice_source(str(path), start, end))) == expected
    assert [(number, json.loads(line)) for number, line in read_rows(path, start=start, end=end)] == expected


def test_a_slice_in_the_name_is_replaced_by_arguments(tmp_path):
    path = make(tmp_path, "a.jsonl")
    assert [number for number, _ in read_rows(f"{path}[2:5]", end=4)] == [3, 4]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
def test_lines_come_as_they_are(tmp_path, name):
    lines = [b"\xef\xbb\xbf{}\r\n", b"\n", b"not json \xff\n", b"[1]\n", b"  \n", b"last"]
    path = write(tmp_path / name, b"".join(lines))
    assert list(read_rows(path)) == list(enumerate(lines, 1))


def test_objects_are_numbered_by_line_and_empty_lines_are_passed_over(tmp_path):
    path = write(tmp_path / "a.jsonl", b'{"a":1}\n\n \r\n{"b":2}')
    assert list(read_objects(path)) == [(1, {"a": 1}), (4, {"b": 2})]
    assert list(read_objects(path, start=3)) == [(4, {"b": 2})]


@pytest.mark.parametrize(
    ("line", "problem"), [(b"{", "not JSON"), (b"[1]", "got list"), (b"null", "got NoneType"), (b"\xff", "not JSON")]
)
def test_a_line_that_is_no_object_is_named(tmp_path, line, problem):
    path = write(tmp_path / "a.jsonl.gz", b"{}\n" + line + b"\n")
    with pytest.raises(DataError, match=rf"a\.jsonl\.gz, line 2: .*{problem}"):
        list(read_objects(path))


@pytest.mark.parametrize("excess", [1, 2, 100, 1000])
def test_a_line_that_is_too_long_is_cut_off_and_the_next_is_read(tmp_path, monkeypatch, excess):
    monkeypatch.setenv(ROW_BYTES, "100")
    path = write(tmp_path / "a.jsonl", b"{}\n" + b"x" * (99 + excess) + b"\n{}\n")
    (_, first), (_, cut), (number, last) = read_rows(path)
    assert (first, len(cut), number, last) == (b"{}\n", 101, 3, b"{}\n")
    with pytest.raises(DataError, match="line 2: longer than"):
        list(read_objects(path))


def test_a_line_of_exactly_the_longest_length_is_whole(tmp_path, monkeypatch):
    monkeypatch.setenv(ROW_BYTES, "100")
    path = write(tmp_path / "a.jsonl", b"x" * 99 + b"\n" + b"y" * 100)
    assert [line for _, line in read_rows(path)] == [b"x" * 99 + b"\n", b"y" * 100]
    assert LIMITS[ROW_BYTES].default >= 1 << 24


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst"])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.99])
def test_a_compressed_file_that_is_cut_off_is_an_error(tmp_path, name, part):
    path = write(tmp_path / name, os.urandom(300_000).hex().encode())
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * part)])
    with pytest.raises(DataError, match="is cut off"):
        list(read_rows(path))


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "a.parquet"])
def test_a_file_that_is_not_what_its_name_says_is_an_error(tmp_path, name):
    if name.endswith("zst"):
        pytest.importorskip("zstandard")
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    path.write_bytes(b"".join(LINES))
    with pytest.raises(DataError, match=rf"{name} (cannot be decompressed|is not a readable parquet file)"):
        list(read_rows(path))


@pytest.mark.parametrize("name", ALL)
def test_a_file_that_is_missing_is_named(tmp_path, name):
    with pytest.raises(DataError, match=r"Cannot read .*No such file"):
        list(read_rows(tmp_path / name))


def test_several_frames_are_one_file(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(b"".join(zstandard.ZstdCompressor().compress(line) for line in LINES))
    assert [line for _, line in read_rows(path)] == LINES
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(b"".join(map(gzip.compress, LINES)))
    assert [line for _, line in read_rows(path)] == LINES


TABLE = [
    {
        "responses_create_params": {
            "input": [{"role": "user", "content": "a"}],
            "tools": [{"type": "function", "name": "f", "parameters": {"properties": {"city": {"type": "string"}}}}],
        },
        "expected_answer": None,
    },
    {
        "responses_create_params": {
            "input": [{"role": "user", "content": "b", "type": "message"}],
            "tools": [{"type": "function", "name": "g", "parameters": {"properties": {"count": {"type": "integer"}}}}],
            "temperature": 0.5,
        },
        "expected_answer": "4",
    },
]


def test_a_table_gives_back_the_rows_that_were_put_in(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", TABLE)
    assert [row for _, row in read_objects(path)] == TABLE


@pytest.fixture
def hub(tmp_path):
    """A dataset in a folder, as `datasets.load_dataset` takes one."""
    pytest.importorskip("datasets")
    folder = tmp_path / "org" / "name"
    folder.mkdir(parents=True)
    write_parquet(folder / "train.parquet", TABLE)
    return folder


@pytest.mark.slow
def test_a_dataset_is_streamed_through_the_datasets_library(hub, tmp_path):
    sources = [f"hf:{hub}", f"hf:{hub}:train[1:]", "hf:nobody/nothing", f"hf:{hub}:test"]
    code = (
        "import sys, json\nfrom gym_llm.data.files.reading import DataError, read_objects\n"
        "for source in sys.argv[1:]:\n"
        "    try: print(json.dumps(list(read_objects(source))))\n"
        "    except DataError as error: print(error)\n"
        "import gymnasium, gym_llm\n"
        "print(gymnasium.make('gym_llm/Weather-v0', tasks=sys.argv[1]).unwrapped.num_tasks)"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", code, *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    whole, part, unknown, no_split, count = done.stdout.splitlines()[-5:]
    assert json.loads(whole) == [[1, TABLE[0]], [2, TABLE[1]]]
    assert json.loads(part) == [[2, TABLE[1]]]
    assert unknown.startswith("Cannot load hf:nobody/nothing (")
    assert no_split.startswith(f"Cannot load hf:{hub}:test (")
    assert count == "2"


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet"])
def test_an_environment_plays_any_source(tmp_path, name):
    rows = [row(f"{n}?", options=[{"A": "one"}, {"B": "two"}], expected_answer="AB"[n % 2]) for n in range(4)]
    path = tmp_path / name
    if name.endswith("parquet"):
        write_parquet(path, rows)
    else:
        write(path, b"".join(json.dumps(task).encode() + b"\n" for task in rows))
    env = gym.make("gym_llm/MultipleChoice-v0", tasks=str(path)).unwrapped
    assert env.num_tasks == 4
    part = gym.make("gym_llm/MultipleChoice-v0", tasks=f"{path}[1:3]").unwrapped
    assert part.num_tasks == 2
    observation, _ = part.reset(options={"task_index": 0})
    assert observation["input"][0]["content"] == "1?"


def test_a_wrong_row_of_a_part_is_named_by_its_line(tmp_path):
    path = write(tmp_path / "a.jsonl.gz", b"{}\n" * 3)
    with pytest.raises(DataError, match=r"a\.jsonl\.gz, line 3: the row has no"):
        gym.make("gym_llm/Weather-v0", tasks=f"{path}[2:]")


def test_a_source_is_taken_apart():
    assert parse_source("a[1].jsonl") == ("a[1].jsonl", 0, None, False, "")
    assert parse_source("a.jsonl[:5]") == ("a.jsonl", 0, 5, False, "")
    assert parse_source("hf:org/name:test[5:]") == ("org/name:test", 5, None, True, "")
    assert parse_source("a.csv[2:]?map=q=input") == ("a.csv", 2, None, False, "q=input")


def test_memory_does_not_grow_with_the_file(tmp_path):
    code = """
import sys
from gym_llm.data.files.reading import read_rows
def peak():  # KiB; getrusage's peak would be the parent's
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
for _ in read_rows(sys.argv[1], end=1000): pass
before = peak()
count = sum(len(line) for _, line in read_rows(sys.argv[1]))
print(count, (peak() - before) // 1024)
"""
    zstandard = pytest.importorskip("zstandard")
    row = json.dumps({"text": "x" * 2000}).encode() + b"\n"
    path = tmp_path / "a.jsonl.zst"
    with open(path, "wb") as file, zstandard.ZstdCompressor().stream_writer(file) as writer:
        for _ in range(100):
            writer.write(row * 1000)
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    size, grown = map(int, done.stdout.split())
    assert size == 100_000 * len(row)
    assert grown < 40
