"""The sandbox's programs that try to get out, as they are tried from inside of an agent's machine."""

from __future__ import annotations

import runpy
from pathlib import Path

from testing import ROOT

SUITE = ROOT / "tests" / "sandbox" / "escapes"
attempts = runpy.run_path(str(SUITE / "attempts.py"))
controls = runpy.run_path(str(SUITE / "controls.py"))

OWN = {
    **dict.fromkeys(("more rights", "the root user"), "the call seems to succeed, and does nothing, for installers"),
    **dict.fromkeys(
        ("a socket of the internet", "a local socket", "a pair of datagram sockets", "an address for half a pair"),
        "the machine has a network of its own, with nothing but itself",
    ),
    "a note for the next run": "the machine has settings of IPC of its own",
    "a lock that other runs see": "locks are real in a machine, whose files are its own",
    "descriptors in flight": "programs of a machine may send each other files",
    "host files": "a machine has an /etc and a /var of its own; the host's are tried below",
    "writing to what is shown": "a machine's root is its own; what is shown is tried below",
    "the supervisor in /proc": "two of its files can be opened, and not read; reading is tried below",
    **dict.fromkeys(
        ("many processes", "filling the disk", "exhausting descriptors", "exhausting inodes", "filling /dev/shm"),
        "a machine's limits are larger",
    ),
}
"""Attempts that mean something else in a machine, which is not shared, and why."""

MORE = {
    "reading files of the host": "for path in (HOST, '/root/.bashrc', '/root/.ssh', '/var/lib/dpkg', '/home/user', "
    "'/sys/kernel', '/boot'):\n    escaped(os.path.exists(path))",
    "writing to shown folders": "for folder in ('/usr', '/usr/bin', '/dev', sys.prefix, os.path.dirname(os.__file__)):"
    "\n"
    "    escaped(tried(os.mkdir, os.path.join(folder, 'escape')))\n    escaped(tried(os.utime, folder))",
    "writing over shown files": "for path in ('/usr/bin/env', os.__file__, sys.executable):\n"
    "    escaped(tried(os.open, path, os.O_WRONLY))\n    escaped(tried(os.unlink, path))",
    "reading the supervisor": """
for name in ('mem', 'environ', 'maps', 'syscall', 'stack', 'auxv', 'io'):
    try:
        escaped(open(f'/proc/{OTHER}/{name}', 'rb').read(1))
    except OSError: pass
for name in ('root', 'cwd', 'exe', 'ns/mnt', 'ns/net'):
    escaped(tried(os.readlink, f'/proc/{OTHER}/{name}'))""",
    "the host's loopback": """
for port in (22, 80, 443, 8000, HOST_PORT):
    try: socket.create_connection(('127.0.0.1', port), 1); escaped(True)
    except OSError: pass""",
    "another network": "for kind in (1, 2, 3):\n    try:\n        s = socket.socket(2, kind); "
    "s.connect(('192.0.2.1', 80)); escaped(True)\n    except OSError: pass",
    "the images of other machines": "escaped(os.path.exists('/image') or os.path.exists('/scratch') or "
    "os.path.exists('/layers'))",
}
"""The same for a machine."""

ATTEMPTS: dict[str, str] = {
    name: code
    for name, code in {
        **{name: f"called({call})" for name, call in attempts["CALLS"].items()},
        **attempts["PROGRAMS"],
        **MORE,
    }.items()
    if name not in OWN and name not in controls["LIMITED"]
}
SAMPLE = ("mount", "a user namespace", "ptrace of another", "bpf", "this package's data", *[*MORE][:3])
ENDED = {*controls["KILLED"], *controls["LOUD"]}


def program_of(name: str, host: Path) -> str:
    """The program of an attempt, whose last line is `tried` unless it was ended.

    Args:
        name: The attempt.
        host: A file of the host.
    """
    return f"{attempts['HELP']}\nHOST, HOST_PORT = {str(host)!r}, 41234\n{ATTEMPTS[name]}\nprint('tried')\n"


def check(said: dict[str, str]) -> None:
    """Check that nothing that attempts printed says that one has escaped, and that all were tried."""
    escaped = {name: text for name, text in said.items() if "ESCAPED" in text}
    assert not escaped, escaped
    untried = {name: text for name, text in said.items() if "tried" not in text.splitlines()}
    assert {*untried} <= ENDED, untried
