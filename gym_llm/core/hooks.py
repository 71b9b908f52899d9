"""The hooks of an environment: `@hook` runs blocking ones elsewhere, and simulated users are resolved."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar, overload

from gym_llm.concurrency import in_driver, run_blocking, wait
from gym_llm.concurrency.processes import ProcessPool
from gym_llm.core.forgotten_await import call_hook
from gym_llm.errors import InfrastructureError
from gym_llm.records.failures import failure_kind, reason, traceback_text
from gym_llm.types import Episode, FailureKind

if TYPE_CHECKING:
    from gym_llm.core.env_config import EnvConfig

F = TypeVar("F", bound=Callable[..., Any])
Blocking = bool | Literal["thread", "process"]

_NOT_SENT = {
    *(
        "tasks",
        "episode",
        "open_episode",
        "spec",
        "observation_space",
        "action_space",
        "_task",
        "_resources",
        "_resolved",
    ),
    *("_tools", "verify"),  # on an instance: wrapped by whoever traces it
}


@overload
def hook(function: F, /) -> F: ...
@overload
def hook(*, blocking: Blocking = False, deadline: float = 60.0) -> Callable[[F], F]: ...
def hook(function: Any = None, /, *, blocking: Blocking = False, deadline: float = 60.0) -> Any:
    """Mark `setup`, `user_turn`, `verify` or `teardown` of a `VerifierEnv` as one that blocks.

    A hook that computes for long, or waits for a server without being async, blocks every other episode of its process.
    With this mark it runs in a thread or in another process.

    ```python
    @hook(blocking=True)
    def verify(self, task, episode):
        return requests.post(self.judge, json={"answer": episode.answer}).json()["score"]
    ```

    Args:
        function: The method, when the decorator is used without arguments.
        blocking: True or `"thread"` for one of 32 threads. The hook must not use objects of other threads.
            `"process"` for a pool of processes, which kills a hook that hangs. The hook receives copies of the task,
            the episode and the environment's attributes, so all must pickle. Only its return value is kept.
        deadline: CPU seconds that it may take in a process.

    Raises:
        TypeError: If the method is async: it does not have to block.
        ValueError: If `blocking` has another value.
    """
    if function is None:
        return functools.partial(hook, blocking=blocking, deadline=deadline)
    if blocking not in (False, True, "thread", "process"):
        raise ValueError(f'blocking is True, "thread" or "process", got {blocking!r}.')
    if not blocking:
        return function
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"Hook {function.__name__!r} is async, so it cannot be blocking; choose one.")

    @functools.wraps(function)
    def elsewhere(self: Any, *args: Any) -> Any:
        if not in_driver():
            return function(self, *args)
        if blocking == "process":
            return wait(_in_process(function, self, args, deadline))
        return wait(run_blocking(call_hook, function, self, *args))

    return elsewhere


async def _in_process(function: Any, env: Any, args: tuple[Any, ...], deadline: float) -> Any:
    if function.__module__ == "__main__":
        raise TypeError(f"{function.__qualname__} is defined in the script itself, which processes cannot import.")
    attributes = {name: value for name, value in vars(env).items() if name not in _NOT_SENT}
    call = function.__module__, function.__qualname__, type(env), attributes, args
    try:
        result = await _pool(deadline).call(call)
    except TimeoutError:
        sentence = f"{function.__qualname__} took longer than its deadline of {deadline:g} s"
        raise InfrastructureError(sentence, failure_kind="verifier_error") from None
    if isinstance(result, _Raised):
        error = InfrastructureError(f"{function.__qualname__} raised {result.reason}", failure_kind=result.kind)
        error.add_note(f"In its process:\n{result.traceback}")
        raise error
    return result


class User(Protocol):
    """A user that an environment's class attribute `user` names; see `gym_llm.judge.SimulatedUser`."""

    async def turn(self, env: Any, task: Any, episode: Episode) -> str | None:
        """Return the user's next message, or None when the conversation is over."""

    def add_argument(self, config: type[EnvConfig]) -> type[EnvConfig]:
        """Return the environment's `Config` with the argument `user`."""

    def played_by(self, user: Any) -> User:
        """Return this user with the engine that the argument `user` names."""


class _Raised(NamedTuple):
    """An error of a hook in its process, as text: the error itself may not pickle."""

    kind: FailureKind
    reason: str
    traceback: str


@functools.cache
def _pool(deadline: float) -> ProcessPool:
    return ProcessPool("gym_llm.core.hooks:call_here", deadline=deadline)


def call_here(call: tuple[str, str, type, dict[str, Any], tuple[Any, ...]]) -> Any:
    """Call a hook in a process of the pool: its module and name, the environment's class and attributes, arguments."""
    module, name, env_class, attributes, args = call
    function: Any = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    env: Any = object.__new__(env_class)
    vars(env).update(attributes)
    try:
        return call_hook(function, env, *args)
    except BaseException as error:  # what ended the process would be taken for its death
        return _Raised(failure_kind(error, None), reason(error), traceback_text(error))
