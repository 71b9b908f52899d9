"""Datasets in a GitLab project's model registry, which GitLab offers through MLflow's REST API.

A dataset is a registered model, its versions are `x.y.z`, its files are the version's artifacts, as in NeMo Gym. A
plain MLflow server works, too: it numbers versions itself, so `x.y.z` is the version's tag `gitlab.version` there.

This module uses aiohttp. MLflow's own client brings two dozen packages, reads the token only from the environment, and
reports a 401 of GitLab like any other failure.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote, urlsplit

import aiohttp

from gym_llm.data.files.atomic import replacing
from gym_llm.data.hubs.hub_errors import refusal
from gym_llm.errors import DataError, Refused
from gym_llm.utils.json_codec import loads
from gym_llm.utils.limits import HUB_BYTES, limit

_TOKEN = "mlflow_tracking_token"
_VERSION_TAG = "gitlab.version"
_API = "/api/2.0/mlflow"
_ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"
_GITLAB = re.compile(r"/api/v\d+/projects/[^/]+/ml/mlflow/?$")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*\Z", re.ASCII)
_VERSION = re.compile(r"\d+\.\d+\.\d+\Z", re.ASCII)
_CHUNK_BYTES = 1 << 20
_ERROR_BYTES = 1 << 16
_PAGE_BYTES = 1 << 12  # what a page counts as, if it is smaller
_DEFAULT_EXPERIMENT = "0"
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=300)

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[ModelRegistry, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[ModelRegistry, P], T]:
    """The method as an ordinary one, which opens a session, runs to its end and closes the session."""

    @functools.wraps(method)
    def run(registry: ModelRegistry, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def in_session() -> T:
            registry._left = limit(HUB_BYTES)
            async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as registry._session:
                return await method(registry, *args, **kwargs)

        return asyncio.run(in_session())

    return run


class ModelRegistry:
    """A model registry as a shelf of versioned datasets.

    Args:
        tracking_uri: The address of MLflow; for GitLab `https://HOST/api/v4/projects/ID/ml/mlflow`.
        token: The bearer token; None if the server needs none.

    Raises:
        DataError: If the address is not an http(s) URL. The methods raise it if the registry refuses a request.
    """

    _session: aiohttp.ClientSession
    _left: int  # bytes that may still be read of answers, files aside

    def __init__(self, tracking_uri: str, token: str | None = None) -> None:
        parts = urlsplit(tracking_uri)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise DataError(
                "mlflow_tracking_uri must be a URL without a password, like https://HOST/api/v4/projects/ID/ml/mlflow."
            )
        self._url = tracking_uri.rstrip("/")
        self._is_gitlab = bool(_GITLAB.search(parts.path))
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.place = f"GitLab ({parts.netloc})" if self._is_gitlab else f"MLflow ({parts.netloc})"

    @classmethod
    def configured(cls, variables: Mapping[str, Any]) -> ModelRegistry:
        """The registry that a configuration names.

        Args:
            variables: Its values `mlflow_tracking_uri` and `mlflow_tracking_token`; what is not among them is taken
                from the environment variables MLFLOW_TRACKING_URI and MLFLOW_TRACKING_TOKEN.
        """
        uri = variables.get("mlflow_tracking_uri") or os.environ.get("MLFLOW_TRACKING_URI")
        if not uri:
            raise DataError("Which registry? Put mlflow_tracking_uri and mlflow_tracking_token into env.yaml.")
        token = variables.get("mlflow_tracking_token") or os.environ.get("MLFLOW_TRACKING_TOKEN")
        return cls(str(uri), str(token) if token else None)

    @_blocking
    async def upload(self, path: str | os.PathLike[str], name: str, version: str) -> str:
        """Add a file to a version (`x.y.z`) of a dataset, both made if they are missing; the file's name in it."""
        path = Path(path)
        if not path.is_file():
            raise DataError(f"There is no file {path}.")
        run_id = existing = await self._find(name, version)
        if existing is None:
            await self._make_model(name)
            if self._is_gitlab:
                run_id = await self._make_version(name, version, source=version)
            else:
                body = {
                    "experiment_id": _DEFAULT_EXPERIMENT,
                    "run_name": f"{name} {version}",
                    "start_time": int(time.time() * 1000),
                }
                answer = await self._call("POST", "runs/create", body, f"make dataset {name}")
                run_id = answer["run"]["info"]["run_id"]
        url = _join(await self._artifact_root(str(run_id)), path.name)
        doing = f"upload {path.name} to version {version} of dataset {name}"
        if existing is not None and await self._has(url, doing):
            raise refusal(self.place, doing, 409, token=_TOKEN, detail="a version's files do not change")
        await self._put(path, url, doing)
        if existing is None and not self._is_gitlab:  # last, so that a version is never there without its file
            await self._make_version(name, version, source=f"runs:/{run_id}", run_id=run_id)
        return path.name

    @_blocking
    async def download(self, name: str, version: str, artifact: str, target: str | os.PathLike[str]) -> None:
        """Fetch a file (`artifact`) of a version; see `replacing` for how it comes to `target`."""
        run_id = await self._find(name, version)
        if run_id is None:
            exists = await self._exists(name)
            what = f"no version {version} of dataset {name}" if exists else f"no dataset {name}"
            raise Refused(f"{self.place} has {what}; upper and lower case count.", 404)
        url = _join(await self._artifact_root(run_id), artifact)
        doing = f"download {artifact} of dataset {name}, version {version}"
        with replacing(target) as file:
            async with self._request("GET", url, doing) as response:
                async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                    file.write(chunk)

    @_blocking
    async def exists(self, name: str) -> bool:
        """Whether there is a dataset of that name."""
        _check_name(name)
        return await self._exists(name)

    @_blocking
    async def delete(self, name: str) -> None:
        """Delete a dataset, all its versions and their files."""
        _check_name(name)
        versions = [] if self._is_gitlab else await self._versions(name)
        doing = f"delete dataset {name}"
        await self._call("DELETE", "registered-models/delete", {"name": name}, doing)
        for version in versions:
            if version["run_id"]:
                await self._call("POST", "runs/delete", {"run_id": version["run_id"]}, doing)

    @_blocking
    async def list_datasets(self) -> list[tuple[str, str]]:
        """Every dataset's name and latest version."""
        datasets: list[tuple[str, str]] = []
        async for model in self._pages("registered-models/search", {}, "registered_models"):
            versions = [_version_of(version) for version in model.get("latest_versions", [])]
            datasets.append((model["name"], max(versions, key=_order, default="")))
        return sorted(datasets)

    async def _make_model(self, name: str) -> None:
        if not await self._exists(name):
            try:
                await self._call("POST", "registered-models/create", {"name": name}, f"make dataset {name}")
            except Refused as error:
                if error.code != "RESOURCE_ALREADY_EXISTS":  # somebody else was faster
                    raise

    async def _make_version(self, name: str, version: str, **origin: Any) -> str:
        """Register a version with its `source` and `run_id`; the run that holds its files."""
        body = {"name": name, "tags": [{"key": _VERSION_TAG, "value": version}], **origin}
        doing = f"make version {version} of dataset {name}"
        answer = await self._call("POST", "model-versions/create", body, doing)
        return str(answer["model_version"]["run_id"])

    async def _exists(self, name: str) -> bool:
        doing = f"look for dataset {name}"
        return await _or_none(self._call("GET", "registered-models/get", {"name": name}, doing)) is not None

    async def _find(self, name: str, version: str) -> str | None:
        """The run that holds a version's files; None if there is no such version."""
        _check_name(name)
        if not _VERSION.match(version):
            raise DataError(f"The version {version!r} is invalid: give three numbers, x.y.z, e.g. 0.0.1.")
        if self._is_gitlab:
            body = {"name": name, "version": version}
            answer = await _or_none(self._call("GET", "model-versions/get", body, f"look for dataset {name}"))
            return str(answer["model_version"]["run_id"]) if answer else None
        runs = (each["run_id"] for each in await self._versions(name) if _version_of(each) == version)
        return next(map(str, runs), None)

    async def _versions(self, name: str) -> list[dict[str, Any]]:
        query = {"filter": f"name='{name}'"}
        return [version async for version in self._pages("model-versions/search", query, "model_versions")]

    async def _pages(self, endpoint: str, query: dict[str, str], key: str) -> AsyncIterator[dict[str, Any]]:
        while True:
            page = await self._call("GET", endpoint, query, "list datasets")
            for item in page.get(key, []):
                yield item
            if not page.get("next_page_token"):
                return
            query = {**query, "page_token": page["next_page_token"]}

    async def _artifact_root(self, run_id: str) -> str:
        run = await self._call("GET", "runs/get", {"run_id": run_id}, "find a version's files")
        uri = run["run"]["info"]["artifact_uri"]
        parts = urlsplit(uri)
        if parts.scheme in ("http", "https"):
            return str(uri)
        if parts.scheme == "mlflow-artifacts":
            host = f"{urlsplit(self._url).scheme}://{parts.netloc}" if parts.netloc else self._url
            return f"{host}{_ARTIFACTS}{parts.path}"
        raise DataError(
            f"{self.place} keeps its files at {parts.scheme}://: start it with `mlflow server --serve-artifacts`."
        )

    async def _has(self, url: str, doing: str) -> bool:
        try:
            async with self._request("GET", url, doing):
                return True
        except Refused as error:
            if error.status == 404:
                return False
            raise

    async def _put(self, path: Path, url: str, doing: str) -> None:
        try:
            with open(path, "rb") as file:
                headers = {"Content-Type": "application/octet-stream"}
                async with self._request("PUT", url, doing, data=file, headers=headers):
                    pass
        except OSError as error:
            raise DataError(f"Cannot read {path}: {error.strerror or error}.") from None

    async def _call(self, method: str, endpoint: str, body: dict[str, Any], doing: str) -> dict[str, Any]:
        """One of MLflow's REST calls; the body goes into the query of a GET."""
        arguments = {"params": body} if method == "GET" else {"json": body}
        async with self._request(method, f"{self._url}{_API}/{endpoint}", doing, **arguments) as response:
            payload = await self._read(response, doing)
            try:
                answer = loads(payload)
            except ValueError:
                answer = None
            if not isinstance(answer, dict):
                raise DataError(f"{self.place} does not speak MLflow's API: look at mlflow_tracking_uri.")
            return answer

    async def _read(self, response: aiohttp.ClientResponse, doing: str) -> bytes:
        """An answer's body, within what one call may read: pages may go on without end, too."""
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > self._left:
                raise DataError(
                    f"{self.place} sent more than {limit(HUB_BYTES) / (1 << 20):.3g} MiB when asked to {doing}: the "
                    f"variable {HUB_BYTES} raises the limit."
                )
        self._left -= max(len(body), _PAGE_BYTES)
        return bytes(body)

    @asynccontextmanager
    async def _request(
        self, method: str, url: str, doing: str, headers: dict[str, str] | None = None, **arguments: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer that is no refusal."""
        if urlsplit(url)[:2] == urlsplit(self._url)[:2]:  # the token is not for other hosts, whatever the answer says
            headers = {**self._headers, **(headers or {})}
        try:
            async with self._session.request(method, url, headers=headers, **arguments) as response:
                status = response.status
                if status >= 400:
                    code, detail = _error_of(await response.content.read(_ERROR_BYTES))
                    status = 404 if code == "RESOURCE_DOES_NOT_EXIST" else status
                    wait = response.headers.get("Retry-After", "")
                    raise refusal(self.place, doing, status, token=_TOKEN, detail=detail, code=code, wait=wait)
                yield response
        except (aiohttp.ClientError, TimeoutError) as error:
            raise refusal(self.place, doing, 0, token=_TOKEN, detail=str(error) or type(error).__name__) from None


async def _or_none(answer: Awaitable[T]) -> T | None:
    """What was asked for, or `None` if there is no such thing."""
    try:
        return await answer
    except Refused as error:
        if error.status == 404:
            return None
        raise


def _error_of(text: bytes) -> tuple[str, str]:
    """MLflow's error code and sentence; GitLab has only a sentence, and in one of two places."""
    try:
        answer = loads(text)
    except ValueError:
        return "", ""
    if not isinstance(answer, dict):
        return "", ""
    detail = answer.get("message") or answer.get("error_description") or answer.get("error") or ""
    return str(answer.get("error_code", "")), str(detail)


def _version_of(version: dict[str, Any]) -> str:
    """A model version's `x.y.z`: GitLab's own, or the tag that a plain MLflow server has it in."""
    tags = {tag.get("key"): tag.get("value") for tag in version.get("tags", [])}
    return str(tags.get(_VERSION_TAG) or version.get("version", ""))


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _join(root: str, artifact: str) -> str:
    """The address of a file, which may be in folders.

    Raises:
        DataError: If the name leads elsewhere.
    """
    parts = artifact.split("/")
    if not all(parts) or {".", ".."} & set(parts):
        raise DataError(f"The file name {artifact!r} is invalid: give `FILE` or `FOLDER/FILE`.")
    return f"{root.rstrip('/')}/{'/'.join(quote(part, safe='') for part in parts)}"


def _check_name(name: str) -> None:
    if not _NAME.match(name):
        raise DataError(f"The dataset name {name!r} is invalid: use letters, digits, `_`, `-` and `.`.")
