"""Starting Ray here, or joining a cluster that was named; never one that happens to be there."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from gym_llm.errors import RayUnavailable
from gym_llm.rollouts.ray.ray_health import Watch, is_connected
from gym_llm.utils.extras import install

if TYPE_CHECKING:
    from gym_llm.rollouts.ray.local_cluster import LocalCluster

_KNOCK_SECONDS = 5.0
_PERIOD = 5.0
_SILENCE_SECONDS = 20.0

_watch: Watch | None = None
_own: LocalCluster | None = None


def ray_module() -> Any:
    """The `ray` module, which only what plays in other processes imports.

    Raises:
        RayUnavailable: If it is not installed.
    """
    # Where a raylet is gone Ray ends its driver in C, without a word, if the process named here is not alive; without a
    # name it takes the parent, and PID 1 for a dead one: that of `nohup` and of containers. It reads this when loaded.
    is_named = "RAY_RAYLET_PID" in os.environ
    if not is_named:
        os.environ["RAY_RAYLET_PID"] = str(os.getpid())
    try:
        import ray
    except ImportError:
        raise RayUnavailable(
            f"Ray is not installed: {install('ray')}, or play in this process (LocalVectorEnv, --workers 0)."
        ) from None
    finally:
        if not is_named:
            del os.environ["RAY_RAYLET_PID"]
    return ray


def connect(address: str | None = None) -> Any:
    """Make sure that this process is connected to Ray.

    Args:
        address: A cluster's address (`"host:6379"`, `"auto"`); None for a local Ray, which starts now and ends with
            this process. Its end also removes the packages that Ray installed for `runtime_env`. The environment
            variable RAY_ADDRESS is ignored.

    Returns:
        The `ray` module.

    Raises:
        RayUnavailable: If Ray is not installed or cannot start or be reached.
    """
    global _own, _watch
    ray = ray_module()
    if _own is not None and (_own.watch.lost or _own.find_loss() or not ray.is_initialized()):
        _own.end()
        _own = None
    if ray.is_initialized():
        return ray
    # Ray would otherwise start each worker's environment anew with uv or pip when the driver runs under `uv run`.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        with _sigterm_kept():
            if address:
                _knock(address)
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
            else:
                from gym_llm.rollouts.ray.local_cluster import LocalCluster

                _own = LocalCluster(ray)
                _watch = _own.watch
    except Exception as error:  # Ray raises whatever its start-up ran into
        where = f"Ray at {address} cannot be reached" if address else "Ray cannot be started here"
        raise RayUnavailable(
            f"{where} ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no details'}); "
            "without it use LocalVectorEnv, or --workers 0 on the command line."
        ) from error
    return ray


def watch() -> Watch:
    """Return the watch of the Ray that this process is connected to."""
    global _watch
    ray = ray_module()
    address = ray.get_runtime_context().gcs_address
    if _watch is None or _watch.address != address:
        _watch = Watch(ray, address, _RemoteCluster(ray, address).find_loss, _PERIOD)
    return _watch


def nodes(ray: Any) -> list[Any]:
    """The cluster's machines, for spreading processes evenly: one entry per CPU, all machines in turn.

    Ray's own SPREAD strategy is not even for actors that reserve next to nothing. Should a machine be gone when an
    actor is made, Ray takes another.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    alive = sorted((node["NodeID"], int(node["Resources"].get("CPU", 0))) for node in ray.nodes() if node["Alive"])
    rounds = range(max([cpus for _, cpus in alive], default=1) or 1)
    turns = [name for turn in rounds for name, cpus in alive if turn < cpus] or [name for name, _ in alive]
    return [NodeAffinitySchedulingStrategy(name, soft=True) for name in turns]


class _RemoteCluster:
    """A Ray that others started: gone when this machine's raylet is, or when its GCS has not answered for a while."""

    def __init__(self, ray: Any, address: str) -> None:
        self._ray, self._address = ray, address
        self._through_client = ray.util.client.ray.is_connected()  # Ray's client reports a lost connection itself
        here = "" if self._through_client else ray.get_runtime_context().get_node_id()
        sockets = {node["NodeID"]: node["RayletSocketName"] for node in ray.nodes()}
        self._raylet = sockets.get(here, "")
        self._heard = monotonic()

    def find_loss(self) -> str | None:
        """See `Watch`."""
        if self._through_client or not is_connected(self._ray, self._address):
            return None
        try:
            with socket.socket(socket.AF_UNIX) as raylet:
                raylet.connect(self._raylet)
        except OSError as error:
            return (
                f"The raylet of this machine is gone, and with it Ray at {self._address} ({error.strerror or error})."
            )
        try:
            _knock(self._address)
        except OSError as error:
            silence = monotonic() - self._heard
            if silence < _SILENCE_SECONDS:
                return None
            return f"Ray at {self._address} has not answered for {silence:.0f} seconds ({error.strerror or error})."
        self._heard = monotonic()
        return None


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Keep Ray from handling SIGTERM: in Python it would exit, and in C print a trace, which may end in an abort."""
    from ray._private import utils

    handler = signal.getsignal(signal.SIGTERM)
    set_handler = utils.set_sigterm_handler
    utils.set_sigterm_handler = lambda handler: None
    try:
        yield
    finally:
        utils.set_sigterm_handler = set_handler
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _knock(address: str) -> None:
    """Connect once to a host and port. Ray itself tries for more than a minute.

    Raises:
        OSError: If the host does not accept a connection.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), _KNOCK_SECONDS).close()
