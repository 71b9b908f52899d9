"""A Ray that was started here loses parts, or its driver: the run ends in order, and nothing stays behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from gym_llm.rollouts.run import Run

pytestmark = [pytest.mark.slow, pytest.mark.timing]
STUB = Path(__file__).parents[4] / "benchmarks" / "chat_stub.py"
EPISODES = 1_000_000
LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def until(happened, seconds=90.0):
    """Wait for something; fail if it does not happen."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"not within {seconds} seconds"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def url():
    """A server that always says the same."""
    with subprocess.Popen([sys.executable, "-P", str(STUB)], stdout=subprocess.PIPE, text=True) as process:
        yield json.loads(process.stdout.readline())["base_url"]
        process.terminate()


class Driver:
    """A process that plays over a Ray of its own."""

    def __init__(self, folder, *command):
        self.output = folder / "out.jsonl"
        self.stdout, self.stderr = folder / "stdout.txt", folder / "stderr.txt"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment["HOME"] = str(folder)
        with self.stdout.open("w") as out, self.stderr.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-P", *command], env=environment, stdout=out, stderr=err, cwd=folder
            )
        self.seen = set()

    def parts(self):
        """All that it has started and still runs."""
        self.seen.update(psutil.Process(self.process.pid).children(recursive=True))
        return [process for process in self.seen if process.is_running()]

    def kill(self, name):
        """Kill one of its processes, which leaves it no time."""
        next(process for process in self.parts() if process.name() == name).kill()

    def records(self):
        """How many episodes have finished."""
        return self.output.read_bytes().count(b"\n") if self.output.exists() else 0

    def play(self, records=200):
        """Wait until it is in the midst of playing."""
        until(lambda: self.records() > records or self.process.poll() is not None)
        assert self.process.poll() is None, self.stderr.read_text()

    def ended(self, seconds=30.0):
        """Its exit code; it has to end by itself."""
        return self.process.wait(seconds)

    def left(self):
        """What it has started and still runs."""
        names = []
        for process in self.seen:
            try:
                if process.status() != psutil.STATUS_ZOMBIE:
                    names.append(process.name())
            except psutil.NoSuchProcess:
                pass
        return names

    def leaves_nothing(self):
        """Wait until nothing of it runs any more, nor lies in shared memory; of its session logs are kept."""
        until(lambda: not self.left(), 15.0)
        assert not [name for name in os.listdir("/dev/shm") if "plasma" in name]
        (session,) = Path("/tmp/ray").glob(f"session_2*_{self.process.pid}")
        until(lambda: [path.name for path in session.iterdir()] == ["logs"], 15.0)

    def close(self):
        """Leave nothing behind, whatever was wrong."""
        if self.process.poll() is None:
            self.parts()
            self.process.kill()
            self.process.wait()
        for process in self.seen:
            if process.is_running():
                process.kill()


@pytest.fixture
def driver(tmp_path, url):
    """One that plays for a long time on the command line."""
    arguments = ["--episodes", str(EPISODES), "--concurrency", "16", "--workers", "2", "--output", "out.jsonl"]
    command = ["-m", "gym_llm.cli", "rollout", "gym_llm/Arithmetic-v0", "--engine", url, *arguments, "--quiet"]
    driver = Driver(tmp_path, *command)
    yield driver
    driver.close()


def resumable(driver, url):
    """Whether another run would play exactly what is missing."""
    records = driver.records()
    with Run("gym_llm/Arithmetic-v0", url, episodes=EPISODES, output=driver.output, resume=True) as run:
        return records > 0 and run.remaining == EPISODES - records


@pytest.mark.parametrize("part", ["raylet", "gcs_server"])
def test_a_part_of_ray_that_is_killed_ends_the_run_with_one_sentence_and_leaves_nothing(driver, url, part):
    driver.play()
    driver.kill(part)
    code, said = driver.ended(), driver.stderr.read_text()
    assert code == 1, said
    assert said.startswith(f"Ended: The Ray that was started here is gone: its {part} (process "), said
    assert "Resume with: gym-llm rollout" in said and said.count("\n") == 1 and driver.stdout.read_text() == ""
    driver.leaves_nothing()
    assert resumable(driver, url)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_obeyed_also_when_ray_is_dying(driver, url, number):
    driver.play()
    if number == signal.SIGINT:
        driver.kill("raylet")
    driver.parts()
    driver.process.send_signal(number)
    code, said = driver.ended(), driver.stderr.read_text()
    assert code in (130, 75) and said.startswith("Interrupted: ") and said.count("\n") == 1, said
    driver.leaves_nothing()
    assert resumable(driver, url)


def test_ray_listens_to_this_machine_only_and_to_who_knows_its_token_and_ends_with_a_killed_driver(driver, tmp_path):
    driver.play()
    processes = [psutil.Process(driver.process.pid), *driver.parts()]
    listening = [
        connection.laddr
        for process in processes
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) >= 6 and {address.ip for address in listening} <= LOOPBACK
    gcs = next(process for process in processes if process.name() == "gcs_server")
    token = gcs.environ()["RAY_AUTH_TOKEN"]
    assert len(token) == 64 and not any(token in " ".join(process.cmdline()) for process in processes)
    assert "RAY_AUTH_TOKEN" not in psutil.Process(driver.process.pid).environ()
    assert not (tmp_path / ".ray").exists()
    port = next(listener.laddr.port for listener in gcs.net_connections("tcp") if listener.status == psutil.CONN_LISTEN)
    asks = f"from ray._raylet import GcsClient; print(GcsClient('127.0.0.1:{port}').internal_kv_keys(b'', None))"
    environment = {**os.environ, "HOME": str(tmp_path)}
    stranger = subprocess.run(
        [sys.executable, "-c", asks], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert stranger.returncode and "uthenticat" in stranger.stderr and not stranger.stdout
    driver.parts()
    driver.process.kill()
    driver.process.wait()
    driver.leaves_nothing()


ORPHAN = """
import os, sys, time, psutil
from gym_llm.rollouts.ray import connection as session
while os.getppid() == int(sys.argv[2]):
    time.sleep(0.01)
session.connect()
watch = session.watch()
next(child for child in psutil.Process().children() if child.name() == "raylet").kill()
while watch.lost is None:
    time.sleep(0.05)
watch.stop(60)
open(sys.argv[1], "w").write("alive")
"""


def test_a_driver_without_a_parent_outlives_its_raylet(tmp_path):
    """As under `nohup`, or as the only child of a container's first process."""
    start = "import os, subprocess, sys; subprocess.Popen([*sys.argv[1:], str(os.getpid())], start_new_session=True)"
    command = [sys.executable, "-P", "-c", start, sys.executable, "-P", "-c", ORPHAN, str(tmp_path / "said")]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    until(lambda: (tmp_path / "said").exists() and (tmp_path / "said").read_text() == "alive", 150.0)
