"""`gym-llm data upload|download|migrate|delete|list`: datasets on Hugging Face, and in GitLab's model registry."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_llm.cli.config import add_config_arguments, read_config
from gym_llm.cli.report import printable
from gym_llm.errors import DataError, UsageError

if TYPE_CHECKING:
    from gym_llm.config import Config
    from gym_llm.data.hubs.gitlab import ModelRegistry
    from gym_llm.data.hubs.huggingface import Hub

_HUGGINGFACE, _GITLAB = "huggingface", "gitlab"
_PLACES = (_HUGGINGFACE, _GITLAB)
_SPLITS = ("train", "validation", "test")
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

On Hugging Face it becomes {{hf_organization}}/{{hf_dataset_prefix}}-{{domain}}-{{name}}, private when it is new; the
domain, and the name unless --name gives another, are the --config's. Rows of the train split are checked for
`responses_create_params` before anything is sent.

{_SETTINGS}"""
_DOWNLOAD_EXAMPLES = f"""\
examples:
  gym-llm data download --from huggingface --repo-id nvidia/Nemotron-RL-knowledge-mcqa --output-dir data/mcqa
  gym-llm data download --from huggingface --repo-id nvidia/Nemotron-RL-knowledge-mcqa --split train --output a.jsonl
  gym-llm data download --from huggingface --repo-id nvidia/Nemotron-RL-instruction_following \\
      --artifact instruction_following.jsonl --output-dir data
  gym-llm data download --from gitlab --name multineedle --version 0.0.1 --artifact multineedle.jsonl --output-dir data

Without --split and --artifact, every split becomes OUTPUT_DIR/SPLIT.jsonl. A file appears when it is whole.

{_SETTINGS}"""
_MIGRATE_EXAMPLES = f"""\
examples:
  gym-llm data migrate multineedle --version 0.0.1 --artifact multineedle.jsonl --config envs/multineedle/config.yaml
  gym-llm data migrate multineedle --version 0.0.1 --artifact multineedle.jsonl --domain agent --delete --yes

GitLab tells upper from lower case: the dataset has the same name on Hugging Face, exactly. --delete takes it, all its
versions and files from GitLab afterwards, when you have typed its name.

{_SETTINGS}"""
_DELETE_EXAMPLES = f"""\
examples:
  gym-llm data delete multineedle --from gitlab
  gym-llm data delete acme/Nemotron-RL-math-sums --from huggingface --yes

All versions and files of the dataset are deleted, when you have typed its name; --yes is for scripts.

{_SETTINGS}"""
_LIST_EXAMPLES = f"""\
examples:
  gym-llm data list --from huggingface hf_organization=nvidia
  gym-llm data list --from gitlab

{_SETTINGS}"""


def add_remote_commands(commands: Any) -> None:
    """Add `upload`, `download`, `migrate`, `delete` and `list` to the subcommands of `data`."""
    upload = _add(commands, "upload", "publish a file", _UPLOAD_EXAMPLES, run_upload)
    upload.add_argument("file", metavar="FILE", help="JSON Lines (plain, .gz, .zst) or parquet")
    upload.add_argument("--to", required=True, choices=_PLACES)
    upload.add_argument("--name", help="the dataset's name (default: the configuration's section)")
    upload.add_argument("--version", metavar="X.Y.Z", help="GitLab: which version it is")
    _add_hub_arguments(upload)

    download = _add(commands, "download", "fetch a dataset", _DOWNLOAD_EXAMPLES, run_download)
    download.add_argument("--from", dest="source", required=True, choices=_PLACES)
    download.add_argument("--repo-id", metavar="ORG/NAME", help="Hugging Face: the repository")
    download.add_argument("--revision", help="Hugging Face: a branch, tag or commit (default: main)")
    download.add_argument("--name", help="GitLab: the dataset's name")
    download.add_argument("--version", metavar="X.Y.Z", help="GitLab: the version")
    what = download.add_mutually_exclusive_group()
    what.add_argument("--split", help="Hugging Face: only this split (default: all)")
    what.add_argument("--artifact", metavar="FILE", help="only this file of the repository or version")
    where = download.add_mutually_exclusive_group(required=True)
    where.add_argument("--output-dir", metavar="DIR", help="files go here, under their own names or as SPLIT.jsonl")
    where.add_argument("--output", metavar="FILE", help="the one file that is fetched goes here")

    migrate = _add(commands, "migrate", "from GitLab to Hugging Face", _MIGRATE_EXAMPLES, run_migrate)
    migrate.add_argument("name", metavar="NAME", help="the dataset's name in GitLab")
    migrate.add_argument("--from", dest="source", choices=(_GITLAB,), default=_GITLAB)
    migrate.add_argument("--to", choices=(_HUGGINGFACE,), default=_HUGGINGFACE)
    migrate.add_argument("--version", metavar="X.Y.Z", required=True, help="the version")
    migrate.add_argument("--artifact", metavar="FILE", required=True, help="the file of that version")
    migrate.add_argument("--delete", action="store_true", help="delete the dataset from GitLab afterwards")
    migrate.add_argument("--yes", action="store_true", help="delete without asking")
    _add_hub_arguments(migrate)

    delete = _add(commands, "delete", "delete a published dataset", _DELETE_EXAMPLES, run_delete)
    delete.add_argument("name", metavar="NAME", help="GitLab: its name; Hugging Face: ORG/NAME")
    delete.add_argument("--from", dest="source", required=True, choices=_PLACES)
    delete.add_argument("--yes", action="store_true", help="delete without asking")

    listing = _add(commands, "list", "the published datasets", _LIST_EXAMPLES, run_list)
    listing.add_argument("--from", dest="source", required=True, choices=_PLACES)


