"""Other trainers' packages: each in an environment of its own, made once, laid over the one that the tests run in.

What a trainer for GPUs pins (torch, flash-attn, vLLM) is left out: a peer is installed without its dependencies, and
with the few that what we use of it imports. Everything else, gym_llm included, is this environment's.

The environments are in the user's cache, so that all checkouts share them; `python -P tests/peers.py` makes those that
are missing, which `make test` does in the background. The cache also keeps for which sources each test last passed.
`python -P tests/peers.py --record` writes these passes to tests/peers_passed.json, which is committed. `make test`
(GYM_LLM_PEERS=changed) skips a test while its sources are those of the cache or of that file. `peers_newest.py` plays
the newest version of a peer instead (NEWEST).
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gym_llm"
FOLDER = CACHE / "peers"
PASSED = CACHE / "peers-passed"
RECORD = ROOT / "tests" / "peers_passed.json"
SCRIPTS = ROOT / "tests" / "downstream" / "peers"
SOURCES = (
    *(f"gym_llm/{room}" for room in ("agents", "core", "engines", "evaluation", "protocols", "records", "rollouts")),
    *(f"gym_llm/{room}" for room in ("concurrency", "serve", "tokens", "trainers", "types.py", "errors.py")),
    *("wrappers", "tests/downstream", "tests/peers.py", "pyproject.toml"),
)
"""What peers meet: while none of it has changed, their tests say what they said before."""
NEWEST = "GYM_LLM_NEWEST_PEERS"
"""A JSON object of peers that are played in another version: their Python, and what is installed for it."""
_BENEATH = "GYM_LLM_BENEATH"
_DIGEST = " --hash="
os.environ[_BENEATH] = sysconfig.get_path("purelib")
_OF_NEMO_GYM = (
    *("antlr4-python3-runtime==4.9.3", "devtools==0.13.0", "asttokens==3.0.2", "executing==2.3.0", "mcp==1.30.0"),
    *("gprof2dot==2025.4.14", "httptools==0.9.0", "hydra-core==1.3.2", "omegaconf==2.3.0", "pydot==4.0.1"),
    "uvloop==0.23.0",
)
PEERS: dict[str, tuple[str, ...]] = {
    "harbor": ("harbor==0.25.0",),
    "inspect": (
        *("inspect-ai==0.3.285", "botocore==1.44.5", "docstring_parser==0.18.0", "ijson==3.6.0", "jsonlines==4.0.0"),
        *("jsonpatch==1.47", "jsonpointer==3.12", "mmh3==5.3.1", "semver==3.1.1", "shortuuid==1.0.13"),
        *("tenacity==9.2.1", "textual==8.2.8", "zipfile_zstd==0.0.4"),
    ),
    "inspect_eval": (  # `inspect eval` imports more than its logs do
        *("inspect-ai==0.3.285", "agent-client-protocol==0.12.1", "aiobotocore==3.10.0", "aioitertools==0.13.0"),
        *("boto3==1.43.117", "botocore==1.43.117", "docstring_parser==0.18.0", "ijson==3.6.0", "jmespath==1.1.0"),
        *("beautifulsoup4==4.15.0", "jsonlines==4.0.0", "jsonpatch==1.48", "jsonpath-ng==1.16.0", "jsonpointer==3.12"),
        *("jsonref==1.1.0", "linkify-it-py==2.2.0", "mdit-py-plugins==0.7.0", "mmh3==5.3.1", "pathlib_abc==0.5.2"),
        *("s3fs==2026.6.0", "s3transfer==0.19.3", "semver==3.1.2", "shortuuid==1.0.13", "soupsieve==4.1.3"),
        *("tenacity==9.2.1", "textual==8.2.8", "universal_pathlib==0.3.10", "wrapt==2.5.2", "zipfile-zstd==0.0.4"),
        *("uc-micro-py==2.0.0",),
    ),
    "atropos": ("atroposlib==0.4.0", "jsonlines==4.0.0", "pydantic-cli==10.0.0", "tenacity==9.2.1"),
    "tinker": ("tinker==0.38.0", "tinker-cookbook==0.6.1", "blobfile==3.3.0", "chz==0.4.0", "termcolor==3.3.0"),
    "skyrl": ("skyrl==0.3.0", "skyrl-gym==0.4.0", "loguru==0.7.3", "jaxtyping==0.3.11", "torchdata==0.11.0"),
    "openrlhf": ("openrlhf==0.11.2",),
    "areal": (
        *("areal==1.0.4", "aiofiles==25.1.0", "colorlog==6.12.0", "einops==0.8.2", "hydra-core==1.4.0.dev1"),
        *("lark==1.3.1", "llvmlite==0.50.0", "numba==0.68.1", "tenacity==9.2.1", "torchdata==0.11.0", "uvloop==0.23.0"),
    ),
    "verl": (
        *("verl==0.9.1", "antlr4-python3-runtime==4.9.3", "codetiming==1.4.0", "hydra-core==1.3.8", "msgspec==0.22.0"),
        *("omegaconf==2.3.0", "orjson==3.13.0", "pyvers==0.2.3", "tensordict==0.10.0", "torchdata==0.11.0"),
        "TransferQueue==0.1.11",
    ),
    "swebench": ("swebench==5.0.2", "unidiff==0.7.5"),
    "swesmith": ("swesmith==0.0.9", "swebench==4.1.0"),  # swesmith needs the constants that swebench 5 has no more
    "mcp2": (*("mcp==2.3.0", "mcp-types==2.3.0", "pyjwt==2.15.1", "python-multipart==0.0.34", "sse-starlette==3.7.0"),),
    "mcp1": (
        *("mcp==1.30.0", "httpx-sse==0.4.3", "pydantic-settings==2.16.3", "pyjwt==2.15.1", "python-multipart==0.0.34"),
        "sse-starlette==3.7.0",
    ),
    "fastmcp": (
        *("fastmcp==4.1.6", "fastmcp-slim==4.1.6", "mcp==2.3.0", "mcp-types==2.3.0", "authlib==1.9.9"),
        *("beartype==0.23.1", "dnspython==2.9.2", "email-validator==2.4.0", "exceptiongroup==1.3.1"),
        *("py-key-value-aio==0.4.6", "pydantic-settings==2.16.3", "pyjwt==2.15.1", "python-multipart==0.0.34"),
        "sse-starlette==3.7.0",
    ),
    "nemo_gym_4": ("nemo-gym==0.4.0", "openai==2.7.2", *_OF_NEMO_GYM),
    "nemo_gym_7": ("nemo-gym==0.7.0", "openai==2.44.0", *_OF_NEMO_GYM),
    "nemo_servers": (  # its servers' own packages, too
        "nemo-gym==0.7.0 --hash=sha256:cce78fc3fd048f36b4c465fe8e9fe3cc5e7afb6f6e287bfe831f156988508a70",
        *("openai==2.44.0", *_OF_NEMO_GYM, "math-verify==0.8.0", "latex2sympy2_extended==1.10.2", "defusedxml==0.7.1"),
        *("editdistance==0.8.1", "openapi-schema-validator==0.6.3", "rfc3339-validator==0.1.4", "toml==0.10.2"),
        *("xmltodict==1.0.2", "rouge-score==0.1.2", "nltk==3.10.4", "assaybench==0.2.0"),
        *("exmol==3.3.0", "skunk==1.3.0", "synspace==1.0.0", "ratelimit==2.2.1", "molbloom==2.3.4", "datamol==0.13.0"),
        *("safe-mol==0.2.1", "loguru==0.7.3", "sentencepiece==0.2.3", "gym-sokoban==0.0.6", "imageio==2.38.1"),
        *("tavily-python==0.7.21", "tenacity==9.2.1"),
        *("emoji==2.16.0", "syllapy==0.8.0", "immutabledict==4.3.1", "unicodedata2==18.0.0"),
        "llama-index-core==0.14.25",  # for NLTK's data, which it brings
    ),
    "schemathesis": (
        *("schemathesis==4.32.5", "graphql-core==3.3.2", "harfile==0.6.0", "hypothesis-graphql==0.13.5"),
        *("jsonschema_rs==0.60.3", "pyrate-limiter==4.5.1"),
    ),
    "pettingzoo": ("pettingzoo==1.27.0",),
    "prime_rl": ("msgspec==0.22.0",),
    "openenv": (
        *("openenv==0.10.0", "fastmcp==3.4.10", "fastmcp-slim==3.4.10", "mcp==1.30.0", "py-key-value-aio==0.4.6"),
        *("aiofile==3.12.3", "caio==0.12.10", "Authlib==1.9.9", "beartype==0.23.1", "cyclopts==5.4.0"),
        *("rich-rst==2.2.0", "exceptiongroup==1.3.1", "httpx-sse==0.4.3", "joserfc==1.8.0", "jsonref==1.1.0"),
        *("jsonschema-path==0.5.0", "pathable==0.6.0", "openapi-pydantic==0.6.0", "pydantic-settings==2.16.3"),
        *("email-validator==2.4.0", "dnspython==2.9.2", "PyJWT==2.15.1", "pyperclip==1.11.0", "sse-starlette==3.7.0"),
        *("tomli==2.5.0", "tomli_w==1.2.0", "uncalled-for==0.6.1", "watchfiles==1.3.0", "websockets==17.4"),
        *("python-multipart==0.0.34", "uvloop==0.23.0", "httptools==0.9.0"),
    ),
    "openreward": (
        *("openreward==0.1.167", "structlog==26.1.0", "google-genai==3.6.1", "tenacity==9.1.4"),
        *("sse-starlette==2.3.6", "websockets==17.4", "opentelemetry-exporter-otlp-proto-grpc==1.45.2"),
    ),
    "art": (
        *("openpipe-art==0.5.18", "fastuuid==0.14.0", "h2==4.4.1", "hyperframe==6.1.0", "litellm==1.109.1"),
        *("polars==2.1.0", "pydantic-settings==2.16.3"),
    ),
    "deepspeed": (
        *("deepspeed==0.19.8", "einops==0.8.2", "hjson==3.1.0", "msgpack==1.2.4", "ninja==1.13.2"),
        "py-cpuinfo==9.0.0",
    ),
    "agents": (  # four frameworks that agents are written in, in one environment
        *("Authlib==1.9.9", "PyJWT==2.15.1", "aiofile==3.12.3", "beartype==0.23.1", "caio==0.12.10"),
        *("dnspython==2.9.2", "email-validator==2.4.0", "exceptiongroup==1.3.1", "fastmcp-slim==4.2.1"),
        *("genai-prices==0.2.3", "joserfc==1.8.0", "jsonpatch==1.47", "jsonpointer==3.12", "langchain-core==1.7.2"),
        *("langchain-openai==1.7.3", "langchain-protocol==0.0.20", "langgraph==1.2.22"),
        *("langgraph-checkpoint==4.3.2", "langgraph-prebuilt==1.1.2", "langgraph-sdk==0.4.14", "langsmith==0.15.0"),
        *("logfire-api==5.6.0", "mcp==2.3.0", "mcp-types==2.3.0", "openai-agents==0.24.0", "ormsgpack==1.13.1"),
        *("py-key-value-aio==0.5.0", "pydantic-ai-slim==2.68.0", "pydantic-graph==2.68.0"),
        *("pydantic-settings==2.16.3", "python-multipart==0.0.34", "requests-toolbelt==1.0.0", "smolagents==1.26.0"),
        *("sse-starlette==3.7.0", "tenacity==9.2.1", "uuid-utils==0.19.0", "websockets==16.1.1"),
    ),
    "rllm": (
        "rllm @ git+https://github.com/rllm-org/rllm@9beb6e0f676a46d38858991fd79ac5f8e0b16d4c",
        *("codetiming==1.4.0", "omegaconf==2.3.0", "antlr4-python3-runtime==4.9.3", "hydra-core==1.3.8"),
    ),
}
"""Of each peer what is installed, exactly; none of it brings dependencies of its own."""


def digest_of(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def files_of(root: Path) -> Iterator[Path]:
    """The files that decide what a peer's test says."""
    for name in SOURCES:
        path = root / name
        yield from sorted(path.rglob("*")) if path.is_dir() else [path]


