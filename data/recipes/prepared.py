"""Prepared tasks: fetched at first use, kept in a cache, and the same for everybody.

The cache is `gym_llm/benchmarks` beside the hub's own (`HF_HOME`). A benchmark's folder has `DIGEST.jsonl`, its tasks,
and `benchmark.json`, which says which file is valid. Both appear whole or not at all. One process at a time fetches;
others wait for it.

The first fetch pins commit and digests in `benchmarks.lock` there: a later fetch must find the same raw files. A recipe
may have a pin of its own in `pins.json` (`gym-llm data pin`).

`GYM_LLM_BENCHMARKS` names a folder of copies (`gym-llm data fetch NAME --to FOLDER`), which is looked into first.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import inspect
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from gym_llm.data.files.atomic import replacing, write_atomically
from gym_llm.data.files.reading import BENCHMARK, too_long
from gym_llm.data.recipes.attachments import attach, attached, copy_attachments
from gym_llm.data.recipes.fetching import Fetched, expanded, fetched
from gym_llm.data.recipes.recipe import Benchmark
from gym_llm.errors import DataError, Refused, UsageError
from gym_llm.utils.json_codec import dumps, loads
from gym_llm.utils.limits import ROW_BYTES, limit
from gym_llm.version import __version__

COPIES = "GYM_LLM_BENCHMARKS"
PINS = Path(__file__).parents[1] / "benchmarks" / "pins.json"
"""The pins of our own recipes."""

_ABOUT = "benchmark.json"
_ABOUT_FIELDS = (("digest", str), ("revision", str), ("rows", int))
_LOCK = "benchmarks.lock"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """A benchmark's tasks in a file.

    Attributes:
        name: The benchmark's name, with the variant.
        path: JSON Lines, a task each.
        revision: The commit of the raw rows; of several loads, a hash of all commits.
        digest: The SHA-256 of the file.
        rows: The number of tasks.
        about: All that `benchmark.json` says.
    """

    name: str
    path: Path
    revision: str
    digest: str
    rows: int
    about: dict[str, Any]

    @property
    def origin(self) -> dict[str, Any]:
        """The names in records and reports: `benchmark`, `revision` and `digest`."""
        return {"benchmark": self.name, "revision": self.revision, "digest": self.digest}


def cache_folder() -> Path:
    """Return the folder of prepared benchmarks."""
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache"), "huggingface"
    )
    return Path(os.path.expanduser(home), "gym_llm", "benchmarks")


def prepare(benchmark: Benchmark, *, update: bool = False, tell: Tell | None = None) -> Prepared:
    """Return a benchmark's tasks, fetched and converted unless they are in the cache.

    Args:
        benchmark: The recipe.
        update: Fetch the newest revision, and pin that.
        tell: Called with a sentence for each thing that takes time.

    Raises:
        DataError: If they cannot be fetched or converted, or the raw files are not those that are pinned.
    """
    copies = os.environ.get(COPIES)
    if copies and (found := _open(benchmark, _folder(Path(copies), benchmark), any_recipe=True)):
        return found
    folder = _folder(cache_folder(), benchmark)
    if not update and (found := _open(benchmark, folder)):
        return found
    with _locked(folder / ".lock", tell, benchmark.name):
        if not update and (found := _open(benchmark, folder)):
            return found
        return _fetch(benchmark, folder, update, tell)


def copy_to(prepared: Prepared, target: str | os.PathLike[str]) -> Path:
    """Copy prepared tasks to a folder for `GYM_LLM_BENCHMARKS`, and return the benchmark's folder there."""
    folder = Path(target, prepared.path.parent.name)
    with replacing(folder / prepared.path.name) as copy, open(prepared.path, "rb") as file:
        shutil.copyfileobj(file, copy)
    copy_attachments(prepared.path.parent, prepared.about, folder)
    write_atomically(folder / _ABOUT, dumps(prepared.about, indent=True))
    return folder


def local_path(value: str) -> str:
    """Return the path of an argument: `benchmark:NAME/ARGUMENT` is fetched, other values are paths already.

    Raises:
        UsageError: If the benchmark has no such attachment.
        DataError: If it cannot be fetched.
    """
    if not value.startswith(BENCHMARK):
        return value
    from gym_llm.data.recipes.catalogue import find_benchmark

    name, _, argument = value.rpartition("/")
    benchmark = find_benchmark(name)
    if argument not in benchmark.attachments:
        listed = ", ".join(benchmark.attachments) or "no attachments"
        raise UsageError(f"{benchmark.name} has no attachment {argument!r}: it has {listed}.")
    prepared = prepare(benchmark)
    entry = prepared.about.get("attachments", {}).get(argument)
    if entry is None:
        raise DataError(
            f"{prepared.path.parent} has no {argument}: fill it with `gym-llm data fetch {benchmark.name}`."
        )
    files = list(entry["files"])
    path = prepared.path.parent / entry["path"]
    return str(path if isinstance(benchmark.attachments[argument], str) else path / files[0])


