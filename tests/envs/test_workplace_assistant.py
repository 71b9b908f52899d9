"""WorkplaceAssistant: 27 tools, and the state in which they leave the office."""

from __future__ import annotations

import csv
import json
import os
import pickle
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from testing import cpu_seconds, function_call, message, outputs, response, row
from verifier_vectors import replay_all

from gym_llm.envs.workplace_assistant.env import DATA_VARIABLE, WorkplaceAssistant
from gym_llm.envs.workplace_assistant.generated import generated_office
from gym_llm.errors import DataError

Call = tuple[str, dict[str, Any]]
OFFICE = generated_office(3)
CRM = "customer_relationship_manager_"


@pytest.fixture(autouse=True)
def nemo_gyms_tables(monkeypatch: pytest.MonkeyPatch) -> str:
    """NeMo Gym's tables, if they are here; what is tested plays in our own."""
    folder = os.environ.get(DATA_VARIABLE, "")
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    return folder


@pytest.fixture
def tables(tmp_path: Path) -> str:
    """An office in files, laid out as NeMo Gym's."""
    names = {"events": "calendar_events", "visits": "analytics_data", "tasks": "project_tasks", "emails": "emails"}
    names["customers"] = "customer_relationship_manager_data"
    (tmp_path / "processed").mkdir()
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "email_addresses.csv").write_text("\n".join(OFFICE.directory))
    for table, name in names.items():
        with open(tmp_path / "processed" / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, OFFICE.tables[table][0])
            writer.writeheader()
            writer.writerows(OFFICE.tables[table])
    return str(tmp_path)


def task(*gold: Call, **fields: Any) -> dict[str, Any]:
    calls = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in gold]
    return row("Do it.", ground_truth=calls, id=1, category="c", environment_name="e", **{"office_seed": 3} | fields)


def play(gold: list[Call], made: list[Call], **kwargs: Any) -> float:
    env = gym.make("gym_llm/WorkplaceAssistant-v0", **kwargs)
    env.reset(options={"task": task(*gold)})
    if made:
        env.step([function_call(name, arguments, f"call_{i}") for i, (name, arguments) in enumerate(made)])
    _, reward, terminated, _, _ = env.step(message("Done."))
    assert terminated
    return float(reward)


def ask(*calls: Call) -> list[Any]:
    """What the tools answer, one after another."""
    env = gym.make("gym_llm/WorkplaceAssistant-v0")
    env.reset(options={"task": task()})
    observation, *_ = env.step([function_call(*call) for call in calls])
    return [json.loads(text)["output"] for text in outputs(observation)]


EMAIL, EVENT, TASK, CUSTOMER = (OFFICE.tables[name][0] for name in ("emails", "events", "tasks", "customers"))
SEND = ("email_send_email", {"recipient": "Ann@Quarry.example", "subject": "Hello", "body": "Text"})
DELETE = ("email_delete_email", {"email_id": EMAIL["email_id"]})
ADD = (CRM + "add_customer", {"customer_name": "Ann", "assigned_to_email": "x@y.z", "status": "Lead"})


def test_the_gold_calls_of_generated_tasks_are_worth_one_and_doing_nothing_is_not() -> None:
    env = gym.make("gym_llm/WorkplaceAssistant-v0").unwrapped
    categories = set()
    for seed in range(60):
        made = env.generate(np.random.default_rng(seed))
        assert made == env.generate(np.random.default_rng(seed))
        categories.add(made["category"])
        rewards = []
        for calls in (made["ground_truth"], []):
            env.reset(options={"task": made})
            if calls:
                observation, *_ = env.step(
                    [function_call(call["name"], call["arguments"], f"c{i}") for i, call in enumerate(calls)]
                )
                assert not any("not found" in text or "rror" in text for text in outputs(observation))
            rewards.append(env.step(message("Done."))[1])
        assert rewards == [1.0, 0.0], made
    assert len(categories) == 6


