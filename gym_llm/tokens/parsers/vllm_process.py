"""vLLM's parsers in a worker process, where they can be stopped; importing this imports vLLM, which takes seconds."""

from __future__ import annotations

import signal
from typing import Any

import vllm.parser.parser_manager
import vllm.reasoning
import vllm.tool_parsers  # noqa: F401 - so that the worker's deadline, which is one for calls, does not count it

from gym_llm.tokens.parsers.vllm_parsers import Reading, Written, load_parser, read_text

_SECONDS = 1.0  # of CPU time


def read(reading: Reading) -> Written | None:
    """`read_text`, stopped after a second: None then. Loading a parser and its tokenizer does not count."""
    load_parser(reading)
    signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS, _SECONDS / 10)  # again: what is raised in a `__del__` is lost
    try:
        return read_text(reading)
    except _TooLong:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


class _TooLong(BaseException):
    """No `Exception`, because some parsers catch all of those."""


def _stop(*_: Any) -> None:
    raise _TooLong