def pin_of(benchmark: Benchmark) -> dict[str, Any]:
    """Return what pins a benchmark's raw files: the recipe's own pin, or that of the first fetch; {} if none does."""
    for path in (PINS, cache_folder() / _LOCK):
        if pin := _pins(path).get(benchmark.name):
            return pin
    return {}


def write_pin(prepared: Prepared) -> None:
    """Write the pin of prepared tasks into the recipes' `pins.json`."""
    _merge(PINS, prepared.name, _pin(prepared.about))


def pinned() -> dict[str, dict[str, Any]]:
    """Return the recipes' own pins, by benchmark."""
    return _pins(PINS)


def recipe_digest(benchmark: Benchmark) -> str:
    """Return a hash of what makes tasks of raw rows: the loads, and the code of the recipe's module.

    The modules beside it from which it imports count, too.
    """
    code = b"".join(path.read_bytes() for path in _modules(benchmark.convert))
    attachments = repr(sorted(benchmark.attachments)) if benchmark.attachments else ""
    return hashlib.sha256(repr(benchmark.sources).encode() + attachments.encode() + code).hexdigest()[:16]


@cache
def _modules(convert: Callable[..., Any]) -> list[Path]:
    """The file of a function's module, and of the modules beside it that it imports; [] if it has no file."""
    try:
        own = Path(inspect.getsourcefile(convert) or "")
        tree = ast.parse(own.read_bytes())
    except (OSError, TypeError, SyntaxError):  # typed into a terminal
        return []
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {(node.module or "").rpartition(".")[2], *(alias.name for alias in node.names)}
    return [own, *(path for name in sorted(names) if (path := own.with_name(f"{name}.py")).is_file() and path != own)]


def _folder(root: Path, benchmark: Benchmark) -> Path:
    return root / re.sub(r"[^\w.+-]", "--", benchmark.name)