@functools.cache
def sources_digest(root: Path = ROOT) -> str:
    """Changes with every file that peers meet."""
    found = hashlib.blake2b(sys.version.encode(), digest_size=8)
    for path in files_of(root):
        if path.is_file() and "__pycache__" not in path.parts:
            found.update(f"{path.relative_to(root)}\n".encode())
            found.update(hashlib.blake2b(path.read_bytes()).digest())
    return found.hexdigest()


def without_group(test: str) -> str:
    """A test's name without the group that pytest-xdist has appended."""
    return test.rpartition("@")[0] if test.rfind("@") > test.rfind("]") else test


def current_test() -> str:
    """The test that runs: `tests/a/test_b.py::test_c`; empty outside pytest."""
    return without_group(os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0])


used: set[str] = set()
"""The tests of this process that played a peer."""


def note_passed(test: str) -> None:
    """Keep for which sources a test passed."""
    PASSED.mkdir(parents=True, exist_ok=True)
    (PASSED / digest_of(test)).write_text(f"{sources_digest()}\n{test}")


@functools.cache
def recorded() -> frozenset[str]:
    """The tests that passed for these sources, as the committed file has them."""
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return frozenset(record["tests"] if record.get("sources") == sources_digest() else ())


def has_passed(test: str) -> bool:
    """Whether a test passed for these sources."""
    if test in recorded():
        return True
    try:
        return (PASSED / digest_of(test)).read_text().partition("\n")[0] == sources_digest()
    except OSError:
        return False


