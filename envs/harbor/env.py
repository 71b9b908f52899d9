"""Harbor: a task folder, or a row of SWE-bench, done with a shell in a container of the episode."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from gym_llm import BaseTask, Episode, Verdict, VerifierEnv, tool
from gym_llm.concurrency.answered_once import answered_once, remembering
from gym_llm.core.env_config import WRITTEN, Count
from gym_llm.core.prompts import PromptTexts, RowPrompt
from gym_llm.core.tasks import TaskKind
from gym_llm.data.benchmarks.agents import PYTEST
from gym_llm.envs.harbor import session as sessions
from gym_llm.envs.harbor.downloads import tasks_of
from gym_llm.envs.harbor.folder import folders_in, read_folder
from gym_llm.envs.harbor.log_parsers import known
from gym_llm.errors import DataError, ToolError, UsageError
from gym_llm.grading.call_matching import call_items
from gym_llm.sandbox.backends import bubblewrap_path
from gym_llm.sandbox.machines.image_names import REGISTRIES
from gym_llm.sandbox.machines.machine import BubblewrapMachine, ExecResult, MachineLimits, MachineProblem
from gym_llm.sandbox.machines.machine_place import MachinePlace
from gym_llm.sandbox.machines.machine_pool import Machines
from gym_llm.sandbox.machines.rootfs import cache_folder
from gym_llm.types import Item, Row

_OWN = str(Path(__file__).with_name("data") / "tasks")
_NO_TEXTS = PromptTexts("")
_PARAMS = "responses_create_params"
_LONGEST_COMMAND = 100_000
_SOLUTION_SECONDS = 600.0


class Harbor(VerifierEnv):
    """Do a task with a shell; the task's own verifier gives the reward, in the container that the model left.

    Args:
        tasks: Rows with `task`, the path of a task folder, or with SWE-bench's fields; or a folder of task folders.
        dataset: The name of a dataset that `harbor download` has left on this machine, instead of `tasks`; see
            `gym_llm.envs.harbor.downloads.tasks_of`.
        folder: The folder that relative paths of tasks start from; by default that of the built-in tasks.
        backend: `bubblewrap`, `docker` or `podman`.
        images: For bubblewrap: images for the names of FROM or `docker_image`, e.g.
            `{"ubuntu:24.04": "ubuntu.tar", "python:*": "host"}`; see `gym_llm.sandbox.machines.machine_pool.Machines`.
        registries: Where images that `images` does not name are pulled from; empty for none.
        network: `"none"`, or `"host"` for the host's network. Tasks get it if their `network_mode` is public or
            missing.
        build_network: Whether RUN in a Dockerfile has the host's network.
        cpus: Processors of tasks that do not set them.
        memory_mb: Maximum memory of a container in MiB; also the default of tasks that do not set it.
        storage_mb: The same for files. They are in memory, too.
        output_characters: Maximum number of characters of a command's output that the model sees.
        snapshots: A folder for snapshots of the container after each command; None writes none. Snapshots over 512 MiB
            are left out.
        solve: Whether to run the solution before the verifier. Each task has to give its full reward then.
        cache: The folder of images; None for one in the user's cache.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument is invalid.
        SandboxUnavailable: If the back end is bubblewrap and it is not installed.
    """

    reverify_mode = "unsupported"
    default_max_turns = 100
    accepted_findings = {"near miss/another number in a call": "the number is the time limit of the solution's command"}

    class Task(BaseTask):
        """A task folder's path, or a row of SWE-bench."""

        task: str | None = None
        snapshot: str | None = None
        instance_id: str | None = None
        image: str | None = None
        docker_image: str | None = None
        patch: str = ""
        test_patch: str = ""
        base_commit: str = ""
        fail_to_pass: list[str] = Field([], alias="FAIL_TO_PASS")
        pass_to_pass: list[str] = Field([], alias="PASS_TO_PASS")
        repo_dir: str = "/testbed"
        setup_command: str = ""
        test_command: str = PYTEST
        timeout_sec: float = Field(1800.0, gt=0)
        eval_script: str = ""
        log_parser: Annotated[str, AfterValidator(known)] = ""
        hidden_files: list[str] = []
        kept_files: list[str] = []
        patch_makes_bug: bool = False

        @field_validator("fail_to_pass", "pass_to_pass", mode="before")
        @classmethod
        def _is_a_list(cls, value: Any) -> Any:
            return json.loads(value) if isinstance(value, str) else value

        @model_validator(mode="after")
        def _is_one_of_two(self) -> Harbor.Task:
            if (self.task is None) == (self.instance_id is None):
                raise ValueError("a row has `task`, a task folder's path, or `instance_id` and SWE-bench's fields")
            if self.task is None and not (self.image or self.docker_image):
                raise ValueError("a row of SWE-bench names its `image`")
            if self.task is None and not self.fail_to_pass:
                raise ValueError("a row of SWE-bench names the tests that have to pass, `FAIL_TO_PASS`")
            if self.task is None and not self.base_commit:
                raise ValueError("a row of SWE-bench names its `base_commit`")
            return self

    class Config(VerifierEnv.Config):
        """The containers, their limits, and the handling of solutions and snapshots."""

        dataset: str | None = None
        folder: Annotated[str, BeforeValidator(lambda path: path or _OWN), AfterValidator(os.path.abspath)] = _OWN
        backend: Literal["bubblewrap", "docker", "podman"] = "bubblewrap"
        images: dict[str, str] | None = None
        registries: list[str] = list(REGISTRIES)
        network: Literal["none", "host"] = "none"
        build_network: bool = False
        cpus: float = Field(1.0, gt=0, allow_inf_nan=False)
        memory_mb: Count = 2048
        storage_mb: Count = 2048
        output_characters: int = Field(16_000, ge=100)
        snapshots: Annotated[str | None, WRITTEN] = None
        solve: bool = False
        cache: Annotated[str | None, WRITTEN] = None

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        if isinstance(tasks, str) and os.path.isdir(tasks):
            tasks = [{"task": path} for path in folders_in(tasks)]
        elif tasks is None and isinstance(dataset := kwargs.get("dataset"), str):
            tasks = [{"task": path} for path in tasks_of(dataset)]
        super().__init__(tasks, **kwargs)
        config = self.config
        if config.backend == "bubblewrap":
            bubblewrap_path()
            cache_folder(config.cache)
        self.limits = MachineLimits(cpus=config.cpus, memory_mb=config.memory_mb, storage_mb=config.storage_mb)
        self.made_from = config.model_dump(include={"backend", "images", "registries", "cache", "build_network"})

    def task_kind(self) -> TaskKind:
        """Return the schema of rows; those without `input` get their task's instruction."""
        kind = super().task_kind()
        return kind if kind.prompt is not None else kind._replace(prompt=_Instructions(self.config.folder, _NO_TEXTS))

    def setup(self, task: Task) -> sessions.Session:
        """Return the episode's session; its container starts with the first command."""
        if task.task is None:
            return sessions.Session(None, sessions.swe_bench_plan(task, self.limits))
        folder = read_folder(os.path.join(self.config.folder, task.task))
        return sessions.Session(folder, sessions.folder_plan(folder, self.limits, self.config.network, task.snapshot))

    def oracle(self, task: Task) -> list[list[Item]] | None:
        """Return the solution of each step as a command; None if a solution is missing or has further files."""
        if task.task is None:
            apply = "git apply" + " -R" * task.patch_makes_bug
            commands = [f"{apply} <<'END_OF_PATCH'\n{task.patch.rstrip()}\nEND_OF_PATCH"] if task.patch else []
        else:
            folder = read_folder(os.path.join(self.config.folder, task.task))
            solutions = [Path(step.solution) for step in folder.steps if step.solution is not None]
            if len(solutions) < len(folder.steps) or any(len(list(path.iterdir())) > 1 for path in solutions):
                return None
            exports = "".join(f"export {name}={quote(value)}\n" for name, value in folder.settings.solution.env.items())
            commands = [exports + (path / "solve.sh").read_text("utf-8") for path in solutions]
        done: list[Item] = [{"type": "message", "role": "assistant", "content": "Done."}]
        calls = [call_items([("shell", {"command": one, "timeout_sec": _SOLUTION_SECONDS})]) for one in commands]
        return [turn for call in calls for turn in (call, done)] or None

    @tool
    async def shell(self, state: sessions.Session, command: str, timeout_sec: float = 60.0) -> str:
        """Run a command with bash and see what it prints. Each has a new shell; files and background processes stay.

        Args:
            command: The command, or a script of several lines.
            timeout_sec: Seconds after which it is ended.
        """
        if len(command) > _LONGEST_COMMAND:
            raise ToolError(f"A command has at most {_LONGEST_COMMAND:,} characters.")
        if "\0" in command:
            raise ToolError("A command has no null characters.")
        left = state.plan.agent_seconds - state.used_seconds
        if left <= 0:
            raise ToolError("The time for this task is used up: no more commands are run.")
        if not 0 < timeout_sec <= 86_400:
            raise ToolError("timeout_sec is a number of seconds above 0.")
        seconds = min(timeout_sec, left)
        if self.config.snapshots is None:
            result = await _run(self, state, command, seconds)
        else:
            result = await _run_with_snapshot(self, state, command, seconds, self.config.snapshots)
        return sessions.shown(result, self.config.output_characters)

    async def open_machine(self, layers: Sequence[str]) -> MachinePlace | None:
        """Return the episode's container, where an agent works on the task.

        Raises:
            UsageError: If the containers are docker's or podman's.
        """
        if self.config.backend != "bubblewrap":
            raise UsageError(f"agent_in='machine' needs backend='bubblewrap', not {self.config.backend!r}.")
        assert self.episode is not None
        state = cast(sessions.Session, self.episode.state)
        machine = cast(BubblewrapMachine, await state.open(await _machines(self), layers))
        plan = state.plan
        left = plan.agent_seconds - state.used_seconds
        return MachinePlace(machine, plan.workdir, plan.environment, plan.user, left)

    async def user_turn(self, task: Task, episode: Episode) -> str | None:
        """Return the next step's instruction, if the finished step earned enough."""
        session = cast(sessions.Session, episode.state)
        folder = session.folder
        if folder is None or session.step + 1 >= len(folder.steps):
            return None
        rewards = await sessions.verify_step(session, await _machines(self), folder, solve=self.config.solve)
        if not sessions.goes_on(folder.steps[session.step], rewards):
            return None
        await sessions.leave_step(session, await _machines(self))
        session.step += 1
        await session.prepare_step(await _machines(self))
        return folder.steps[session.step].instruction

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """End the model's processes and run the tests."""
        session = cast(sessions.Session, episode.state)
        if session.folder is None:
            return await sessions.verify_swe_bench(session, await _machines(self), task, solve=self.config.solve)
        if len(session.rewards) <= session.step:
            await sessions.verify_step(session, await _machines(self), session.folder, solve=self.config.solve)
        verdict = sessions.folder_verdict(session, session.folder)
        if session.saved:
            verdict.info["snapshots"] = list(session.saved)
        return verdict

    async def fork_state(self, state: sessions.Session) -> sessions.Session:  # type: ignore[override]
        """Return a session whose container has the same files."""
        return await state.forked()

    async def teardown(self, task: Task, episode: Episode) -> None:
        """End the container."""
        await cast(sessions.Session, episode.state).close()