def _add(commands: Any, name: str, summary: str, examples: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=f"{summary} (Hugging Face, GitLab)" if name != "migrate" else f"copy a dataset {summary}",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_config_arguments(parser)
    parser.set_defaults(run=run, command_parser=parser)
    return parser


def _add_hub_arguments(parser: argparse.ArgumentParser) -> None:
    hub = parser.add_argument_group("Hugging Face")
    hub.add_argument("--domain", help="part of the repository's name (default: the configuration's)")
    hub.add_argument("--split", choices=_SPLITS, help="which split the rows are (default: train)")
    hub.add_argument("--create-pr", action="store_true", help="open a pull request instead of writing to the branch")
    hub.add_argument("--revision", metavar="BRANCH", help="the branch (default: main); with --create-pr also a new one")
    hub.add_argument("--commit-message", metavar="TEXT", help="default: Upload FILE")
    hub.add_argument("--commit-description", metavar="TEXT")


def run_upload(args: argparse.Namespace) -> int:
    """Upload a file."""
    with _configured(args) as config:
        if args.to == _HUGGINGFACE:
            _refuse(args, "version", "GitLab's: a repository on Hugging Face has branches, see --revision")
            _upload_to_hub(args, config, args.file, args.name)
            return 0
        for option in ("domain", "split", "create_pr", "revision", "commit_message", "commit_description"):
            _refuse(args, option, "Hugging Face's")
        _need(args, "name", "version")
        registry = _registry(config)
        artifact = registry.upload(args.file, args.name, args.version)
        print(f"uploaded to {registry.place}: {args.name}, version {args.version}, {artifact}")
        print(
            f"gym-llm data download --from gitlab --name {args.name} --version {args.version} --artifact {artifact} "
            f"--output {artifact}"
        )
    return 0


def run_download(args: argparse.Namespace) -> int:
    """Download a dataset, a split or a file."""
    with _configured(args) as config:
        if args.source == _GITLAB:
            _refuse(args, "repo_id", "Hugging Face's: give --name")
            _refuse(args, "revision", "Hugging Face's: give --version")
            _refuse(args, "split", "Hugging Face's: give --artifact FILE")
            _need(args, "name", "version", "artifact")
            target = _target(args, args.artifact)
            _registry(config).download(args.name, args.version, args.artifact, target)
            print(target)
            return 0
        _refuse(args, "name", "GitLab's: give --repo-id ORG/NAME")
        _refuse(args, "version", "GitLab's: give --revision")
        _need(args, "repo_id")
        hub = _hub(config)
        if args.artifact:
            target = _target(args, args.artifact)
            hub.download_artifact(args.repo_id, args.artifact, target, revision=args.revision)
            print(target)
        elif args.split and args.output:
            hub.download_split(args.repo_id, args.split, args.output, revision=args.revision)
            print(args.output)
        elif args.output:
            raise UsageError("All splits are several files: give --output-dir DIR, or name one with --split.")
        else:
            for path in hub.download_splits(args.repo_id, args.output_dir, split=args.split, revision=args.revision):
                print(path)
    return 0


def run_migrate(args: argparse.Namespace) -> int:
    """Copy a dataset from GitLab to Hugging Face, and delete it there if that is asked for."""
    with _configured(args) as config, tempfile.TemporaryDirectory(prefix="gym-llm-") as folder:
        if args.yes and not args.delete:
            raise UsageError("--yes answers the question of --delete, which is not given.")
        registry = _registry(config)
        path = Path(folder, Path(args.artifact).name)
        registry.download(args.name, args.version, args.artifact, path)
        _upload_to_hub(args, config, path, args.name)
        if args.delete:
            _confirm(args.name, registry.place, args.yes)
            registry.delete(args.name)
            print(f"deleted from {registry.place}: {args.name}")
    return 0


def run_delete(args: argparse.Namespace) -> int:
    """Delete a dataset when its name has been typed."""
    with _configured(args) as config:
        shelf: Hub | ModelRegistry
        if args.source == _GITLAB:
            shelf = _registry(config)
        else:
            if args.name.count("/") != 1:
                raise UsageError(f"A dataset on Hugging Face is ORG/NAME, got {args.name!r}.")
            shelf = _hub(config)
        if not shelf.exists(args.name):
            raise UsageError(f"{shelf.place} has no dataset {args.name} that you may see; upper and lower case count.")
        _confirm(args.name, shelf.place, args.yes)
        shelf.delete(args.name)
        print(f"deleted from {shelf.place}: {args.name}")
    return 0


def run_list(args: argparse.Namespace) -> int:
    """Print the datasets, one line each."""
    from gym_llm.data.hubs.publishing import DEFAULT_PREFIX, organization

    with _configured(args) as config:
        if args.source == _GITLAB:
            for name, version in _registry(config).list_datasets():
                print(f"{printable(name)}\t{printable(version)}")
        else:
            prefix = config.variables.get("hf_dataset_prefix", DEFAULT_PREFIX) or ""
            for name, is_private in _hub(config).list_datasets(organization(config.variables), prefix):
                print(f"{printable(name)}\t{'private' if is_private else 'public'}")
    return 0


def _upload_to_hub(args: argparse.Namespace, config: Config, path: str | Path, name: str | None) -> None:
    from gym_llm.data.hubs.publishing import collection_id, repo_name

    section, domain = _section(config)
    name, domain = name or section, args.domain or domain
    if not name:
        raise UsageError("What is the dataset called? Give --name, or a --config with one environment.")
    if not domain:
        raise UsageError("What is the dataset about? Give --domain, or a --config whose environment has a `domain`.")
    repo_id = repo_name(config.variables, domain, name)
    uploaded = _hub(config).upload(
        path,
        repo_id,
        split=args.split or "train",
        create_pr=args.create_pr,
        revision=args.revision,
        commit_message=args.commit_message,
        commit_description=args.commit_description,
        collection=collection_id(config.variables),
    )
    print(f"uploaded to {repo_id}: {uploaded.file}")
    print(f"{'pull request' if uploaded.is_pull_request else 'commit'}: {uploaded.url}")


def _section(config: Config) -> tuple[str | None, str | None]:
    """The configuration's one environment and its domain."""
    if len(config.environments) != 1:
        return None, None
    ((name, section),) = config.environments.items()
    return name, section.domain


def _hub(config: Config) -> Hub:
    try:
        from huggingface_hub.utils import disable_progress_bars

        from gym_llm.data.hubs.huggingface import Hub
    except ModuleNotFoundError as error:
        raise UsageError(f"Hugging Face needs {error.name}: pip install 'gym-llm[data]'.") from None
    if not sys.stderr.isatty():
        disable_progress_bars()
    token = config.variables.get("hf_token")
    return Hub(str(token) if token else None)


def _registry(config: Config) -> ModelRegistry:
    from gym_llm.data.hubs.gitlab import ModelRegistry

    return ModelRegistry.configured(config.variables)


@contextmanager
def _configured(args: argparse.Namespace) -> Iterator[Config]:
    """The configuration, for a block whose errors never show a secret."""
    from gym_llm.secrets import is_secret_key, mask

    for setting in args.settings:
        key = setting.partition("=")[0].lstrip("+")
        if is_secret_key(key):
            raise UsageError(f"{key}=… would be seen by everyone who can list processes: put it into env.yaml.")
    config = read_config(args.config, args.settings)
    secrets = config.secrets | {os.environ[name] for name in _TOKENS if os.environ.get(name)}
    try:
        yield config
    except DataError as error:
        raise UsageError(printable(mask(str(error), secrets))) from None


def _confirm(name: str, place: str, yes: bool) -> None:
    if yes:
        return
    print(f"This deletes {name} and all its files from {place} for good. Type its name to go on: ", end="", flush=True)
    answer = sys.stdin.readline()
    if not answer:
        raise UsageError("\nNothing was deleted: there is nobody to ask; --yes deletes without asking.")
    if answer.strip() != name:
        raise UsageError(f"Nothing was deleted: that is not {name}.")


def _target(args: argparse.Namespace, artifact: str) -> Path:
    return Path(args.output) if args.output else Path(args.output_dir, Path(artifact).name)


def _need(args: argparse.Namespace, *options: str) -> None:
    if missing := [_flag(option) for option in options if not getattr(args, option)]:
        raise UsageError(f"{' and '.join(missing)} must be given as well.")


def _refuse(args: argparse.Namespace, option: str, reason: str) -> None:
    if getattr(args, option):
        raise UsageError(f"{_flag(option)} is {reason}.")


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")
