"""Preparing data: check every row, compute statistics, compare them with those on disk, collate into training files.

One pass over each file, in worker processes; nothing takes its final name before everything has been found right.
"""

from __future__ import annotations

import io
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

from gym_llm.core.registry.classes import env_class
from gym_llm.core.tasks import TaskKind
from gym_llm.core.verifier_env import VerifierEnv
from gym_llm.data.files.atomic import replacing
from gym_llm.data.files.datasets import DatasetConfig
from gym_llm.data.files.reading import parse_source, read_rows
from gym_llm.data.files.row_faults import Faults
from gym_llm.data.prepare.collate import RowTagger
from gym_llm.data.prepare.dataset_metrics import DatasetStatistics
from gym_llm.data.prepare.dataset_metrics_files import PreparedFile, store_metrics
from gym_llm.data.prepare.line_workers import ChunkWorkers
from gym_llm.data.prepare.tokens import DEFAULT_TOKENIZER, NO_TOKENIZER, WORDS_ONLY, try_tokenizer
from gym_llm.data.prepare.validation import CheckedChunk, Chunk, row_kind
from gym_llm.errors import DataError, PreparationFailed, TokenizerUnavailable
from gym_llm.utils.limits import ROW_BYTES, limit

Mode: TypeAlias = Literal["example_validation", "train_preparation"]
Show: TypeAlias = Callable[[str, int, int, int | None], None]
"""Shows progress: the file, its rows and bytes so far, its bytes in all (None if they are not known)."""

TYPES: dict[Mode, tuple[str, ...]] = {
    "example_validation": ("example",),
    "train_preparation": ("train", "validation", "benchmark"),
}

_CHUNK_BYTES = 1 << 19
_ALONE_BYTES = 1 << 22  # less than this is done before workers have started
_COMPRESSED = {".gz", ".zst"}
_MAX_WORKERS = 4  # each takes about 65 MB, and a tokenizer's vocabulary


@dataclass(frozen=True)
class EnvDataset:
    """A data set and the environment that its rows are for.

    Attributes:
        section: The configuration's name for the environment.
        env_id: Its Gymnasium id.
        config: The data set.
        kwargs: The environment's arguments.
    """

    section: str
    env_id: str
    config: DatasetConfig
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        """Whether it is a file here, not a data set on the hub."""
        return not parse_source(self.config.jsonl_fpath).is_hub


@dataclass
class Preparation:
    """The result of preparing datasets.

    Attributes:
        datasets: Each data set.
        collated: Each training file.
        notes: Notes for the user, one sentence each.
    """

    datasets: list[PreparedFile]
    collated: list[PreparedFile]
    notes: list[str]


