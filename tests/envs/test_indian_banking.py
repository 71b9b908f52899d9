"""IndianBanking: rewards and details equal to NeMo Gym's own app, on drawn conversations with an own bank."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from nemo_cases import said
from nemo_oracle import servers_folder
from peers import ROOT, SCRIPTS, peer_python
from testing import Item, function_call

from gym_llm.envs.theirs import environments
from gym_llm.rollouts.config import load_config
from gym_llm.rollouts.config.nemo_gym import env_of_server

ENV_ID = "gym_llm/IndianBanking-v0"
ACCOUNT = {"account_id": "SB10", "account_type": "SAVINGS", "available_balance": 50000.0, "transactions": []}
DEPOSIT = {"deposit_id": "FD1", "kind": "FD", "principal": 1000.0, "rate": 7.0, "status": "ACTIVE", "tenure_months": 12}
DATES = {"start_date": "2026-01-01", "maturity_date": "2027-01-01", "payout_account": "SB10"}
PERSON: dict[str, Any] = {
    "profile": {"name": "P", "kyc_status": "COMPLETE"},
    "login_context": {"linked_accounts": ["SB10"], "linked_products": ["FD1"], "linked_cards": ["CARD7"]},
    "accounts": {"SB10": ACCOUNT},
    "deposits": {"FD1": DEPOSIT | DATES},
    "cards": {"CARD7": {"card_id": "CARD7", "status": "active", "controls": {}}},
    "mandates": [{"mandate_id": "M1", "account_id": "SB10", "payee": "Films", "status": "active"}],
}
ARTICLES = [{"title": "Deposits", "content": "A deposit earns interest."}, {"title": "Cards", "content": "Freeze it."}]
FREEZE = {"name": "toggle_card_freeze", "arguments": {"card_id": "CARD7", "state": "freeze"}}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("get_account_balance", {"account_ids": ["SB10"]}),
    ("get_account_balance", {"account_ids": '["SB10"]'}),
    ("block_card", {"card_id": "CARD7", "reason": "lost"}),
    ("cancel_mandate", {"mandate_id": "M1"}),
    ("cancel_mandate", {"mandate_id": "M9"}),
    ("close_deposit", {"deposit_id": "FD1"}),
    ("create_fd", {"principal_amount": 5000, "tenure_months": 12, "source_account": "SB10"}),
    ("create_fd", {"principal_amount": "5000", "tenure_months": 12, "source_account": "SB10"}),
    ("search_knowledge_base", {"query": "deposit interest", "top_k": 3}),
    ("transfer_to_human_agents", {"summary": "x"}),
    ("set_card_controls", {"card_id": "CARD7", "atm": {"domestic": {"enabled": True}}}),
]
TEXTS = (
    "Shall I go on?",
    "It is 50000 rupees.",
    "I use block_card now.",
    "M1 is cancelled.",
    " ",
    "It earns interest.",
)
USERS = ("Yes, please.", "No.", "Yes, please.", "No.", "Thanks ###STOP###", "###TRANSFER###")
LIMITS: dict[str, Any] = {"max_user_turns": 3, "max_tool_rounds": 5}


def drawn_row(draw: random.Random) -> dict[str, Any]:
    actions: list[dict[str, Any]] = [
        {"name": name, "arguments": arguments} for name, arguments in draw.sample(CALLS, draw.choice([0, 1, 2, 3]))
    ]
    for action in actions:
        if draw.random() < 0.3:
            action["compare_args"] = draw.choice([[], list(action["arguments"])[:1]])
    criteria = {
        "actions": actions,
        "communicate_info": draw.choice([[], ["50000"], ["interest", "M1"]]),
        "nl_assertions": draw.choice([[], ["It is polite.", "It asks."]]),
        "reward_basis": draw.sample(["ACTION", "DB", "COMMUNICATE", "NL_ASSERTION"], draw.choice([1, 2, 3, 4])),
        **draw.choice([{}, {}, {"require_transfer": True}, {"max_tool_calls": 2}]),
    }
    return {
        "responses_create_params": {"input": [{"role": "system", "content": "You serve."}]},
        "task_id": f"t{draw.random()}",
        "customer": draw.choice(["C1", "C2"]),
        "user_scenario": {"persona": "Calm.", "instructions": {"reason_for_call": "Help me."}},
        "evaluation_criteria": criteria,
        "initial_state": {"initialization_actions": draw.choice([None, [FREEZE]])},
        **draw.choice([{}, {"opening_message": "Hello!"}]),
    }


def drawn_turns(row: dict[str, Any], draw: random.Random) -> list[list[Item]]:
    right = [(action["name"], action["arguments"]) for action in row["evaluation_criteria"]["actions"]]
    turns: list[list[Item]] = []
    for _ in range(draw.choice([1, 2, 4, 8])):
        calls = [draw.choice(right if right and draw.random() < 0.7 else CALLS) for _ in range(draw.choice([0, 1, 2]))]
        items = [function_call(*call, f"c{len(turns)}_{place}") for place, call in enumerate(calls)]
        turns.append([said(draw.choice(TEXTS)), *items] if not items or draw.random() < 0.1 else items)
    if right and draw.random() < 0.5:
        turns = [[function_call(*call, f"c{place}")] for place, call in enumerate(right)]
        turns.append([said("It is 50000; M1; interest.")])
    return turns + [[said("Bye.")]] * 6


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The bank's files; children run in this environment of Python, so that nothing is installed."""
    people = {"C1": copy.deepcopy(PERSON), "C2": {**copy.deepcopy(PERSON), "profile": {"senior_citizen": True}}}
    (tmp_path / "db.json").write_text(json.dumps({"active_customer": "C1", "customers": people}))
    (tmp_path / "kb.json").write_text(json.dumps({"articles": ARTICLES}))
    monkeypatch.setenv("GYM_LLM_THEIRS", str(tmp_path))
    monkeypatch.setattr(environments, "_make", lambda framework, home: home.symlink_to(sys.prefix))
    return {"db_fpath": str(tmp_path / "db.json"), "kb_fpath": str(tmp_path / "kb.json")}


