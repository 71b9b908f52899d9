from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from gym_llm.data.files.atomic import write_atomically
from gym_llm.errors import DataError
from gym_llm.records.rollout_file import RolloutFile
from gym_llm.utils.json_codec import dumps


def record(task: int, **fields):
    number = {"task_index": task, "repeat_index": 0}
    failure = {"failure_kind": None, "error": None, "error_phase": None, "traceback": None}
    return {"rollout_id": number, "outcome": "scored", "reward": 1.0, **failure, "schema_version": 2, **fields}


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
            torn.write(b'{"half')  # what a second process may see while the first is writing
        with pytest.raises(DataError, match="is being written by another process"):
            RolloutFile(path, resume=True)
        assert path.read_bytes().endswith(b'{"half')
    RolloutFile(path, resume=True).close()


def test_the_lock_goes_with_the_process(tmp_path):
    path = tmp_path / "a.jsonl"
    code = (
        "import sys, time; from gym_llm.records.rollout_file import RolloutFile\n"
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
    masked = {"outcome": "masked", "reward": None, "error": "x"}
    path.write_bytes(dumps(record(0, **masked)) + odd + dumps(record(2, **masked)))
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
    with RolloutFile(path, resume=True) as file, pytest.raises(DataError, match=r"a\.jsonl, line 2 is not a rollout"):
        list(file.records())


def test_the_summary_lies_beside_the_file_and_is_replaced_whole(tmp_path):
    with RolloutFile(tmp_path / "a.jsonl") as file:
        assert file.summary_path == tmp_path / "a.summary.json"
        assert file.read_summary() == {}
        file.write_summary({"episodes": 1})
        file.write_summary({"episodes": 2})
        written = {"output": "a.jsonl", "episodes": 2}
        assert file.read_summary() == written == json.loads(file.summary_path.read_text())
        for broken in ("", '{"episodes"', "[1]", '{"settings": 5}', '{"datasets": {"a": 1}}'):
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
    with pytest.raises(DataError, match="it is a folder"):
        RolloutFile(tmp_path)


# -- what is not ours ----------------------------------------------------------------------------------------------


def test_a_run_that_recorded_nothing_leaves_another_s_file_alone(tmp_path):
    path = tmp_path / "a.jsonl"
    first = RolloutFile(path)
    path.unlink()
    with RolloutFile(path) as second:
        second.append(record(0))
    first.close()
    assert path.read_bytes() == dumps(record(0))


@pytest.mark.parametrize("text", ["hello", '{"a": 1}', '{"a": 1}\nhello', "[1, 2]", '"{'])
def test_what_is_no_half_record_is_not_cut_off(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with RolloutFile(path, resume=True) as file:
        with pytest.raises(DataError, match=r"notes\.txt, line 1 is not a rollout"):
            list(file.records())
        with pytest.raises(DataError, match="its last line"):
            file.append(record(0))
    assert path.read_text() == text


@pytest.mark.parametrize("tail", [dumps(record(1))[:-1], dumps(record(1))[:20], b"{", b"  ", b"\0" * 4096])
def test_what_a_kill_or_a_power_failure_left_is_no_record_and_is_cut_off_by_the_first_write(tmp_path, tail):
    path = tmp_path / "a.jsonl"
    path.write_bytes(dumps(record(0)) + tail)
    with RolloutFile(path, resume=True) as file:
        assert list(file.records()) == [record(0)]
        assert path.read_bytes() == dumps(record(0)) + tail
        file.append(record(1))
        assert list(file.records()) == [record(0), record(1)]


@pytest.mark.parametrize("kind", ["a device", "a pipe", "a socket", "a folder", "a place for devices and streams"])
def test_what_is_no_file_is_refused_and_stays(tmp_path, kind):
    path = tmp_path / "a.jsonl"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener, open(tmp_path / "log", "ab") as log:
        match kind:
            case "a device":
                try:
                    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))  # a /dev/null to lose
                except PermissionError:
                    pytest.skip("devices are root's to make")
            case "a pipe":
                os.mkfifo(path)
            case "a socket":
                listener.bind(str(path))
            case "a folder":
                path.mkdir()
            case _:
                path = Path(f"/dev/fd/{log.fileno()}")
        before = os.stat(path)
        for open_it in (RolloutFile, partial(write_atomically, data=b"")):
            with pytest.raises(DataError, match=f"Cannot write {path}: it is {kind}; name a file"):
                open_it(path)
        assert os.path.samestat(os.stat(path), before)
    assert {entry.name for entry in tmp_path.iterdir()} <= {"a.jsonl", "log"}


def test_what_this_program_prints_to_is_refused(tmp_path):
    code = "import sys; from gym_llm.records.rollout_file import RolloutFile\nRolloutFile(sys.argv[1])"
    with open(tmp_path / "a.jsonl", "wb") as out:
        ended = subprocess.run([sys.executable, "-c", code, out.name], stdout=out, stderr=subprocess.PIPE, text=True)
    assert "a.jsonl: stdout goes there, too; name another file." in ended.stderr


