"""Work with tools and machines: SWE-bench, SWE-Gym, GDPval, tau2-bench."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gym_llm.data.files.conversion import messages
from gym_llm.data.recipes.recipe import Benchmark, Source
from gym_llm.types import Row

_FACTS = "NeMo Gym 07d6b0d, benchmarks/{}"
_ASK = (Path(__file__).parent / "texts" / "swebench.txt").read_text("utf-8")
PYTEST = "python -m pytest -rA"
"""The command that runs the tests of a task, unless the task has its own."""
TESTBED = "source /opt/miniconda3/bin/activate testbed; "
"""How the images of SWE-bench and SWE-Gym get the Python that has a repository's packages."""
_LANGUAGES = {
    "c": "redis/redis jqlang/jq nlohmann/json micropython/micropython valkey-io/valkey fmtlib/fmt",
    "go": "caddyserver/caddy hashicorp/terraform prometheus/prometheus gohugoio/hugo gin-gonic/gin",
    "java": "google/gson apache/druid javaparser/javaparser projectlombok/lombok apache/lucene reactivex/rxjava",
    "js": "Automattic/wp-calypso chartjs/Chart.js markedjs/marked processing/p5.js diegomura/react-pdf "
    "babel/babel vuejs/core "
    "facebook/docusaurus immutable-js/immutable-js mrdoob/three.js preactjs/preact axios/axios",
    "php": "phpoffice/phpspreadsheet laravel/framework php-cs-fixer/php-cs-fixer briannesbitt/carbon",
    "rb": "jekyll/jekyll fluent/fluentd fastlane/fastlane jordansissel/fpm faker-ruby/faker rubocop/rubocop",
    "rs": "burntsushi/ripgrep sharkdp/bat tokio-rs/tokio uutils/coreutils nushell/nushell tokio-rs/axum astral-sh/ruff",
    "py": "astropy/astropy dbt-labs/dbt-core django/django matplotlib/matplotlib marshmallow-code/marshmallow "
    "mwaskom/seaborn pallets/flask psf/requests pvlib/pvlib-python pydata/xarray pydicom/pydicom pylint-dev/astroid "
    "pylint-dev/pylint pytest-dev/pytest pyvista/pyvista scikit-learn/scikit-learn sphinx-doc/sphinx sqlfluff/sqlfluff "
    "swe-bench/humaneval sympy/sympy",
}
_LANGUAGE = {repository: language for language, listed in _LANGUAGES.items() for repository in listed.split()}


def _issue(row: Row, subset: str, language: str = "") -> Row:
    prompt = _ASK.replace("{language}", language).replace("{problem}", row["problem_statement"])
    return {**row, "responses_create_params": messages(prompt), "subset": subset, "split": "test"}


def verified(row: dict[str, Any]) -> Row:
    """Ask for a change that resolves the issue."""
    return _issue(row, "verified")


def lite(row: dict[str, Any]) -> Row:
    """Ask for a change that resolves the issue."""
    return _issue(row, "lite")


