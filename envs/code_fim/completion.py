"""Finding the missing piece in an answer, and fitting it between what is before and behind it."""

from __future__ import annotations

from gym_llm.grading.extraction import last_block_after, python_code


def completions(text: str, prefix: str, suffix: str, *, conform: bool) -> list[str]:
    r"""What may stand between prefix and suffix, the likeliest first; none without a block of code.

    What of the prefix or the suffix the block repeats at its ends is cut off. Whether the line break before the
    closing mark belongs to the code is unknown: it may or may not. NeMo Gym's always does.

    >>> completions("```python\nx = a + b\n```", "x = a", "\n", conform=False)
    [' + b']
    >>> completions("```python\nreturn True\n```", "  ", "ue\n", conform=True)
    ['return Tr']
    """
    text = text.replace("\r", "")
    text = text.partition("</think>")[2] if "</think>" in text else text
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
    """How many characters at the left's end are also the right's beginning, but for blanks of one line."""
    for size in range(min(len(left), len(right)), 0, -1):
        piece = right[:size]
        if left.endswith(piece) and (piece.strip() or "\n" in piece):
            return size
    return 0