@pytest.mark.parametrize(
    ("gold", "made", "reward"),
    [
        ([SEND], [SEND], 1.0),
        ([SEND], [], 0.0),
        ([], [], 1.0),
        ([], [SEND], 0.0),
        ([SEND], [("email_search_emails", {"query": "price"}), SEND], 1.0),
        ([SEND], [("email_delete_email", {"email_id": "x"}), SEND], 1.0),
        ([SEND], [(SEND[0], SEND[1] | {"body": "TEXT", "recipient": "ann@quarry.example"})], 1.0),
        ([SEND], [(SEND[0], SEND[1] | {"body": "Texts"})], 0.0),
        ([SEND], [(SEND[0], SEND[1] | {"cc": "b@c.d"})], 0.0),
        ([SEND, DELETE], [SEND], 0.0),
        ([SEND, DELETE], [DELETE, SEND], 0.0),
        ([SEND, DELETE], [SEND, DELETE], 1.0),
        ([ADD], [(ADD[0], ADD[1] | {"status": "lead"})], 0.0),
        ([ADD], [(ADD[0], ADD[1] | {"customer_name": "ANN"})], 1.0),
        ([ADD], [(ADD[0], ADD[1] | {"notes": None})], 1.0),
        ([ADD, ADD], [ADD], 0.0),
    ],
)
def test_the_reward_is_the_final_state(gold: list[Call], made: list[Call], reward: float) -> None:
    assert play(gold, made) == reward


def test_deleting_before_or_after_adding_differs_by_row_labels_but_not_in_the_calendar() -> None:
    event = {"event_name": "A", "participant_email": "a@b.c", "event_start": "2023-12-01 09:00:00", "duration": "30"}
    create, cancel = ("calendar_create_event", event), ("calendar_delete_event", {"event_id": EVENT["event_id"]})
    last = max(OFFICE.tables["emails"], key=lambda email: email["email_id"])
    assert play([create, cancel], [cancel, create]) == 1.0
    assert play([create], [(create[0], event | {"duration": 30})]) == 1.0
    assert play([create], [(create[0], event | {"duration": 45})]) == 0.0
    delete = ("email_delete_email", {"email_id": last["email_id"]})
    assert play([delete, SEND], [SEND, delete]) == 0.0
    new = ("email_delete_email", {"email_id": str(len(OFFICE.tables["emails"]))})
    assert play([], [SEND, new]) == 1.0


def test_plots_and_updates_are_state() -> None:
    plot = {"time_min": "2023-11-01", "time_max": "2023-11-02", "value_to_plot": "user_engaged", "plot_type": "bar"}
    assert play([("analytics_create_plot", plot)], []) == 0.0
    update = {"task_id": TASK["task_id"], "field": "task_name", "new_value": "new"}
    name = "project_management_update_task"
    assert play([(name, update)], [(name, update | {"new_value": "old"}), (name, update | {"new_value": "NEW"})]) == 1.0
    assert play([(name, update | {"new_value": TASK["task_name"]})], []) == 1.0


