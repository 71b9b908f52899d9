"""What may be a reward, and what is refused."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unittest.mock import MagicMock

import gymnasium as gym
import numpy as np
import pytest
import torch
from testing import message, row

import gym_llm
from gym_llm import Verdict, VerifierEnv
from gym_llm.core.rewards import read_verdict
from gym_llm.errors import InvalidReward


@pytest.mark.parametrize(
    "verdict",
    [
        *(1, True, 1.0, Fraction(1), Decimal(1), Verdict(1)),
        *(np.float32(1), np.int8(1), np.bool_(True), np.array(1.0), np.array([1])),
        *(torch.tensor(1.0), torch.tensor(True), torch.tensor([1.0], dtype=torch.bfloat16, requires_grad=True)),
    ],
    ids=repr,
)
def test_numbers_are_rewards(verdict: Any) -> None:
    reward = read_verdict(verdict, {})
    assert reward == 1.0 and type(reward) is float


@pytest.mark.parametrize(
    "verdict",
    [
        math.nan,
        math.inf,
        -math.inf,
        np.float64("nan"),
        None,
        "1.0",
        "1e400",
        10**400,
        [1.0],
        np.array([1.0, 2.0]),
        1j,
        object(),
        *(np.ma.masked, np.ma.array(1.0, mask=True), np.ma.array(1.0), np.ma.array([1.0], mask=[True])),
        *(np.ma.array([1.0, 0.0], mask=[True, False])[0], Verdict(np.ma.masked), Verdict(np.ma.array(1.0, mask=True))),
        Verdict(1.0, {}, {"style": np.ma.masked}),
        *(np.complex128(1 + 2j), np.complex64(1), np.array(1j), torch.tensor(1j)),
        *(np.str_("1.0"), np.bytes_(b"1"), b"1", np.array("1.0"), np.array(["1.0"])),
        *(np.timedelta64(1, "ns"), np.datetime64(1, "ns"), np.array(1, "m8[s]"), np.array(1.0, object)),
        *(MagicMock(), MagicMock(spec=float), MagicMock(spec=Verdict), Verdict(MagicMock())),
        *(Verdict(1.0, {}, {"style": np.complex128(1)}), Verdict(np.str_("1"))),  # type: ignore[arg-type]
        Verdict(math.nan),
        Verdict("x"),  # type: ignore[arg-type]
        Verdict(1.0, []),  # type: ignore[arg-type]
        Verdict(1.0, {}, [0.5]),  # type: ignore[arg-type]
        Verdict(1.0, {}, {"style": math.nan}),
        Verdict(1.0, {}, {"style": None}),  # type: ignore[dict-item]
    ],
    ids=lambda verdict: re.sub(r" at 0x\w+| id=.\d+.", "", repr(verdict)),
)
def test_what_is_no_finite_number_is_refused(verdict: Any) -> None:
    with pytest.raises(InvalidReward):
        read_verdict(verdict, {})


class Returns(VerifierEnv):
    """Returns what its task says, or what only code can say."""

    def verify(self, task: Any, episode: Any) -> Any:
        kind = episode.row["kind"]
        if kind == "info":
            ours = {"turn": "three", "tool_errors": None, "task_index": [], "trajectory": "x", "reward_components": 5}
            return Verdict(1.0, {**ours, "mine": 1})
        return {"nan": math.nan, "one": 1.0, "none": None}[kind]  # another kind is a KeyError


gym.register("test/Returns-v0", Returns)


class Nan(gym.RewardWrapper[Any, Any]):
    """Makes any reward NaN."""

    def reward(self, reward: Any) -> float:
        return math.nan


def collect(*kinds: str, **kwargs: Any) -> list[Any]:
    from gym_llm.engines import Engine

    class Says(Engine):
        model = "says"

        async def respond(self, request: Any, *, episode_id: str = "") -> Any:
            return {"id": "r", "object": "response", "status": "completed", "output": message("x")}

    return gym_llm.collect("test/Returns-v0", Says(), tasks=[row(kind=kind) for kind in kinds], **kwargs)


def test_a_verifier_that_says_nan_masks_its_episode_and_no_other() -> None:
    with pytest.warns(UserWarning, match="2 of 3 episodes are masked"):
        nan, one, none = collect("nan", "one", "none")
    assert one["reward"] == 1.0 and one["outcome"] == "scored"
    for record in (nan, none):
        assert (record["outcome"], record["reward"]) == ("masked", None)
        assert (record["failure_kind"], record["error_phase"]) == ("verifier_error", "verify")
        assert record["error"].startswith("InvalidReward") and "read_verdict" in record["traceback"]
        assert record["info"] == {"task_index": record["rollout_id"]["task_index"], "turn": 1, "tool_errors": 0}


def test_a_wrapper_that_makes_nan_masks_the_episode() -> None:
    from gym_llm.errors import TooManyFailures

    with pytest.raises(TooManyFailures, match="add up to nan"):
        collect("one", wrappers=[Nan])


def test_a_verdict_s_info_does_not_say_what_is_ours_to_say() -> None:
    (record,) = collect("info")
    assert record["info"] == {"task_index": 0, "turn": 1, "tool_errors": 0, "mine": 1}
    assert record["trajectory"] is None


def test_a_bug_in_verify_is_a_warning_a_traceback_and_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gym_llm.records.failures._logged", set())
    with pytest.warns(UserWarning, match=r"5 of 6 episodes are masked, the first one so: KeyError: 'typo'"):
        one, *broken = collect("one", *["typo"] * 5)
    assert one["reward"] == 1.0
    for record in broken:
        assert (record["outcome"], record["reward"], record["failure_kind"]) == ("masked", None, "verifier_error")
        assert record["error_phase"] == "verify" and 'return {"nan"' in (record["traceback"] or "")
    (said,) = [each.getMessage() for each in caplog.records if "KeyError" in each.getMessage()]
    assert "is masked, it failed in verify" in said and 'return {"nan"' in said


def test_a_missing_value_of_pandas_is_no_reward() -> None:
    pandas = pytest.importorskip("pandas")
    for verdict in (pandas.NA, pandas.NaT, pandas.Series([pandas.NA], dtype="Float64"), Verdict(pandas.NA)):
        with pytest.raises(InvalidReward):
            read_verdict(verdict, {})
