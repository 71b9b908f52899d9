"""Datasets on the Hugging Face hub: uploading, downloading, deleting, listing."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import huggingface_hub
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError, LocalEntryNotFoundError
from huggingface_hub.hf_api import DatasetInfo
from huggingface_hub.utils import tqdm

from gym_llm.data.files.atomic import replacing
from gym_llm.data.files.datasets import DatasetConfig
from gym_llm.data.files.raw_files import check_size
from gym_llm.data.files.reading import read_rows, too_long
from gym_llm.data.hubs import names
from gym_llm.data.hubs.gitlab import ModelRegistry
from gym_llm.data.hubs.hub_errors import refusal
from gym_llm.data.hubs.publishing import Split, check_training_rows, name_in_repo
from gym_llm.errors import DataError
from gym_llm.types import HubName
from gym_llm.utils.json_codec import dumps
from gym_llm.utils.limits import ROW_BYTES, limit

_PLACE = "Hugging Face"
_TOKEN = "hf_token"
_READABLE = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
_RESET = re.compile(r"\bt=(\d+)")
_NO_CREDENTIALS = "Invalid credentials"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Uploaded:
    """The result of an upload.

    Attributes:
        file: The file's name in the repository.
        url: The commit's address, or the pull request's.
        is_pull_request: Whether `url` is a pull request.
    """

    file: str
    url: str
    is_pull_request: bool


def _bounded(file: str) -> type[tqdm]:
    """A progress bar that ends the download of a file that is larger than the limit, whatever the hub declares."""

    class Bounded(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._size = int(kwargs.get("initial") or 0)
            check_size(file, int(kwargs.get("total") or 0))
            super().__init__(*args, **kwargs)

        def update(self, n: float | None = 1) -> bool | None:
            self._size += int(n or 0)
            check_size(file, self._size)
            return super().update(n)

    return Bounded


class Hub:
    """The Hugging Face hub as a shelf of datasets. `HF_ENDPOINT` names another hub than huggingface.co.

    Args:
        token: The user's; None for that of `HF_TOKEN` or `hf auth login`, if there is one.

    Every method raises DataError with what the hub refused.
    """

    place = _PLACE

    def __init__(self, token: str | None = None) -> None:
        self._token = token
        self._api = huggingface_hub.HfApi(token=token)

    def upload(
        self,
        path: str | os.PathLike[str],
        repo_id: str,
        *,
        split: Split = "train",
        create_pr: bool = False,
        revision: str | None = None,
        commit_message: str | None = None,
        commit_description: str | None = None,
        collection: str | None = None,
    ) -> Uploaded:
        """Upload a file; the repository is made, private, if it is not there.

        Args:
            path: JSON Lines (plain, .gz, .zst) or parquet.
            repo_id: `ORG/NAME`.
            split: Which split the rows are; training rows are checked first.
            create_pr: Open a pull request instead of writing to the branch.
            revision: The branch, `main` if None. With `create_pr` it is made if it is not there.
            commit_message: Its first line; None for `Upload FILE`.
            commit_description: Its further lines.
            collection: `ORG/TITLE-SLUG`, to which the dataset is added unless it is in it.
        """
        name = name_in_repo(path, split)
        if not os.path.isfile(path):
            raise DataError(f"There is no file {path}.")
        if split == "train":
            check_training_rows(path)
        with _asking(f"make the repository {repo_id}"):
            self._api.create_repo(repo_id, repo_type="dataset", private=True, exist_ok=True)
        if create_pr and revision:
            with _asking(f"make the branch {revision} of {repo_id}"):
                if not self._api.revision_exists(repo_id, revision, repo_type="dataset"):
                    self._api.create_branch(repo_id, branch=revision, repo_type="dataset")
        addition = huggingface_hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=os.fspath(path))
        with _asking(f"upload {name} to {repo_id}"):
            commit = self._api.create_commit(
                repo_id,
                [addition],
                repo_type="dataset",
                commit_message=commit_message or f"Upload {name}",
                commit_description=commit_description,
                revision=revision,
                create_pr=create_pr,
            )
        if collection is not None:
            with _asking(f"add {repo_id}, which is uploaded, to the collection {collection}"):
                self._api.add_collection_item(collection, repo_id, "dataset", exists_ok=True)
        return Uploaded(name, commit.pr_url or commit.commit_url, create_pr)

    def download_artifact(
        self, repo_id: str, artifact: str, target: str | os.PathLike[str], *, revision: str | None = None
    ) -> None:
        """Fetch one file; it takes its name only when it is whole.

        Args:
            repo_id: `ORG/NAME`.
            artifact: The file's name in the repository.
            target: Where it goes. A compressed or parquet file becomes plain JSON Lines if this ends in `.jsonl`.
            revision: A branch, tag or commit; None for `main`.
        """
        info = self._info(repo_id, revision)
        files = [entry.rfilename for entry in info.siblings or []]
        if artifact not in files:
            data_files = ", ".join(name for name in files if name.endswith(_READABLE)) or "no data files"
            raise DataError(f"{repo_id} has no file {artifact}; there are: {data_files}.")
        _place(self._fetch(repo_id, artifact, info.sha), artifact, Path(target))

    def download_splits(
        self, repo_id: str, folder: str | os.PathLike[str], *, split: str | None = None, revision: str | None = None
    ) -> list[Path]:
        """Fetch splits as `FOLDER/SPLIT.jsonl`, each taking its name only when it is whole.

        Rows of JSON Lines files are kept byte for byte; `split` is None for all. Returns the files.
        """
        sha = self._info(repo_id, revision).sha
        files = self._split_files(repo_id, split, sha)
        paths = {name: Path(folder, f"{name}.jsonl") for name in files}
        for name, path in paths.items():
            self._write_split(repo_id, name, files[name], path, sha)
        return list(paths.values())

    def download_split(
        self, repo_id: str, split: str, target: str | os.PathLike[str], *, revision: str | None = None
    ) -> None:
        """Fetch one split as a file of that name; see `download_splits`."""
        sha = self._info(repo_id, revision).sha
        self._write_split(repo_id, split, self._split_files(repo_id, split, sha)[split], Path(target), sha)

    def fetch_files(
        self,
        repo_id: str,
        *,
        config: str | None = None,
        split: str | None = None,
        files: Sequence[str] = (),
        revision: str | None = None,
    ) -> tuple[str, list[tuple[str, Path]]]:
        """Fetch files into the hub's cache: those named, or those of a split as the `datasets` library sees them.

        Args:
            repo_id: `ORG/NAME`.
            config: The dataset's configuration; None for the default one.
            split: The split, `train` if None.
            files: Names of files; () for the split.
            revision: A branch, tag or commit; None for `main`. A commit whose files are in the cache needs no request.

        Returns:
            The commit, and each file's name in the repository and path in the cache.
        """
        sha = revision if names.is_commit(revision) else self._info(repo_id, revision).sha
        if not files:
            root = f"hf://datasets/{repo_id}@{sha}/"
            split = split or "train"
            files = [name.removeprefix(root) for name in self._split_files(repo_id, split, sha, config)[split]]
        return str(sha), [(name, self._fetch(repo_id, name, sha)) for name in files]

    def config_names(self, repo_id: str, revision: str | None = None) -> list[str]:
        """The configurations of a dataset."""
        import datasets

        with _loading(f"read {repo_id}"), names.safe_headers():
            return list(datasets.get_dataset_config_names(repo_id, revision=revision, token=self._token))

    def delete(self, repo_id: str) -> None:
        """Delete a dataset's repository."""
        with _asking(f"delete {repo_id}"):
            self._api.delete_repo(repo_id, repo_type="dataset")

    def exists(self, repo_id: str) -> bool:
        """Whether there is such a dataset that the token may see."""
        with _asking(f"look for {repo_id}"):
            return self._api.repo_exists(repo_id, repo_type="dataset")

    def list_datasets(self, organization: str, prefix: str = "") -> list[tuple[str, bool]]:
        """The datasets of an organisation that begin with a prefix: each `ORG/NAME`, and whether it is private."""
        with _asking(f"list the datasets of {organization}"):
            datasets = list(self._api.list_datasets(author=organization, search=prefix or None))
        beginning = f"{organization}/{prefix}".lower()
        return sorted((info.id, bool(info.private)) for info in datasets if info.id.lower().startswith(beginning))

    def _info(self, repo_id: str, revision: str | None) -> DatasetInfo:
        at = f" at {revision}" if revision else ""
        with _asking(f"read {repo_id}{at}"):
            info = self._api.dataset_info(repo_id, revision=revision)
            names.commit(info.sha)
            return info

    def _fetch(self, repo_id: str, file: str, sha: str | None) -> Path:
        """The file in the cache, complete."""
        with _asking(f"download {names.file(file)} of {repo_id}"), names.safe_headers():
            download = self._api.hf_hub_download
            return Path(download(repo_id, file, repo_type="dataset", revision=sha, tqdm_class=_bounded(file)))

    def _split_files(
        self, repo_id: str, split: str | None, sha: str | None, config: str | None = None
    ) -> dict[str, list[str]]:
        """The files of each split, as the `datasets` library sees them."""
        import datasets  # two seconds, which other commands need not spend

        with _loading(f"read {repo_id}"), names.safe_headers():
            builder = datasets.load_dataset_builder(repo_id, config, revision=sha, token=self._token)
        data_files = builder.config.data_files
        files_by_split: dict[str, list[str]] = {
            names.split(str(name)): list(files) for name, files in data_files.items()
        }
        if split is None:
            return files_by_split
        if split not in files_by_split:
            raise DataError(f"{repo_id} has no split {split}; there are: {', '.join(files_by_split) or 'none'}.")
        return {split: files_by_split[split]}

    def _write_split(self, repo_id: str, split: str, sources: list[str], path: Path, sha: str | None) -> None:
        if not path.name.endswith(".jsonl"):
            raise DataError(f"A split is written as JSON Lines: name a .jsonl file, not {path}.")
        root = f"hf://datasets/{repo_id}@{sha}/"
        files = [source.removeprefix(root) for source in sources if source.startswith(root)]
        if len(files) == len(sources) and all(name.endswith(_READABLE) for name in files):
            fetched = [self._fetch(repo_id, name, sha) for name in files]
            with replacing(path) as file:
                for source in fetched:
                    _write_lines(source, file)
            return
        import datasets

        with replacing(path) as file, _loading(f"read split {split} of {repo_id}"), names.safe_headers():
            for row in datasets.load_dataset(repo_id, split=split, revision=sha, token=self._token, streaming=True):
                file.write(dumps(row))