def test_tools_answer_in_nemo_gyms_words() -> None:
    person = OFFICE.directory[0]
    answers = ask(
        ("company_directory_find_email_address", {"name": person.upper()[:6]}),
        ("company_directory_find_email_address", {}),
        ("email_get_email_information_by_id", {"email_id": EMAIL["email_id"], "field": "subject"}),
        ("email_get_email_information_by_id", {"email_id": EMAIL["email_id"], "field": "cc"}),
        ("email_delete_email", {"email_id": "9"}),
        ("email_send_email", {"recipient": "nobody", "subject": "a", "body": "b"}),
        ("email_send_email", {"recipient": "a@b.c", "subject": "a"}),
        ("email_reply_email", {"email_id": EMAIL["email_id"], "body": "b"}),
        ("calendar_delete_event", {"event_id": "12"}),
        ("calendar_update_event", {"event_id": EVENT["event_id"], "field": "duration", "new_value": "0"}),
        ("calendar_search_events", {"query": "(", "time_min": "soon"}),
        ("calendar_search_events", {"query": "("}),
        ("project_management_search_tasks", {}),
        ("project_management_update_task", {"task_id": TASK["task_id"], "field": "board", "new_value": "Garden"}),
        (CRM + "update_customer", {"customer_id": "x", "field": "status", "new_value": "Won"}),
        (CRM + "delete_customer", {"customer_id": CUSTOMER["customer_id"]}),
        ("analytics_get_visitor_information_by_id", {"visitor_id": "x"}),
    )
    assert answers == [
        [person],
        "Name not provided.",
        {"subject": EMAIL["subject"]},
        "Field 'cc' not found. Available fields: "
        "email_id, inbox/outbox, sender/recipient, subject, sent_datetime, body",
        "Email not found.",
        "Invalid recipient email address.",
        "Recipient, subject, or body not provided.",
        "Email replied successfully.",
        "Invalid event ID format. Expected 8-digit ID.",
        "Duration must be a positive number of minutes.",
        "Invalid time_min format. Expected YYYY-MM-DD HH:MM:SS.",
        "No events found.",
        "No search parameters provided.",
        "Board not valid. Please choose from: 'Back end', 'Front end', 'Design'.",
        "Customer not found.",
        "Customer deleted successfully.",
        "Visitor not found.",
    ]


def test_new_rows_get_the_next_id() -> None:
    task = {"task_name": "t", "assigned_to_email": TASK["assigned_to_email"].upper(), "list_name": "Backlog"}
    answers = ask(
        ("project_management_create_task", task | {"due_date": "2023-12-01", "board": "Design"}),
        ADD,
        SEND,
        ("email_search_emails", {"page_size": 1}),
    )
    assert answers[:2] == ["00000150", "00000120"]
    newest = answers[3]["emails"][0]
    assert (newest["email_id"], newest["sent_datetime"]) == ("300", "2023-11-30 23:59:00")
    assert newest["sender/recipient"] == "ann@quarry.example" and newest["inbox/outbox"] == "outbox"


