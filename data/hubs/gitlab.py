"""Datasets in a GitLab project's model registry, which GitLab offers through MLflow's REST API.

A dataset is a registered model, its versions are `x.y.z`, its files the version's artifacts, as NeMo Gym has them. A
plain MLflow server does as well: it numbers versions itself, so `x.y.z` is the version's tag `gitlab.version` there.

The few calls that this takes are made with aiohttp: MLflow's own client brings two dozen packages, takes the token from
the environment only, and cannot tell a 401 of GitLab's from any other failure.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp

from gym_llm.data.files.atomic import replacing
from gym_llm.data.hubs.refusals import refusal
from gym_llm.errors import DataError, Refused

VERSION_TAG = "gitlab.version"

_API = "/api/2.0/mlflow"
_ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"
_GITLAB = re.compile(r"/api/v\d+/projects/[^/]+/ml/mlflow/?$")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*\Z", re.ASCII)
_VERSION = re.compile(r"\d+\.\d+\.\d+\Z", re.ASCII)
_CHUNK_BYTES = 1 << 20
_DEFAULT_EXPERIMENT = "0"
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=300)


class ModelRegistry:
    """A model registry as a shelf of versioned datasets.

    Args:
        tracking_uri: MLflow's address: of GitLab `https://HOST/api/v4/projects/ID/ml/mlflow`, else the server's own.
        token: Sent as a bearer token; None where none is needed.

    Raises:
        DataError: If the address is no http(s) URL. The methods raise it as well, with what the registry refused.
    """

    def __init__(self, tracking_uri: str, token: str | None = None) -> None:
        parts = urlsplit(tracking_uri)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise DataError(
                "mlflow_tracking_uri has to be a URL without a password, such as "
                "https://HOST/api/v4/projects/ID/ml/mlflow; the token is mlflow_tracking_token."
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

    def upload(self, path: str | os.PathLike[str], name: str, version: str) -> str:
        """Add a file to a version of a dataset; both are made if they are not there.

        Args:
            path: The file.
            name: The dataset's name, upper and lower case as given.
            version: `x.y.z`.

        Returns:
            The file's name in that version.
        """
        if not os.path.isfile(path):
            raise DataError(f"There is no file {path}.")
        return asyncio.run(self._upload(Path(path), _checked_name(name), _checked_version(version)))

    def download(self, name: str, version: str, artifact: str, target: str | os.PathLike[str]) -> None:
        """Fetch a file; it takes its name only when it is whole.

        Args:
            name: The dataset's name.
            version: `x.y.z`.
            artifact: The file's name in that version.
            target: Where it goes; its folder is made.
        """
        path = Path(target)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"Cannot make the folder {path.parent}: {error.strerror or error}.") from None
        asyncio.run(self._download(_checked_name(name), _checked_version(version), artifact, path))

    def exists(self, name: str) -> bool:
        """Whether there is a dataset of that name."""
        return asyncio.run(self._look_up(_checked_name(name)))

    def delete(self, name: str) -> None:
        """Delete a dataset, all its versions and their files."""
        asyncio.run(self._delete(_checked_name(name)))

    def list_datasets(self) -> list[tuple[str, str]]:
        """Every dataset's name and latest version."""
        return asyncio.run(self._list())

    async def _upload(self, path: Path, name: str, version: str) -> str:
        async with self._session() as session:
            existing = await self._find(session, name, version)
            if existing is None:
                await self._make_model(session, name)
            run_id, register = existing, False
            if run_id is None and self._is_gitlab:
                run_id = await self._make_version(session, name, version, source=version)
            elif run_id is None:
                body = {
                    "experiment_id": _DEFAULT_EXPERIMENT,
                    "run_name": f"{name} {version}",
                    "start_time": int(time.time() * 1000),
                }
                answer = await self._call(session, "POST", "runs/create", body, f"make dataset {name}")
                run_id, register = answer["run"]["info"]["run_id"], True
            root = await self._artifact_root(session, run_id)
            doing = f"upload {path.name} to version {version} of dataset {name}"
            if existing is not None and await self._has(session, _join(root, path.name), doing):
                raise refusal(
                    self.place, doing, 409, token="mlflow_tracking_token", detail="a version's files do not change"
                )
            await self._put(session, path, _join(root, path.name), doing)
            if register:  # last, so that a version is never there without its file
                await self._make_version(session, name, version, source=f"runs:/{run_id}", run_id=run_id)
            return path.name

    async def _make_model(self, session: aiohttp.ClientSession, name: str) -> None:
        if not await self._exists(session, name):
            try:
                await self._call(session, "POST", "registered-models/create", {"name": name}, f"make dataset {name}")
            except Refused as error:
                if error.code != "RESOURCE_ALREADY_EXISTS":  # somebody else was faster
                    raise

    async def _make_version(
        self, session: aiohttp.ClientSession, name: str, version: str, source: str, run_id: str | None = None
    ) -> str:
        body = {"name": name, "source": source, "tags": [{"key": VERSION_TAG, "value": version}]}
        if run_id is not None:
            body["run_id"] = run_id
        doing = f"make version {version} of dataset {name}"
        answer = await self._call(session, "POST", "model-versions/create", body, doing)
        return str(answer["model_version"]["run_id"])

    async def _download(self, name: str, version: str, artifact: str, target: Path) -> None:
        async with self._session() as session:
            run_id = await self._find(session, name, version)
            if run_id is None:
                there = await self._exists(session, name)
                what = f"no version {version} of dataset {name}" if there else f"no dataset {name}"
                raise Refused(f"{self.place} has {what}; upper and lower case count.", 404)
            url = _join(await self._artifact_root(session, run_id), artifact)
            doing = f"download {artifact} of dataset {name}, version {version}"
            with replacing(target) as file:
                async with self._request(session, "GET", url, doing) as response:
                    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                        file.write(chunk)

    async def _delete(self, name: str) -> None:
        async with self._session() as session:
            versions = [] if self._is_gitlab else await self._versions(session, name)
            runs = [version["run_id"] for version in versions]
            doing = f"delete dataset {name}"
            await self._call(session, "DELETE", "registered-models/delete", {"name": name}, doing)
            for run_id in runs:
                if run_id:
                    await self._call(session, "POST", "runs/delete", {"run_id": run_id}, doing)

    async def _look_up(self, name: str) -> bool:
        async with self._session() as session:
            return await self._exists(session, name)

    async def _exists(self, session: aiohttp.ClientSession, name: str) -> bool:
        try:
            await self._call(session, "GET", "registered-models/get", {"name": name}, f"look for dataset {name}")
        except Refused as error:
            if error.status == 404:
                return False
            raise
        return True

    async def _list(self) -> list[tuple[str, str]]:
        datasets: list[tuple[str, str]] = []
        async with self._session() as session:
            async for model in self._pages(session, "registered-models/search", {}, "registered_models"):
                versions = [_version_of(version) for version in model.get("latest_versions", [])]
                datasets.append((model["name"], max(versions, key=_order, default="")))
        return sorted(datasets)

    async def _find(self, session: aiohttp.ClientSession, name: str, version: str) -> str | None:
        """The run that holds a version's files; None if there is no such version."""
        if self._is_gitlab:
            body = {"name": name, "version": version}
            try:
                version_info = await self._call(session, "GET", "model-versions/get", body, f"look for dataset {name}")
            except Refused as error:
                if error.status == 404:
                    return None
                raise
            return str(version_info["model_version"]["run_id"])
        for version_info in await self._versions(session, name):
            if _version_of(version_info) == version:
                return str(version_info["run_id"])
        return None

    async def _versions(self, session: aiohttp.ClientSession, name: str) -> list[dict[str, Any]]:
        query = {"filter": f"name='{name}'"}
        return [version async for version in self._pages(session, "model-versions/search", query, "model_versions")]

    async def _pages(
        self, session: aiohttp.ClientSession, endpoint: str, query: dict[str, str], key: str
    ) -> AsyncIterator[dict[str, Any]]:
        page = await self._call(session, "GET", endpoint, query, "list datasets")
        while True:
            for item in page.get(key, []):
                yield item
            if not (token := page.get("next_page_token")):
                return
            page = await self._call(session, "GET", endpoint, {**query, "page_token": token}, "list datasets")

    async def _artifact_root(self, session: aiohttp.ClientSession, run_id: str) -> str:
        run = await self._call(session, "GET", "runs/get", {"run_id": run_id}, "find a version's files")
        uri = run["run"]["info"]["artifact_uri"]
        parts = urlsplit(uri)
        if parts.scheme in ("http", "https"):
            return str(uri)
        if parts.scheme == "mlflow-artifacts":
            host = f"{urlsplit(self._url).scheme}://{parts.netloc}" if parts.netloc else self._url
            return f"{host}{_ARTIFACTS}{parts.path}"
        raise DataError(
            f"{self.place} keeps its files at {parts.scheme}://, not behind its own address: "
            "start it with `mlflow server --serve-artifacts`."
        )

    async def _has(self, session: aiohttp.ClientSession, url: str, doing: str) -> bool:
        try:
            async with self._request(session, "GET", url, doing):
                return True
        except Refused as error:
            if error.status == 404:
                return False
            raise

    async def _put(self, session: aiohttp.ClientSession, path: Path, url: str, doing: str) -> None:
        try:
            with open(path, "rb") as file:
                headers = {"Content-Type": "application/octet-stream"}
                async with self._request(session, "PUT", url, doing, data=file, headers=headers):
                    pass
        except OSError as error:
            raise DataError(f"Cannot read {path}: {error.strerror or error}.") from None

    async def _call(
        self, session: aiohttp.ClientSession, method: str, endpoint: str, body: dict[str, Any], doing: str
    ) -> dict[str, Any]:
        """One of MLflow's REST calls; the body goes into the query of a GET."""
        arguments = {"params": body} if method == "GET" else {"json": body}
        async with self._request(session, method, f"{self._url}{_API}/{endpoint}", doing, **arguments) as response:
            try:
                answer = await response.json(content_type=None)
            except ValueError:
                answer = None
            if not isinstance(answer, dict):
                raise DataError(f"{self.place} does not speak MLflow's API: look at mlflow_tracking_uri.")
            return answer

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session:
            yield session

    @asynccontextmanager
    async def _request(
        self, session: aiohttp.ClientSession, method: str, url: str, doing: str, **arguments: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Ask, and hand out an answer that is no refusal."""
        headers = arguments.pop("headers", {})
        if urlsplit(url)[:2] == urlsplit(self._url)[:2]:  # the token is not for other hosts, whatever the answer says
            headers = {**self._headers, **headers}
        try:
            async with session.request(method, url, headers=headers, **arguments) as response:
                if response.status >= 400:
                    code, detail = _said(await response.text(errors="replace"))
                    wait = response.headers.get("Retry-After", "")
                    raise refusal(
                        self.place,
                        doing,
                        404 if code == "RESOURCE_DOES_NOT_EXIST" else response.status,
                        token="mlflow_tracking_token",
                        detail=detail,
                        code=code,
                        wait=wait,
                    )
                yield response
        except (aiohttp.ClientError, TimeoutError) as error:
            detail = str(error) or type(error).__name__
            raise refusal(self.place, doing, 0, token="mlflow_tracking_token", detail=detail) from None


def _said(text: str) -> tuple[str, str]:
    """MLflow's error code and sentence; GitLab has only a sentence, and in one of two places."""
    try:
        answer = json.loads(text)
    except ValueError:
        return "", ""
    if not isinstance(answer, dict):
        return "", ""
    detail = answer.get("message") or answer.get("error_description") or answer.get("error") or ""
    return str(answer.get("error_code", "")), str(detail)


def _version_of(version: dict[str, Any]) -> str:
    """A model version's `x.y.z`: GitLab's own, or the tag that a plain MLflow server has it in."""
    tags = {tag.get("key"): tag.get("value") for tag in version.get("tags", [])}
    return str(tags.get(VERSION_TAG) or version.get("version", ""))


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _join(root: str, artifact: str) -> str:
    """The address of a file, which may be in folders.

    Raises:
        DataError: If the name leads elsewhere.
    """
    parts = artifact.split("/")
    if not all(parts) or {".", ".."} & set(parts):
        raise DataError(f"{artifact!r} is no name of a file in a version: give it as `FILE` or `FOLDER/FILE`.")
    return f"{root.rstrip('/')}/{'/'.join(quote(part, safe='') for part in parts)}"


def _checked_name(name: str) -> str:
    if not _NAME.match(name):
        raise DataError(f"{name!r} is no name for a dataset: letters, digits, `_`, `-` and `.`, e.g. multineedle.")
    return name


def _checked_version(version: str) -> str:
    if not _VERSION.match(version):
        raise DataError(f"{version!r} is no version: give three numbers, x.y.z, e.g. 0.0.1.")
    return version
