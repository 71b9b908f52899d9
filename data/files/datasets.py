"""The configuration of a dataset: its file, its role in training, its licence, its hub."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from gym_llm.data.files.reading import mapped_source, parse_source, slice_source

DatasetType = Literal["train", "validation", "benchmark", "example"]

License = Literal[
    "Apache 2.0",
    "MIT",
    "GNU General Public License v3.0",
    "Creative Commons Attribution 4.0 International",
    "Creative Commons Attribution-ShareAlike 4.0 International",
    "CC BY-SA 4.0",
    "CC BY-NC 3.0",
    "TBD",
    "NVIDIA Internal Use Only, Do Not Distribute",
    "NVIDIA Evaluation Dataset License Agreement",
]

Name = Annotated[str, Field(min_length=1)]
Index = Annotated[int, Field(ge=0, strict=True)]


def found_from(source: str, folder: str | os.PathLike[str]) -> str:
    """A source of tasks, its path relative to a folder made one from the working directory where the file is there."""
    parsed = parse_source(source)
    is_there = not parsed.is_hub and os.path.exists(os.path.join(folder, parsed.name))
    return os.path.join(folder, source) if is_there else source


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HuggingFaceIdentifier(_Frozen):
    """The place of a dataset on the Hugging Face hub.

    Attributes:
        repo_id: `organization/name`.
        artifact_fpath: A file in that repository; None for a split of the dataset.
    """

    repo_id: Name
    artifact_fpath: Name | None = None


class GitLabIdentifier(_Frozen):
    """The place of a dataset in a GitLab project's model registry.

    Attributes:
        dataset_name: The registered model's name.
        version: `x.y.z`.
        artifact_fpath: A file of that version.
    """

    dataset_name: Name
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    artifact_fpath: Name


class DatasetConfig(_Frozen):
    """A dataset of an environment, in the form of NeMo Gym's configurations.

    Attributes:
        name: Names the dataset among those of its environment.
        type: `train`, `validation`, `benchmark`, or `example` (the five rows that show what the data looks like).
        jsonl_fpath: The file, relative to the working directory; see `gym_llm.data.files.reading` for its forms, of
            which `FILE[10:20]` is another way to give `start_idx` and `end_idx`.
        num_repeats: How often each row is in the training set.
        start_idx: First row that is used, counted from 0; None for the first.
        end_idx: Row before which reading stops; None for all.
        license: Required of `train` and `validation`.
        huggingface_identifier: Its place on the Hugging Face hub.
        gitlab_identifier: Its place in GitLab. Instead of either, `source: {type: huggingface, …}` or `source:
            {type: gitlab, …}` may be given.
        prompt_config: A YAML file with the prompt of rows that have no `input` (`gym_llm.core.prompts`).
        map: Makes tasks of rows with other columns: what each field is made of (`gym_llm.data.files.mapping`), e.g.
            `{input: question, expected_answer: "answer|after(####)"}`.
    """

    name: Name
    type: DatasetType
    jsonl_fpath: Name
    num_repeats: Annotated[int, Field(ge=1, strict=True)] = 1
    start_idx: Index | None = None
    end_idx: Index | None = None
    license: License | None = None
    huggingface_identifier: HuggingFaceIdentifier | None = None
    gitlab_identifier: GitLabIdentifier | None = None
    prompt_config: Name | None = None
    map: dict[str, str] | None = None
    _written: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _read_source(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "source" not in values:
            return values
        values = dict(values)
        if (source := values.pop("source")) is None:
            return values
        kinds = ("huggingface", "gitlab")
        if not isinstance(source, dict) or source.get("type") not in kinds:
            raise ValueError("`source` is `{type: huggingface, repo_id: …}` or `{type: gitlab, dataset_name: …}`")
        if given := [key for kind in kinds if values.get(key := f"{kind}_identifier") is not None]:
            raise ValueError(f"`source` and `{given[0]}` both say where to download it from: give one of them")
        identifier = {key: value for key, value in source.items() if key != "type"}
        return {**values, f"{source['type']}_identifier": identifier}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.type in ("train", "validation") and self.license is None:
            raise ValueError(f"a {self.type} dataset needs a `license`, e.g. Apache 2.0 (TBD if it is not settled)")
        if self.end_idx is not None and self.end_idx <= (self.start_idx or 0):
            raise ValueError(f"end_idx {self.end_idx} leaves no row after start_idx {self.start_idx or 0}")
        if self._has_slice and not (self.start_idx is None and self.end_idx is None):
            raise ValueError(f"{self.jsonl_fpath} says already which rows: leave out start_idx and end_idx")
        return self

    @property
    def file(self) -> str:
        """The file alone, without the rows that are meant; of a dataset on the hub its name.

        >>> DatasetConfig(name="a", type="example", jsonl_fpath="a.jsonl[10:20]").file
        'a.jsonl'
        """
        return parse_source(self.jsonl_fpath).name

    @property
    def is_on_a_hub_only(self) -> bool:
        """Whether the file is not here, and a hub has it."""
        is_there = parse_source(self.jsonl_fpath).is_hub or os.path.exists(self.file)
        return not is_there and bool(self.huggingface_identifier or self.gitlab_identifier)

    @property
    def source(self) -> str:
        """Return the source to read as one string: the file, with a range of rows if one is given.

        >>> DatasetConfig(name="a", type="example", jsonl_fpath="a.jsonl", start_idx=10).source
        'a.jsonl[10:]'
        """
        source = slice_source(self.jsonl_fpath, self.start_idx, self.end_idx)
        if not self.map:
            return source
        return mapped_source(source, ", ".join(f"{value}={field}" for field, value in self.map.items()))

    def env_kwargs(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of the environment that plays it: its section's, and the dataset's prompt."""
        return kwargs if self.prompt_config is None else {**kwargs, "prompt_config": self.prompt_config}

    def found_from(self, key: str, folder: str | os.PathLike[str]) -> Self:
        """The dataset, one of its paths, relative to the configuration's folder, made one from the working directory.

        A file that is not there is in the working directory, or will be downloaded to it: its path stays.

        Args:
            key: `jsonl_fpath` or `prompt_config`.
            folder: The configuration's.
        """
        written = getattr(self, key)
        path = found_from(written, folder) if written else written
        if path == written:
            return self
        copy = self.model_copy(update={key: path})
        copy._written = {**self._written, key: written}
        return copy

    def as_written(self) -> dict[str, Any]:
        """The dataset as its configuration has it, wherever that is: for files that are kept."""
        written = self.model_dump(mode="json", exclude=None if self.map else {"map"})
        return written | self._written

    @property
    def _has_slice(self) -> bool:
        source = parse_source(self.jsonl_fpath)
        return (source.start, source.end) != (0, None)