def test_searches_have_pages_and_match_every_word() -> None:
    word = {"query": "PRICE list", "page_size": 2, "page": 99}
    (found, dated, tasks) = ask(
        ("email_search_emails", word),
        ("email_search_emails", {"date_min": "2023-11-01", "date_max": "2023-11-01", "page_size": 50}),
        ("project_management_search_tasks", {"assigned_to_email": TASK["assigned_to_email"], "board": "des"}),
    )
    matching = [e for e in OFFICE.tables["emails"] if "price list" in (e["subject"] + e["body"]).lower()]
    pages = -(-len(matching) // 2)
    assert found["pagination"] == {"total_emails": len(matching), "page": pages, "page_size": 2, "total_pages": pages}
    assert found["emails"][-1] == min(matching, key=lambda e: e["sent_datetime"])
    assert {email["sent_datetime"][:10] for email in dated["emails"]} == {"2023-11-01"}
    assert {t["board"] for t in tasks} == {"Design"}


def test_averages_leave_the_visitors_alone() -> None:
    visit = OFFICE.tables["visits"][0]
    (averages, visits, counts) = ask(
        ("analytics_get_average_session_duration", {}),
        ("analytics_get_visitor_information_by_id", {"visitor_id": visit["visitor_id"]}),
        ("analytics_traffic_source_count", {"traffic_source": "direct"}),
    )
    assert visits == [visit] and isinstance(visits[0]["session_duration_seconds"], str)
    assert list(averages) == sorted(averages) == list(counts)
    assert sum(counts.values()) == sum(v["traffic_source"] == "direct" for v in OFFICE.tables["visits"])


def test_the_schemas_say_string_and_integer_and_what_is_required() -> None:
    schemas = {schema["name"]: schema["parameters"] for schema in WorkplaceAssistant.tool_schemas()}
    assert len(schemas) == 27
    search = schemas["email_search_emails"]
    assert search["required"] == [] and search["properties"]["page"]["type"] == "integer"
    assert schemas["email_reply_email"]["required"] == ["email_id", "body"]
    types = {p["type"] for schema in schemas.values() for p in schema["properties"].values()}
    assert types == {"string", "integer"}
    assert all("default" not in p and p["description"] for s in schemas.values() for p in s["properties"].values())


def test_calls_of_a_turn_that_was_cut_off_are_not_made() -> None:
    env = gym.make("gym_llm/WorkplaceAssistant-v0")
    env.reset(options={"task": task(SEND)})
    _, reward, _, truncated, _ = env.step(response(function_call(*SEND), status="incomplete"))
    assert (reward, truncated) == (0.0, True)


def test_a_row_needs_its_tables_and_tools_that_exist(tmp_path: Path) -> None:
    env = gym.make("gym_llm/WorkplaceAssistant-v0")
    with pytest.raises(DataError, match="data_dir"):
        env.reset(options={"task": task(office_seed=None)})
    with pytest.raises(DataError, match="has no tool"):
        env.reset(options={"task": task(("send_email", {}))})
    with pytest.raises(DataError, match="ground_truth"):
        env.reset(options={"task": task() | {"ground_truth": [{"name": "email_delete_email", "arguments": "[]"}]}})
    with pytest.raises(DataError, match="Cannot read"):
        gym.make("gym_llm/WorkplaceAssistant-v0", data_dir=str(tmp_path))


def test_tables_are_read_from_a_folder(tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_VARIABLE, tables)
    env = gym.make("gym_llm/WorkplaceAssistant-v0").unwrapped
    env.reset(options={"task": task(SEND, office_seed=None)})
    assert env.episode.state.data.tables == OFFICE.tables and env.episode.state.data.directory == OFFICE.directory
    again = pickle.loads(pickle.dumps(env))
    for copy in (env, again):
        copy.step([function_call(*SEND)])
        assert copy.step(message("Done."))[1] == 1.0


def test_nothing_that_a_model_calls_costs_much() -> None:
    env = gym.make("gym_llm/WorkplaceAssistant-v0").unwrapped
    env.reset(options={"task": task()})
    body = ("email_send_email", {"recipient": "a@b.c", "subject": "x" * 19_000, "body": "y" * 900_000})
    assert cpu_seconds(env.step, [function_call(*body)]) < 1.0
    words = " ".join(f"{number}" for number in range(100_000))
    assert cpu_seconds(env.step, [function_call("email_search_emails", {"query": words})]) < 1.0
    assert len(env.episode.state.emails.rows) == 300
    many = [function_call("email_search_emails", {"page_size": 300}, f"c{i}") for i in range(100)]
    observation, *_ = env.step(many)
    said = outputs(observation)
    assert sum(map(len, said)) < 2_000_000 and "searched too much" in said[-1]
    address = {"assigned_to_email": "a@" + "a." * 450}
    assert cpu_seconds(env.step, [function_call("project_management_search_tasks", address)]) < 1.0


def test_the_generator_works_in_any_tables(tables: str) -> None:
    env = gym.make("gym_llm/WorkplaceAssistant-v0", data_dir=tables).unwrapped
    made = env.generate(np.random.default_rng(4))
    assert (
        "office_seed" not in made and gym.make("gym_llm/WorkplaceAssistant-v0", data_dir=tables, tasks=[made]).reset()
    )


def test_recorded_episodes_score_as_recorded(nemo_gyms_tables: str) -> None:
    if not nemo_gyms_tables:
        pytest.skip(f"{DATA_VARIABLE} does not name NeMo Gym's tables")
    replay_all("workplace_assistant", env_kwargs={"data_dir": nemo_gyms_tables})