async def _machines(env: Harbor) -> Machines:
    """Return the maker of containers, which all environments with the same arguments share."""
    name = json.dumps(["machines", env.made_from])
    machines: Machines = await env.shared(name, lambda: Machines(**cast(Any, env.made_from)))
    return machines


async def _run(env: Harbor, state: sessions.Session, command: str, seconds: float) -> ExecResult:
    machine = await state.open(await _machines(env))
    began = time.monotonic()
    plan = state.plan
    result = await machine.exec(command, cwd=plan.workdir, env=plan.environment, timeout_sec=seconds, user=plan.user)
    state.used_seconds += time.monotonic() - began
    return result


async def _run_with_snapshot(
    env: Harbor, state: sessions.Session, command: str, seconds: float, folder: str
) -> ExecResult:
    """Run a command and keep a snapshot; a restored episode gets its result, and later the last snapshot."""
    is_new = False

    async def run() -> tuple[ExecResult, str, float]:
        nonlocal is_new
        is_new = True
        result = await _run(env, state, command, seconds)
        return result, await _keep(state, folder), state.used_seconds

    result, path, used_seconds = await answered_once(
        "shell",
        [len(state.saved), command],
        run,
        encode=lambda answer: [asdict(answer[0]), *answer[1:]],
        decode=lambda value: (ExecResult(**value[0]), value[1], value[2]),
    )
    state.saved.append(path)
    if not is_new and os.path.isfile(path):
        state.restore_from = path
    elif not is_new:  # the changes were too large for a snapshot
        with remembering(None):
            await _run(env, state, command, seconds)
    state.used_seconds = used_seconds
    return result