def write_record() -> int:
    """Write the tests that passed for these sources to the committed file, and return their number."""
    notes = (path.read_text().partition("\n") for path in PASSED.glob("*"))
    tests = recorded() | {test for sources, _, test in notes if test and sources == sources_digest()}
    RECORD.write_text(json.dumps({"sources": sources_digest(), "tests": sorted(tests)}, indent=1) + "\n")
    return len(tests)


def peer_python(name: str) -> Path:
    """The Python of a peer's environment, which is made if it is missing.

    The test is skipped if it cannot be made, and under `make test` if the test passed for the same sources.
    """
    test = current_test()
    if os.environ.get("GYM_LLM_PEERS") == "changed" and test and has_passed(test):
        pytest.skip(f"{name} was played with these sources and pins before, and passed; `make test-all` plays it again")
    used.add(test)
    python, problem = make_environment(name)
    if problem:
        pytest.skip(f"{name} cannot be installed here: {problem}")
    return python


def make_environment(name: str) -> tuple[Path, str]:
    """Make a peer's environment if it is missing.

    Returns:
        Its Python, and why it could not be made, or "".
    """
    requirements = PEERS[name]
    if newest := json.loads(os.environ.get(NEWEST, "{}")).get(name):
        name, requirements = f"newest-{name}", tuple(newest["requirements"])
        if newest["python"] != sys.executable:
            return _make_whole_environment(name, newest["python"], requirements, newest["needs"])
    folder = FOLDER / f"{name}-{digest_of(requirements, sys.version, sys.base_prefix)}"
    python = folder / "bin" / "python"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "complete").exists():
            return python, ""
        for old in FOLDER.glob(f"{name}-*"):  # of other pins: they take much of a disk
            shutil.rmtree(old)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        # Which environment lies beneath is each checkout's own. `addsitedir` and not a bare path: an editable install
        # is a .pth file there.
        beneath = (
            f"import os, site; site.addsitedir(os.environ[{_BENEATH!r}]) if {_BENEATH!r} in os.environ else None\n"
        )
        (packages / "beneath.pth").write_text(beneath)
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile"]
        command += ["--ignore-requires-python", "--target", str(packages)]
        pinned = folder / "pinned.txt"  # pip checks digests in a file only, and then of all that the file names
        pinned.write_text("\n".join(each for each in requirements if _DIGEST in each), "utf-8")
        plain = [each for each in requirements if _DIGEST not in each]
        for what in [plain] if len(plain) == len(requirements) else [["-r", str(pinned)], plain]:
            made = subprocess.run([*command, *what], capture_output=True, text=True, check=False)
            if made.returncode:
                shutil.rmtree(folder)
                return python, str(made.stderr.strip().splitlines()[-1:])
        (folder / "complete").touch()
    return python, ""


