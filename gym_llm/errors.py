"""Every error that gym_llm raises by a name of its own. The class says whose fault it is.

Gymnasium's errors stay Gymnasium's (`InvalidAction`, `ResetNeeded`, `DependencyNotInstalled`, …), and an argument that
makes no sense is a `ValueError` or `TypeError`, as everywhere in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gym_llm.types import FailureKind


class GymLLMError(Exception):
    """The base class of all errors of gym_llm."""


# The caller's ---------------------------------------------------------------------------------------------------------


class CallerError(GymLLMError):
    """The caller passed an invalid file, configuration or option."""


class UsageError(CallerError):
    """A run or a command cannot do what the user asked for; the message is one sentence for the user."""


class CannotFork(CallerError, TypeError):
    """An episode cannot be forked where it stands; the message names what cannot be copied, and what to do."""


class DataError(CallerError, ValueError):
    """A task file cannot be used; the message names the file and, where there is one, the line."""


class PreparationFailed(DataError):
    """The data needs changes; the message is the report: bad rows, or metrics that differ."""


class BadRow(CallerError, ValueError):
    """A row of a task file cannot be used.

    Attributes:
        reason: The reason, in the same words for every row with this fault.
        detail: The detail of this row, e.g. the place in the line; may be empty.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason} ({detail})" if detail else reason)
        self.reason = reason
        self.detail = detail


class Refused(DataError):
    """A hub did not do what it was asked to.

    Attributes:
        status: The HTTP status; 0 if there was no answer.
        code: The hub's own name for the reason, or an empty string.
    """

    def __init__(self, message: str, status: int, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class ConfigError(CallerError, ValueError):
    """A configuration cannot be used; the message names the file and the key."""


# The environment's author's -------------------------------------------------------------------------------------------


class InvalidReward(GymLLMError, ValueError):
    """`verify` returned an invalid reward: NaN, infinite, not a number, or a `Verdict` of the wrong shape."""


# The model's ----------------------------------------------------------------------------------------------------------


class ToolError(GymLLMError):
    """Raised by a tool to answer the model with an error: the model reads the message, and the episode goes on.

    Any other exception of a tool counts as the author's mistake, or as a failed service, and masks the episode.
    """


class IllegalMove(GymLLMError):
    """Raised by `play` of a `MultiAgentEnv`: the seat reads the message and moves again, at most so often.

    Attributes:
        seat: The seat that moved; None if only one did.
    """

    def __init__(self, message: str, seat: str | None = None) -> None:
        super().__init__(message)
        self.seat = seat


# The infrastructure's -------------------------------------------------------------------------------------------------


class InfrastructureError(GymLLMError):
    """Something outside failed: an engine, a judge, a process, Ray, a hub. The same call may succeed another time.

    Args:
        *args: The message.
        failure_kind: What a record of the episode says of it, instead of the class's own.
    """

    failure_kind: FailureKind = "provider_unavailable"

    def __init__(self, *args: Any, failure_kind: FailureKind | None = None) -> None:
        super().__init__(*args)
        if failure_kind is not None:
            self.failure_kind = failure_kind


class EngineError(InfrastructureError):
    """An engine could not answer one request (the message says why); the episode that asked ends with this error."""

    failure_kind: FailureKind = "agent_request_failed"


class EngineUnavailable(EngineError):
    """An engine cannot answer any request: it is not installed, not reachable, or does not know the model."""

    failure_kind: FailureKind = "provider_unavailable"


class JudgeError(InfrastructureError):
    """A judge or a simulated user failed; the episode has no reward."""

    failure_kind = "judge_failed"


class SandboxError(InfrastructureError):
    """A sandbox failed, not the program in it: it ended, or did not answer; the episode has no reward."""


class SandboxUnavailable(SandboxError):
    """No program can be run in a sandbox here; the message says why, and what to do."""


class TooManyFailures(InfrastructureError):
    """A run ended because too many of its episodes were masked; the message counts them and names the first reason."""


class BudgetSpent(GymLLMError):
    """A run ended because it has spent a budget of tokens, seconds or dollars; the message says which."""


class RayUnavailable(InfrastructureError, RuntimeError):
    """Ray cannot be used here; the message says what to do instead."""


class ShardDied(InfrastructureError, RuntimeError):
    """A shard's process has ended; the message says how."""

    failure_kind = "kill_shaped"


class WorkerDied(InfrastructureError, RuntimeError):
    """A worker process ended (a crash, a signal, memory) while it ran this call, twice.

    Attributes:
        exit_code: The last one's, negative for a signal; None if that is not known.
    """

    failure_kind = "kill_shaped"

    def __init__(self, message: str, *, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class DeadlinePassed(InfrastructureError, TimeoutError):
    """A call took longer in a worker process than it may.

    Attributes:
        note: What the function left with `gym_llm.concurrency.worker_process.leave_note`, None for nothing.
    """

    def __init__(self, message: str, *, note: str | None = None) -> None:
        super().__init__(message)
        self.note = note


class EpisodeMasked(InfrastructureError):
    """An episode was masked; raised for trainers whose own mask of an episode is an exception. Says what masked it."""


class StepTimeout(InfrastructureError, TimeoutError):
    """An environment's reset or step took longer than `step_timeout`; its episode is lost."""

    failure_kind = "agent_timeout"

    def __str__(self) -> str:
        """The same for everybody: Python makes the instance itself where a thread is interrupted."""
        return "the environment took longer than step_timeout"


class TokenizerUnavailable(InfrastructureError):
    """A tokenizer cannot be loaded here and now; the message is one sentence.

    Attributes:
        has_substitute: Whether to go on with counting words: nothing is wrong but that the vocabulary is not here.
    """

    def __init__(self, message: str, *, has_substitute: bool = False) -> None:
        super().__init__(message)
        self.has_substitute = has_substitute
