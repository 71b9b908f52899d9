"""The first process of a machine, which runs commands in the machine's root file system.

It never runs a model's code itself, and stays outside the machine's root, which is the folder `ROOT` for it. Every
command enters `ROOT` permanently and drops its privileges before its first line. Processes that a command leaves
running are stopped between commands. When the other side of the socket closes, everything ends. The file system is in
memory, so it disappears.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import stat
import time
from typing import Any, Callable, NoReturn  # noqa: UP035 (Python 3.9)

from . import framing, kernel, program, resident, seccomp, startup_files, supervisor, tree
from .command import Command

IMAGE, ROOT = "/image", "/machine"
LISTENING = "/listening"
_SCRATCH = "/scratch"
_UPPER, _WORK = f"{_SCRATCH}/upper", f"{_SCRATCH}/work"
_RIGHTS = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4  # CAP_CHOWN, DAC_OVERRIDE, FOWNER, FSETID: over its own files
_INODES = 500_000
_SHARED_BYTES = 64 << 20  # of /dev/shm
_FILES_SECONDS = 120
_CONNECTIONS = 1024
_PASSWD_BYTES = 1 << 20
_VERIFIER_BYTES = 256 << 20  # more storage than before, for the verifier of a full machine
_PRISTINE = ("/bin/bash", "/bin/sh", "/usr/bin/env", "/usr/bin/bash", "/usr/bin/sh")
_ABSENT = ("/etc/ld.so.preload",)
_NICE = 15  # of the program beside commands: this process gets its share beside hundreds of them


class Problem(Exception):
    """Raised when a request cannot be done; the machine goes on."""


def serve(control: int, settings: dict[str, Any]) -> NoReturn:
    """Answer requests until the other side closes the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    kernel.keep_to_itself()
    try:
        machine = _Machine(control, settings)
        framing.send(control, {"ready": True, "overlay": machine.overlay}, [])
        gc.freeze()
        while True:
            header, pieces = framing.receive(control)
            if header["kind"] == "poke":
                continue  # it has ended an `await`
            try:
                answer, output = machine.answer(header, pieces)
            except (Problem, OSError, ValueError) as error:
                answer, output = {"problem": str(error)[:500]}, []
            framing.send(control, answer, output)
            if header["kind"] == "listen" and "problem" not in answer:
                machine.ports.send(control)
    except (EOFError, BrokenPipeError, ConnectionError):
        pass
    except BaseException as error:
        framing.send(control, {"failed": f"{type(error).__name__}: {error}"[:500]}, [])
    finally:
        os._exit(0)


