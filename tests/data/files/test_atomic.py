from __future__ import annotations

import fcntl
import os

import pytest

from gym_llm.data.files import atomic
from gym_llm.data.files.atomic import new_path, replacing
from gym_llm.errors import DataError


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as file:
        file.write(b"half")
        file.flush()
        assert path.read_bytes() == b"old"
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    with replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_two_that_replace_a_file_at_once_do_not_mix(tmp_path):
    with (
        replacing(tmp_path / "a") as file,
        pytest.raises(DataError, match=r"/a is being written by another process"),
        replacing(tmp_path / "a"),
    ):
        file.write(b"first")
    with replacing(tmp_path / "a") as file:
        file.write(b"second")
    assert (tmp_path / "a").read_bytes() == b"second"


def test_what_another_process_finished_between_opening_and_locking_stays_whole(tmp_path, monkeypatch):
    path, temporary, lock = tmp_path / "a", tmp_path / ".a.tmp", fcntl.flock
    temporary.write_bytes(b"theirs")

    def late(descriptor, operation):
        monkeypatch.setattr(atomic.fcntl, "flock", lock)
        os.replace(temporary, path)
        lock(descriptor, operation)

    monkeypatch.setattr(atomic.fcntl, "flock", late)
    with replacing(path) as file:
        file.write(b"ours")
        assert path.read_bytes() == b"theirs"
    assert path.read_bytes() == b"ours"


@pytest.mark.parametrize("ending", ["", ".jsonl"])
def test_runs_of_one_name_in_one_second_get_paths_of_their_own(tmp_path, ending):
    paths = [new_path(str(tmp_path / "runs" / "sums"), ending) for _ in range(5)]
    assert len(set(paths)) == 5 and all(os.path.exists(path) and path.endswith(ending) for path in paths)
