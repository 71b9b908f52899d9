"""`gym-llm data upload|download|migrate|delete|list`: datasets on Hugging Face, and in GitLab's model registry."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gym_llm.cli.config import ConfigFiles, Settings, read_config
from gym_llm.cli.help import Command
from gym_llm.cli.play_options import with_options
from gym_llm.cli.refusals import printable
from gym_llm.errors import DataError, UsageError
from gym_llm.types import HubName
from gym_llm.utils.extras import install

if TYPE_CHECKING:
    from gym_llm.data.hubs.gitlab import ModelRegistry
    from gym_llm.data.hubs.huggingface import Hub
    from gym_llm.rollouts.config import Config

_TOKENS = ("HF_TOKEN", "MLFLOW_TRACKING_TOKEN")

_SETTINGS = """\
env.yaml, or key=value for all but the tokens:
  hf_token, hf_organization, hf_dataset_prefix (Nemotron-RL), hf_collection_name and hf_collection_slug;
  mlflow_tracking_uri, mlflow_tracking_token. Tokens may be in HF_TOKEN and MLFLOW_TRACKING_TOKEN instead.

exit codes: 0 done; 2 wrong arguments or data, or refused; 130 interrupted.
"""
_UPLOAD_EXAMPLES = f"""\
examples:
  gym-llm data upload train.jsonl --to huggingface --config envs/math_verify/config.yaml --name OpenMathReasoning
  gym-llm data upload validation.jsonl --to huggingface --domain math --name OpenMathReasoning --split validation \\
      --create-pr --revision more-rows --commit-message "Add validation set" --commit-description "545 examples"
  gym-llm data upload multineedle.jsonl --to gitlab --name multineedle --version 0.0.1

On Hugging Face the dataset is {{hf_organization}}/{{hf_dataset_prefix}}-{{domain}}-{{name}}; a new one is private. The
domain comes from --config, and so does the name unless --name gives it. Rows of the train split must have
`responses_create_params`; they are checked before anything is sent.

{_SETTINGS}"""
_DOWNLOAD_EXAMPLES = f"""\
examples:
  gym-llm data download --from huggingface --repo-id nvidia/Nemotron-RL-knowledge-mcqa --output-dir data/mcqa
  gym-llm data download --from huggingface --repo-id nvidia/Nemotron-RL-knowledge-mcqa --split train --output a.jsonl
  gym-llm data download --from huggingface --repo-id nvidia/Nemotron-RL-instruction_following \\
      --artifact instruction_following.jsonl --output-dir data
  gym-llm data download --from gitlab --name multineedle --version 0.0.1 --artifact multineedle.jsonl --output-dir data

Without --split and --artifact, every split becomes OUTPUT_DIR/SPLIT.jsonl. A file appears when it is complete.

{_SETTINGS}"""
_MIGRATE_EXAMPLES = f"""\
examples:
  gym-llm data migrate multineedle --version 0.0.1 --artifact multineedle.jsonl --config envs/multineedle/config.yaml
  gym-llm data migrate multineedle --version 0.0.1 --artifact multineedle.jsonl --domain agent --delete --yes

GitLab's names are case-sensitive; the dataset gets exactly the same name on Hugging Face. --delete then deletes it with
all its versions and files from GitLab, after you have typed its name.

{_SETTINGS}"""
_DELETE_EXAMPLES = f"""\
examples:
  gym-llm data delete multineedle --from gitlab
  gym-llm data delete acme/Nemotron-RL-math-sums --from huggingface --yes

All versions and files of the dataset are deleted after you have typed its name; --yes is for scripts.

{_SETTINGS}"""
_LIST_EXAMPLES = f"""\
examples:
  gym-llm data list --from huggingface hf_organization=nvidia
  gym-llm data list --from gitlab

