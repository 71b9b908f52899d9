"""Compare gym_llm with NeMo Gym on NeMo Gym's configurations: both must read, or refuse, the same files.

    python benchmarks/nemo_configs.py path/to/Gym --python path/to/python

NeMo Gym's own parser and `load_config` read every configuration of the checkout, that is, every YAML file that is not a
prompt. A configuration without a model gets a model's configuration beside it. Both parsers get the three values of the
policy. NeMo Gym's parser runs in a separate process, by default of this Python. It needs omegaconf, pydantic, rich, ray
and openai, but not Hydra, which serves only its command lines. Prints each file on which the two differ, with both
reasons, and one JSON line last.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from gym_llm.rollouts.config import ConfigError, load_config

FOLDERS = ("benchmarks", "environments", "resources_servers", "responses_api_agents", "responses_api_models")
VALUES = {"policy_base_url": "http://localhost:8000/v1", "policy_api_key": "k", "policy_model_name": "m"}
UPSTREAM = """
import contextlib, io, json, os, sys, types, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, os.getcwd())
try:
    import hydra
except Exception:
    sys.modules["hydra"] = types.ModuleType("hydra")
from omegaconf import OmegaConf
from nemo_gym.global_config import GlobalConfigDictParser, GlobalConfigDictParserConfig as Options
tries, values = json.load(sys.stdin)
answers = []
for paths in tries:
    given = OmegaConf.create({"config_paths": paths, "allow_openai_version_skew": True, **values})
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            options = dict(skip_load_from_cli=True, skip_load_from_dotenv=True, offline=True)
            GlobalConfigDictParser().parse(Options(initial_global_config_dict=given, **options))
        answers.append(None)
    except Exception as error:
        text = said.getvalue() if "almost-server" in str(error) else str(error)
        answers.append(f"{type(error).__name__}: {' '.join(text.split())}")
print(json.dumps(answers))
"""


def configurations(checkout: Path) -> list[str]:
    """The configuration files of a checkout, from its root."""
    files = (
        path for folder in FOLDERS for ending in ("yaml", "yml") for path in (checkout / folder).rglob(f"*.{ending}")
    )
    names = (path.relative_to(checkout).as_posix() for path in files)
    return sorted(name for name in names if "prompt" not in name.lower())


def upstream(tries: list[list[str]], python: str) -> list[str | None]:
    """Why NeMo Gym's parser refuses each list of files, None where it reads it."""
    given = json.dumps([tries, VALUES])
    done = subprocess.run([python, "-c", UPSTREAM], input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"NeMo Gym's parser does not run in {python}:\n{done.stderr}")
    answers: list[str | None] = json.loads(done.stdout.splitlines()[-1])
    return answers


def ours(paths: list[str]) -> str | None:
    """Why gym_llm refuses these files, None where it reads them."""
    try:
        load_config(paths, [f"{key}={value}" for key, value in VALUES.items()])
    except ConfigError as error:
        return str(error)
    return None


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="folder of NeMo Gym's source")
    parser.add_argument("--python", default=sys.executable, help="in which NeMo Gym's parser can be imported")
    parser.add_argument(
        "--model", default="openai_model", help="whose configuration lies beside (default openai_model)"
    )
    options = parser.parse_args()
    os.chdir(options.checkout)
    names = configurations(Path())
    model = f"responses_api_models/{options.model}/configs/{options.model}.yaml"
    tries = [paths for name in names for paths in ([name, model], [name])]
    theirs, us = upstream(tries, options.python), [ours(paths) for paths in tries]
    agreed = read = 0
    for number, name in enumerate(names):
        pair = slice(2 * number, 2 * number + 2)
        reads, we_read = (any(reason is None for reason in reasons[pair]) for reasons in (theirs, us))
        read += reads
        agreed += reads == we_read
        if reads != we_read:
            why = (us if reads else theirs)[pair][0] or ""
            print(f"{name}: {'NeMo Gym reads it, we' if reads else 'we read it, NeMo Gym does'} not: {why[:600]}\n")
    counts = {"files": len(names), "nemo_gym_reads": read, "agreed": agreed, "disagreed": len(names) - agreed}
    print(json.dumps({"benchmark": "nemo_configs", **counts}))


if __name__ == "__main__":
    main()
