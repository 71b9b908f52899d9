"""Play about 1,000 non-answers against every verifier, and list those that earn a reward.

    python benchmarks/no_answers.py                                        all verifiers, half an hour
    python benchmarks/no_answers.py gym_llm/MathVerify-v0 --tasks 20       one, with more tasks

The answers are refusals, hedges, constants (0, 1, A, True, `10^{-40}`, ...) in every usual form, and all options.
They are also the question, echoes of the prompt, option lists, and answers that are cut off. More texts have the right
answer and do not give it: it is denied, asked for, taken back, or in a thought without an end. A judge always says no.
A constant that is a task's right answer is not counted.

docs/how-to/attack.md lists the kinds of answers that are paid for a good reason, and a test compares.

Prints a line for each verifier and paid answer. Prints one JSON line last: `paid` has the answers by verifier, with the
numbers of tasks that paid them and that were played.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import re
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import gymnasium as gym

from gym_llm.author.attack.attack_play import OutOfTime, Player, says
from gym_llm.author.attack.gold import expected_fields, renderings
from gym_llm.author.attack.right_answers import oracle_turns, taken_apart
from gym_llm.author.attack.scripted_judge import ScriptedJudge, opposite
from gym_llm.author.scaffold import find_verifier, missing_package
from gym_llm.core.registry.env_files import dry_run_kwargs
from gym_llm.core.registry.ids import env_ids
from gym_llm.core.tasks import PreparedTask
from gym_llm.core.verifier_env import VerifierEnv

REFUSALS = [
    *("I do not know.", "I don't know, this is a hard one.", "I do not know, this is a hard one.", "I'm not sure."),
    *("I'm sorry, but I can't help with that.", "I cannot answer this question.", "As an AI model, I can't do that."),
    *("No answer.", "N/A", "None of the above.", "Unknown", "There is not enough information.", "Can't say", "?"),
    *("Let me think about it.", "A difficult question. I give up.", "Done.", "Sorry.", "Both", "Neither", "Either one"),
    *("I would need more context to answer.", "Not applicable", "No idea, don't ask me.", "I pass on this one."),
    *("The answer is unclear.", "The answer is not known.", "The answer cannot be determined.", "It depends."),
    *("Answer: I don't know", "Answer: Don't know", "Answer: a hard one", "Answer: unknown", "Answer: none"),
    *("\\boxed{I don't know}", "\\boxed{unknown}", "\\boxed{\\text{no answer}}", "\\boxed{?}", "\\boxed{None}"),
    *("<answer>I do not know</answer>", "<answer></answer>", "#### unknown", "```python\npass\n```", "```\n```"),
    *("我不知道。", "Je ne sais pas.", "Ich weiß es nicht.", "No lo sé.", "わかりません。", "Не знаю."),
]
HEDGES = [
    *("It could be A or B.", "Either A, B or C.", "Answer: A or B", "Answer: A/B", "Answer: A, B", "Answer: A and B"),
    *("\\boxed{A or B}", "\\boxed{A, B, C, D}", "\\boxed{1 \\text{ or } 2}", "Answer: 1 or 2", "The answer is 1 or 2."),
    *("Answer: not A", "Answer: neither A nor B", "Answer: anything but C", "\\boxed{\\text{not } A}", "Probably yes."),
    *("Maybe.", "Possibly yes, possibly no.", "Yes and no.", "Answer: yes or no", "Answer: True or False", "Yes. No."),
    *(
        "\\boxed{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}",
        "\\boxed{x}",
        "\\boxed{n}",
        "\\boxed{\\ldots}",
        "\\boxed{...}",
        "\\boxed{}",
    ),
    *("Answer: x where x is the answer", "Answer: the correct option", "The answer is the correct one.", "Option"),
]
CONSTANTS = [
    *("0", "1", "-1", "2", "3", "4", "5", "7", "10", "12", "42", "100", "1000", "0.5", "0.0", "1e-40", "10^{-40}"),
    *("10^{40}", "\\frac{0}{1}", "\\infty", "e", "\\pi", "x", "n", "i", "A", "B", "C", "D", "E", "(A)", "(B)", "a"),
    *("True", "False", "yes", "no", "Yes", "None", "null", "nan", "inf", "[]", "{}", "()", '""', "the", "correct"),
    *("\\mathrm{e}", "\\frac{\\mathrm{e}}{2}", "m/s", "\\text{m}", "%", "20%", "$", "\\$", "-", ".", "*", "\\emptyset"),
]
FORMS = [
    *("{}", "\\boxed{{{}}}", "Answer: {}", "The answer is {}.", "<answer>{}</answer>", "#### {}", "**{}**"),
    *(
        "```\n{}\n```",
        "```python\n{}\n```",
        "```sql\n{}\n```",
        '```json\n{{"answer": "{}"}}\n```',
        "[[{}]]",
        "Final Answer: {}",
    ),
]
CUT = [
    *(
        "The answer is",
        "Answer:",
        "Final Answer: ",
        "\\boxed{",
        "\\boxed{\\frac{1}{",
        "<answer>",
        "<answer>1",
        "```python\n",
    ),
    *(
        "```sql\nSELECT",
        '{"answer":',
        "#### ",
        "**Answer:",
        "[[",
        "<think>",
        "<think>Let me see",
        "So the result",
        "1.",
    ),
    *("First, I will", "Step 1:", "def solution(", "<tool_call>", '<tool_call>{"name":', "[", "{", "(", "$\\frac"),
]
UNMEANT = {
    "denied": [
        *("It is not {}.", "The answer is not {}.", "**Not** {}", "It is neither {} nor {}.", "The answer isn't {}."),
        *(
            "Never {}",
            "Answer: not {}",
            "<answer>not {}</answer>",
            "I doubt that it is {}.",
            "\\boxed{\\text{not } {}}",
        ),
    ],
    "asked": ["Is it {}?", "Hmm, could the answer be {}?", "{} would be a guess."],
    "withdrawn": ["{}\n\nNo wait, that is wrong.", "It is {}. Scratch that. I don't know."],
    "thought": ["<think>{}", "<think>\n{}\n\nBut wait", "<think>\nAnswer: {}\n"],
}
"""Forms in which a text has the right answer and does not give it."""
_LONGEST_UNMEANT = 40  # longer answers are only thought: nobody writes "It is not" before a program
_OPTION = re.compile(r"^\s*\(?([A-Z])[).:]\s*(.{1,200})$", re.MULTILINE)


def answers(prompt: str) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, text, the constant in it) for a task whose prompt is given."""
    yield from ((kind, text, text) for kind, text in _texts(prompt))
    yield from (("constant", form.format(value), value) for value in CONSTANTS for form in FORMS)


