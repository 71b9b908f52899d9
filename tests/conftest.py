"""Makes the shared helpers importable by their names, as `from testing import message`; and one Ray for all tests.

Not by putting tests/ on sys.path: there, its folder gym_llm would shadow the package in this process and its children.
"""

import faulthandler
import importlib
import importlib.abc
import importlib.util
import os
import signal
import sys
import threading
import zlib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A worker for each core (pytest-xdist): torch's threads of several workers would wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Shards import the environments in this folder by name: it is on the Python path of Ray's workers.
_IMPORTABLE = str(Path(__file__).with_name("importable"))
sys.path.append(_IMPORTABLE)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_IMPORTABLE, os.environ.get("PYTHONPATH", "")]))

_HERE = Path(__file__).parent
_TURNS = 3  # as in .ci/tests


class _Helpers(importlib.abc.MetaPathFinder):
    """Finds the modules beside this file by their names, when a test first imports one."""

    def find_spec(self, fullname, path, target=None):
        file = _HERE / f"{fullname}.py"
        return importlib.util.spec_from_file_location(fullname, file) if fullname in _HELPERS else None


_HELPERS = {file.stem for file in _HERE.glob("*.py") if not file.name.startswith(("conftest", "test_"))}
sys.meta_path.insert(0, _Helpers())
peers = importlib.import_module("peers")

# The same examples in every run: what CI finds can be found again. HYPOTHESIS_PROFILE=search looks for others.
# A busy machine draws slowly, which says nothing about a test.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", max_examples=5_000)
# `make test-all` has GYM_LLM_TESTS=all: every test plays as many cases as it can (`often` in testing.py).
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# A shell that starts the tests in the background leaves Ctrl-C ignored, for our children too; tests of it need it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def _over_ray(item):
    """Whether a test needs the Ray that one worker starts."""
    chosen = item.get_closest_marker("xdist_group")
    in_its_folders = (
        item.path.is_relative_to(_HERE / "gym_llm" / "rollouts" / "ray") or item.path.parent.name == "vector"
    )
    return "ray" in item.fixturenames or in_its_folders or (chosen is not None and chosen.args == ("ray",))


def _group(item):
    """The tests that one worker plays in a row: all with Ray, all of a verifier, all of a file."""
    chosen = item.get_closest_marker("xdist_group")
    if _over_ray(item):
        return "ray"
    if chosen is not None:
        return chosen.args[0]
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return parameters.get("env_id", item.path.relative_to(_HERE).as_posix())


def _turn(item):
    """In which of three turns a slow test is played."""
    return zlib.crc32(peers.without_group(item.nodeid).encode()) % _TURNS


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(config, items):
    """Mark what is slow, take this commit's share of it, and begin with the long groups.

    So no worker is left with a long group at the end.
    """
    cost = Counter()
    for item in items:
        group = _group(item)
        if _over_ray(item) or item.get_closest_marker("nightly") or item.get_closest_marker("timing"):
            item.add_marker("slow")
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))
        cost[group] += 10 if item.get_closest_marker("slow") else 0.1
    if (turn := os.environ.get("GYM_LLM_TURN")) is not None:
        later = [item for item in items if item.get_closest_marker("slow") and _turn(item) != int(turn)]
        config.hook.pytest_deselected(items=later)
        left_out = set(later)
        items[:] = [item for item in items if item not in left_out]
    if hasattr(config, "workerinput"):
        cost["ray"] = 1e9
        items.sort(key=lambda item: (-cost[group := _group(item)], group))


def pytest_collection_finish(session):
    """Refuse to go on without groups: each worker would start what one starts for all, and take twice as long.

    And refuse tests/ on sys.path: its folder `vllm` would be the package of that name, and its tests would be played.
    """
    if str(_HERE) in sys.path:
        raise pytest.UsageError("A module that the tests import has put tests/ on sys.path.")
    if hasattr(session.config, "workerinput") and session.items and "@" not in session.items[0].nodeid:
        raise pytest.UsageError("This pytest-xdist does not group tests with this pytest: see pyproject.toml.")


@pytest.hookimpl(tryfirst=True)  # before pytest remembers what has failed
def pytest_runtest_logreport(report):
    """Take the group from a test's name: `--last-failed` plays a test again by the name that it has alone."""
    if "PYTEST_XDIST_WORKER" not in os.environ:  # a worker compares it with the test's
        report.nodeid = peers.without_group(report.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Remember which tests with other packages passed (tests/peers.py)."""
    report = yield
    if report.when == "call" and report.passed and (test := peers.without_group(item.nodeid)) in peers.used:
        peers.note_passed(test)
    return report


def pytest_sessionfinish(exitstatus):
    """A process that does not end after its tests says where it hangs, and ends: CI would wait until it is killed.

    A worker of pytest-xdist waits for the others, and its parent ends it.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        return

    def give_up():
        faulthandler.dump_traceback(all_threads=True)
        os._exit(int(exitstatus))

    hanging = threading.Timer(180, give_up)
    hanging.daemon = True
    hanging.start()


@pytest.hookimpl(trylast=True)  # after the fixtures
def pytest_runtest_teardown(item, nextitem):
    """Close what environments share and leave open, after the tests of a verifier or of a file.

    Worker processes take a second to start, so these tests share them.
    """
    resources = sys.modules.get("gym_llm.concurrency.resources")
    stays = nextitem is not None and _group(nextitem) == _group(item)
    if resources is not None and not stays and resources.open_resources():
        resources._close_all()


@pytest.fixture(scope="session")
def ray():
    """Ray on this machine, or the test is skipped."""
    from gym_llm.errors import RayUnavailable
    from gym_llm.rollouts.ray.connection import connect

    try:
        module = connect()
    except RayUnavailable as error:
        pytest.skip(f"Ray cannot start here: {error}")
    yield module
    module.shutdown()
