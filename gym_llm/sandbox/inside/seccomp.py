"""A seccomp filter: the system calls that a program in the sandbox may not make, on x86-64 and arm64.

The filter denies calls that reach beyond the files, memory, threads and processes of a run:

- new namespaces and mounts, and other processes' memory;
- the kernel's keys, modules, clocks and tracing;
- io_uring, because a filter cannot see its requests;
- shared memory that no limit counts (files in /dev/shm are counted);
- calls that show how other processes use files, such as notifications and leases;
- locks of whole files, which other runs could see: they only seem to succeed;
- larger pipes, and messages with descriptors inside, whose memory no limit counts;
- sockets with addresses, which other runs could reach;
- changes to the supervisor, process 1, which belongs to the same user.

Call numbers that are not in the list return "unknown".
"""

from __future__ import annotations

import errno
import platform
import struct
from typing import Dict, Optional, Tuple  # noqa: UP035

# name: (x86-64, arm64); None where there is no such call.
_Numbers = Dict[str, Tuple[Optional[int], Optional[int]]]  # noqa: UP006, UP045 (evaluated, on Python 3.9 too)
_DENIED: _Numbers = {
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "reboot": (169, 142), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "sethostname": (170, 161), "setdomainname": (171, 162),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272), "pidfd_getfd": (438, 438),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "lookup_dcookie": (212, 18),
    "fanotify_init": (300, 262), "inotify_init": (253, None), "inotify_init1": (294, 26), "syslog": (103, 116),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "uselib": (134, None),
    "_sysctl": (156, None), "nfsservctl": (180, 42), "vhangup": (153, 58),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "shmdt": (67, 197),
    "msgget": (68, 186), "msgsnd": (69, 189), "semget": (64, 190), "mq_open": (240, 180),
    "vmsplice": (278, 75), "ioprio_set": (251, 30),
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "listmount": (458, 458), "statmount": (457, 457),
}  # fmt: skip
_LANDLOCK: _Numbers = {"landlock_create_ruleset": (444, 444)}
_ABSENT: _Numbers = {  # answered as unknown, so that C libraries fall back
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "clone3": (435, 435),
}  # fmt: skip
_FAKED: _Numbers = {  # for one who is root, but of one user only: they do nothing, and say that they have
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145), "setregid": (114, 143),
    "setgroups": (116, 159), "setresuid": (117, 147), "setresgid": (119, 149),
    "setfsuid": (122, 151), "setfsgid": (123, 152), "capset": (126, 91),
}  # fmt: skip
_LOCK: _Numbers = {"flock": (73, 32)}
_MESSAGES: _Numbers = {"sendmsg": (46, 211), "sendmmsg": (307, 269)}  # these can have descriptors inside
_FCNTL: _Numbers = {"fcntl": (72, 25)}
_SET_LEASE, _NOTIFY, _SET_PIPE_SIZE = 1024, 1026, 1031
_IDLE: _Numbers = {"sync": (162, 81), "syncfs": (306, 267)}  # say that they have done it: it would hold up everybody
_MAP: _Numbers = {"mmap": (9, 222)}
_SOCKETS: _Numbers = {"socket": (41, 198)}
_ADDRESSES: _Numbers = {
    "bind": (49, 200), "connect": (42, 203), "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242),
}  # fmt: skip
_PAIRS: _Numbers = {"socketpair": (53, 199)}
_OF_A_PROCESS: _Numbers = {  # the first argument is whose; 0 is one's own
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}  # fmt: skip
_LIMITS: _Numbers = {"prlimit64": (302, 261)}
_PRIORITY: _Numbers = {"setpriority": (141, 140)}
_CLONE: _Numbers = {"clone": (56, 220)}
_IOCTL: _Numbers = {"ioctl": (16, 29)}
_NEWEST = 462  # mseal
_NEW_NAMESPACES = 0x7E020000 | 0x80  # CLONE_NEW*, and CLONE_NEWTIME
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_DATAGRAMS = 2  # the bit of their types of sockets: they can be sent anywhere, and be received from anywhere
_SUPERVISOR = 1
_LOCAL, _INTERNET, _INTERNET6 = 1, 2, 10

_SHARED_ANONYMOUS = 0x21  # MAP_SHARED, MAP_ANONYMOUS

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_ALLOW, _KILL = 0x7FFF0000, 0x80000000