def unmeant(env: VerifierEnv, task: PreparedTask) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, text, text) for the texts that have a task's right answer, if that is a text, and do not give it."""
    turns = oracle_turns(env, task)
    if not turns or len(turns) > 1 or not isinstance(turns[0], list) or turns[0][0].get("type") != "message":
        return
    whole = turns[0][0]["content"]
    whole = whole if isinstance(whole, str) else whole[0]["text"]
    answer = taken_apart(whole, task.row).text
    for kind, forms in UNMEANT.items():
        values = [answer, f"\\boxed{{{answer}}}", f"$\\boxed{{{answer}}}$"]
        is_short = len(answer) <= _LONGEST_UNMEANT and "\n" not in answer
        for value in [whole] if kind == "thought" else values if is_short else []:
            yield from ((kind, text, text) for text in (form.replace("{}", value) for form in forms))


def _texts(prompt: str) -> Iterator[tuple[str, str]]:
    yield "empty", ""
    yield "empty", " \n"
    yield from (("refusal", text) for text in REFUSALS)
    yield from (("hedge", text) for text in HEDGES)
    yield from (("cut off", text) for text in CUT)
    lines = [line for line in prompt.splitlines() if line.strip()]
    for form in ("{}", "{}\n\nI do not know.", "You ask: {}", "Answer: {}", "<answer>{}</answer>", "\\boxed{{{}}}"):
        yield "question", form.format(prompt)
        yield "prompt echo", form.format(lines[-1] if lines else "")
        yield "prompt echo", form.format(lines[0] if lines else "")
    options = _OPTION.findall(prompt) or [(letter, "") for letter in "ABCD"]
    letters = [letter for letter, _ in options]
    for form in FORMS:
        for joined in (", ", " ", "", " or ", " and ", "/", "\n"):
            yield "all options", form.format(joined.join(letters))
        yield "all options", form.format(", ".join(f"({letter})" for letter in letters))
        yield "option list", form.format("\n".join(f"{letter}) {text}" for letter, text in options))