def download(dataset: DatasetConfig, *, source: HubName, variables: Mapping[str, Any]) -> None:
    """Fetch a dataset of a configuration to its `jsonl_fpath`, whole or not at all.

    Args:
        dataset: Names where it is.
        source: Which of its two places to take it from.
        variables: The configuration's top-level values: `hf_token`, `mlflow_tracking_uri`, `mlflow_tracking_token`.

    Raises:
        DataError: If it cannot be had; the message names the dataset.
    """
    target = Path(dataset.file)
    if source == "gitlab":
        identifier = dataset.gitlab_identifier
        if identifier is None:
            raise DataError(f"Dataset {dataset.name} has no gitlab_identifier to download it from.")
        registry = ModelRegistry.configured(variables)
        registry.download(identifier.dataset_name, identifier.version, identifier.artifact_fpath, target)
        return
    place = dataset.huggingface_identifier
    if place is None:
        raise DataError(f"Dataset {dataset.name} has no huggingface_identifier to download it from.")
    hub = Hub(variables.get(_TOKEN))
    if place.artifact_fpath is not None:
        hub.download_artifact(place.repo_id, place.artifact_fpath, target)
    else:
        hub.download_split(place.repo_id, dataset.type, target)


def _place(cached: Path, artifact: str, target: Path) -> None:
    """Put a downloaded file where it is wanted, as plain lines if the target says so."""
    if artifact.endswith(_READABLE) and target.name.endswith(".jsonl") and not artifact.endswith(".jsonl"):
        with replacing(target) as file:
            _write_lines(cached, file)
        return
    if Path(artifact).suffix != target.suffix:
        raise DataError(f"{artifact} cannot be written as {target}: name a file that ends in {Path(artifact).suffix}.")
    with replacing(target) as file, open(cached, "rb") as download:
        shutil.copyfileobj(download, file, _CHUNK_BYTES)


