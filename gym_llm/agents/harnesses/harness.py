"""Harness: an agent that is installed at its first start."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from typing import Any

from gym_llm.agents.agent_episode import AgentEpisode
from gym_llm.agents.agent_program import Program
from gym_llm.agents.harnesses.harness_file import HarnessFile
from gym_llm.agents.harnesses.layers import install_layers


@dataclass(frozen=True)
class Harness(Program):
    """A program from a harness file. `resolved` returns the program with its layers, which it installs first.

    Attributes:
        data: The harness file.
    """

    data: HarnessFile = field(kw_only=True, hash=False)

    @classmethod
    def of(cls, data: HarnessFile) -> Harness:
        """Return the harness of a file; nothing is installed yet."""
        return cls(**_fields(data), data=data)

    def resolved(self) -> Program:
        """Install the layers on this machine unless they are there, and return the program.

        Raises:
            EngineUnavailable: If it cannot be installed.
        """
        return Program(**_fields(self.data), layers=install_layers(self.data))

    async def __call__(self, episode: AgentEpisode) -> Any:
        """Play, after an installation if it needs one; raises as `Program` and `resolved`."""
        program = await asyncio.to_thread(self.resolved)
        return await program(episode)

    @property
    def digest(self) -> str:
        """A hash of the harness's data, for the file that says what a run was made with."""
        return hashlib.sha256(self.data.model_dump_json().encode()).hexdigest()


def _fields(data: HarnessFile) -> dict[str, Any]:
    return {
        "command": data.command,
        "folder": "",
        "environment": data.environment,
        "files": data.files,
        "harness": f"{data.name} {data.version}",
        "answer": data.answer,
        "transcript": data.transcript,
        "hint": data.hint,
    }
