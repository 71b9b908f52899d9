"""Makes the shared helpers importable by their names, as `from testing import message`; and one Ray for all tests.

Not by putting tests/ on sys.path: there, its folder gym_llm would shadow the package in this process and its children.
"""

import faulthandler
import importlib.util
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import settings

# Shards import the environments in this folder by name: it is on the Python path of Ray's workers.
_IMPORTABLE = str(Path(__file__).with_name("importable"))
sys.path.append(_IMPORTABLE)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_IMPORTABLE, os.environ.get("PYTHONPATH", "")]))

for _name in (
    "testing",
    "verifier_vectors",
    "hostile",
    "hostile_serving",
    "growth",
    "token_conversations",
    "cli_process",
    "rollout_commands",
    "hub_server",
    "model_server",
    "played",
    "judging",
    "constraint_cases",
    "harbor_tasks",
    "peers",
    "mcp_toolbox",
    "nemo_client",
    "agent_playing",
    "conformance_pairs",
):
    _spec = importlib.util.spec_from_file_location(_name, Path(__file__).with_name(f"{_name}.py"))
    assert _spec is not None and _spec.loader is not None
    sys.modules[_name] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[_name])

# The same examples in every run: what CI finds can be found again. HYPOTHESIS_PROFILE=search looks for others.
settings.register_profile("same", derandomize=True)
settings.register_profile("search", max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# A shell that starts the tests in the background leaves Ctrl-C ignored, for our children too; tests of it need it.
signal.signal(signal.SIGINT, signal.default_int_handler)


_HERE = Path(__file__).parent
_ALONE = [
    *(_HERE / "gym_llm" / name for name in ("cli", "engines", "trainers", "view")),
    *(_HERE / name for name in ("docs", "downstream", "examples", "vllm")),
]
"""Where slow tests need the machine for themselves: they train, sample, drive a browser or stop processes in time."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items):
    """Tests with Ray are slow. With several processes (`-n`) they are one's; so are a verifier's, and a file's.

    Of the slow ones, those that are neither with Ray nor in `_ALONE` are played beside others, too (`make test`).
    """
    for item in items:
        chosen = item.get_closest_marker("xdist_group")
        over_ray = "ray" in item.fixturenames or item.path.parent.name in ("ray", "vector")
        over_ray = over_ray or (chosen is not None and chosen.args == ("ray",))
        if over_ray:
            item.add_marker("slow")
        elif not any(item.path.is_relative_to(place) for place in _ALONE):
            item.add_marker("parallel")
        if chosen is None:
            parameters = item.callspec.params if hasattr(item, "callspec") else {}
            group = "ray" if over_ray else parameters.get("env_id", item.path.stem)
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_sessionfinish(exitstatus):
    """A process that does not end after its tests says where it hangs, and ends: CI would wait until it is killed."""

    def give_up():
        faulthandler.dump_traceback(all_threads=True)
        os._exit(int(exitstatus))

    hanging = threading.Timer(180, give_up)
    hanging.daemon = True
    hanging.start()


@pytest.fixture(autouse=True)
def nothing_stays_open():
    """What a test's environments share, and leave open, is closed: others count what is open."""
    yield
    resources = sys.modules.get("gym_llm.concurrency.resources")
    if resources is not None and resources.open_resources():
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