def play(env_id: str, tasks: int, seconds: float, every: int = 1) -> dict[str, Any]:
    """Play every answer, or one of so many, on the first tasks of a verifier."""
    kwargs = dict(dry_run_kwargs(env_id))
    judge = str(kwargs.get("judge", ""))
    if judge.startswith("constant:"):
        label = judge.partition(":")[2]
        kwargs["judge"] = f"scripted:{label}"
        ScriptedJudge.verdict = opposite(label) or "I cannot decide this."

    def make() -> VerifierEnv:
        env = gym.make(env_id, disable_env_checker=True, **kwargs).unwrapped
        assert isinstance(env, VerifierEnv)
        return env

    player = Player(make, 20.0)
    player.deadline = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    rewards: dict[str, float] = defaultdict(float)
    played = 0
    try:
        source = player.env.tasks
        assert source is not None, "it has no tasks of its own"
        indices = range(min(tasks, source.size)) if source.size is not None else range(tasks)
        for index in indices:
            task = source[index]
            right = {plain(str(text)) for _, value in expected_fields(task.row) for _, text in renderings(value)}
            texts = itertools.chain(unmeant(player.env, task), answers(prompt_of(task)))
            for kind, text, value in itertools.islice(texts, index % every, None, every):
                played += 1
                result = player.play(index, task, says(text))
                if result.reward is not None and result.reward > 0 and plain(value) not in right:
                    counts[f"{kind}: {text[:120]}"] += 1
                    rewards[f"{kind}: {text[:120]}"] += result.reward
    except OutOfTime:
        pass
    finally:
        player.env.close()
        ScriptedJudge.verdict = None
    rows = {text: [count, round(rewards[text], 4)] for text, count in counts.most_common()}
    return {"tasks": len(indices), "played": played, "paid": rows}


def plain(value: str) -> str:
    """Return a constant in the form in which it is compared with the right answer."""
    return value.strip().strip("()").casefold()


def prompt_of(task: PreparedTask) -> str:
    """Return the text of the last message that a task begins with."""
    content = task.request["input"][-1].get("content") if task.request["input"] else ""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return str(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env_ids", nargs="*", help="verifiers (default: all)")
    parser.add_argument("--tasks", type=int, default=5, help="tasks of each verifier")
    parser.add_argument("--seconds", type=float, default=120, help="time limit of a verifier")
    parser.add_argument("--show", type=int, default=10, help="paid answers that are printed of each verifier")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    gym.logger.min_level = gym.logger.ERROR + 1
    results: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    for env_id in args.env_ids or env_ids():
        try:
            if missing := missing_package(find_verifier(env_id)):
                raise ImportError(missing)
            results[env_id] = play(env_id, args.tasks, args.seconds)
        except Exception as error:  # a verifier that cannot be played is named
            skipped[env_id] = f"{type(error).__name__}: {error}"[:200]
            print(f"{env_id}: skipped: {skipped[env_id]}", file=sys.stderr)
            continue
        result = results[env_id]
        print(f"{env_id}: {result['played']:,} played, {len(result['paid'])} answers paid", flush=True)
        for text, (count, reward) in list(result["paid"].items())[: args.show]:
            print(f"    {count} of {result['tasks']} tasks, {reward:g}: {text!r}", flush=True)
    total = sum(result["played"] for result in results.values())
    paid = {env_id: result["paid"] for env_id, result in results.items() if result["paid"]}
    print(json.dumps({"verifiers": len(results), "answers": total, "paid": paid, "skipped": skipped}))


if __name__ == "__main__":
    main()