def prepare_data(
    datasets: Iterable[EnvDataset],
    output_dir: str | os.PathLike[str],
    *,
    mode: Mode,
    tokenizer: str = DEFAULT_TOKENIZER,
    overwrite_metrics: bool = False,
    download: Callable[[DatasetConfig], None] | None = None,
    show: Show | None = None,
    workers: int | None = None,
    exclude: Callable[[int, bytes], bool] | None = None,
) -> Preparation:
    """Check data sets, write their statistics beside them, and collate them into `DIR/TYPE.jsonl`.

    Args:
        datasets: All data sets of a configuration; `mode` says which are prepared.
        output_dir: Where the collated files and their statistics go; made if it is not there.
        mode: `train_preparation` prepares `train`, `validation` and `benchmark`, `example_validation` prepares
            `example`.
        tokenizer: Counts input tokens, see `load_tokenizer`; `none` for no counting. If tiktoken's vocabulary cannot be
            had, words are counted alone and the notes say so.
        overwrite_metrics: Replace statistics on disk that disagree, instead of failing.
        download: Fetches a data set whose file is missing.
        show: Shows progress.
        workers: Worker processes; None for one per core, or none where there is little to do.
        exclude: Says whether a line of a training data set is left out, by its number and bytes.

    Raises:
        PreparationFailed: If rows are wrong (nothing is written then), or statistics on disk disagree (the new ones are
            written beside them as `*_conflict.json`, nothing else).
        DataError: If files or environments are missing (all of them are named), or a file cannot be read or written.
    """
    chosen = [dataset for dataset in datasets if dataset.config.type in TYPES[mode]]
    if not chosen:
        raise DataError(f"The configuration has no datasets of type {' or '.join(TYPES[mode])}, which {mode} prepares.")
    _fetch_missing(chosen, download)
    setups = [_setup(dataset) for dataset in chosen]
    metrics_paths = _metrics_paths(chosen)
    _check_targets(chosen, Path(output_dir))
    notes: list[str] = []
    if workers is None:
        workers = _worker_count(chosen, [setup[0] for setup in setups])
    counter, tokenizer_name = _choose_tokenizer(tokenizer, workers, notes)
    with ExitStack() as stack:
        folder = stack.enter_context(_output_folder(Path(output_dir)))
        pool = stack.enter_context(ChunkWorkers("gym_llm.data.prepare.validation:RowChecker", workers))
        files = {
            kind: stack.enter_context(replacing(folder / f"{kind}.jsonl"))
            for kind in TYPES[mode]
            if any(dataset.config.type == kind for dataset in chosen)
        }
        totals = {kind: DatasetStatistics(counter) for kind in files}
        prepared: list[PreparedFile] = []
        faults: list[Faults] = []
        for dataset, setup, path in zip(chosen, setups, metrics_paths, strict=True):
            config = dataset.config
            statistics = DatasetStatistics(counter)
            chosen_lines = exclude if config.type == "train" else None
            checked = pool.map((*setup, tokenizer_name), _chunks(config, show, chosen_lines))
            faults.append(_collect(config, checked, [statistics, totals[config.type]], files[config.type]))
            metrics = config.as_written() | statistics.as_dict()
            statistics.close()
            prepared.append(PreparedFile(f"{dataset.section}/{config.name}", metrics, path))
        if any(fault.rows for fault in faults):
            raise PreparationFailed("\n".join(fault.report() for fault in faults if fault.rows))
        collated = []
        for kind, total in totals.items():
            target = folder / f"{kind}.jsonl"
            configs = [dataset.config for dataset in chosen if dataset.config.type == kind]
            metrics = _collated_header(kind, target, configs) | total.as_dict()
            total.close()
            collated.append(PreparedFile(kind, metrics, folder / f"{kind}_metrics.json", target))
        store_metrics([*prepared, *collated], overwrite_metrics, notes)
    return Preparation(prepared, collated, notes)


def _fetch_missing(datasets: Sequence[EnvDataset], download: Callable[[DatasetConfig], None] | None) -> None:
    """Download what is missing; a DataError names all files that cannot be, or were not to be, downloaded."""
    missing = _missing(datasets)
    unpublished = [d for d in missing if not (d.config.huggingface_identifier or d.config.gitlab_identifier)]
    hint = "" if len(unpublished) == len(missing) else " --download fetches those that are published."
    if download and unpublished:
        missing = unpublished
        hint = " They name no huggingface_identifier or gitlab_identifier to download them by."
    elif download:
        for dataset in missing:
            download(dataset.config)
        missing, hint = _missing(missing), ""
    if missing:
        names = [f"  {dataset.config.jsonl_fpath} ({dataset.section}/{dataset.config.name})" for dataset in missing]
        raise DataError("\n".join([f"Data files are missing: {len(missing)}.{hint}", *names]))


def _missing(datasets: Iterable[EnvDataset]) -> list[EnvDataset]:
    return [dataset for dataset in datasets if dataset.is_file and not os.path.isfile(dataset.config.file)]


def _setup(dataset: EnvDataset) -> tuple[type[VerifierEnv], dict[str, Any], RowTagger | None]:
    """What a `RowChecker` needs to know of the environment."""
    verifier = env_class(dataset.env_id)
    kwargs = dataset.config.env_kwargs(dataset.kwargs)
    named_by_row = not isinstance(row_kind(verifier, kwargs), TaskKind)
    return verifier, kwargs, None if named_by_row else RowTagger(dataset.section, dataset.env_id)


def _choose_tokenizer(name: str, workers: int, notes: list[str]) -> tuple[str, str | None]:
    """What metrics call the token counter, and the tokenizer's name, None for none."""
    if name == NO_TOKENIZER:
        return WORDS_ONLY, None
    # Not in this process if others do the counting: a vocabulary takes up to 100 MB.
    with ChunkWorkers("functools:partial", min(workers, 1)) as pool:
        (tokenizer,) = pool.map((try_tokenizer,), [name])
    if not isinstance(tokenizer, TokenizerUnavailable):
        return tokenizer, name
    if not tokenizer.has_substitute:
        raise DataError(str(tokenizer))
    notes.append(str(tokenizer))
    return WORDS_ONLY, None


