"""Program: a command that plays an episode."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from gym_llm.agents.agent_episode import AgentEpisode
from gym_llm.agents.agent_process import RunningProgram, environment_of, tail
from gym_llm.errors import EngineError
from gym_llm.utils.json_codec import dumps
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

    If the program submits no answer, its standard output is the answer.

    Args:
        command: The program and its arguments.
        folder: Its working directory.
    """

    command: tuple[str, ...]
    folder: str

    async def __call__(self, episode: AgentEpisode) -> str | None:
        """Play.

        Raises:
            EngineError: If it cannot be started, or ends with another exit code than 0; with the end of its stderr.
        """
        folder, addresses = episode.folder, episode.addresses
        task, text = folder / "task.json", folder / "prompt.txt"
        task.write_bytes(dumps(task_of(episode)))
        text.write_text(episode.prompt, "utf-8", errors="replace")
        key, model = addresses.api_key, addresses.model
        environment = {name: value for name, value in environment_of({}).items() if name not in _OTHERS_KEYS}
        environment |= {
            "OPENAI_BASE_URL": addresses.base_url,
            "OPENAI_API_BASE": addresses.base_url,
            "OPENAI_API_KEY": key,
            "OPENAI_MODEL": model,
            "ANTHROPIC_BASE_URL": addresses.anthropic_url,
            "ANTHROPIC_API_KEY": key,
            "ANTHROPIC_MODEL": model,
            "GYM_LLM_BASE_URL": addresses.base_url,
            "GYM_LLM_API_KEY": key,
            "GYM_LLM_MODEL": model,
            "GYM_LLM_TASK": str(task),
            "GYM_LLM_TOOLS_URL": addresses.tools_url,
            "GYM_LLM_MCP_URL": addresses.mcp_url,
            "GYM_LLM_FOLDER": str(folder),
        }
        program = RunningProgram(key)
        try:
            with text.open("rb") as stdin:
                await program.start(self.command, stdin=stdin, folder=self.folder, environment=environment)
            ended = await program.wait()
        except OSError as error:
            why = error.strerror or str(error)
            raise EngineError(
                f"The agent {self._name!r} cannot be started in {self.folder}: {why}.", failure_kind="agent_run_error"
            ) from None
        finally:
            try:
                await program.end()
            finally:
                episode.said = redact(tail(program.stderr.replace(key, "***")))
        if ended.code:
            how = f"with exit code {ended.code}" if ended.code > 0 else f"by signal {-ended.code}"
            words = f": {episode.said}" if episode.said else ", and wrote nothing on its standard error."
            raise EngineError(f"The agent {self._name!r} has ended {how}{words}", failure_kind="agent_run_error")
        return None if episode.has_submitted else ended.stdout.strip() or None

    @property
    def _name(self) -> str:
        return redact(shlex.join(self.command))[:200]


def task_of(episode: AgentEpisode) -> dict[str, Any]:
    """Return the JSON of a program's task: the request and its text."""
    return {"request": episode.request, "prompt": episode.prompt, "tools": episode.tools, "model": episode.model}
