"""The session of an episode: its container, the work before and after the model, and the reward."""

from __future__ import annotations

import asyncio
import os
import posixpath
import shlex
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_llm import Verdict
from gym_llm.envs.harbor import swe_bench
from gym_llm.envs.harbor.folder import Step, TaskFolder
from gym_llm.envs.harbor.rewards import VERIFIER_LOGS, one_reward, read_rewards
from gym_llm.errors import DataError, InfrastructureError, SandboxError, UsageError
from gym_llm.sandbox.inside import tree
from gym_llm.sandbox.machines.machine import ExecResult, Machine, MachineLimits, pack_folder
from gym_llm.sandbox.machines.machine_pool import Machines

if TYPE_CHECKING:
    from gym_llm.envs.harbor.env import Harbor

_SETUP_SECONDS = 600.0
_SOLUTION_SECONDS = 3600.0
_LOGS = ("/logs/agent", "/logs/artifacts", VERIFIER_LOGS)


@dataclass(frozen=True, slots=True)
class Plan:
    """The image of a container and the settings of its commands.

    Attributes:
        image: The image's name; None if a Dockerfile makes it.
        dockerfile: The Dockerfile's path.
        limits: The limits of the container.
        network: Whether it has the host's network.
        environment: Variables of every command.
        workdir: Working directory of commands; empty for the image's own.
        user: User of commands; empty for the image's own.
        agent_seconds: Time limit of the model's commands together, by the clock.
        build_seconds: Time limit of each RUN.
        snapshot: The path of a snapshot to begin with.
        setup_command: The first command.
        hide_command: A command before it, for the container that the model works in.
    """

    image: str | None
    dockerfile: str | None
    limits: MachineLimits
    network: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    workdir: str = ""
    user: str = ""
    agent_seconds: float = 3600.0
    build_seconds: float = 600.0
    snapshot: str | None = None
    setup_command: str = ""
    hide_command: str = ""


def folder_plan(folder: TaskFolder, most: MachineLimits, network: str, snapshot: str | None) -> Plan:
    """Return the plan of a task folder.

    Raises:
        DataError: If the task needs an unsupported network or image.
    """
    wanted = folder.settings.environment
    mode = wanted.network_mode or ("public" if network == "host" else "no-network")
    if mode != "no-network" and network != "host":
        raise DataError(f"{folder.path} has network_mode {mode!r}: give network='host' for the host's network.")
    if mode == "allowlist":
        raise DataError(f"{folder.path} has network_mode 'allowlist', which is not supported.")
    if wanted.docker_image is None and folder.dockerfile is None:
        raise DataError(f"{folder.path} has neither environment/Dockerfile nor a docker_image.")
    limits = replace(
        most,
        cpus=min(wanted.cpus or most.cpus, os.cpu_count() or 1),
        memory_mb=int(min(wanted.memory_mb or most.memory_mb, most.memory_mb)),
        storage_mb=int(min(wanted.storage_mb or most.storage_mb, most.storage_mb)),
    )
    return Plan(
        image=wanted.docker_image,
        dockerfile=folder.dockerfile,
        limits=limits,
        network=mode == "public",
        environment=dict(wanted.env),
        workdir=wanted.workdir or "",
        user=str(folder.settings.agent.user or ""),
        agent_seconds=folder.settings.agent.timeout_sec,
        build_seconds=wanted.build_timeout_sec,
        snapshot=snapshot,
    )


def swe_bench_plan(task: Harbor.Task, limits: MachineLimits) -> Plan:
    """Return the plan of a row of SWE-bench."""
    return Plan(
        image=task.image or task.docker_image,
        dockerfile=None,
        limits=limits,
        workdir=task.repo_dir,
        snapshot=task.snapshot,
        setup_command=task.setup_command,
        hide_command=f"git rm -qf --ignore-unmatch -- {shlex.join(task.hidden_files)}" if task.hidden_files else "",
    )


