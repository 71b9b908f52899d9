"""Linux's own calls that Python 3.11 has no functions for: namespaces, mounts, rights."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_calls = {name: getattr(_libc, name) for name in ("capset", "mount", "prctl", "umount2", "unshare")}
_python = ctypes.PyDLL(None, use_errno=True)  # calls that keep the interpreter's lock

NEW_MOUNTS, NEW_UTS, NEW_IPC = 0x20000, 0x4000000, 0x8000000
NEW_USER, NEW_PIDS, NEW_NET = 0x10000000, 0x20000000, 0x40000000
NOSUID, NODEV, NOEXEC, REMOUNT, READ_ONLY, BIND, RECURSIVE, PRIVATE = 2, 4, 8, 32, 1, 4096, 16384, 1 << 18

_SET_DUMPABLE, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES, _SET_CHILD_SUBREAPER = 4, 22, 38, 36
_CAPABILITIES_3 = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_CLONE = {"x86_64": 56, "aarch64": 220}
_TOO_MANY = (
    "no more processes or namespaces can be had (ulimit -u, kernel.pid_max, user.max_user_namespaces, or a control "
    "group's pids.max): a session takes two processes; close some sessions, or raise the limit"
)
_SIOCSIFFLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_TCP_BUFFERS = {"tcp_rmem": "4096 65536 212992", "tcp_wmem": "4096 16384 212992"}  # both: what a socket is counted as


def _call(name: str, *arguments: object) -> int:
    result: int = _calls[name](*arguments)
    if result < 0:
        raise _error(name)
    return result


def _error(name: str) -> OSError:
    number = ctypes.get_errno()
    why = _TOO_MANY if number in (errno.EAGAIN, errno.ENOSPC) and name in ("clone", "fork") else os.strerror(number)
    return OSError(number, f"{name}: {why}")


def fork_apart(flags: int) -> int:
    """Fork into new namespaces: 0 in the child, which is number 1 there.

    `unshare` takes one more process for it. The interpreter does not notice the fork, which saves the child memory.
    So there must be no other thread, and the child must start no threads.
    """
    child: int = _python.syscall(_CLONE[platform.machine()], ctypes.c_long(flags | signal.SIGCHLD), 0, 0, 0, 0)
    if child < 0:
        raise _error("clone")
    return child


def fork() -> int:
    """Fork with the system call, without Python's hooks, which write to a megabyte of memory after a fork.

    There must be no other thread. The child must seed its random generators again.
    """
    child: int = _python.fork()
    if child < 0:
        raise _error("fork")
    return child


def unshare(flags: int) -> None:
    """Leave the namespaces of the parent for new ones (of processes: for the next child)."""
    _call("unshare", flags)


def mount(kind: str, target: str, flags: int, options: str = "", source: str | None = None) -> None:
    """Mount a file system of some kind, or change a mount."""
    _call("mount", (source or kind).encode(), target.encode(), kind.encode() or None, flags, options.encode() or None)


def unmount(target: str) -> None:
    """Take a mount away, and those below it, even if they are in use."""
    _call("umount2", target.encode(), 2)


def map_user(user: int, group: int, outer_user: int | None = None, outer_group: int | None = None) -> None:
    """In a new user namespace: be this user and group, outside by the same numbers or by others."""
    users = f"{user} {user if outer_user is None else outer_user} 1"
    groups = f"{group} {group if outer_group is None else outer_group} 1"
    for name, text in (("setgroups", "deny"), ("uid_map", users), ("gid_map", groups)):
        write(f"/proc/self/{name}", text)


def write(path: str, text: str) -> None:
    """Write to a file of the kernel."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def loopback_up() -> None:
    """Bring up 127.0.0.1 in a new network namespace, with buffers that do not grow: no limit counts their memory."""
    import fcntl
    import socket

    for name, sizes in _TCP_BUFFERS.items():
        write(f"/proc/sys/net/ipv4/{name}", sizes)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        fcntl.ioctl(connection, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _UP_AND_RUNNING))


def keep_to_itself(yes: bool = True) -> None:
    """Let no other process of the same user look into this one, or let it; its own /proc/self is closed to it, too."""
    _call("prctl", _SET_DUMPABLE, 0 if yes else 1, 0, 0, 0)


def drop_rights(keep: int = 0) -> None:
    """Give up every capability permanently: no program that is started gives one back, however it is marked.

    Args:
        keep: A bit mask of the capabilities to keep, of the first 32.
    """
    _call("prctl", _SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    header = struct.pack("Ii", _CAPABILITIES_3, 0)
    _call("capset", header, struct.pack("6I", keep, keep, 0, 0, 0, 0))
    keep_to_itself(False)


def filter_calls(program: bytes) -> None:
    """Put this process, and all that it starts, under a seccomp filter (its instructions, eight bytes each)."""
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.cast(ctypes.c_char_p(program), ctypes.c_void_p).value)
    _call("prctl", _SET_SECCOMP, 2, header, 0, 0)


def adopt_orphans() -> None:
    """Be the parent of whatever descends from this process and has lost its own."""
    _call("prctl", _SET_CHILD_SUBREAPER, 1, 0, 0, 0)
