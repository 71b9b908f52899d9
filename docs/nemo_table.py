"""Write docs/reference/nemo-gym.md: each server, agent, benchmark and configuration of NeMo Gym, and what it is here.

    python docs/nemo_table.py FOLDER          FOLDER: the unpacked wheel of nemo-gym

A reason that stands in the page is kept: write new ones there, in place of the question mark.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from gym_llm.agents.harnesses import harness_names
from gym_llm.data.recipes.catalogue import find_benchmark, is_benchmark
from gym_llm.errors import ConfigError
from gym_llm.rollouts.config import load_config
from gym_llm.rollouts.config.mapped import Server
from gym_llm.rollouts.config.nemo_agents import missing_agent
from gym_llm.rollouts.config.nemo_gym import env_of_server

PAGE = Path(__file__).parent / "reference" / "nemo-gym.md"
VERSION = "0.7.0"
MODEL = "responses_api_models/openai_model/configs/openai_model.yaml"
FOLDERS = ("benchmarks", "environments", "resources_servers", "responses_api_agents", "responses_api_models")
VALUES = ("policy_base_url=http://localhost:8000/v1", "policy_api_key=k", "policy_model_name=m")
HARNESSES = {
    "claude_code_agent": "claude-code",
    "langchain_deepagents_agent": "deepagents",
    "mini_swe_agent_2": "mini-swe-agent",
    "miniswe_sandboxed_agent": "mini-swe-agent",
    "simple_strands_agent": "strands",
    "terminus_2_agent": "terminus-2",
    "terminus_2_sandboxed_agent": "terminus-2",
}
"""Agents whose harness has another name here."""
_ROW = re.compile(r"^\| `([^`]+)` \| (.+) \|$", re.MULTILINE)
_HEAD = f"""# NeMo Gym {VERSION}, name by name

Each server, agent, benchmark and configuration of NeMo Gym {VERSION}: what it is here, or why it is not.
[Migrate from NeMo Gym](../how-to/from-nemo-gym.md) says how to play them.
`python docs/nemo_table.py FOLDER` writes this page.
"""


def main(folder: Path) -> None:
    """Write the page."""
    known = {
        section.partition("\n")[0]: dict(_ROW.findall(section)) for section in PAGE.read_text("utf-8").split("\n## ")
    }
    os.chdir(folder)
    makers = {"Servers": servers, "Agents": agents, "Benchmarks": benchmarks}
    parts = {title: dict(make(known.get(title, {}))) for title, make in makers.items()}
    parts["Configurations"] = dict(configurations())
    text = [_HEAD]
    for title, rows in parts.items():
        works = sum(row.startswith("works") for row in rows.values())
        text.append(f"## {title}\n\n{works:,} of {len(rows):,} work here.\n\n| name | here |\n|---|---|")
        text[-1] += "".join(f"\n| `{name}` | {row} |" for name, row in rows.items())
    PAGE.write_text("\n\n".join(part.strip() for part in text) + "\n", "utf-8")
    for title, rows in parts.items():
        print(title, len(rows), [name for name, row in rows.items() if row == "?"])


def names(folder: str) -> list[str]:
    """The folders in a folder."""
    return sorted(path.name for path in Path(folder).iterdir() if path.is_dir() and path.name[0] not in "._")


def servers(known: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Each resources server's environment, or the reason."""
    for name in names("resources_servers"):
        env_id = env_of_server(name)
        given = ", with your checkout of NeMo Gym" if name == "indian_banking" else ""
        yield name, f"works: `{env_id}`{given}" if env_id else reason(known, name)


def agents(known: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What each agent is here."""
    for name in names("responses_api_agents"):
        server = Server("a", "responses_api_agents", name, {"resources_server": "s"})
        stem = HARNESSES.get(name, name.removesuffix("_agent").removesuffix("_sandboxed").replace("_", "-"))
        if missing_agent(server) is None:
            yield name, "works: every environment is played so"
        elif stem in harness_names():
            yield name, f"works: `--agent {stem}`"
        else:
            yield name, reason(known, name)


def benchmarks(known: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The recipe of each benchmark, or the reason."""
    for name in names("benchmarks"):
        if name == "prompts":
            continue
        if not is_benchmark(name.replace("-", "_")):
            yield name, reason(known, name)
            continue
        recipe = find_benchmark(name)
        given = "" if recipe.sources[0].place else ", with a file of NVIDIA's registry"
        works = f"works: `{recipe.name}`{given}"
        yield name, works if recipe.env_id else f"its tasks only: `{recipe.name}` has no verifier here"


def configurations() -> Iterator[tuple[str, str]]:
    """Whether each configuration is read, with a model beside it where it has none."""
    files = (path for folder in FOLDERS for ending in ("yaml", "yml") for path in Path(folder).rglob(f"*.{ending}"))
    for path in sorted(path.as_posix() for path in files if "prompt" not in path.as_posix().lower()):
        whys = [why for paths in ([path, MODEL], [path]) if (why := refusal(paths))]
        yield path, "works" if len(whys) < 2 else whys[0]


def refusal(paths: list[str]) -> str:
    """Why files are refused, in one line; empty if they are read."""
    try:
        load_config(paths, VALUES)
    except ConfigError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        text = lines[1] if len(lines) > 1 and lines[0].endswith(":") else lines[0]
        text = re.sub(r" \((?:[^()]*/)?[^()/]*\.ya?ml\)", "", text)
        return text.replace("|", "\\|").replace("`", "").replace("<", "&lt;")[:160]
    return ""


def reason(known: dict[str, str], name: str) -> str:
    """Return the reason that the page has, or a question mark."""
    return known.get(name, "?")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
