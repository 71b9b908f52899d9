"""Program: a command that plays an episode."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gym_llm.agents.agent_episode import Addresses, AgentEpisode
from gym_llm.agents.agent_process import STDERR_BYTES, Ended, RunningProgram, environment_of, tail
from gym_llm.agents.launch import Launch, make_launch
from gym_llm.errors import EngineError
from gym_llm.utils.secrets import redact

_OTHERS_KEYS = ("ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID", "OPENAI_ORGANIZATION", "OPENAI_PROJECT_ID")
"""Variables that would send a client's requests, or its keys, elsewhere."""


@dataclass(frozen=True)
class Program:
    """Runs a command as the agent of an episode; its output is the answer.

    The program finds:

    - The task as text on standard input (`AgentEpisode.prompt`), and complete in the JSON file `GYM_LLM_TASK`.
    - The episode's model, in the environment variables that the clients of OpenAI and Anthropic read.
    - The environment's tools over MCP at `GYM_LLM_MCP_URL`, and over plain HTTP at `GYM_LLM_TOOLS_URL`. The latter also
      accepts answers.

    If the program submits no answer, its standard output is the answer. What it prints before it first calls the model
    does not count: libraries print banners when they are imported.

    Args:
        command: The program and its arguments.
        folder: Its working directory; "" for one of its own in each episode's folder.
        environment: More variables, of a harness with placeholders such as `${base_url}`.
        files: Files for the episode's folder, by their paths in it; likewise.
        layers: Folders that the program needs and only reads, at the same paths wherever it runs.
        harness: The harness's name and version; "" for a command. A harness gets none of this process's variables, and
            the episode's folder is its home.
        answer: The source of the answer: `stdout`, or `model` for the model's last words.
        transcript: Where a harness writes what it does: a pattern of files in the episode's folder.
        hint: A text for its model after the task of an environment with tools.
    """

    command: tuple[str, ...]
    folder: str
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    files: Mapping[str, str] = field(default_factory=dict, hash=False)
    layers: tuple[Path, ...] = ()
    harness: str = ""
    answer: Literal["stdout", "model"] = "stdout"
    transcript: str = ""
    hint: str = ""

    def launch(self, addresses: Addresses, folder: str, task: Mapping[str, Any]) -> Launch:
        """Return what one episode is started with.

        Args:
            addresses: The episode's addresses as the program reaches them.
            folder: The episode's folder as the program sees it.
            task: The task (`task_of`).
        """
        return make_launch(
            self.command,
            self.folder,
            addresses=addresses,
            folder=folder,
            task=task,
            environment=self.environment,
            files=self.files,
            hint=self.hint,
            layers=self.layers,
            is_harness=bool(self.harness),
        )

    def resolved(self) -> Program:
        """Return the program with its layers in place; a harness installs them here."""
        return self

    async def __call__(self, episode: AgentEpisode) -> str | None:
        """Play.

        Raises:
            EngineError: If it cannot be started, or ends with another exit code than 0; with the end of its stderr.
        """
        folder, key = episode.folder, episode.addresses.api_key
        launch = self.launch(episode.addresses, str(folder), task_of(episode))
        write_files(launch, folder)
        inherited = {name: value for name, value in environment_of({}).items() if name not in _OTHERS_KEYS}
        if self.harness:
            inherited = {name: inherited[name] for name in ("NO_PROXY", "no_proxy")}
        (folder / "stdin").write_bytes(launch.stdin)
        program = RunningProgram(key)
        episode.on_first_call = program.forget_stdout
        inherited.setdefault("PYTHONUNBUFFERED", "1")  # else all that is printed comes at the end
        try:
            with (folder / "stdin").open("rb") as stdin:
                await program.start(
                    launch.command, stdin=stdin, folder=launch.workdir, environment=inherited | launch.environment
                )
            ended = await program.wait()
        except OSError as error:
            why = error.strerror or str(error)
            raise EngineError(
                f"The agent {self.name!r} cannot be started in {launch.workdir}: {why}.",
                failure_kind="agent_run_error",
            ) from None
        finally:
            try:
                await program.end()
            finally:
                said = program.stderr.strip() or _end_of_transcript(folder, self.transcript)
                episode.said = redact(tail(said.replace(key, "***")))
        return self.conclude(ended, episode)

    def conclude(self, ended: Ended, episode: AgentEpisode) -> str | None:
        """Return the answer of a program that has ended; None if it has answered otherwise.

        Raises:
            EngineError: If its exit code is not 0; with the end of its stderr, `AgentEpisode.said`.
        """
        if ended.code:
            how = f"with exit code {ended.code}" if ended.code > 0 else f"by signal {-ended.code}"
            words = f": {episode.said}" if episode.said else ", and wrote nothing on its standard error."
            raise EngineError(f"The agent {self.name!r} has ended {how}{words}", failure_kind="agent_run_error")
        if episode.has_submitted or self.answer == "model":
            return None
        return ended.stdout.strip() or None

    @property
    def name(self) -> str:
        """The program's name for messages: its harness, or its command without secrets."""
        return self.harness or redact(shlex.join(self.command))[:200]


def task_of(episode: AgentEpisode) -> dict[str, Any]:
    """Return the JSON of a program's task: the request and its text."""
    return {"request": episode.request, "prompt": episode.prompt, "tools": episode.tools, "model": episode.model}


def write_files(launch: Launch, folder: Path) -> None:
    """Write a launch's files and make its folders in the episode's folder."""
    for name in launch.folders:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, content in launch.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if content.startswith(b"#!"):
            path.chmod(0o700)


def _end_of_transcript(folder: Path, pattern: str) -> str:
    """Return the end of the newest file that a pattern finds; "" without one."""
    files = [path for path in folder.glob(pattern) if path.is_file()] if pattern else []
    if not files:
        return ""
    newest = max(files, key=lambda path: path.stat().st_mtime)
    return newest.read_bytes()[-STDERR_BYTES:].decode(errors="replace")