def _make_whole_environment(name: str, base: str, requirements: tuple[str, ...], needs: list[str]) -> tuple[Path, str]:
    """Make an environment for another Python: with torch, this package, the peer and what it needs."""
    folder = FOLDER / f"{name}-{digest_of(requirements, base)}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        for old in FOLDER.glob(f"{name}-*"):
            shutil.rmtree(old)
        subprocess.run([base, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "-q", "--no-compile"]
        torch = f"torch=={version('torch').partition('+')[0]}"
        for packages in ([torch], [torch, f"{ROOT}[local]", *needs], ["--no-deps", *requirements]):
            made = subprocess.run([*install, *packages], capture_output=True, text=True, check=False)
            if made.returncode:
                shutil.rmtree(folder)
                return python, str(made.stderr.strip().splitlines()[-1:])
        (folder / "complete").touch()
    return python, ""


def in_peer(name: str, script: str, *args: str, timeout: float = 600) -> dict[str, Any]:
    """Run `tests/downstream/peers/SCRIPT` with a peer's Python; what it prints last is a JSON object.

    The script imports what is in tests/importable, and gym_llm, as the tests do. It asserts by itself: a failed one
    fails the test, with what it wrote.
    """
    import gym_llm

    path = [str(Path(gym_llm.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), "WANDB_MODE": "disabled"}
    command = [str(peer_python(name)), "-P", str(SCRIPTS / script), *args]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, check=False)
    assert run.returncode == 0, (
        f"{script} ended with status {run.returncode}:\n{run.stdout[-3000:]}{run.stderr[-6000:]}"
    )
    answer = json.loads(run.stdout.strip().splitlines()[-1])
    assert isinstance(answer, dict)
    return answer


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        print(f"{write_record()} tests with peers passed for these sources")
        sys.exit()
    if os.environ.get("GYM_LLM_PEERS") == "changed" and recorded():
        print("The committed record has these sources: tests with peers are skipped.")
        sys.exit()
    for peer in sys.argv[1:] or PEERS:
        _, reason = make_environment(peer)
        print(f"{peer}: {reason or 'is there'}", flush=True)