{_SETTINGS}"""

_hub_option = partial(typer.Option, rich_help_panel="Hugging Face")
_gitlab_option = partial(typer.Option, rich_help_panel="GitLab")

From = Annotated[HubName, typer.Option("--from", help="hub of the dataset")]
Yes = Annotated[bool, typer.Option("--yes", help="delete without asking")]
Version = Annotated[str | None, _gitlab_option(metavar="X.Y.Z", help="the version")]


@dataclass(frozen=True, kw_only=True)
class UploadOptions:
    """Options for a dataset and a commit on Hugging Face."""

    domain: Annotated[str | None, _hub_option(help="part of the repository's name (default: the configuration's)")] = (
        None
    )
    split: Annotated[Literal["train", "validation", "test"] | None, _hub_option(help="the split (default: train)")] = (
        None
    )
    create_pr: Annotated[
        bool, _hub_option("--create-pr", help="open a pull request instead of writing to the branch")
    ] = False
    revision: Annotated[
        str | None, _hub_option(metavar="BRANCH", help="default: main; with --create-pr also a new one")
    ] = None
    commit_message: Annotated[str | None, _hub_option(metavar="TEXT", help="default: Upload FILE")] = None
    commit_description: Annotated[str | None, _hub_option(metavar="TEXT", help="the commit's description")] = None


app = typer.Typer()


@app.command(cls=Command, epilog=_UPLOAD_EXAMPLES)
@with_options
def upload(
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON Lines (plain, .gz, .zst) or parquet")],
    to: Annotated[HubName, typer.Option(help="hub to publish to")],
    name: Annotated[str | None, typer.Option(help="the dataset's name (default: the configuration's section)")] = None,
    files: ConfigFiles,
    version: Version = None,
    hub: UploadOptions,
    settings: Settings,
) -> int:
    """Publish a file (Hugging Face, GitLab)."""
    with _configured(files, settings) as config:
        if to == "huggingface":
            _refuse("GitLab's: a repository on Hugging Face has branches, see --revision", version=version)
            _upload_to_hub(config, file, name, hub)
        else:
            _refuse("Hugging Face's", **vars(hub))
            name, version = _need(name=name, version=version)
            registry = _registry(config)
            artifact = registry.upload(file, name, version)
            print(f"uploaded to {registry.place}: {name}, version {version}, {artifact}")
            place = f"--name {name} --version {version} --artifact {artifact}"
            print(f"gym-llm data download --from gitlab {place} --output {artifact}")
    return 0


@app.command(cls=Command, epilog=_DOWNLOAD_EXAMPLES)
def download(
    *,
    source: From,
    artifact: Annotated[str | None, typer.Option(metavar="FILE", help="only this file of the dataset")] = None,
    output_dir: Annotated[
        str | None, typer.Option(metavar="DIR", help="folder for the files, under their own names or as SPLIT.jsonl")
    ] = None,
    output: Annotated[str | None, typer.Option(metavar="FILE", help="write the one fetched file here")] = None,
    files: ConfigFiles,
    repo_id: Annotated[str | None, _hub_option(metavar="ORG/NAME", help="the repository")] = None,
    revision: Annotated[str | None, _hub_option(help="a branch, tag or commit (default: main)")] = None,
    split: Annotated[str | None, _hub_option(help="only this split (default: all)")] = None,
    name: Annotated[str | None, _gitlab_option(help="the dataset's name")] = None,
    version: Version = None,
    settings: Settings,
) -> int:
    """Fetch a dataset, a split or a file (Hugging Face, GitLab)."""
    if split and artifact:
        raise UsageError("--artifact and --split exclude each other: one names a file, the other several.")
    if bool(output_dir) == bool(output):
        raise UsageError("No output is given: add --output-dir DIR, or --output FILE.")
    with _configured(files, settings) as config:
        target = Path(output or Path(output_dir or "", Path(artifact or "").name))
        paths = [target]
        if source == "gitlab":
            _refuse("Hugging Face's: give --name", repo_id=repo_id)
            _refuse("Hugging Face's: give --version", revision=revision)
            _refuse("Hugging Face's: give --artifact FILE", split=split)
            name, version, artifact = _need(name=name, version=version, artifact=artifact)
            _registry(config).download(name, version, artifact, target)
        else:
            _refuse("GitLab's: give --repo-id ORG/NAME", name=name)
            _refuse("GitLab's: give --revision", version=version)
            (repo_id,) = _need(repo_id=repo_id)
            hub = _hub(config)
            if artifact:
                hub.download_artifact(repo_id, artifact, target, revision=revision)
            elif split and output:
                hub.download_split(repo_id, split, target, revision=revision)
            elif output:
                raise UsageError("All splits are several files: give --output-dir DIR, or name one with --split.")
            else:
                paths = hub.download_splits(repo_id, target, split=split, revision=revision)
        print(*paths, sep="\n")
    return 0


@app.command(cls=Command, epilog=_MIGRATE_EXAMPLES)
@with_options
def migrate(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="the dataset's name in GitLab")],
    version: Annotated[str, typer.Option(metavar="X.Y.Z", help="the version")],
    artifact: Annotated[str, typer.Option(metavar="FILE", help="the file of that version")],
    delete: Annotated[bool, typer.Option("--delete", help="delete the dataset from GitLab afterwards")] = False,
    yes: Yes = False,
    source: Annotated[Literal["gitlab"], typer.Option("--from")] = "gitlab",
    to: Annotated[Literal["huggingface"], typer.Option("--to")] = "huggingface",
    files: ConfigFiles,
    hub: UploadOptions,
    settings: Settings,
) -> int:
    """Copy a dataset from GitLab to Hugging Face; with --delete, delete it from GitLab."""
    with _configured(files, settings) as config, tempfile.TemporaryDirectory(prefix="gym-llm-") as folder:
        if yes and not delete:
            raise UsageError("--yes answers the question of --delete, which is not given.")
        registry = _registry(config)
        path = Path(folder, Path(artifact).name)
        registry.download(name, version, artifact, path)
        _upload_to_hub(config, path, name, hub)
        if delete:
            _delete(registry, name, yes)
    return 0


@app.command(cls=Command, epilog=_DELETE_EXAMPLES)
def delete(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="GitLab: its name; Hugging Face: ORG/NAME")],
    source: From,
    yes: Yes = False,
    files: ConfigFiles,
    settings: Settings,
) -> int:
    """Delete a published dataset after its name has been typed (Hugging Face, GitLab)."""
    with _configured(files, settings) as config:
        if source == "huggingface" and name.count("/") != 1:
            raise UsageError(f"A dataset on Hugging Face is ORG/NAME, got {name!r}.")
        shelf: Hub | ModelRegistry = _registry(config) if source == "gitlab" else _hub(config)
        if not shelf.exists(name):
            raise UsageError(f"{shelf.place} has no dataset {name} that you may see; upper and lower case count.")
        _delete(shelf, name, yes)
    return 0


@app.command("list", cls=Command, epilog=_LIST_EXAMPLES)
def list_datasets(*, source: From, files: ConfigFiles, settings: Settings) -> int:
    """Print the published datasets, one line each (Hugging Face, GitLab)."""
    from gym_llm.data.hubs.publishing import DEFAULT_PREFIX, organization

    with _configured(files, settings) as config:
        if source == "gitlab":
            datasets = _registry(config).list_datasets()
        else:
            prefix = config.variables.get("hf_dataset_prefix", DEFAULT_PREFIX) or ""
            repositories = _hub(config).list_datasets(organization(config.variables), prefix)
            datasets = [(name, "private" if is_private else "public") for name, is_private in repositories]
        for columns in datasets:
            print(*map(printable, columns), sep="\t")
    return 0


def _upload_to_hub(config: Config, path: str | Path, name: str | None, options: UploadOptions) -> None:
    from gym_llm.data.hubs.publishing import collection_id, repo_name

    commit = vars(options).copy()
    domain, split = commit.pop("domain"), commit.pop("split")
    if len(config.environments) == 1:
        ((key, section),) = config.environments.items()
        name, domain = name or key, domain or section.domain
    if not name:
        raise UsageError("The dataset has no name: give --name, or a --config with one environment.")
    if not domain:
        raise UsageError("The dataset has no domain: give --domain, or a --config whose environment has one.")
    repo_id, collection = repo_name(config.variables, domain, name), collection_id(config.variables)
    uploaded = _hub(config).upload(path, repo_id, split=split or "train", collection=collection, **commit)
    print(f"uploaded to {repo_id}: {uploaded.file}")
    print(f"{'pull request' if uploaded.is_pull_request else 'commit'}: {uploaded.url}")


def _hub(config: Config) -> Hub:
    try:
        from huggingface_hub.utils import disable_progress_bars

        from gym_llm.data.hubs.huggingface import Hub
    except ModuleNotFoundError as error:
        raise UsageError(f"Hugging Face needs {error.name}: {install('data')}.") from None
    if not sys.stderr.isatty():
        disable_progress_bars()
    token = config.variables.get("hf_token")
    return Hub(str(token) if token else None)


def _registry(config: Config) -> ModelRegistry:
    from gym_llm.data.hubs.gitlab import ModelRegistry

    return ModelRegistry.configured(config.variables)


@contextmanager
def _configured(files: Sequence[str], settings: Sequence[str]) -> Iterator[Config]:
    """Yield the configuration to a block; secrets are masked in its errors."""
    from gym_llm.utils.secrets import is_secret_key, mask

    for setting in settings:
        key = setting.partition("=")[0].lstrip("+")
        if is_secret_key(key):
            raise UsageError(f"{key}=… is visible to all users who can list processes: put it into env.yaml.")
    config = read_config(files, settings)
    secrets = config.secrets | {os.environ[name] for name in _TOKENS if os.environ.get(name)}
    try:
        yield config
    except DataError as error:
        raise UsageError(printable(mask(str(error), secrets))) from None


def _delete(shelf: Hub | ModelRegistry, name: str, yes: bool) -> None:
    if not yes:
        print(f"This deletes {name} and all its files from {shelf.place} permanently. Type its name to go on: ", end="")
        sys.stdout.flush()
        answer = sys.stdin.readline()
        if not answer:
            raise UsageError("\nNothing was deleted: standard input is closed; --yes deletes without asking.")
        if answer.strip() != name:
            raise UsageError(f"Nothing was deleted: that is not {name}.")
    shelf.delete(name)
    print(f"deleted from {shelf.place}: {name}")


def _need(**options: str | None) -> list[str]:
    if flags := [_flag(name) for name, value in options.items() if not value]:
        raise UsageError(f"{' and '.join(flags)} must be given as well.")
    return [str(value) for value in options.values()]


def _refuse(reason: str, **options: object) -> None:
    if surplus := [_flag(name) for name, value in options.items() if value]:
        raise UsageError(f"{surplus[0]} is {reason}.")


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")