@dataclass(slots=True)
class Session:
    """An episode's state.

    Attributes:
        folder: The task's folder; None for a row of SWE-bench.
        plan: The plan of its container.
        machine: The container; None until the first command.
        step: Index of the current step.
        rewards: Rewards of the verified steps.
        used_seconds: Time that commands have taken, by the clock.
        saved: Paths of snapshots.
        lost: Whether this is a copy of a session that owns the container.
        fresh: A snapshot of the untouched container; only for a row of SWE-bench.
        restore_from: Path of the snapshot that the container is restored from at its next use.
    """

    folder: TaskFolder | None
    plan: Plan
    machine: Machine | None = None
    step: int = 0
    rewards: list[dict[str, float]] = field(default_factory=list)
    used_seconds: float = 0.0
    saved: list[str] = field(default_factory=list)
    lost: bool = False
    fresh: bytes | None = None
    restore_from: str | None = None
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Return all but the container: a copy of an environment, pickled during an episode, has lost it."""
        state = {one.name: getattr(self, one.name) for one in fields(self)}
        fresh = {"machine": None, "_starting": asyncio.Lock(), "lost": self.lost or self.machine is not None}
        return None, {**state, **fresh}

    async def open(self, machines: Machines, layers: Sequence[str] = ()) -> Machine:
        """Return the container, and start it before the first command.

        Args:
            machines: The maker of containers.
            layers: Folders that are shown in it, if this call starts it.

        Raises:
            SandboxError: If it does not start.
            UsageError: If its image is not available.
        """
        async with self._starting:
            if self.lost:
                problem = "This episode is a copy: the container stayed with the original."
                raise SandboxError(problem, failure_kind="session_lost")
            if self.machine is None:
                self.machine = await self._start(machines, layers)
                await self.prepare_step(machines)
            if self.restore_from is not None:
                path, self.restore_from = self.restore_from, None
                await self.machine.restore(await asyncio.to_thread(Path(path).read_bytes))
        return self.machine

    async def prepare_step(self, machines: Machines) -> None:
        """Put a step's own files into the container, and run its `setup.sh`."""
        step = self.folder.steps[self.step] if self.folder is not None else None
        if step is None or step.workdir is None or self.machine is None:
            return
        place = self.plan.workdir or "/"
        await self.machine.upload(place, pack_folder(step.workdir))
        if os.path.exists(os.path.join(step.workdir, "setup.sh")):
            await self._sure("bash setup.sh", f"setup.sh of step {step.name}")

    async def begin_again(self) -> None:
        """Restore the untouched container, and run `setup_command`."""
        assert self.machine is not None and self.fresh is not None
        await self.machine.restore(self.fresh)
        if self.plan.setup_command:
            await self._sure(self.plan.setup_command, "setup_command")

    async def forked(self) -> Session:
        """Return a session with a copy of the container: its files, and nothing that runs."""
        made = replace(
            self, machine=None, rewards=deepcopy(self.rewards), saved=self.saved.copy(), _starting=asyncio.Lock()
        )
        if self.machine is not None:
            made.machine = await self.machine.fork()
        return made

    async def close(self) -> None:
        """End the container, if there is one."""
        machine, self.machine = self.machine, None
        if machine is not None:
            await machine.close()

    async def _start(self, machines: Machines, layers: Sequence[str]) -> Machine:
        plan = self.plan
        if plan.image is not None:
            image = await machines.image(plan.image)
        else:
            assert plan.dockerfile is not None
            image = await machines.built(plan.dockerfile, timeout_sec=plan.build_seconds, limits=plan.limits)
        workdir = posixpath.join(image.workdir, plan.workdir) if plan.workdir else image.workdir
        self.plan = plan = replace(plan, workdir=workdir, user=plan.user or image.user)
        machine = await machines.open(image, plan.limits, network=plan.network, layers=layers)
        try:
            for folder in (*_LOGS, *([workdir] if workdir else [])):
                await machine.upload(folder, tree.pack_files([]))
            if self.folder is None:
                self.fresh = await machine.snapshot()
            if plan.snapshot is not None:
                with open(plan.snapshot, "rb") as file:
                    await machine.restore(file.read())
            if plan.snapshot is None:
                self.machine = machine
                for command in filter(None, (plan.hide_command, plan.setup_command)):
                    await self._sure(command, "setup_command")
        except BaseException as error:
            self.machine = None
            await machine.close()
            if isinstance(error, OSError):
                raise UsageError(f"The snapshot {plan.snapshot} cannot be read: {error}.") from None
            raise
        return machine

    async def _sure(self, command: str, name: str) -> None:
        assert self.machine is not None
        plan = self.plan
        result = await self.machine.exec(
            command, cwd=plan.workdir, env=plan.environment, timeout_sec=_SETUP_SECONDS, user=plan.user
        )
        if result.return_code:
            said = (result.stderr or result.stdout).strip()[-500:]
            raise InfrastructureError(f"{name} ended with {result.return_code}: {said}", failure_kind="verifier_error")


