from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from gym_llm.data.files.jsonl import dumps
from gym_llm.data.files.rollout_file import RolloutFile
from gym_llm.errors import DataError


def record(task: int, **fields):
    return {"rollout_id": {"task_index": task, "repeat_index": 0}, "reward": 1.0, "error": None, **fields}


def test_records_come_back(tmp_path):
    with RolloutFile(tmp_path / "deep" / "er" / "a.jsonl") as file:
        file.append(record(0, text="\ud800"))
        file.append(record(1))
        assert list(file.records()) == [record(0, text="\ud800"), record(1)]


def test_a_file_with_records_is_only_opened_to_be_resumed(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(dumps(record(0)))
    with pytest.raises(DataError, match="already exists"):
        RolloutFile(path)
    assert path.read_bytes() == dumps(record(0))
    with RolloutFile(path, resume=True) as file:
        file.append(record(1))
    assert path.read_bytes() == dumps(record(0)) + dumps(record(1))


def test_an_unfinished_last_line_is_cut_off(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(dumps(record(0)) + dumps(record(1))[:-4])
    with RolloutFile(path, resume=True) as file:
        file.append(record(2))
    assert path.read_bytes() == dumps(record(0)) + dumps(record(2))


def test_a_file_in_use_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(dumps(record(0)))
    with RolloutFile(path, resume=True) as file:
        file.append(record(1))
        with open(path, "ab") as torn:
            torn.write(b"half")  # what a second process may see while the first is writing
        with pytest.raises(DataError, match="is being written by another process"):
            RolloutFile(path, resume=True)
        assert path.read_bytes().endswith(b"half")
    RolloutFile(path, resume=True).close()


def test_the_lock_goes_with_the_process(tmp_path):
    path = tmp_path / "a.jsonl"
    code = (
        "import sys, time; from gym_llm.data.files.rollout_file import RolloutFile\n"
        "file = RolloutFile(sys.argv[1]); file.append({'rollout_id': {}, 'reward': 0}); print('open', flush=True)\n"
        "time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"open\n"
    with pytest.raises(DataError, match="another process"):
        RolloutFile(path, resume=True)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    RolloutFile(path, resume=True).close()


def test_of_many_that_open_at_once_one_gets_the_file(tmp_path):
    files, refused, barrier = [], [], threading.Barrier(8)

    def open_it():
        barrier.wait()
        try:
            files.append(RolloutFile(tmp_path / "a.jsonl"))
        except DataError as error:
            refused.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(files), len(refused)) == (1, 7)
    files[0].close()


def test_an_empty_file_does_not_stay(tmp_path):
    RolloutFile(tmp_path / "a.jsonl").close()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "b.jsonl").touch()  # what a kill before the first record leaves
    with RolloutFile(tmp_path / "b.jsonl") as file:
        file.append(record(0))
    assert (tmp_path / "b.jsonl").read_bytes() == dumps(record(0))


def test_keeping_some_records_keeps_their_bytes_and_the_lock(tmp_path):
    path = tmp_path / "a.jsonl"
    odd = b'{"rollout_id": {"task_index": 5, "repeat_index": 0},   "reward": 0.10}\n'
    path.write_bytes(dumps(record(0, error="x")) + odd + dumps(record(2, error="y")))
    with RolloutFile(path, resume=True) as file:
        assert file.keep(lambda kept: not kept.get("error")) == 2
        assert path.read_bytes() == odd
        with pytest.raises(DataError, match="another process"):
            RolloutFile(path, resume=True)
        file.append(record(3))
    assert path.read_bytes() == odd + dumps(record(3))
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_failure_while_keeping_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(dumps(record(0)) + dumps(record(1)))

    def wanted(kept):
        if kept["rollout_id"]["task_index"] == 1:
            raise KeyboardInterrupt
        return False

    with RolloutFile(path, resume=True) as file:
        with pytest.raises(KeyboardInterrupt):
            file.keep(wanted)
        file.append(record(2))
    assert path.read_bytes() == dumps(record(0)) + dumps(record(1)) + dumps(record(2))
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("line", [b"{}\n", b"[1]\n", b"not json\n", b'{"responses_create_params": {"input": "x"}}\n'])
def test_a_line_that_is_no_rollout_is_named(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_bytes(dumps(record(0)) + line)
    with RolloutFile(path, resume=True) as file, pytest.raises(DataError, match=r"a\.jsonl, line 2 is no rollout"):
        list(file.records())


def test_the_summary_lies_beside_the_file_and_is_replaced_whole(tmp_path):
    with RolloutFile(tmp_path / "a.jsonl") as file:
        assert file.summary_path == tmp_path / "a.summary.json"
        assert file.read_summary() == {}
        file.write_summary({"episodes": 1})
        file.write_summary({"episodes": 2})
        assert file.read_summary() == {"episodes": 2} == json.loads(file.summary_path.read_text())
        for broken in ("", '{"episodes"', "[1]"):
            file.summary_path.write_text(broken)
            assert file.read_summary() == {}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.summary.json"]


def test_a_name_without_the_ending_keeps_its_own_summary(tmp_path):
    with RolloutFile(tmp_path / "a.b") as file:
        assert file.summary_path.name == "a.b.summary.json"


def test_a_full_disk_is_one_sentence(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    with RolloutFile(tmp_path / "a.jsonl") as file:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, file._descriptor)
        os.close(full)
        with pytest.raises(DataError, match=r"Cannot write .*a\.jsonl: No space left"):
            file.append(record(0))


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="Cannot write"):
        RolloutFile(tmp_path / "file" / "a.jsonl")
    with pytest.raises(DataError, match="Is a directory"):
        RolloutFile(tmp_path)
