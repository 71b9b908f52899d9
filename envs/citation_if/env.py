"""CitationIF: citations of search results in a required grammar (NeMo Gym's `citation_if`)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal

from pydantic import BaseModel, model_validator

from gym_llm import BaseTask, Episode, Metric, Verdict
from gym_llm.core.checks import check_choice
from gym_llm.core.compat import NemoCompatible
from gym_llm.core.env_config import Pattern, Seconds
from gym_llm.envs.citation_if.grading import (
    DEFAULT_ID,
    GRAMMARS,
    TAGS,
    Citations,
    has_attempt,
    has_tag,
    is_simple,
    read_citations,
    write_citations,
)
from gym_llm.grading.text_metrics import in_worker
from gym_llm.tokens.parsers.thinking import without_cut_thought

_MOST_SHOWN = 100


class CitationRules(BaseModel):
    """The required citations and their form."""

    type: Literal["citation_if"] = "citation_if"
    mode: Literal["cite", "no_cite"] = "cite"
    grammar: str | None = None
    id_kind: Literal["full_source", "snippet"] = "full_source"
    id_regex: Pattern = ""
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
        """The pattern of an id."""
        return self.id_regex or DEFAULT_ID[self.id_kind]


class CitationIF(NemoCompatible):
    """Answer from search results with citations in a required grammar; the reward is 1.0 if every gate is passed.

    The content of the answer is not graded. Details: `match_details`, with the first failed gate as `gate_failed`. A
    call ends the episode, because the search is over.

    Args:
        deadline: Seconds of CPU time for a row's `id_regex`, which runs in a worker process if it could take long. An
            answer that takes longer fails.
        **kwargs: As for every `NemoCompatible`.
    """

    reverify_mode = "stateless"
    executes_tools = False
    metrics = {"num_valid_cited": Metric("mean", higher_is_better=None)}

    class Task(BaseTask):
        """The required citations and their form."""

        verifier: CitationRules

    class Config(NemoCompatible.Config):
        """The time for a row's pattern."""

        deadline: Seconds = 2.0

    config: Config

    def oracle(self, task: Task) -> str:
        """Return an answer that cites the expected ids, and as many valid ids as required."""
        rules = task.verifier
        if rules.mode == "no_cite" or rules.grammar is None:
            return "It is so."
        expected = rules.expected_ids or []
        ids = list(dict.fromkeys([*expected, *rules.valid_id_set]))[: max(len(expected), rules.min_valid_citations)]
        return f"It is so {write_citations(rules.grammar, ids)}."

    def verify(self, task: Task, episode: Episode) -> Verdict | Awaitable[Verdict]:
        """Find the citations and pass them through the gates."""
        rules, text = task.verifier, episode.messages_text
        text = text if self.conform else without_cut_thought(text)
        calls = sum(1 for _ in episode.function_calls())
        if rules.grammar is None:
            return judge(rules, text, calls, Citations([], False, True))
        if is_simple(rules.pattern):
            return judge(rules, text, calls, read_citations((rules.grammar, rules.pattern, text)))
        return self._verify_in_worker(rules, rules.grammar, text, calls)

    async def _verify_in_worker(self, rules: CitationRules, grammar: str, text: str, calls: int) -> Verdict:
        arguments = grammar, rules.pattern, text
        found = await in_worker("gym_llm.envs.citation_if.grading:read_citations", arguments, self.config.deadline)
        return judge(rules, text, calls, found or Citations([], True, True))


def judge(rules: CitationRules, text: str, calls: int, citations: Citations) -> Verdict:
    """Return the verdict on the citations of a text.

    Args:
        rules: The required citations and their form.
        text: The model's text.
        calls: The number of its calls.
        citations: The citations in the text.
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
    # Only the last two gates compare with the expected ids.
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