def calls_filter(loopback: bool, *, fakes: bool = False) -> bytes:
    """Return the filter of this machine, as instructions of classic BPF.

    Args:
        loopback: Whether sockets are allowed: local ones, and those of an internet that ends at 127.0.0.1.
        fakes: Whether changes of owners and users only seem to succeed, as package managers need it.

    Raises:
        RuntimeError: If there is not a filter for this architecture.
    """
    if platform.machine() not in _ARCHITECTURES:
        raise RuntimeError(f"there is no seccomp filter for {platform.machine()}")
    column, architecture = _ARCHITECTURES[platform.machine()]

    def numbers(table: _Numbers) -> list[int]:
        return [row[column] for row in table.values() if row[column] is not None]  # type: ignore[misc]

    code = [
        *_instructions((_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL)),
        *_instructions((_LOAD, 0, 0, 0)),
    ]
    for number in numbers(_FAKED) if fakes else []:
        code += _if(_EQUAL, number, _error(0))
    for number in numbers(_DENIED):
        code += _if(_EQUAL, number, _error(errno.EPERM))
    for number in numbers(_ABSENT):
        code += _if(_EQUAL, number, _error(errno.ENOSYS))
    for number in numbers(_IDLE):
        code += _if(_EQUAL, number, _error(0))
    for number in numbers(_FCNTL):
        refused = (_SET_LEASE, _NOTIFY, _SET_PIPE_SIZE)
        code += _argument(number, 1, [(_EQUAL, command, _error(errno.EPERM)) for command in refused])
    for number in [] if fakes else numbers(_LANDLOCK):  # in a machine, tests restrict the programs that they test
        code += _if(_EQUAL, number, _error(errno.EPERM))
    for number in [] if fakes else numbers(_LOCK):  # a machine's files are its own
        code += _if(_EQUAL, number, _error(0))
    for number in [] if loopback else numbers(_MESSAGES):
        code += _if(_EQUAL, number, _error(errno.EPERM))
    for number in numbers(_MAP):
        code += _argument(number, 3, [(_EQUAL, _SHARED_ANONYMOUS, _error(errno.ENOMEM))], mask=_SHARED_ANONYMOUS)
    code += _if(_AT_LEAST, _NEWEST + 1, _error(errno.ENOSYS))  # x32's numbers, too
    for number in numbers(_CLONE):
        code += _argument(number, 0, [(_ANY_BIT, _NEW_NAMESPACES, _error(errno.EPERM))])
    for number in numbers(_IOCTL):
        code += _argument(number, 1, [(_EQUAL, bad, _error(errno.EPERM)) for bad in (_TIOCSTI, _TIOCLINUX)])
    families = (_LOCAL, _INTERNET, _INTERNET6) if loopback else ()
    for number in numbers(_SOCKETS):
        good = [(_EQUAL, family, _ALLOW) for family in families]
        code += _argument(number, 0, [*good, (_AT_LEAST, 0, _error(errno.EACCES))])
    for number in numbers(_PAIRS):  # other families would have the kernel load modules
        code += _argument(
            number, 0, [(_AT_LEAST, _LOCAL + 1, _error(errno.EAFNOSUPPORT)), (_EQUAL, 0, _error(errno.EAFNOSUPPORT))]
        )
    if not loopback:
        for number in numbers(_ADDRESSES):
            code += _if(_EQUAL, number, _error(errno.EACCES))
        for number in numbers(_PAIRS):
            code += _argument(number, 1, [(_ANY_BIT, _DATAGRAMS, _error(errno.EACCES))])
    for number in numbers(_OF_A_PROCESS):
        code += _argument(number, 0, [(_EQUAL, _SUPERVISOR, _error(errno.EPERM))])
    for number in numbers(_LIMITS):
        code += _argument(number, 0, [(_AT_LEAST, 1, _error(errno.EPERM))])
    for number in numbers(_PRIORITY):
        code += _argument(number, 0, [(_AT_LEAST, 1, _error(errno.EPERM))])  # of groups and users
        code += _argument(number, 1, [(_EQUAL, _SUPERVISOR, _error(errno.EPERM))])
    code += _instructions((_RETURN, 0, 0, _ALLOW))
    return b"".join(code)


def _error(number: int) -> int:
    return 0x00050000 | number


def _instructions(*parts: tuple[int, int, int, int]) -> list[bytes]:
    return [struct.pack("HBBI", *part) for part in parts]


def _if(test: int, value: int, result: int) -> list[bytes]:
    return _instructions((test, 0, 1, value), (_RETURN, 0, 0, result))


def _argument(number: int, index: int, tests: list[tuple[int, int, int]], mask: int = 0xFFFFFFFF) -> list[bytes]:
    body = _instructions((_LOAD, 0, 0, 16 + 8 * index), (_AND, 0, 0, mask))
    for test in tests:
        body += _if(*test)
    body += _instructions((_LOAD, 0, 0, 0))
    return [*_instructions((_EQUAL, 0, len(body), number)), *body]
