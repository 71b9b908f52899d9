"""The public data of an environment: what its `config.yaml` names on the Hugging Face hub, as a recipe."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

from gym_llm.data.recipes.recipe import Benchmark, Source
from gym_llm.types import Row


def unchanged(row: dict[str, Any]) -> Row:
    """Keep a row: public data is in the form of tasks already."""
    return row


@cache
def public_data(module: str, split: str) -> Benchmark | None:
    """Return the recipe of an environment's public rows; None if its `config.yaml` names none.

    Args:
        module: The module of the environment's class; its `config.yaml` is beside it.
        split: `train` or `validation`.
    """
    spec = importlib.util.find_spec(module)
    path = Path(spec.origin).with_name("config.yaml") if spec and spec.origin else None
    if path is None or not path.is_file():
        return None
    import yaml

    sections = yaml.safe_load(path.read_bytes()) or {}
    sources, licenses = [], []
    for section in sections.values() if isinstance(sections, dict) else ():
        for dataset in section.get("datasets") or () if isinstance(section, dict) else ():
            place = dataset.get("huggingface_identifier")
            if dataset.get("type") == split and place:
                file = place.get("artifact_fpath")
                source = Source(
                    place["repo_id"],
                    split=None if file else split,
                    files=(file,) if file else (),
                    label=dataset["name"],
                )
                sources.append(source)
                licenses.append(dataset.get("license"))
    if not sources:
        return None
    folder = path.parent.name
    return Benchmark(
        name=f"{folder}.{split}",
        title=f"Public {split} data of {folder}",
        domain="",
        sources=tuple(sources),
        convert=unchanged,
        license=", ".join(dict.fromkeys(str(each) for each in licenses if each)) or None,
        facts=str(path.name),
    )
