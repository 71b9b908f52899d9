"""MultiChallenge: conversations whose last reply has to keep what was said before (NeMo Gym's `multichallenge`)."""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic import BaseModel

from gym_llm import BaseTask, Episode, Verdict
from gym_llm.judge import last_label
from gym_llm.judge.rubric import RubricEnv
from gym_llm.judge.withdrawn import is_meant
from gym_llm.tokens.parsers.thinking import strip_thinking
from gym_llm.types import Row


class Question(BaseModel):
    """A question about the reply, and the answer with which it passes."""

    question: str
    pass_criteria: str = "YES"
    weight: float = 1.0

    @property
    def passes_with_no(self) -> bool:
        """Whether the reply passes if the answer is no."""
        return self.pass_criteria.strip().upper() == "NO"


class MultiChallenge(RubricEnv):
    """Reply to a conversation; a judge answers the rubric's questions about the reply, and their mean is the reward.

    Details: `rubric_evaluations`, `num_passed`, `num_total`, `context`, `generated_response`, `aggregation_mode`.

    Args:
        yes_label: What the judge says for yes.
        no_label: What it says for no.
        **kwargs: As for every `RubricEnv`.
    """

    dry_run_kwargs = {"judge": "constant:[[YES]]"}
    judge_thinks = True

    class Task(BaseTask):
        """The rubric and the conversation, or `metadata` with `rubric` and `messages`."""

        rubric: list[Question] | None = None
        context: str | None = None
        metadata: dict[str, Any] | None = None
        uuid: str | int | None = None
        task_id: str | int | None = None

        @property
        def questions(self) -> list[Question]:
            """The rubric, wherever it stands."""
            given = (self.metadata or {}).get("rubric") or []
            return self.rubric or [Question.model_validate(question) for question in given]

        @property
        def conversation(self) -> str:
            """The conversation as text."""
            if self.context:
                return self.context
            said = [each for each in (self.metadata or {}).get("messages") or [] if each.get("role") != "thinking"]
            return "\n\n".join(f"[{str(each.get('role')).upper()}]: {each.get('content')}" for each in said)

    class Config(RubricEnv.Config):
        """Arguments of the class."""

        yes_label: str = "[[YES]]"
        no_label: str = "[[NO]]"

    config: Config

    def __init__(self, tasks: str | list[Row] | None = None, **kwargs: Any) -> None:
        super().__init__(tasks, **kwargs)
        config = self.config
        self._parse = partial(yes_or_no, yes=config.yes_label, no=config.no_label, conform=self.conform is not None)

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Have every question answered."""
        reply, context, questions = (
            strip_thinking(episode.last_message, conform=self.conform is not None),
            task.conversation,
            task.questions,
        )
        prompt, shown = self.prompt(), {"context": context, "response": reply}
        asked = [prompt.messages({**shown, **question.model_dump()}) for question in questions]
        evaluations = await self.judge_items(asked, self._parse, "NO")
        for question, evaluation in zip(questions, evaluations, strict=True):
            passes = (evaluation["verdict"] == "NO") == question.passes_with_no
            evaluation |= {**question.model_dump(), "score": float(passes)}
        reward, details = self.report(reply, evaluations)
        return Verdict(reward, {"context": context, **details})


def yes_or_no(text: str, *, yes: str, no: str, conform: bool) -> str | None:
    """`YES` or `NO` by the last label; with `conform` also by a last line that has one of the words anywhere."""
    if not conform:
        label = last_label(text, (yes, no))
        return None if label is None else "YES" if label == yes else "NO"
    place, label = max((text.rfind(yes), yes), (text.rfind(no), no))
    if place < 0 or not is_meant(text, place, place + len(label)):
        last_line = text.strip().rpartition("\n")[2].upper()
        return "YES" if "YES" in last_line else "NO" if "NO" in last_line else None
    return "YES" if label == yes else "NO"
