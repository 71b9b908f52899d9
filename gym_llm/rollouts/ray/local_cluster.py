"""A local Ray: private to this process, and ended with it, however the process ends."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from gym_llm.rollouts.ray import reaper
from gym_llm.rollouts.ray.ray_health import Watch, is_connected

_ANSWERS = "gcs_server"
"""The last to be ended: who asks a GCS that is gone waits for a minute, in C, and then Ray ends it, with status 1."""
_VITAL = ("raylet", _ANSWERS)
_NICENESS = "RAY_worker_niceness"
_PERIOD = 0.25
_GRACE = 2.0  # until nobody waits any more for a Ray that is gone
_ENDING_SECONDS = 20.0


class LocalCluster:
    """Starts a Ray that listens on this machine's loopback interface only, and there to who knows its token.

    If its raylet or GCS ends, what is left of it is ended, too: a Ray that is begun anew shall find the memory free.
    Should this process be killed, the reaper does what `end` would have done.

    Args:
        ray: The module.

    Raises:
        Exception: What Ray's start runs into.

    Attributes:
        watch: Looks after it.
    """

    def __init__(self, ray: Any) -> None:
        from ray._private import worker

        self._ray = ray
        self._process = os.getpid()
        self._ended = False
        before = {child.pid for child in psutil.Process().children()}
        with _only_for_us():
            context = ray.init(
                address="local",
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=False,
            )
        worker._global_node.kill_log_monitor()  # it reads all logs, again and again, for a driver that shows none
        self.session = Path(context.address_info["session_dir"])
        children = [child for child in psutil.Process().children() if child.pid not in before]
        self._vital = {name: child for child in children if (name := child.name()) in _VITAL}
        self._reaper = subprocess.Popen(
            [sys.executable, "-P", reaper.__file__, str(self.session), str(self._process)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # Ctrl-C is not for it
        )
        self.watch = Watch(ray, context.address_info["gcs_address"], self.find_loss, _PERIOD, self._end_lost)
        self._show, worker.print_to_stdstream = worker.print_to_stdstream, _say_nothing
        atexit.register(self.end)

    def end(self) -> None:
        """End it, if it has not ended yet. Its logs are kept, and nothing else."""
        if self._ended or os.getpid() != self._process:  # not in a process that was forked from this one
            return
        from ray._private import worker

        self._ended = True
        self.watch.stop(_ENDING_SECONDS)
        if self.find_loss():
            reaper.end_processes(self.session, _ANSWERS)
        self._shut_down()
        reaper.end(self.session)
        _forget_token()
        worker.print_to_stdstream = self._show
        self._reaper.kill()
        self._reaper.wait()
        atexit.unregister(self.end)

    def _shut_down(self) -> None:
        if is_connected(self._ray, self.watch.address):
            self._ray.shutdown()

    def find_loss(self) -> str | None:
        """See `Watch`."""
        for name, process in self._vital.items():
            if not _runs(process) and is_connected(self._ray, self.watch.address):  # else `ray.shutdown` has ended it
                return (
                    f"The Ray that was started here is gone: its {name} (process {process.pid}) has ended, see "
                    f"{self.session / 'logs'}."
                )
        return None

    def _end_lost(self) -> None:
        from ray._private import worker

        reaper.end_processes(self.session, _ANSWERS)
        if sys.excepthook is worker.custom_excepthook:  # it would report to the GCS, and wait for it
            sys.excepthook = worker.normal_excepthook
        time.sleep(_GRACE)
        self._shut_down()  # else Ray ends this process when its GCS has been gone for a minute
        reaper.end(self.session)


def _say_nothing(*_: Any, **__: Any) -> None:
    """Ray's processes tell the driver, on its standard output, what our errors say, with pages of their logs."""


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


@contextmanager
def _only_for_us() -> Iterator[None]:
    """Set the environment that Ray's processes inherit, but not this process's other children."""
    from ray._private import ray_constants

    settings = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": os.environ.get("RAY_AUTH_MODE", "token")}
    # Ray has its workers give way to all other processes (15), and with them the model that an actor of ours runs.
    settings[_NICENESS] = os.environ.get(_NICENESS, "0")
    if not os.environ.get("RAY_AUTH_TOKEN") and not os.environ.get("RAY_AUTH_TOKEN_PATH"):
        settings["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    before = {name: os.environ.get(name) for name in settings}
    clusters = ray_constants.ENABLE_RAY_CLUSTER  # where it was imported before
    os.environ.update(settings)
    ray_constants.ENABLE_RAY_CLUSTER = False
    _forget_token()
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _forget_token() -> None:
    compiled = import_module("ray._raylet")
    compiled.Config.initialize("")
    compiled.AuthenticationTokenLoader.instance().reset_cache()