def multilingual(row: dict[str, Any]) -> Row:
    """Name the repository's language; lists of tests become texts, as those of SWE-bench are."""
    task = _issue(row, "multilingual", _LANGUAGE[row["repo"]] + " ")
    lists = {name: row[name] for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    tests = {name: value if isinstance(value, str) else json.dumps(value) for name, value in lists.items()}
    return {**task, "environment_setup_commit": "", "difficulty": "", **tests}


def swe_gym(row: dict[str, Any]) -> Row:
    """Ask for a change that resolves the issue, in the image that SWE-Gym's authors have for it."""
    image = f"xingyaoww/sweb.eval.x86_64.{row['instance_id'].lower().replace('__', '_s_')}:latest"
    return {**_issue(row, "train"), "docker_image": image, "test_command": TESTBED + PYTEST}


def swe_smith(row: dict[str, Any]) -> Row | None:
    """Ask for a change that resolves the issue; a row for which no issue was written is left out."""
    return _issue(row, "train") if str(row.get("problem_statement") or "").strip() else None


def occupation(row: dict[str, Any]) -> Row:
    """Keep the files and the rubric."""
    defaults: Row = {
        "reference_files": [],
        "reference_file_urls": [],
        "rubric_json": {},
        "rubric_pretty": "",
    }
    return {
        "responses_create_params": {"input": []},
        "task_id": row["task_id"],
        "sector": row.get("sector", ""),
        "occupation": row.get("occupation", ""),
        "prompt": row["prompt"],
        **{name: row.get(name, default) for name, default in defaults.items()},
    }


def _repairs(name: str, title: str, place: str, convert: Any, split: str = "test", facts: str = "") -> Benchmark:
    return Benchmark(
        name=name,
        title=title,
        domain="software_engineering",
        sources=(Source(place, split=split),),
        convert=convert,
        env_id="gym_llm/SWEBench-v0",
        needs=("images",),
        facts=facts or f"benchmarks/table.md, + {name}",
        notes="Each task's tests run in an image of its own: see docs/how-to/harbor.md.",
    )


_TAU2 = (
    "https://raw.githubusercontent.com/sierra-research/tau2-bench/a2c024725189473d2d7cea3a5cfdbcc67478e41f/data/tau2/"
)
_DOMAINS = ("airline", "retail", "telecom")


def customers(tables: Mapping[str, list[Row]]) -> Iterator[Row]:
    """Yield the tasks of each domain's base split; as in NeMo Gym, assertions in words do not count."""
    for domain in _DOMAINS:
        (splits,) = tables[f"{domain}_splits"]
        base = set(splits["base"])
        for task in tables[domain]:
            if task["id"] in base:
                criteria = task["evaluation_criteria"]
                counted = [each for each in criteria["reward_basis"] if each != "NL_ASSERTION"]
                yield {
                    "responses_create_params": {"input": []},
                    "config": {"domain": domain},
                    "task": {**task, "evaluation_criteria": {**criteria, "reward_basis": counted}},
                }


BENCHMARKS = [
    _repairs(
        "swebench_verified",
        "SWE-bench Verified: issues of Python repositories, checked by people",
        "princeton-nlp/SWE-bench_Verified",
        verified,
        facts=_FACTS.format("swebench/verified"),
    ),
    _repairs(
        "swebench_multilingual",
        "SWE-bench Multilingual: issues in nine languages",
        "SWE-bench/SWE-bench_Multilingual",
        multilingual,
        facts=_FACTS.format("swebench/multilingual"),
    ),
    _repairs("swebench_lite", "SWE-bench Lite: issues of Python repositories", "princeton-nlp/SWE-bench_Lite", lite),
    _repairs("swe_gym", "SWE-Gym: issues to train on", "SWE-Gym/SWE-Gym", swe_gym, split="train"),
    _repairs("swe_smith", "SWE-smith: made issues to train on", "SWE-bench/SWE-smith", swe_smith, split="train"),
    Benchmark(
        name="gdpval",
        title="GDPval: deliverables of many occupations",
        domain="work",
        sources=(Source("openai/gdpval", split="train"),),
        convert=occupation,
        needs=("judge", "images"),
        facts=_FACTS.format("gdpval"),
    ),
    Benchmark(
        name="tau2",
        title="tau2-bench: customers of an airline, a shop and a telephone company",
        domain="agent",
        sources=tuple(
            Source(f"{_TAU2}domains/{domain}/{file}.json", label=label)
            for domain in _DOMAINS
            for file, label in (("tasks", domain), ("split_tasks", f"{domain}_splits"))
        ),
        convert=customers,
        joins=True,
        env_id="gym_llm/Tau2-v0",
        repeats=8,
        rows=278,
        license="MIT",
        needs=("user",),
        facts="NeMo Gym 0.7.0, benchmarks/tau2, which dumps the tasks of a fork",
        notes="Give a checkout's folder as source, and an engine as user. tau2:DOMAIN plays the checkout's own tasks.",
    ),
]
