"""BunsenBench: multiple choice in chemistry, answered in words or letters (NeMo Gym's `bunsenbench_chemistry_mcq`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pydantic import model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.compat import NemoCompatible
from gym_llm.envs.bunsenbench import nemo
from gym_llm.envs.bunsenbench.grading import chosen_letter, plain_chemistry, unwrapped, why_no_choice
from gym_llm.grading.quotations import meant_words

_LABELS = ("bunsen_id", "source", "bct_field", "bct_subfield")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class BunsenBench(NemoCompatible):
    """Choose one option, `<choice>CO2</choice>`; the reward is 1.0 if it is the expected one.

    Details: `extracted_answer` (a letter or None), `no_answer`, `error_mode` and the row's labels (`bunsen_id`,
    `source`, `bct_field`, `bct_subfield`). The error mode is `correct`, `wrong_answer`, or the reason for a missing
    choice: `refusal`, `early_termination`, `malformed_choice`, `format_violation`.

    Args:
        conform: `"nemo"` reads as NeMo Gym does; the README lists the differences.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument is invalid.
    """

    reverify_mode = "stateless"
    metrics = {"no_answer": Metric("rate", higher_is_better=False)}

    class Task(BaseTask):
        """The options, as dicts from letters to texts or as `choices` in order, and the right one."""

        expected_answer: str
        options: list[dict[str, str | None]] | None = None
        choices: list[str | dict[str, Any]] | None = None
        metadata: dict[str, Any] | None = None
        uuid: str | None = None

        @model_validator(mode="after")
        def _answerable(self) -> BunsenBench.Task:
            if self.gold is None:
                names = ", ".join(self.texts) or "none"
                raise ValueError(f"expected_answer {self.expected_answer!r} is not one of the options ({names})")
            return self

        @cached_property
        def listed(self) -> list[tuple[str, str]]:
            """The options' letters and texts, in order."""
            if self.options:
                pairs = [(letter, text) for option in self.options for letter, text in option.items()]
            else:
                pairs = [_labelled(*choice) for choice in zip(_LETTERS, self.choices or (), strict=False)]
            return [(letter, text) for letter, text in pairs if text is not None]

        @cached_property
        def texts(self) -> dict[str, str]:
            """The options' normalised texts by their letters."""
            return {
                letter.strip().upper(): plain_chemistry(text)
                for letter, text in self.listed
                if len(letter.strip()) == 1 and letter.strip().isalpha()
            }

        @cached_property
        def gold(self) -> str | None:
            """The letter of the right option, or None."""
            letter = unwrapped(self.expected_answer).upper()
            if len(letter) == 1 and letter.isalpha() and (letter in self.texts or not self.texts):
                return letter
            wanted = plain_chemistry(self.expected_answer)
            return next((letter for letter, text in self.texts.items() if text == wanted), None)

        @cached_property
        def labels(self) -> dict[str, Any]:
            """The question's labels, from the row or its `metadata`."""
            extra = self.model_extra or {}
            found = {name: extra.get(name, (self.metadata or {}).get(name)) for name in _LABELS}
            return {name: value for name, value in found.items() if value is not None}

    def oracle(self, task: Task) -> str:
        """Return the letter of the right option in its tags."""
        return f"<choice>{task.gold}</choice>"

    def verify(self, task: Task, episode: Episode) -> Verdict:
        """Compare the chosen option with the expected one."""
        text, gold = episode.text, str(task.gold)
        if self.conform:
            gold = nemo.gold_letter(task.expected_answer, task.listed)
            letter = nemo.choice(text, task.listed, gold)
        else:
            letter = chosen_letter(meant_words(text, episode), task.texts or {gold: ""}) if text else None
        if letter is None:
            mode = why_no_choice(text, refused=_refused(episode), cut_short=_cut_short(episode))
        else:
            mode = "correct" if letter == gold else "wrong_answer"
        details = {"extracted_answer": letter, "no_answer": letter is None, "error_mode": mode}
        return Verdict(float(mode == "correct"), details | task.labels)


def _labelled(letter: str, choice: str | dict[str, Any]) -> tuple[str, str | None]:
    if isinstance(choice, str):
        return letter, choice
    named = next((choice[key] for key in ("letter", "label", "key", "id") if choice.get(key)), letter)
    text = next((choice[key] for key in ("text", "content", "value", "choice") if choice.get(key)), None)
    return (named, text) if isinstance(named, str) and isinstance(text, str) else (letter, None)


def _refused(episode: Episode) -> bool:
    contents = (item.get("content") for item in episode.items)
    parts = (part for content in contents if isinstance(content, list) for part in content)
    return any(isinstance(part, dict) and part.get("type") == "refusal" for part in parts)


def _cut_short(episode: Episode) -> bool:
    details = episode.last_response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    unfinished = [item.get("status") for item in episode.items] + [episode.last_response.get("status")]
    return reason == "max_output_tokens" or "incomplete" in unfinished
