"""Judges, which are models that grade answers, and simulated users: engines beside the policy."""

from gym_llm.judge.answers import Answer
from gym_llm.judge.engine_argument import EngineArgument, auxiliary_engine, check_engine
from gym_llm.judge.json_verdicts import json_field, json_object, json_objects
from gym_llm.judge.judge import Judge, Params
from gym_llm.judge.judge_prompts import Prompt, make_prompt, read_prompt
from gym_llm.judge.judged_env import FAILS, JudgedEnv, Judgement
from gym_llm.judge.letter_verdicts import letter
from gym_llm.judge.number_verdicts import boxed_score, number_over, points
from gym_llm.judge.simulated_user import SimulatedUser
from gym_llm.judge.verdicts import (
    Labels,
    Parser,
    first_label,
    labels,
    last_label,
    meant_match,
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
    "SimulatedUser",
    "auxiliary_engine",
    "boxed_score",
    "check_engine",
    "first_label",
    "json_field",
    "json_object",
    "json_objects",
    "labels",
    "last_label",
    "letter",
    "make_prompt",
    "meant_match",
    "number_over",
    "points",
    "read_prompt",
    "tail_label",
    "yes_no_line",
]
