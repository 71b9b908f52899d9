"""Running a `teardown`: it finishes although its episode is cancelled, and hides no earlier error.

The protocol:

1. Inside a driver the hook starts in a greenlet of its own. What it waits for is awaited by a task of its own
   (`concurrency.finish`), so a cancellation of the episode does not cancel the teardown.
2. After 30 seconds the teardown is cancelled, and then abandoned.
3. A cancellation of the caller is raised when the teardown has ended.
4. If the episode already has an error, an error of the teardown becomes a note on it and a line in the log.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from gym_llm.concurrency import SHUTDOWN_ERRORS, Waiting, finish, in_driver, run_until_wait, wait
from gym_llm.records.failures import note_failure

TEARDOWN_SECONDS = 30.0


def run_teardown(teardown: Callable[..., Any], task: Any, episode: Any, error: BaseException | None) -> None:
    """Call a verifier's `teardown` and wait for its end.

    Args:
        teardown: The hook.
        task: Its first argument.
        episode: Its second argument.
        error: The error that ended the episode, if any.

    Raises:
        Exception: If the hook raises or takes too long, and the episode has no error.
        asyncio.CancelledError: If the caller's task was cancelled meanwhile. The hook has run to its end.
    """
    try:
        try:
            result = run_until_wait(teardown, task, episode) if in_driver() else teardown(task, episode)
        except (asyncio.CancelledError, GeneratorExit) as ending:
            raise RuntimeError("teardown was cancelled from within") from ending
        if isinstance(result, Waiting):
            result = result.resume()
        if inspect.isawaitable(result):
            wait(finish(result, TEARDOWN_SECONDS))
    except asyncio.CancelledError as cancellation:
        if cancellation.__cause__ is not None:
            note_failure(error or cancellation, cancellation.__cause__)
        raise
    except (KeyboardInterrupt, *SHUTDOWN_ERRORS):
        raise
    except BaseException as failure:
        if error is None:
            raise
        note_failure(error, failure)
