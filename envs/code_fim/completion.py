"""Find the completion in an answer and fit it between the prefix and the suffix."""

from __future__ import annotations

from gym_llm.grading.extraction import after_thinking, last_block_after, python_code


def completions(text: str, prefix: str, suffix: str, *, conform: bool) -> list[str]:
    r"""Return the candidates for the code between prefix and suffix, the likeliest first.

    The pieces of prefix and suffix that the block repeats at its ends are cut off. The line break before the closing
    mark may belong to the code, so there are two candidates. In NeMo Gym it always does.

    >>> completions("```python\nx = a + b\n```", "x = a", "\n", conform=False)
    [' + b']
    >>> completions("```python\nreturn True\n```", "  ", "ue\n", conform=True)
    ['return Tr']
    """
    text = after_thinking(text)
    if conform:
        block = last_block_after(text)
        blocks = [] if block is None else [block.removeprefix("\n")]
    else:
        code = python_code(text)
        blocks = [] if code is None else [code + "\n", code]
    return list(dict.fromkeys(_fitted(block, prefix, suffix) for block in blocks))


def _fitted(code: str, prefix: str, suffix: str) -> str:
    code = code[_overlap(prefix, code) :]
    return code[: len(code) - _overlap(code, suffix)]


def _overlap(left: str, right: str) -> int:
    """Return the length of the longest end of the left that begins the right and is more than blanks of one line."""
    for size in range(min(len(left), len(right)), 0, -1):
        piece = right[:size]
        if left.endswith(piece) and (piece.strip() or "\n" in piece):
            return size
    return 0
