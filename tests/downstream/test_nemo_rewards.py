"""NeMo Gym's own servers, of the wheel 0.7.0 and in process, pay what our verifiers pay with conform="nemo"."""

from __future__ import annotations

import json

import pytest
from nemo_cases import said
from nemo_oracle import difference, make_cases, played_servers, verdicts

_EACH = 5


@pytest.mark.slow
def test_drawn_answers_are_paid_alike() -> None:
    cases = [case for server in played_servers() for case in make_cases(server, _EACH, seed=0)]
    compared, differences = 0, []
    for case, verdict in zip(cases, verdicts(cases), strict=True):
        if "error" not in verdict:  # a server of NeMo Gym's may fail where ours pays nothing
            compared += 1
            if (found := difference(case, verdict)) is not None:
                differences.append(f"{case['source']}: {found}: {json.dumps(case['output'])[-300:]}")
    assert not differences, "\n".join(differences)
    assert compared >= 250


@pytest.mark.slow
def test_the_oracle_tells_right_from_wrong() -> None:
    row = {
        "responses_create_params": {"input": [{"role": "user", "content": "Where?"}]},
        "options": [{"A": "Oslo"}, {"B": "Bergen"}],
        "expected_answer": "B",
    }
    cases = [{"source": "mcqa/0", "task": row, "output": [said(f"\\boxed{{{letter}}}")]} for letter in "AB"]
    answers = list(verdicts(cases))
    assert [answer["reward"] for answer in answers] == [0.0, 1.0]
    assert [difference(case, answer) for case, answer in zip(cases, answers, strict=True)] == [None, None]
    assert difference(cases[0], answers[1]) == "reward: theirs 1.0, ours 0.0"