def _open(benchmark: Benchmark, folder: Path, *, any_recipe: bool = False) -> Prepared | None:
    """The tasks in a folder, if they are whole and made by this recipe."""
    about = _read(folder / _ABOUT)
    is_whole = all(isinstance(about.get(name), kind) for name, kind in _ABOUT_FIELDS)
    if not is_whole or (about.get("recipe") != recipe_digest(benchmark) and not any_recipe):
        return None
    path = folder / f"{about['digest'][:16]}.jsonl"
    try:
        with open(path, "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != about["digest"]:
                return None
    except OSError:
        return None
    if not attached(folder, about):
        return None
    return Prepared(benchmark.name, path, about["revision"], about["digest"], about["rows"], about)


def _fetch(benchmark: Benchmark, folder: Path, update: bool, tell: Tell | None) -> Prepared:
    pin = {} if update else pin_of(benchmark)
    revisions = dict(pin.get("revisions", {}))
    with ExitStack() as stack:
        loads_: list[Fetched] = []
        for source in expanded(benchmark.sources, revisions):
            if not source.place:
                raise DataError(f"{benchmark.name} has no public rows. {benchmark.notes}")
            if tell:
                tell(f"fetching {source}")
            same = next((load for load in loads_ if source.is_url and load.source.place == source.place), None)
            load = replace(same, source=source) if same else None
            loads_.append(load := load or _fetched(stack, benchmark, source, revisions.get(source.place)))
            revisions[source.place] = load.revision  # all loads of a repository are of one commit
        raw = _raw_digest(loads_)
        if pin and pin["raw"] != raw:
            raise DataError(
                f"{benchmark.name} changed upstream: its raw files are {raw[:16]}, and {pin['raw'][:16]} is "
                f"pinned. Take "
                "them with --update."
            )
        if tell:
            tell(f"preparing {benchmark.name}")
        digest, rows = _convert(benchmark, loads_, folder / "tasks.jsonl", pin)
        attachments = attach(benchmark, loads_, folder)
    about: dict[str, Any] = {
        "benchmark": benchmark.name,
        "revision": _revision(loads_),
        "digest": digest,
        "rows": rows,
        "raw": raw,
        "recipe": recipe_digest(benchmark),
        "revisions": {load.source.place: load.revision for load in loads_},
        "files": [{"source": str(load.source), "sha256": load.digests} for load in loads_],
        "attachments": attachments,
        "gym_llm": __version__,
        "prepared": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    path = folder / f"{about['digest'][:16]}.jsonl"
    os.replace(folder / "tasks.jsonl", path)
    write_atomically(folder / _ABOUT, dumps(about, indent=True))
    _merge(cache_folder() / _LOCK, benchmark.name, _pin(about))
    return Prepared(benchmark.name, path, about["revision"], about["digest"], rows, about)


def _convert(benchmark: Benchmark, loads_: list[Fetched], path: Path, pin: dict[str, Any]) -> tuple[str, int]:
    """Write the tasks, and return their digest and number. An error leaves no file."""
    digest, rows = hashlib.sha256(), 0
    with replacing(path) as file:
        for task in benchmark.tasks_of([(load.source, load.rows()) for load in loads_ if not load.source.unread]):
            line = dumps(task)
            if len(line) > (most := limit(ROW_BYTES)):
                raise DataError(f"{benchmark.name}: task {rows} is {too_long(most)}.")
            digest.update(line)
            file.write(line)
            rows += 1
        if not rows:
            raise DataError(f"{benchmark.name} has no tasks: none of the raw rows becomes one.")
        found, pinned_digest = digest.hexdigest(), pin.get("digest")
        if pin.get("recipe") == recipe_digest(benchmark) and pinned_digest != found:
            raise DataError(f"{benchmark.name}: the tasks are {found[:16]}, and {str(pinned_digest)[:16]} is pinned.")
    return found, rows


def _fetched(stack: ExitStack, benchmark: Benchmark, source: Any, revision: str | None) -> Fetched:
    try:
        return stack.enter_context(fetched(source, None if source.is_url else revision))
    except Refused as error:
        if error.status:
            raise
        copies = os.environ.get(COPIES)
        lacks = f"{copies} ({COPIES}) has no copy of it" if copies else f"offline, set {COPIES}=DIR"
        raise DataError(
            f"{benchmark.name} is not cached. {str(error).rstrip('.')}. {lacks[0].upper()}{lacks[1:]}; `gym-llm data "
            f"fetch {benchmark.name} --to DIR` makes one."
        ) from None


def _pin(about: dict[str, Any]) -> dict[str, Any]:
    return {name: about[name] for name in ("revision", "digest", "rows", "raw", "recipe", "revisions")}


def _raw_digest(loads_: list[Fetched]) -> str:
    digests = [(str(load.source), name, digest) for load in loads_ for name, digest in load.digests.items()]
    return hashlib.sha256(repr(sorted(digests)).encode()).hexdigest()


def _revision(loads_: list[Fetched]) -> str:
    revisions = list(dict.fromkeys(load.revision for load in loads_))
    return revisions[0] if len(revisions) == 1 else hashlib.sha256(repr(revisions).encode()).hexdigest()[:40]


def _read(path: Path) -> dict[str, Any]:
    """The content of one of our own files; {} if it is not there, or something else."""
    try:
        value = loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _pins(path: Path) -> dict[str, dict[str, Any]]:
    """The pins in a file; a DataError if the file is damaged, because lost pins would not be noticed."""
    content = _read(path) if path.exists() else {}
    pins = [pin for pin in content.values() if isinstance(pin, dict)]
    texts = all(isinstance(pin.get(name), str) for pin in pins for name in ("raw", "digest", "recipe"))
    if (path.exists() and not content) or len(pins) < len(content) or not texts:
        raise DataError(f"{path} is damaged. Correct it, or delete it to pin anew.")
    if not all(isinstance(pin.get("revisions"), dict) for pin in pins):
        raise DataError(f"{path} is damaged: a pin's `revisions` is an object. Correct it, or delete it to pin anew.")
    return content


def _merge(path: Path, name: str, value: dict[str, Any]) -> None:
    with _locked(path.with_name(f".{path.name}.lock"), None, path.name):
        content = _pins(path) | {name: value}
        write_atomically(path, dumps(dict(sorted(content.items())), indent=True))


@contextmanager
def _locked(path: Path, tell: Tell | None, name: str) -> Iterator[None]:
    """Hold a lock that the kernel drops with the process."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise DataError(f"Cannot write {path}: {error.strerror or error}.") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if tell:
                tell(f"waiting for the process that fetches {name}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