def theirs(cases: list[dict[str, Any]], data: dict[str, Any]) -> list[dict[str, Any]]:
    """What NeMo Gym's app pays; the output has a user's message behind each turn."""
    models = {f"{name}_model_server": {"type": "responses_api_models", "name": name} for name in ("user_sim", "judge")}
    requests: dict[str, Any] = {f"{name}_responses_create_params": {"input": []} for name in ("user_sim", "judge")}
    settings = {**models, **requests, **LIMITS, **data, "entrypoint": "app.py", "domain": "agent"}
    lines: list[Any] = [{"server": "indian_banking", "settings": settings}]
    for case in cases:
        output = [item for turn in case["turns"] for item in (*turn, {"role": "user", "content": "-"})]
        output = [{"id": "x", **item} for item in output]
        texts = {"user_sim": case["users"], "judge": [case["verdict"]]}
        lines.append({"source": "indian_banking/0", "task": case["row"], "output": output, "models": texts})
    command = [str(peer_python("nemo_servers")), "-P", str(SCRIPTS / "nemo_verify.py")]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "importable")}
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=env, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def replay(*texts: str) -> dict[str, Any]:
    return {"engine": "replay:", "kwargs": {"answers": list(texts)}}


@pytest.mark.slow
def test_drawn_conversations_are_paid_as_by_nemo_gyms_app(data: dict[str, Any]) -> None:
    draw = random.Random(5)
    cases: list[dict[str, Any]] = []
    for _ in range(24):
        row = drawn_row(draw)
        verdict = json.dumps({"results": [{"metExpectation": draw.random() < 0.5} for _ in range(2)]})
        users = [draw.choice(USERS) for _ in range(9)]
        cases.append({"row": row, "turns": drawn_turns(row, draw), "users": users, "verdict": verdict})
    source, rewards = str(servers_folder().parent), set()
    for case, expected in zip(cases, theirs(cases, data), strict=True):
        engines: dict[str, Any] = {"user": replay(*case["users"]), "judge": replay(case["verdict"])}
        env = gym.make(ENV_ID, source=source, step_seconds=120.0, **engines, **LIMITS, **data)
        observation, _ = env.reset(options={"task": case["row"]})
        assert [item["role"] for item in observation["input"]] == ["system", "user"] and len(observation["tools"]) == 34
        total, is_over = 0.0, False
        for turn in case["turns"]:
            _, reward, terminated, truncated, info = env.step(turn)
            total += float(reward)
            if is_over := terminated or truncated:
                break
        env.close()
        assert is_over and total == pytest.approx(expected["reward"], abs=1e-12), case["row"]
        details = {name: value for name, value in expected["info"].items() if name != "score"}
        assert {name: info[name] for name in details} == pytest.approx(details)
        rewards.add(round(total, 2))
    assert len(rewards) > 8


def test_a_checkout_its_data_and_a_customer_are_needed(tmp_path: Path) -> None:
    core = tmp_path / "resources_servers" / "indian_banking" / "core"
    core.mkdir(parents=True)
    (core / "engine.py").write_text("")
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "plays the customer"),
        ({"user": "constant:Yes."}, "checkout of NeMo Gym"),
        ({"user": "constant:Yes.", "source": str(tmp_path)}, r"db\.json is missing: download"),
    ]
    for arguments, words in cases:
        with pytest.raises(ValueError, match=words):
            gym.make(ENV_ID, **arguments)


def test_nemo_gyms_configuration_is_this_environment(tmp_path: Path) -> None:
    assert env_of_server("indian_banking") == ENV_ID
    server = {
        "user_sim_model_server": {"type": "responses_api_models", "name": "m"},
        "judge_model_server": {"type": "responses_api_models", "name": "m"},
        **{"max_user_turns": 8, "should_use_judge": True, "entrypoint": "app.py"},
    }
    agent = {"entrypoint": "app.py", "resources_server": {"type": "resources_servers", "name": "bank"}, "max_steps": 25}
    sections = {
        "bank": {"resources_servers": {"indian_banking": server}},
        "m": {"responses_api_models": {"openai_model": {"openai_base_url": "http://h/v1", "openai_model": "m"}}},
        "a": {"responses_api_agents": {"gymnasium_agent": {**agent, "model_server": {"name": "m"}}}},
    }
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(sections))
    section = load_config([str(path)], ["policy_api_key=k"]).environments["a"]
    assert section.env == ENV_ID and section.kwargs["max_user_turns"] == 8
    assert section.kwargs["user"] == section.kwargs["judge"]
