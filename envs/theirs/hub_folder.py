"""HubFolder: a folder as OpenEnv's hub has it.

It has an `openenv.yaml`, which names the application, and a `pyproject.toml`, which names its packages. They get an
environment of Python of their own, as frameworks do, unless the folder has one: `.venv`, as `uv sync` makes it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from gym_llm.envs.theirs.environments import python_of
from gym_llm.envs.theirs.frameworks import Framework

_APP = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_LEAST_PYTHON = re.compile(r">=\s*3\.(\d+)")
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class HubFolder:
    """A folder as OpenEnv's hub has it.

    Attributes:
        path: Where it is.
        app: The application: `module:name`.
        packages: What pip installs.
        pythons: The version of Python that it needs, if it is a newer one; else ().
    """

    path: Path
    app: str
    packages: tuple[str, ...]
    pythons: tuple[str, ...]

    @classmethod
    def read(cls, folder: str) -> HubFolder:
        """Read `openenv.yaml` and `pyproject.toml`.

        Raises:
            ValueError: If one of them is missing or invalid.
        """
        path = Path(folder).expanduser().absolute()
        if not path.is_dir():
            raise ValueError(f"There is no folder {path}; the address of a server begins with http://.")
        manifest, project = path / "openenv.yaml", path / "pyproject.toml"
        try:
            app = _object(yaml.safe_load(_text(manifest))).get("app", "server.app:app")
        except (yaml.YAMLError, RecursionError):
            raise ValueError(f"{manifest} is not YAML.") from None
        if not isinstance(app, str) or not _APP.fullmatch(app):
            raise ValueError(f"{manifest}: `app` is {str(app)[:80]!r}, not a name such as server.app:app.")
        try:
            about = _object(tomllib.loads(_text(project)).get("project"))
        except (tomllib.TOMLDecodeError, RecursionError):
            raise ValueError(f"{project} is not TOML.") from None
        packages = about.get("dependencies", [])
        if not isinstance(packages, list) or not all(isinstance(each, str) and each[:1].isalnum() for each in packages):
            raise ValueError(f"{project}: `dependencies` is not a list of packages.")
        least = _LEAST_PYTHON.search(str(about.get("requires-python", "")))
        is_newer = least is not None and int(least[1]) > sys.version_info.minor
        return cls(path, app, tuple(packages), (f"3.{least[1]}",) if least is not None and is_newer else ())

    def python(self, framework: Framework) -> Path:
        """Return the interpreter that has the folder's packages; install them if need be.

        Raises:
            SandboxUnavailable: If they cannot be installed.
        """
        own = self.path / ".venv" / "bin" / "python"
        if own.exists():
            return own
        return python_of(replace(framework, packages=self.packages, options=(), pythons=self.pythons))


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_MOST_BYTES).decode()
    except OSError:
        raise ValueError(f"{file.parent} is not an OpenEnv folder: it has no {file.name}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not text.") from None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
