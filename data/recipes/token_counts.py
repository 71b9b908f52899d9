"""Counting tokens as the recipes of long contexts do: with tiktoken's o200k_base."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from gym_llm.errors import DataError
from gym_llm.records.failures import reason
from gym_llm.utils.extras import install


def count_tokens(text: str) -> int:
    """Return the number of o200k_base's tokens in a text; special tokens count as plain text.

    Raises:
        DataError: If tiktoken or its vocabulary is missing.
    """
    return _counter()(text)


@cache
def _counter() -> Callable[[str], int]:
    try:
        import tiktoken

        encoding = tiktoken.get_encoding("o200k_base")
    except ModuleNotFoundError:
        raise DataError(f"Counting tokens needs tiktoken: {install('data')}.") from None
    except Exception as error:  # the vocabulary is fetched at first use, and that fails in many ways
        raise DataError(
            f"The vocabulary o200k_base cannot be read ({reason(error)}): set TIKTOKEN_CACHE_DIR to a folder with it."
        ) from None
    return lambda text: len(encoding.encode(text, disallowed_special=()))