def _check_targets(datasets: Sequence[EnvDataset], folder: Path) -> None:
    for dataset in datasets:
        target = folder / f"{dataset.config.type}.jsonl"
        if dataset.is_file and target.resolve() == Path(dataset.config.file).resolve():
            raise DataError(f"{target} is itself a dataset and would be replaced: name another output folder.")


def _metrics_paths(datasets: Sequence[EnvDataset]) -> list[Path | None]:
    """Where each data set's statistics go: `<stem>_metrics.json`, with the name where several share a file."""
    stems = [_stem(dataset.config) if dataset.is_file else None for dataset in datasets]
    names: defaultdict[Path | None, set[str]] = defaultdict(set)
    for dataset, stem in zip(datasets, stems, strict=True):
        names[stem].add(dataset.config.name)
    paths = []
    for dataset, stem in zip(datasets, stems, strict=True):
        suffix = f"_{dataset.config.name}" if len(names[stem]) > 1 else ""
        paths.append(stem and stem.with_name(f"{stem.name}{suffix}_metrics.json"))
    return paths


def _stem(config: DatasetConfig) -> Path:
    path = Path(config.file)
    return (path.with_suffix("") if path.suffix in _COMPRESSED else path).with_suffix("")


def _worker_count(datasets: Sequence[EnvDataset], verifiers: Iterable[type[VerifierEnv]]) -> int:
    if any(verifier.__module__ == "__main__" for verifier in verifiers):
        return 0  # another process cannot import it
    sizes = [os.path.getsize(dataset.config.file) if dataset.is_file else _ALONE_BYTES for dataset in datasets]
    if sum(sizes) < _ALONE_BYTES:
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MAX_WORKERS)


@contextmanager
def _output_folder(path: Path) -> Iterator[Path]:
    """Make the folder; an error takes away again what was made."""
    new_folders = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"Cannot make the output folder {path}: {error.strerror or error}.") from None
    try:
        yield path
    except BaseException:
        for folder in new_folders:
            try:
                folder.rmdir()
            except OSError:  # something is in it: a conflict file, or another process's work
                break
        raise


def _chunks(
    config: DatasetConfig, show: Show | None, exclude: Callable[[int, bytes], bool] | None = None
) -> Iterator[Chunk]:
    source = config.source
    path = config.jsonl_fpath
    total = os.path.getsize(path) if path.endswith(".jsonl") and source == path else None
    size, rows, done, most = 0, 0, 0, limit(ROW_BYTES)
    lines: list[bytes | None] = []
    for number, line in read_rows(source):
        if exclude is not None and exclude(number, line):
            if lines:
                yield Chunk(number - len(lines), lines)
                lines, size, rows = [], 0, rows + len(lines)
            continue
        lines.append(line if len(line) <= most else None)
        size += len(line)
        if size >= _CHUNK_BYTES:
            yield Chunk(number - len(lines) + 1, lines)
            rows += len(lines)
            done += size
            if show:
                show(path, rows, done, total)
            lines, size = [], 0
    if lines:
        yield Chunk(number - len(lines) + 1, lines)
    if show:
        show(path, rows + len(lines), done + size, done + size)


def _collect(
    config: DatasetConfig, checked: Iterable[CheckedChunk], statistics: Sequence[DatasetStatistics], file: BinaryIO
) -> Faults:
    """Add a data set's chunks to the statistics and its rows to the file, until one of them is wrong."""
    faults = Faults(config.source)
    lines = 0
    for chunk in checked:
        lines += chunk.lines
        for problem in chunk.problems:
            faults.add(*problem)
        if faults.rows:
            continue
        for each in statistics:
            each.add(chunk.statistics, config.num_repeats)
        if config.num_repeats == 1:
            file.write(chunk.output)
        else:
            file.writelines(line * config.num_repeats for line in io.BytesIO(chunk.output))
    if not lines:
        raise DataError(f"{config.source} has no rows.")
    return faults


def _collated_header(kind: str, target: Path, configs: Sequence[DatasetConfig]) -> dict[str, Any]:
    """What the statistics of a collated file begin with: as in NeMo Gym its data set's configuration, if it has one."""
    if len(configs) == 1:
        return configs[0].as_written()
    datasets = [config.as_written() for config in configs]
    return {"name": kind, "type": kind, "jsonl_fpath": str(target), "datasets": datasets}
