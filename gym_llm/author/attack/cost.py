"""Check of what a verification costs: an ordinary one, and one of a megabyte of each delimiter."""

from __future__ import annotations

import time

from gym_llm.author.attack.attack_play import OutOfTime, message, says
from gym_llm.author.attack.context import Context
from gym_llm.author.attack.gold import PLAIN

_MEGABYTE = 1 << 20
_SLOW = 5.0
_SHARE = 0.35
DELIMITERS = (
    "(", "[", "{", "\\boxed{", "}", "<", "</", "<answer>", "<think>", "$", "|", ",", " ", "\n", '"', "'", "`", "```\n",
    "#### ", "*", "_", "-", "=", ":", "Answer: ", "\\", "0", "a", "1.", "a ", "{\"a\":", "[[", "]]", "\t\n", "é", "a!",
)  # fmt: skip


def check_cost(context: Context) -> None:
    """Play a megabyte of each delimiter; none takes seconds, and none is paid."""
    index = next(iter(context.tasks))
    gold = context.golds.get(index)
    end = time.monotonic() + _SHARE * max(0.0, context.deadline - time.monotonic())
    before = gold.form.before if gold is not None and gold.text is not None else ""
    skipped = 0
    for delimiter in DELIMITERS:
        for start in dict.fromkeys(("", before)):
            if time.monotonic() > end:
                skipped += 1
                continue
            text = start + delimiter * (_MEGABYTE // len(delimiter))
            began = time.process_time()
            context.quiet = True  # one that hangs is told of here
            try:
                played = context.play(index, says(text))
            finally:
                context.quiet = False
            seconds = time.process_time() - began
            name = f"1 MB of {delimiter!r}"
            if played.hung or seconds > _SLOW:
                context.find(
                    "cost", name, "medium", index, says(text), f"less than {_SLOW:g} s", f"{seconds:.0f} s of CPU time"
                )
            elif gold and (severity := context.pays(index, played)) and not (gold.text and gold.text in text):
                context.find("non-answer", name, severity, index, says(text), context.less(index), played)
    if gold is not None and gold.text is not None and gold.form == PLAIN and len(gold.text) > 1:
        for text in (f"{gold.text} " * 20_000, gold.text[:-1] * 5_000 + "!"):
            context.play(index, [[message(text)]])
    if skipped:
        raise OutOfTime