def _write_lines(source: Path, file: BinaryIO) -> None:
    for number, line in read_rows(source):
        if len(line) > (most := limit(ROW_BYTES)):
            raise DataError(f"{source.name}, line {number}: {too_long(most)}.")
        file.write(line if line.endswith(b"\n") else line + b"\n")


@contextmanager
def _asking(doing: str) -> Iterator[None]:
    """Turn what the client raises into one sentence; it never has the token in it."""
    try:
        yield
    except HfHubHTTPError as error:
        raise _refused(doing, error) from None
    except (HTTPError, LocalEntryNotFoundError, ConnectionError) as error:
        if cause := _http_error(error):
            raise _refused(doing, cause) from None
        detail = str(error).partition("\n")[0] or type(error).__name__
        raise refusal(_PLACE, doing, 0, token=_TOKEN, detail=detail) from None
    except HFValidationError as error:
        raise DataError(f"{_PLACE} cannot {doing}: {error}") from None
    except DataError:
        raise
    except Exception as error:  # the client trusts what a hub says: what is nonsense is an error of any class
        reason = " ".join(str(error).split())[:400].rstrip(".")
        raise DataError(f"{_PLACE} cannot {doing} ({type(error).__name__}: {reason}).") from None


@contextmanager
def _loading(doing: str) -> Iterator[None]:
    """The same for the `datasets` library, which wraps what the client raises and adds errors of every kind."""
    try:
        with _asking(doing):
            yield
    except DataError:
        raise
    except Exception as error:
        if cause := _http_error(error):
            raise _refused(doing, cause) from None
        reason = " ".join(str(error).split())[:400].rstrip(".")
        raise DataError(f"`datasets` cannot {doing} ({type(error).__name__}: {reason}).") from None


def _http_error(error: BaseException | None) -> HfHubHTTPError | None:
    """The hub's answer that an error goes back to."""
    while error is not None and not isinstance(error, HfHubHTTPError):
        error = error.__cause__ or error.__context__
    return error


def _refused(doing: str, error: HfHubHTTPError) -> DataError:
    response = error.response
    detail = str(error.server_message or response.headers.get("X-Error-Message", ""))
    status = response.status_code
    if status == 401 and _NO_CREDENTIALS not in detail:
        status = 404  # the hub does not say whether a repository is private or not there at all
    reset = _RESET.search(response.headers.get("ratelimit", ""))
    wait = response.headers.get("Retry-After") or (reset[1] if reset else "")
    return refusal(_PLACE, doing, status, token=_TOKEN, detail=detail, wait=wait)