# -- what becomes of it meanwhile ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["removed", "renamed", "replaced", "its folder removed"])
def test_an_output_that_is_not_there_any_more_is_told(tmp_path, how):
    folder = tmp_path / "runs"
    path, elsewhere = folder / "a.jsonl", tmp_path / "b.jsonl"
    file = RolloutFile(path)
    file.append(record(0))
    match how:
        case "removed":
            path.unlink()
        case "renamed":
            path.rename(elsewhere)
        case "replaced":
            elsewhere.write_bytes(b"theirs")
            elsewhere.rename(path)
        case _:
            shutil.rmtree(folder)
    sentence = "another file is in its place" if how == "replaced" else "it was renamed or removed"
    with pytest.raises(DataError, match=rf"a\.jsonl is no longer this run.s file: {sentence}"):
        file.append(record(1))
    with pytest.raises(DataError, match=sentence):
        file.write_summary({})
    file.close()  # it has been told
    if how == "renamed":
        assert elsewhere.read_bytes() == dumps(record(0)) + dumps(record(1))
    if how == "replaced":
        assert path.read_bytes() == b"theirs"
    assert not list(tmp_path.rglob("*.summary.json"))


def test_an_output_that_vanishes_after_the_last_record_is_told_when_it_is_closed(tmp_path):
    file = RolloutFile(tmp_path / "a.jsonl")
    file.append(record(0))
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(DataError, match="it was renamed or removed"):
        file.close()


def test_a_program_that_changes_its_folder_writes_to_the_same_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with RolloutFile("a.jsonl") as file:
        monkeypatch.chdir("elsewhere")
        file.append(record(0))
        file.write_summary({"episodes": 1})
        assert file.keep(lambda kept: False) == 1
    assert {entry.name for entry in tmp_path.rglob("*")} == {"a.summary.json", "elsewhere"}


# -- links ---------------------------------------------------------------------------------------------------------


def test_a_link_stays_one_and_the_file_behind_it_is_the_one_that_is_written(tmp_path):
    behind, link = tmp_path / "deep" / "real.jsonl", tmp_path / "a.jsonl"
    behind.parent.mkdir()
    behind.write_bytes(dumps(record(0)) + dumps(record(1)))
    behind.chmod(0o640)
    link.symlink_to(behind)
    (tmp_path / "deep" / "summary").touch()
    (tmp_path / "a.summary.json").symlink_to(tmp_path / "deep" / "summary")
    with RolloutFile(link, resume=True) as file:
        assert file.keep(lambda kept: kept["rollout_id"]["task_index"] == 1) == 1
        file.append(record(2))
        file.write_summary({"episodes": 2})
        with pytest.raises(DataError, match="another process"):
            RolloutFile(behind, resume=True)
    assert link.is_symlink() and (tmp_path / "a.summary.json").is_symlink()
    assert behind.read_bytes() == dumps(record(1)) + dumps(record(2))
    assert stat.S_IMODE(behind.stat().st_mode) == 0o640
    assert json.loads((tmp_path / "deep" / "summary").read_text())["episodes"] == 2
    assert sorted(entry.name for entry in behind.parent.iterdir()) == ["real.jsonl", "summary"]


def test_a_link_to_nothing_gets_a_file_behind_it_that_does_not_stay_empty(tmp_path):
    link = tmp_path / "a.jsonl"
    link.symlink_to(tmp_path / "real.jsonl")
    RolloutFile(link).close()
    assert link.is_symlink() and not (tmp_path / "real.jsonl").exists()
    with RolloutFile(link) as file:
        file.append(record(0))
    assert link.is_symlink() and (tmp_path / "real.jsonl").read_bytes() == dumps(record(0))


# -- summaries and records -----------------------------------------------------------------------------------------


def test_a_file_and_one_with_the_ending_do_not_share_a_summary(tmp_path):
    (tmp_path / "a").mkdir()
    with RolloutFile(tmp_path / "a.jsonl") as file:  # beside a folder of its name
        file.append(record(0))
        file.write_summary({"episodes": 1})
    (tmp_path / "a").rmdir()
    with pytest.raises(DataError, match=r"a\.summary\.json is the summary of a\.jsonl; name another file than .*/a\."):
        RolloutFile(tmp_path / "a")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a", "a.jsonl", "a.summary.json"]


def test_of_two_that_begin_at_once_the_second_is_told_when_it_writes_the_summary(tmp_path):
    with RolloutFile(tmp_path / "a") as one, RolloutFile(tmp_path / "a.jsonl") as other:
        other.write_summary({"episodes": 1})
        with pytest.raises(DataError, match=r"is the summary of a\.jsonl"):
            one.write_summary({"episodes": 2})


def test_a_summary_of_an_earlier_version_is_read_and_not_taken_over_by_a_new_file(tmp_path):
    (tmp_path / "a").write_bytes(dumps(record(0)))
    (tmp_path / "a.summary.json").write_text('{"episodes": 1}')
    with RolloutFile(tmp_path / "a", resume=True) as file:
        assert file.read_summary() == {"episodes": 1}
    with pytest.raises(DataError, match="is the summary of a; name another file"):
        RolloutFile(tmp_path / "a.jsonl")


def test_an_episode_that_is_there_twice_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(dumps(record(0)) + dumps(record(0, dataset="a")) + b"\n" + dumps(record(0)))
    with RolloutFile(path, resume=True) as file, pytest.raises(DataError, match=r"a\.jsonl: lines 1 and 4"):
        list(file.records())


# -- a full disk ---------------------------------------------------------------------------------------------------


def test_after_a_full_disk_the_next_record_is_not_written_behind_half_of_one(tmp_path):
    path = tmp_path / "a.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with RolloutFile(path) as file:
        file.append(record(0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(dumps(record(0))) + 10, before[1]))
        try:
            with pytest.raises(DataError, match=r"Cannot write .*a\.jsonl: File too large\. The records before"):
                file.append(record(1))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert path.stat().st_size == len(dumps(record(0))) + 10
        file.append(record(2))
    assert path.read_bytes() == dumps(record(0)) + dumps(record(2))
