"""Other trainers' packages: each in an environment of its own, made once, laid over the one that the tests run in.

What a trainer for GPUs pins (torch, flash-attn, vLLM) is left out: a peer is installed without its dependencies, and
with the few that what we use of it imports. Everything else, gym_llm included, is this environment's.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from testing import ROOT

FOLDER = ROOT / ".venv-peers"
SCRIPTS = ROOT / "tests" / "downstream" / "peers"
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
    "schemathesis": (
        *("schemathesis==4.32.5", "graphql-core==3.3.2", "harfile==0.6.0", "hypothesis-graphql==0.13.5"),
        *("jsonschema_rs==0.60.3", "pyrate-limiter==4.5.1"),
    ),
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


def peer_python(name: str) -> Path:
    """The Python of a peer's environment, which is made if there is none; the test is skipped if it cannot be."""
    requirements = PEERS[name]
    digest = hashlib.blake2b(repr((requirements, sys.version, sys.prefix)).encode(), digest_size=6).hexdigest()
    folder = FOLDER / f"{name}-{digest}"
    python = folder / "bin" / "python"
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "complete").exists():
            return python
        for old in FOLDER.glob(f"{name}-*"):
            shutil.rmtree(old)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = folder / "lib" / version / "site-packages"
        # `addsitedir` and not a bare path: an editable install is a .pth file there.
        beneath = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
        (packages / "beneath.pth").write_text(beneath)
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--ignore-requires-python"]
        made = subprocess.run(
            [*command, "--target", str(packages), *requirements], capture_output=True, text=True, check=False
        )
        if made.returncode:
            shutil.rmtree(folder)
            pytest.skip(f"{name} cannot be installed here: {made.stderr.strip().splitlines()[-1:]}")
        (folder / "complete").touch()
    return python


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
