"""The package as it is laid out and imported."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import yaml
from testing import ROOT

HEAVY = {"torch", "transformers", "vllm", "ray", "datasets", "aiohttp", "sympy", "openai", "huggingface_hub"}
SLOW = {*HEAVY, "pydantic", "omegaconf", "yaml"}


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh Python has loaded after running `code`."""
    code += "\nimport json, sys; print(json.dumps(list(sys.modules)))"
    return set(json.loads(subprocess.check_output([sys.executable, "-c", code], cwd="/", text=True).splitlines()[-1]))


def test_no_module_lies_in_a_folder_that_is_no_package() -> None:
    for folder in ("gym_llm", "envs", "wrappers", "vector", "data"):
        for module in (ROOT / folder).rglob("*.py"):
            # files of Harbor's task folders, and programs that harnesses run with a Python of their own
            if {"tasks", "programs"} & set(module.relative_to(ROOT).parts):
                continue
            assert (module.parent / "__init__.py").exists(), module


def test_what_architecture_md_points_to_is_there() -> None:
    names = re.findall(r"`([\w/.]+(?:/|\.py|\.toml))`", (ROOT / "ARCHITECTURE.md").read_text("utf-8"))
    places = [name for name in names if "NAME" not in name]
    assert len(places) > 15
    assert [name for name in places if not ((ROOT / name).exists() or (ROOT / "gym_llm" / name).exists())] == []


def test_what_ci_runs_has_no_secrets_and_may_only_read() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {"contents": "read"} and "secrets" not in json.dumps(workflow)
    assert not any("permissions" in job for job in jobs.values())
    assert jobs["tests"]["steps"][-1] == {"run": ".ci/run"} and jobs["chaos"]["steps"][-1] == {"run": "make chaos"}
    assert jobs["chaos"]["timeout-minutes"] == 20 and "tests/chaos" in (ROOT / "Makefile").read_text("utf-8")


def test_importing_the_package_imports_gymnasium_and_nothing_heavy() -> None:
    loaded = loaded_by("import gym_llm")
    assert "gymnasium" in loaded and not loaded & SLOW


@pytest.mark.parametrize(
    "code",
    [
        "import gym_llm, gymnasium",
        "import gymnasium, gym_llm",
        "import gym_llm.core.registry.ids, gymnasium",
        "import gym_llm, gymnasium.spaces, gymnasium",
        "import gym_llm, importlib.util; importlib.util.find_spec('gymnasium'); import gymnasium",
    ],
)
def test_the_ids_are_registered_whichever_is_imported_first(code: str) -> None:
    code += "; print(gymnasium.make('gym_llm/Weather-v0').reset(seed=0)[1]['task_index'])"
    assert subprocess.check_output([sys.executable, "-c", code], cwd="/", text=True).strip().isdigit()


def test_the_command_lines_help_loads_nothing_but_the_command_line() -> None:
    loaded = loaded_by("import gym_llm.cli; gym_llm.cli.main(['--help'])")
    assert "gym_llm.cli" in loaded and not loaded & SLOW


def test_public_functions_are_functions_whatever_is_imported() -> None:
    code = (
        "import gym_llm, gym_llm.rollouts.play, gym_llm.evaluation.evaluation; print(gym_llm.rollout, gym_llm.evaluate)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], cwd="/", text=True).count("<function") == 2


OPTIONAL = ("math_verify", "sympy", "reasoning_gym", "sacrebleu", "langdetect", "jsonschema")
NEED_PACKAGES = {
    f"gym_llm/{name}-v0"
    for name in (
        *("MathVerify", "MathWithAutograder", "MathWithJudge", "NSTools", "PhysicsJudge", "PolyMath"),
        *(
            "ConversationalToolUse",
            "ReasoningGym",
            "StructuredOutputs",
            "TerminalMultiHarness",
            "UGPhysicsJudge",
            "WMTTranslation",
        ),
    )
}


@pytest.mark.slow
def test_playing_an_environment_needs_no_optional_package() -> None:
    code = (
        "import sys\n"
        f"for name in ('torch', 'transformers', 'vllm', 'ray', 'datasets', 'openai', *{OPTIONAL!r}):\n"
        "    sys.modules[name] = None\n"
        "import gym_llm, gym_llm.core.registry.env_files, gymnasium\n"
        "from gym_llm import collect\n"
        "for env_id in gym_llm.core.registry.ids.env_ids():\n"
        "    kwargs, env = gym_llm.core.registry.env_files.dry_run_kwargs(env_id), None\n"
        "    if env_id != 'gym_llm/Mixed-v0':\n"
        "        try: env = gymnasium.make(env_id, **kwargs)\n"
        "        except gymnasium.error.DependencyNotInstalled: print(env_id)\n"
        "    if env: env.reset(seed=0); env.step([])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == NEED_PACKAGES  # what their extras are for; all others play