async def verify_step(session: Session, machines: Machines, folder: TaskFolder, *, solve: bool) -> dict[str, float]:
    """Run the tests of the current step, add its rewards to the session, and return them by name.

    Raises:
        RewardFileError: If the tests leave no valid reward.
    """
    machine = await session.open(machines)
    step, settings = folder.steps[session.step], folder.settings
    if solve:
        await _solve(session, machine, step, settings.solution.env)
    await machine.seal(["/tests", "/solution", VERIFIER_LOGS])
    for tests in step.tests:
        await machine.upload("/tests", pack_folder(tests))
    await machine.upload(VERIFIER_LOGS, tree.pack_files([]))
    place = shlex.quote(session.plan.workdir or "/")
    await machine.exec(f"[ -d {place} ] || {{ rm -f {place}; mkdir -p {place}; }}")
    log = f"{VERIFIER_LOGS}/test-stdout.txt"
    result = await machine.exec(
        f"chmod +x /tests/test.sh; /tests/test.sh > {log} 2>&1; code=$?; tail -c 500 {log}; exit $code",
        cwd=session.plan.workdir,
        env={**session.plan.environment, **settings.verifier.env},
        timeout_sec=settings.verifier.timeout_sec,
        user=str(settings.verifier.user or "root"),
    )
    said = result.stdout or result.stderr
    rewards = await read_rewards(machine, said if result.limit is None else f"{said} (ended: {result.limit})")
    session.rewards.append(rewards)
    return rewards


def goes_on(step: Step, rewards: dict[str, float]) -> bool:
    """Return whether a step earned enough for the next one to begin."""
    if step.min_reward is None:
        return True
    if isinstance(step.min_reward, dict):
        return all(rewards.get(name, 0.0) >= least for name, least in step.min_reward.items())
    return one_reward(rewards) >= step.min_reward


def folder_verdict(session: Session, folder: TaskFolder) -> Verdict:
    """Return the mean reward of all steps, 0 for steps not reached; or the reward of the last step reached."""
    earned = [one_reward(rewards) for rewards in session.rewards]
    final = folder.settings.multi_step_reward_strategy == "final"
    reward = earned[-1] if final else sum(earned) / len(folder.steps)
    details: dict[str, Any] = {"commands_seconds_left": session.used_seconds < session.plan.agent_seconds}
    if len(folder.steps) == 1:
        return Verdict(reward, details, session.rewards[0] if len(session.rewards[0]) > 1 else None)
    details["steps_reached"] = len(earned)
    return Verdict(reward, details, {str(step.name): one for step, one in zip(folder.steps, earned, strict=False)})


async def verify_swe_bench(session: Session, machines: Machines, task: Harbor.Task, *, solve: bool) -> Verdict:
    """Run the tests of a row of SWE-bench in a fresh container with the model's changes of the repository."""
    machine = await session.open(machines)
    folder = task.repo_dir
    if solve:
        await swe_bench.apply_patch(machine, task.patch.encode(), folder, reverse=task.patch_makes_bug)
    await machine.seal([])
    patch = await swe_bench.written_patch(machine, task.base_commit, folder, task.kept_files)
    await session.begin_again()
    await swe_bench.go_back(machine, task.base_commit, folder)
    output = ""
    applied = patch is not None
    if patch:
        applied = (await swe_bench.apply_patch(machine, patch, folder)).return_code == 0
    if applied:
        output = await swe_bench.run_tests(machine, task)
    verdict = await swe_bench.verdict_of(output, task.fail_to_pass, task.pass_to_pass, task.log_parser)
    verdict.info["patch_applied"] = applied
    return verdict


async def leave_step(session: Session, machines: Machines) -> None:
    """Remove a step's tests before the next step."""
    machine = await session.open(machines)
    await machine.seal(["/tests", "/solution", VERIFIER_LOGS])
    await machine.upload(VERIFIER_LOGS, tree.pack_files([]))


async def _solve(session: Session, machine: Machine, step: Step, variables: dict[str, str]) -> None:
    if step.solution is None:
        raise DataError(f"The task has no solution/solve.sh: {step.tests[0]}")
    plan = session.plan
    await machine.upload("/solution", pack_folder(step.solution), replace=True)
    await machine.exec(
        "bash /solution/solve.sh",
        cwd=plan.workdir,
        env={**plan.environment, **variables},
        timeout_sec=_SOLUTION_SECONDS,
        user=plan.user,
    )


def shown(result: ExecResult, characters: int) -> str:
    r"""Return the text of a command's result for the model: its output, its errors and its exit code.

    >>> print(shown(ExecResult("a\n", "b\n", 1), 100))
    a
    [stderr]
    b
    [exit code 1]
    """
    parts = [_cut(result.stdout, characters)]
    if result.stderr:
        parts += ["[stderr]", _cut(result.stderr, characters)]
    why = {
        "cpu": "it computed for too long",
        "wall": "it took too long",
        "memory": "the machine had no memory left, and everything in it was ended",
        "processes": "there were too many processes, and all were ended",
    }.get(result.limit or "")
    parts.append(f"[exit code {result.return_code}{f': {why}' if why else ''}]")
    return "\n".join(part.rstrip("\n") for part in parts if part)


def _cut(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters are left out …]\n{text[-half:]}"