async def _keep(session: sessions.Session, folder: str) -> str:
    """Write a snapshot of the container, and return its path, named after its content; "" if it is too large."""
    assert session.machine is not None
    try:
        data = await session.machine.snapshot()
    except MachineProblem:
        return ""
    path = Path(folder) / f"{hashlib.sha256(data).hexdigest()[:24]}.tar.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        part = path.with_name(f".{os.urandom(6).hex()}")
        part.write_bytes(data)
        part.rename(path)  # a kill leaves no part of a snapshot under its name
    return str(path)


class _Instructions(RowPrompt):
    """The prompt of rows without `input`: the instruction of the task's folder, or SWE-bench's statement."""

    def fill(self, row: Row) -> Row:
        """Return the row with its input.

        Raises:
            DataError: If the row has no instruction.
        """
        params = row.get(_PARAMS)
        if isinstance(params, dict) and params.get("input"):
            return row
        if isinstance(task := row.get("task"), str):
            text = read_folder(os.path.join(self.path, task)).steps[0].instruction
        elif isinstance(row.get("problem_statement"), str):
            text = row["problem_statement"]
        else:
            raise DataError("the row has no `input`, no `task` and no `problem_statement`")
        asked = [{"role": "user", "content": text}]
        return {**row, _PARAMS: {**(params if isinstance(params, dict) else {}), "input": asked}}
