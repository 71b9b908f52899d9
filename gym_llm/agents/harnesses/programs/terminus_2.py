"""Play with Terminus 2 in a terminal of this machine, and print what it writes into answer.txt."""

import asyncio
import os
import shutil
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from harbor.agents.terminus_2 import Terminus2
from harbor.environments.base import ExecResult
from harbor.models.agent.context import AgentContext
from harbor.models.trial.paths import EnvironmentPaths

ASKED = "If the task asks for an answer, write it, and nothing else, into the file answer.txt in the working directory."


class Machine:
    """This machine, in the place of one of Harbor's containers."""

    session_id = "gym"
    default_user = None

    async def exec(self, command: str, **_: Any) -> ExecResult:
        """Run a command, with which the agent controls tmux."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_shell(command, stdin=pipe, stdout=pipe, stderr=pipe)
        out, err = await process.communicate()
        return ExecResult(
            stdout=out.decode(errors="replace"),
            stderr=err.decode(errors="replace"),
            return_code=process.returncode or 0,
        )


async def main() -> None:
    """Play the task on standard input."""
    if shutil.which("tmux") is None:
        sys.exit("Terminus 2 needs tmux: install it with the system's packages.")
    folder, machine = Path(os.environ["GYM_LLM_FOLDER"]), Machine()
    EnvironmentPaths.agent_dir = PurePosixPath(folder)
    agent = Terminus2(
        logs_dir=folder,
        model_name=f"openai/{os.environ['OPENAI_MODEL']}",
        api_base=os.environ["OPENAI_BASE_URL"],
        record_terminal_session=False,
        model_info={"max_input_tokens": 128_000, "max_output_tokens": 16_384},
    )
    await agent.setup(machine)
    try:
        await agent.run(f"{sys.stdin.read()}\n\n{ASKED}", machine, AgentContext())
    finally:
        await machine.exec("tmux kill-server")
    answer = Path("answer.txt")
    print(answer.read_text() if answer.is_file() else "")


asyncio.run(main())
