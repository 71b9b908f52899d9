"""Judges: models that say how good an answer is, and simulated users, which are engines beside the policy's too."""

from gym_llm.judge.auxiliary_engine import EngineArgument, check_engine, side_engine
from gym_llm.judge.judge import Answer, Judge, Params
from gym_llm.judge.judge_prompts import Prompt, make_prompt, read_prompt
from gym_llm.judge.judged_env import FAILS, JudgedEnv, Judgement
from gym_llm.judge.user_simulator import UserSimulator
from gym_llm.judge.verdicts import (
    Labels,
    Parser,
    boxed_score,
    first_label,
    json_field,
    json_objects,
    labels,
    last_label,
    letter,
    number_over,
    points,
    tail_label,
    yes_no_line,
)

__all__ = [
    "FAILS",
    "Answer",
    "EngineArgument",
    "Judge",
    "JudgedEnv",
    "Judgement",
    "Labels",
    "Params",
    "Parser",
    "Prompt",
    "UserSimulator",
    "boxed_score",
    "check_engine",
    "first_label",
    "json_field",
    "json_objects",
    "labels",
    "last_label",
    "letter",
    "make_prompt",
    "number_over",
    "points",
    "read_prompt",
    "side_engine",
    "tail_label",
    "yes_no_line",
]
