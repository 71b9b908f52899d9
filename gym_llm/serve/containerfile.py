"""Write a Containerfile: an image that serves environments, for podman, docker and other builders."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from gym_llm.core.registry.env_files import find_env
from gym_llm.errors import UsageError
from gym_llm.version import __version__

PORT = 8000
_USER = 10001
_TEMPLATE = """\
# An image that serves {titles}. Build it in the folder that has the files which it copies, and run it:
#   podman build --tag {tag} --file Containerfile .
#   podman run --publish 127.0.0.1:{port}:{port} --env GYM_LLM_TOKEN {tag}
# Where gym_llm is on no index of packages: `pip wheel --no-deps --wheel-dir . CLONE`, and write this file again.
# It does not start without the token. Further options of `gym-llm serve` go at the end, e.g. --workers 4.
FROM docker.io/library/python:3.12-slim
ARG REQUIREMENT={requirement}
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /srv/env
{copies}RUN pip install --no-cache-dir "$REQUIREMENT" && pip uninstall --yes --quiet setuptools wheel pip
RUN useradd --uid {user} --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin player && chmod -R a+rX /srv
USER {user}
EXPOSE {port}
HEALTHCHECK --interval=30s --timeout=3s --start-period=30s --retries=3 CMD {healthcheck}
ENTRYPOINT {command}
"""
_HEALTHCHECK = f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{PORT}/health', timeout=2)"


def containerfile(
    env_ids: Sequence[str], *, tasks: str | None = None, arguments: Sequence[str] = (), requirement: str | None = None
) -> str:
    """The text of a Containerfile.

    The image is Debian's with Python, has neither compilers nor pip, and runs as a user who may write nothing.

    Args:
        env_ids: Registered ids, or files that have an environment, which are copied.
        tasks: A task file of a single environment, which is copied, or a hub's.
        arguments: Further ones of `gym-llm serve`.
        requirement: What pip installs, e.g. `gym-llm[math]`, or a wheel, which is copied; None for this version. The
            build's argument REQUIREMENT goes over it.

    Raises:
        UsageError: If a file is not there, or not in the current folder or below it.
    """
    requirement = requirement or f"gym-llm=={__version__}"
    files = [_file(env_id) for env_id in env_ids]
    files += [Path(tasks)] if tasks is not None and not tasks.startswith("hf:") else []
    files += [Path(requirement)] if requirement.endswith(".whl") else []
    for file in filter(None, files):
        if file.is_absolute() or ".." in file.parts or not file.is_file():
            raise UsageError(f"{file} is not a file in this folder or below it, so it cannot be copied into the image.")
    command = ["gym-llm", "serve", *env_ids, "--host", "0.0.0.0", "--port", str(PORT)]
    command += [] if tasks is None else ["--tasks", tasks]
    name = env_ids[0].rpartition("/")[2].removesuffix(".py").lower()
    return _TEMPLATE.format(
        titles=" ".join(f"{', '.join(env_ids)}".split()),
        tag="".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name).strip("-") or "env",
        requirement=shlex.quote(f"./{requirement}" if requirement.endswith(".whl") else requirement),
        copies="".join(f"COPY {json.dumps([file.as_posix(), file.as_posix()])}\n" for file in filter(None, files)),
        healthcheck=json.dumps(["python", "-c", _HEALTHCHECK]),
        command=json.dumps([*command, *arguments]),
        user=_USER,
        port=PORT,
    )


def _file(env_id: str) -> Path | None:
    if isinstance(find_env(env_id), str):
        return None
    head = env_id.partition(":")[0]
    return Path(head if head.endswith(".py") else f"{head}.py")