class _Machine:
    def __init__(self, control: int, settings: dict[str, Any]) -> None:
        self.control, self.settings = control, settings
        settings["filters"] = {True: seccomp.calls_filter(True, fakes=True)}
        settings["inherited"] = (_listen(),) if os.path.isdir(LISTENING) else ()
        self.storage = settings["storage_bytes"]
        self.overlay = True
        self.leftover: list[supervisor.Stream] = []
        self.resident: resident.Resident | None = None
        self.ports = resident.Ports()
        kernel.mount("", "/", kernel.RECURSIVE | kernel.PRIVATE)
        size = f"mode=755,size={self.storage},nr_inodes={_INODES}"
        kernel.mount("tmpfs", _SCRATCH, kernel.NOSUID | kernel.NODEV, size)
        shared = f"mode=1777,size={_SHARED_BYTES},nr_inodes=1000"
        kernel.mount("tmpfs", "/dev/shm", kernel.NOSUID | kernel.NODEV, shared)
        self._assemble()

    def answer(self, header: dict[str, Any], pieces: list[bytes]) -> framing.Message:
        """Return the answer to a request."""
        kinds: dict[str, Callable[[dict[str, Any], list[bytes]], framing.Message]] = {
            **{"exec": self.execute, "put": self.put, "get": self.get, "kill": self.kill},
            **{"snapshot": self.snapshot, "restore": self.restore, "verify": self.verify},
            **{"begin": self.begin, "await": self.wait, "listen": self.listen, "forget": self.forget},
        }
        return kinds[header["kind"]](header, pieces)

    def execute(self, header: dict[str, Any], pieces: list[bytes]) -> framing.Message:
        """Run a command to the end of its first process."""
        shell = next((path for path in ("/bin/bash", "/bin/sh") if self._is_file(path)), None)
        if shell is None:
            raise Problem("the machine has neither /bin/bash nor /bin/sh")
        request = self._request(header, [shell, "-c", header["command"]])
        run = Command(self.control, self.control, self.settings, request, pieces)
        run.beside = self.resident
        beside = [] if self.resident is None else self.resident.streams
        try:
            answer = run.command([*self.leftover, *beside])
        except RuntimeError as error:  # its folder is not there, say
            raise Problem(str(error)) from None
        output = [stream.take() for stream in run.streams[:2]]
        own = [stream for stream in run.streams if stream not in beside]
        self.leftover = [stream for stream in own if stream.open]
        for stream in own:
            if not stream.open:
                os.close(stream.descriptor)
            stream.limit = 0
        answer["stored_bytes"] = self._stored()
        return answer, output

    def begin(self, header: dict[str, Any], pieces: list[bytes]) -> framing.Message:
        """Start the program that runs beside commands."""
        self._let_go()
        folders = header["environment"]["PATH"].split(":")
        name = header["argv"][0]
        places = [name] if "/" in name else [os.path.join(folder, name) for folder in folders]
        if not any(self._is_file(os.path.join(header["cwd"], place)) for place in places):
            where = "" if "/" in name else f" in {':'.join(folders)[:300]}"
            raise Problem(f"the machine has no program {name[:200]!r}{where}")
        request = {**self._request(header, header["argv"]), "nice": _NICE}
        started = resident.Resident(self.control, self.control, self.settings, request, pieces)
        try:
            started.begin(header["error_bytes"])
        except RuntimeError as error:
            raise Problem(str(error)) from None
        self.resident = started
        return {}, []

    def wait(self, header: dict[str, Any], pieces: list[bytes]) -> framing.Message:
        """Wait for the end of that program; return nothing if there is another request first."""
        if self.resident is None:
            raise Problem("no program runs beside the commands")
        if not self.resident.watch():
            return {"ended": False}, []
        answer = self.resident.finish()
        self.resident = None
        self.ports.close()
        return answer

    def forget(self, header: dict[str, Any], pieces: list[bytes]) -> framing.Message:
        """Drop the standard output of that program until now."""
        if self.resident is not None:
            self.resident.forget_output()
        return {}, []

    def listen(self, header: dict[str, Any], pieces: list[bytes]) -> framing.Message:
        """Open ports on the loopback; the message with their sockets follows the answer."""
        self.ports.open(header["ports"])
        return {}, []

    def kill(self, header: dict[str, Any], pieces: list[bytes]) -> framing.Message:
        """End all that commands have left running."""
        while True:
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                break
            try:
                os.wait4(-1, supervisor.EVERY_CHILD)
            except ChildProcessError:
                time.sleep(0.001)  # orphans become children of this process
        for stream in self.leftover:
            os.close(stream.descriptor)
        self.leftover = []
        self.ports.close()
        if self.resident is not None and self.resident.ended is None:
            self.resident.note_end(signal.SIGKILL, was_killed=True)
        return {}, []

    def verify(self, header: dict[str, Any], pieces: list[bytes]) -> framing.Message:
        """Make ready for a verifier: nothing runs, there is room, and shell and settings are those of the image."""
        self.kill(header, pieces)
        size = f"size={self.storage + _VERIFIER_BYTES},nr_inodes={_INODES + 50_000}"
        kernel.mount("tmpfs", _SCRATCH, kernel.REMOUNT | kernel.NOSUID | kernel.NODEV, size)
        originals = [(path, self._original(path)) for path in _PRISTINE]
        links = {one: os.readlink(f"{IMAGE}/{one}") for one in os.listdir(IMAGE) if os.path.islink(f"{IMAGE}/{one}")}
        wanted = [one for one in header["remove"] if one != "/"]
        is_host = any(name == "usr" for _, name in self.settings["mounts"])
        startup = startup_files.read(IMAGE) if is_host and wanted else None  # a build of an image removes nothing

        def prepare() -> bytes:
            for name, target in links.items():  # /bin, /lib64: where the image has them lead
                if not os.path.islink(f"/{name}") or os.readlink(f"/{name}") != target:
                    tree.remove(f"/{name}")
                    os.symlink(target, f"/{name}")
            for path in (*wanted, *_ABSENT):
                _put_away(path)
            for path, original in originals:
                if original is not None and not _same(path, original):
                    _put_away(path)
                    with open(path, "xb") as file:
                        file.write(original)
                    os.chmod(path, 0o755)
            if startup is not None:
                startup_files.put_back(startup)
            return b""

        self._apart(prepare)
        return {}, []

    def put(self, header: dict[str, Any], pieces: list[bytes]) -> framing.Message:
        """Unpack an archive in a folder of the machine."""
        folder, replace = header["path"], header["replace"]

        def unpack() -> bytes:
            if replace:
                _put_away(folder)
            os.makedirs(folder, exist_ok=True)
            tree.unpack(pieces[0], folder)
            return b""

        self._apart(unpack)
        return {}, []

    def get(self, header: dict[str, Any], pieces: list[bytes]) -> framing.Message:
        """A file of the machine, or a folder as an archive; nothing where there is neither."""
        path, limit = header["path"], header["limit"]

        def read() -> bytes:
            if os.path.isdir(path):
                return b"d" + tree.pack(path, limit)
            if not os.path.exists(path):
                return b"-"
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):
                raise Problem(f"{path} is not a file")
            if status.st_size > limit:
                raise Problem(f"{path} has more than {limit} bytes")
            with open(path, "rb") as file:
                return b"f" + file.read(limit)

        data = self._apart(read, 2 * limit + (1 << 20))
        return {"found": {b"d": "folder", b"f": "file"}.get(data[:1])}, [data[1:]]

    def snapshot(self, header: dict[str, Any], pieces: list[bytes]) -> framing.Message:
        """All that has changed in the file system since the image."""
        return {}, [tree.pack(_UPPER, header["limit"])]

    def restore(self, header: dict[str, Any], pieces: list[bytes]) -> framing.Message:
        """Go back to a snapshot: nothing runs, and the file system is as it was."""
        self.kill(header, [])
        self._take_apart()
        self._assemble(pieces[0])
        return {}, []

    def _let_go(self) -> None:
        if self.resident is not None:
            self.resident.close()
            self.resident = None

    def _request(self, header: dict[str, Any], argv: list[str]) -> dict[str, Any]:
        """What a run needs to start in the machine's root."""
        user, home = self._user(header["user"])
        return {
            **header,
            **{"argv": argv, "root": ROOT, "user": user, "rights": _RIGHTS if user == [0, 0] else 0},
            **{"environment": {"HOME": home, **header["environment"]}},
            **{"reserves": True, "loopback": True, "drains": True},
        }

    # -- parts -----------------------------------------------------------------------------------------------------

    def _assemble(self, changes: bytes | None = None) -> None:
        """Put the root together: an overlay over the image, or, where the kernel has none for us, a copy of it."""
        os.makedirs(_UPPER)
        os.makedirs(_WORK)
        if changes is not None:
            tree.unpack(changes, _UPPER)
        if self.overlay:
            options = f"userxattr,lowerdir={IMAGE},upperdir={_UPPER},workdir={_WORK}"
            try:
                if not self.settings["overlay"]:
                    raise OSError("not wanted")
                kernel.mount("overlay", ROOT, kernel.NOSUID | kernel.NODEV, options)
            except OSError:
                self.overlay = False
        if not self.overlay:
            if changes is None:
                shutil.copytree(IMAGE, _UPPER, symlinks=True, dirs_exist_ok=True)
            kernel.mount("", ROOT, kernel.BIND, source=_UPPER)
        self.mounted = [ROOT]
        for source, name in (("/proc", "proc"), ("/dev", "dev"), *self.settings["mounts"]):
            target = tree.resolve(ROOT, name.split("/"))
            os.makedirs(target, exist_ok=True)
            kernel.mount("", target, kernel.BIND | kernel.RECURSIVE, source=source)
            self.mounted.append(target)
        for name in self.settings["hidden"]:
            target = tree.resolve(ROOT, name.split("/"))
            kernel.mount("tmpfs", target, kernel.NOSUID | kernel.NODEV | kernel.READ_ONLY, "size=4k,mode=755")
            self.mounted.append(target)

    def _take_apart(self) -> None:
        for target in reversed(self.mounted):
            kernel.unmount(target)
        tree.remove(_UPPER)
        tree.remove(_WORK)

    def _user(self, name: str) -> tuple[list[int], str]:
        """Numbers and home of a user, from the machine's own list."""
        wanted, _, group = name.partition(":")
        if wanted in ("", "root", "0"):
            return [0, 0], "/root"
        for line in self._text("/etc/passwd").splitlines():
            fields = line.split(":")
            if len(fields) > 5 and wanted in (fields[0], fields[2]) and fields[2].isdigit() and fields[3].isdigit():
                return [int(fields[2]), int(group) if group.isdigit() else int(fields[3])], fields[5]
        if wanted.isdigit():
            return [int(wanted), int(group) if group.isdigit() else int(wanted)], "/"
        raise Problem(f"the machine has no user {wanted[:100]!r}")

    def _text(self, path: str) -> str:
        data = program.read_file(tree.resolve(ROOT, path.split("/")), _PASSWD_BYTES)
        return (data or b"").decode("utf-8", "replace")

    def _is_file(self, path: str) -> bool:
        return os.path.isfile(tree.resolve(ROOT, path.split("/")))

    def _original(self, path: str) -> bytes | None:
        found = tree.resolve(IMAGE, path.split("/"))
        return program.read_file(found, 1 << 28)

    def _stored(self) -> int:
        usage = os.statvfs(_SCRATCH)
        return (usage.f_blocks - usage.f_bfree) * usage.f_frsize

    def _apart(self, function: Callable[[], bytes], limit: int = 1 << 20) -> bytes:
        """Call a function in a process in the root of the machine, with the rights of a command; return its result."""
        end, its = os.pipe()
        child = os.fork()
        if child == 0:
            said = b"!"
            try:
                os.close(self.control)
                signal.alarm(_FILES_SECONDS)
                kernel.keep_to_itself(False)
                program.enter(ROOT, "/", [0, 0])
                kernel.drop_rights(_RIGHTS)
                kernel.filter_calls(self.settings["filters"][True])
                said = b"=" + function()
            except BaseException as error:
                said = b"!" + str(error).encode("utf-8", "replace")[:500]
            finally:
                with open(its, "wb") as pipe:
                    pipe.write(said)
                os._exit(0)
        os.close(its)
        with open(end, "rb") as pipe:
            said = pipe.read(limit + 1)
        if len(said) > limit:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if said[:1] != b"=" or len(said) > limit:
            raise Problem(said[1:501].decode("utf-8", "replace") or "it took too long, or was too large")
        return said[1:]


def _listen() -> int:
    """Listen at a Unix socket that the other side can see; the first command has it as descriptor 3.

    It is made here because a socket keeps the network of the process that made it.
    """
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{LISTENING}/socket")
    listening.listen(_CONNECTIONS)
    return listening.detach()


def _put_away(path: str) -> None:
    """Nothing is at a path after this, and what is on the way to it are folders, or links to folders."""
    *parents, name = tree.inner_parts(path)
    place = "/"
    for part in parents:
        place = os.path.join(place, part)
        if not os.path.isdir(place):
            tree.remove(place)
            os.mkdir(place)
    tree.remove(os.path.join(place, name))


def _same(path: str, original: bytes) -> bool:
    try:
        return program.read_file(os.path.realpath(path), len(original) + 1) == original
    except OSError:
        return False
