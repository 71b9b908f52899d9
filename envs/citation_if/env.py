"""CitationIF: citations in a demanded grammar, of what was found (NeMo Gym's `citation_if`)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict, VerifierEnv
from gym_llm.concurrency.processes import check_settings, shared_pool
from gym_llm.core.checks import check_choice, check_pattern
from gym_llm.envs.citation_if.grading import (
    DEFAULT_ID,
    GRAMMARS,
    TAGS,
    Citations,
    has_attempt,
    has_tag,
    is_simple,
    read_citations,
)
from gym_llm.errors import DeadlinePassed, WorkerDied
from gym_llm.types import Row

_MOST_SHOWN = 100


class CitationRules(BaseModel):
    """What has to be cited, and how."""

    type: Literal["citation_if"] = "citation_if"
    mode: Literal["cite", "no_cite"] = "cite"
    grammar: str | None = None
    id_kind: Literal["full_source", "snippet"] = "full_source"
    id_regex: Annotated[str, AfterValidator(check_pattern)] = ""
    valid_id_set: list[str] = []
    expected_ids: list[str] | None = None
    expected_slack: int = 1
    min_valid_citations: int = 1

    @model_validator(mode="after")
    def _grammar_is_known(self) -> CitationRules:
        if self.grammar is None and self.mode == "cite":
            raise ValueError(f"grammar is missing: one of {', '.join(GRAMMARS)}")
        check_choice("grammar", self.grammar, GRAMMARS)
        return self

    @property
    def pattern(self) -> str:
        """Of an id."""
        return self.id_regex or DEFAULT_ID[self.id_kind]


class CitationIF(VerifierEnv):
    """Answer from a finished search, citing as told; the reward is 1.0 if every gate is passed.

    What the answer says is not graded. Details: `match_details`, with `gate_failed`, the first gate that was not
    passed. A call ends the episode: the search is over.

    Args:
        deadline: Seconds of CPU time that a row's `id_regex` may take on an answer, in a worker process where it could
            take long; then the answer has failed.
        **kwargs: As for every `VerifierEnv`.

    Raises:
        ValueError: If an argument makes no sense.
    """

    reverify_mode = "stateless"
    executes_tools = False
    metrics = {"num_valid_cited": Metric("mean", higher_is_better=None)}

    class Task(BaseTask):
        """What has to be cited, and how."""

        verifier: CitationRules

    def __init__(self, tasks: str | list[Row] | None = None, *, deadline: float = 2.0, **kwargs: Any) -> None:
        check_settings(deadline, None)
        super().__init__(tasks, **kwargs)
        self.deadline = deadline

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Find the citations, and judge them gate by gate."""
        rules, text = task.verifier, episode.messages_text
        calls = sum(1 for _ in episode.function_calls())
        if rules.grammar is None:
            return judge(rules, text, calls, Citations([], False, True))
        if is_simple(rules.pattern):
            return judge(rules, text, calls, read_citations((rules.grammar, rules.pattern, text)))
        return self._verify_in_worker(rules, rules.grammar, text, calls)

    async def _verify_in_worker(self, rules: CitationRules, grammar: str, text: str, calls: int) -> Verdict:
        pool = shared_pool("gym_llm.envs.citation_if.grading:read_citations", deadline=self.deadline)
        try:
            citations = await pool.call((grammar, rules.pattern, text))
        except (DeadlinePassed, WorkerDied):
            citations = Citations([], True, True)
        return judge(rules, text, calls, citations)


def judge(rules: CitationRules, text: str, calls: int, citations: Citations) -> Verdict:
    """The verdict on what a text cites.

    Args:
        rules: What has to be cited, and how.
        text: What the model wrote.
        calls: How many calls it made.
        citations: What was found in the text.
    """
    sound = bool(text.strip()) and not calls
    cited, known = citations.ids if sound else [], set(rules.valid_id_set)
    valid = [cited_id for cited_id in cited if cited_id in known]
    missed = sorted(set(rules.expected_ids or ()).difference(valid))
    over_cap = rules.expected_ids is not None and len(valid) > len(set(rules.expected_ids)) + rules.expected_slack
    attempted = sound and has_attempt(text)
    gates = {"structural": sound}
    if rules.mode == "no_cite":
        has_markup = bool(cited) or (rules.grammar in (None, *TAGS) and has_tag(text))
        gates["no_cite"] = not attempted and not has_markup
    else:
        gates["no_answer"] = citations.has_answer
        gates["malformed_attempt"] = not citations.attempt_left
        gates["must_cite"] = len(valid) >= rules.min_valid_citations
        gates["no_hallucination"] = len(valid) == len(cited)
        gates["correctness_missed_gold"] = not missed
        gates["correctness_over_cap"] = not over_cap
    failed = next((gate for gate, passed in gates.items() if not passed), None)
    # What is expected is compared at the last two gates only.
    compared = rules.mode == "cite" and failed in (None, "correctness_missed_gold", "correctness_over_cap")
    details = {
        "gate_failed": failed,
        "mode": rules.mode,
        "grammar": rules.grammar,
        "id_kind": rules.id_kind,
        "id_regex": rules.pattern,
        "structural_ok": sound,
        "function_call_count": calls,
        "attempt_hits": attempted,
        "bare_id_hits": attempted,
        "parsed_ids": cited[:_MOST_SHOWN],
        "cited_ids": valid[:_MOST_SHOWN],
        "valid_cited": valid[:_MOST_SHOWN],
        "invalid_cited": [cited_id for cited_id in cited if cited_id not in known][:_MOST_SHOWN],
        "num_valid_cited": len(valid),
        "expected_ids": rules.expected_ids if compared else None,
        "missed_ids": missed if compared else [],
        "over_cap": over_cap and compared,
    }
    return Verdict(float(failed is None), {"match_details": details, "num_valid_cited": len(valid)})
