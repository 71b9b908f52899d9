"""Controls of the attempts: with which protection off each gets further.

Without one, an attempt that fails proves nothing: the kernel may refuse it for another reason.
"""

OPEN = "open"
"""Bubblewrap without the filter of calls, and with all rights that there are in the namespaces of a run."""
CLOSED = "closed"
"""The sandbox as it is: what the attempt is told, or is given, differs."""
UNSAFE = "unsafe"
"""No sandbox. Only for what looks, and changes nothing."""

MEBI = 1 << 20
ROOT = "the kernel asks for root outside of all namespaces"

# name: (where, code that goes before the attempt, limits that differ); `OPEN` for all that are not named here.
CONTROLS = {
    "host files": (UNSAFE, "", {}),
    "other processes": (UNSAFE, "", {}),
    "the supervisor in /proc": (CLOSED, "OTHER = os.getpid()", {}),
    # Where the tests are started with `nohup`, a hang-up is ignored, and an interrupt is Python's to report.
    "signals to the supervisor": (CLOSED, "OTHER = os.getpid(); signal.signal(signal.SIGHUP, signal.SIG_DFL)", {}),
    "SIGIO to the supervisor": (CLOSED, "OTHER = os.getpid()", {}),
    "open files that are left": (CLOSED, "os.dup(0)", {}),
    "writing to standard input": (CLOSED, "kept = os.pipe(); os.dup2(kept[1], 0)", {}),
    "many processes": (CLOSED, "", {"processes": 200}),
    "filling the disk": (CLOSED, "", {"disk_bytes": 200 * MEBI, "memory_bytes": 600 * MEBI}),
    "filling /dev/shm": (
        CLOSED,
        "",
        {"disk_bytes": 200 * MEBI, "file_bytes": 200 * MEBI, "memory_bytes": 600 * MEBI},
    ),
    "exhausting inodes": (CLOSED, "", {"files": 8192}),
    "exhausting descriptors": (CLOSED, "", {"open_files": 400}),
    "memory of many processes that hide it": (CLOSED, "", {"memory_bytes": 3072 * MEBI}),
    "shared memory": (CLOSED, "", {"disk_bytes": 200 * MEBI, "memory_bytes": 600 * MEBI}),
    "memory of a process whose first thread has ended": (CLOSED, "", {"memory_bytes": 1024 * MEBI}),
}

NONE = {
    "init_module": ROOT,
    "the kernel's log": ROOT,
    "iopl": ROOT,
    "real time": ROOT,
    "a lower nice value": ROOT,
    "raising limits": ROOT,
    "a device": ROOT,
    "a set-user-ID program": ROOT,
    "an x32 call": "most kernels have no x32",
    "an x32 call in machine code": "most kernels have no x32",
    "the root user": "namespaces have no root, with or without the filter",
    "a note for the next run": "the files are root's, and namespaces have none",
    "writing to what is shown": "it would write to this machine",
    "this package's data": "whether it is beside the other packages depends on how it was installed",
    "patched builtins": "a program may do that; it must end nothing but itself",
    "a process that goes on alone": "what is left of it is looked for outside",
    "left: a folder": "what is left is looked at outside: of a plain file its content",
    "left: a file": "the control of the others that leave something",
    "left: a pipe": "as of a folder",
    "left: a link to the supervisor": "as of a folder",
    "left: a link to /etc": "as of a folder",
    "left: a huge sparse file": "as of a folder",
    "left: a closed folder": "as of a folder",
}

LIMITED = {
    # They sleep until they are found; on a busy machine a late look finds that they slept too long.
    "many groups of the scheduler": ("processes", "wall"),
    "the kernel's memory for mappings": ("memory", "wall"),
    "the kernel's memory for pipes": ("memory", "wall"),
    "a fork bomb": ("cpu", "processes", "wall"),
    "forks that nobody waits for": ("cpu", "processes", "wall"),
    "memory of many processes that hide it": ("memory",),
    "memory of a process whose first thread has ended": ("memory",),
    "buffers of sockets": ("memory",),
    "a flood of small writes": ("output",),
    "standard output closed": ("cpu",),
    "sleeping a little, often": ("wall",),
}
"""What a limit has to end, and which: that it does proves that the attempt had an effect."""

KILLED = {"a 32-bit call": 31, "a 32-bit call, a mount": 31, "shared memory": 7}
"""What a signal ends: SIGSYS, by the filter; SIGBUS, where a folder is full."""

LOUD = {"patched builtins": b"Bad file descriptor"}
"""What says something on standard error."""
