"""Parquet files whose few bytes stand for much more, and other files that take more than they seem to."""

import json
import subprocess
import sys

import gymnasium as gym
import pytest

from gym_llm.data.files import parquet
from gym_llm.data.files.parquet import read_parquet
from gym_llm.data.files.reading import read_objects, read_rows
from gym_llm.errors import DataError, UsageError
from gym_llm.utils.limits import EXPANSION, LIMITS, ROW_BYTES, WINDOW_BYTES

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
zstandard = pytest.importorskip("zstandard")
MIB = 1 << 20
MAX_ROW_BYTES = LIMITS[ROW_BYTES].default
TEXT = "x" * MIB


def write(path, columns, **options):
    pq.write_table(pa.table(columns), path, compression="zstd", **options)
    return path


def rows(path):
    return [row for _, row in read_objects(path)]


@pytest.mark.slow
def test_large_rows_are_read_as_they_are(tmp_path):
    expected = [{"a": TEXT, "b": [TEXT, str(n)], "c": {"d": TEXT}} for n in range(40)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(expected), path, row_group_size=30)
    assert rows(path) == expected
    assert [row for _, row in read_objects(path, start=29, end=32)] == expected[29:32]


def test_rows_that_are_small_then_large_then_small_are_all_there(tmp_path):
    expected = [{"a": TEXT * 2 if 100 <= n < 150 else f"text {n % 7}", "n": n} for n in range(300)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(expected), path)
    assert rows(path) == expected


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["y" * (MAX_ROW_BYTES + 1)]),
        pa.array([[TEXT] * 33]),
        pa.array([[{"a": TEXT}] * 33]),
        pa.array([[0] * 5_000_000], pa.list_(pa.int32())),
        pa.array([[None] * 5_000_000], pa.list_(pa.null())),
    ],
    ids=["text", "list", "objects", "numbers", "nulls"],
)
def test_a_row_that_is_too_large_is_named(tmp_path, column):
    with pytest.raises(DataError, match=r"a\.parquet has a row of more than 32 MiB in row group 0"):
        rows(write(tmp_path / "a.parquet", {"a": column}))


@pytest.mark.parametrize(
    "column",
    [pa.array(["y" * (70 * MIB)]), pa.array([[0] * 20_000_000], pa.list_(pa.int32()))],
    ids=["bytes", "values"],
)
def test_content_far_larger_than_the_file_is_refused_and_the_variable_named(tmp_path, monkeypatch, column):
    path = write(tmp_path / "a.parquet", {"a": column})
    with pytest.raises(DataError, match=f"over 1,000 times: see {EXPANSION}"):
        rows(path)
    monkeypatch.setenv(EXPANSION, "1000000")
    with pytest.raises(DataError, match="more than 32 MiB"):
        rows(path)
    monkeypatch.setenv(EXPANSION, "many")
    with pytest.raises(UsageError, match="is a whole number"):
        rows(path)


def test_every_kind_of_column_is_read(tmp_path):
    expected = [
        {"a": [[n], []], "b": {"c": None, "d": True}, "e": 0.5, "f": None, "g": ["x", None]} for n in range(200)
    ]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(expected), path, row_group_size=90)
    assert list(read_parquet(str(path), 0, MAX_ROW_BYTES)) == expected
    assert parquet._BATCH_ROWS < 90


def test_a_million_wrong_rows_are_not_all_read(tmp_path):
    """Of a file of 2 KB; the limit of memory is what one such run may take beyond its imports."""
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(b'{"responses_create_params":1}\n' * 1_000_000))
    assert path.stat().st_size < 4_000
    with pytest.raises(DataError, match=r"line 1: .*\(and 1000 more rows and perhaps others after 1,000 wrong ones\)"):
        gym.make("gym_llm/Weather-v0", tasks=str(path))


def test_a_window_that_is_too_large_is_a_sentence_and_the_variable_allows_it(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl.zst"
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=30)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path.write_bytes(compressor.compress(b"{}\n" * 10) + compressor.flush())
    with pytest.raises(DataError, match="window is larger than 128 MiB, compress it again without --long"):
        list(read_rows(path))
    monkeypatch.setenv(WINDOW_BYTES, str(1 << 30))
    assert len(list(read_rows(path))) == 10


_CHILD = """
import sys
import gymnasium, gym_llm, pyarrow.parquet, zstandard
from gym_llm.errors import DataError, UsageError
from gym_llm.utils.limits import EXPANSION, LIMITS, ROW_BYTES, WINDOW_BYTES
from gym_llm.data.files.reading import read_rows
gymnasium.make("gym_llm/Weather-v0").reset(seed=0)
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024
before = peak()
for path in sys.argv[1:]:
    try:
        gymnasium.make("gym_llm/Weather-v0", tasks=path)
    except DataError as error:
        print(str(error)[:100], file=sys.stderr)
print(peak() - before)
"""


@pytest.mark.slow
def test_memory_stays_small_whatever_a_file_holds(tmp_path):
    """Each of these is some KB, and would take up to 1.5 GB."""
    one = pa.DictionaryArray.from_arrays(pa.array([0] * 400, pa.int32()), pa.array([TEXT]))
    wide = {str(n): pa.array([TEXT[:n] + TEXT] * 2) for n in range(40)}
    files = [
        write(tmp_path / "rows.parquet", {"a": one}),
        write(tmp_path / "wide.parquet", wide),
        write(tmp_path / "list.parquet", {"a": pa.array([[TEXT] * 1_500])}),
        write(tmp_path / "nulls.parquet", {"a": pa.nulls(3_000_000, pa.int32())}),
        tmp_path / "a.jsonl.zst",
    ]
    lines = b"".join(json.dumps({"n": n}).encode() + b"\n" for n in range(1_000)) * 4_000
    files[-1].write_bytes(zstandard.ZstdCompressor().compress(lines))
    assert all(file.stat().st_size < 60_000 for file in files)
    done = subprocess.run([sys.executable, "-c", _CHILD, *map(str, files)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 5, done.stderr
    assert int(done.stdout) < 400
