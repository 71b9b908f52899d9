"""Replaying vectors: what is compared, what is skipped, and what the command says of it."""

import json

import pytest
from testing import function_call, message, row

from gym_llm.author.conform import judge_texts, replay_vector
from gym_llm.cli import main


def vector(server="mcqa", said="B", reward=1.0, **fields):
    task = row("Which?", options=[{"A": "Oslo"}, {"B": "Bergen"}], expected_answer="B")
    output = message(f"\\boxed{{{said}}}")
    return {"source": f"{server}/0", "task": task, "output": output, "reward": reward, "check": "derived", **fields}


def weather(city="Oslo", **fields):
    text = json.dumps({"city": city, "weather_description": f"The weather in {city} is cold."})
    output = [
        function_call("get_weather", {"city": "Oslo"}),
        {"type": "function_call_output", "call_id": "call_1", "output": text},
        *message("It is cold."),
    ]
    task = row("How is it in Oslo?", expected_city="Oslo")
    source = "example_single_tool_call/0"
    return {"source": source, "task": task, "output": output, "reward": 1.0, "check": "derived", **fields}


def differences(vector, **options):
    replayed = replay_vector(vector, **options)
    assert replayed.skipped is None
    return [(name, expected, got) for _, name, expected, got in replayed.disagreements]


def test_an_episode_that_scores_as_recorded_agrees():
    assert differences(vector(info={"extracted_answer": "B"})) == []
    assert differences(weather()) == []


def test_reward_and_reported_fields_are_compared_and_absent_ones_are_missing():
    wrong = vector(reward=0.0, info={"extracted_answer": "A", "mood": "fine", "judge_prompt": "x", "grading_time": 1})
    assert differences(wrong) == [("reward", 0.0, 1.0), ("extracted_answer", "A", "B")]
    assert replay_vector(wrong).missing == ["mood"]
    assert differences(vector(reward=1.0 + 1e-12)) == []


def test_outputs_of_tools_are_compared_as_json():
    [(name, expected, got)] = differences(weather("Rome"))
    assert name == "output of get_weather" and (expected["city"], got["city"]) == ("Rome", "Oslo")
    unknown = weather()
    unknown["output"][0]["name"] = "no_tool"
    assert [name for name, *_ in differences(unknown)] == ["reward"]  # what nobody has answers as it likes


def test_a_users_messages_are_compared():
    task = row("2 + 2?", follow_ups=["And 3 + 3?"], expected_answer="6")
    output = [*message("4"), {"type": "message", "role": "user", "content": "And 5 + 5?"}, *message("6")]
    asked = {"source": "example_multi_turn_gymnasium/0", "task": task, "output": output, "check": "derived"}
    expected = ("respond", ("user", "And 5 + 5?"), ("user", "And 3 + 3?"))
    assert expected in differences({**asked, "reward": 1.0})


def test_an_episode_that_goes_on_is_scored_where_its_record_ends():
    cut = weather()
    cut["output"] = cut["output"][:2]
    assert differences(cut) == []


def test_a_failing_episode_is_a_difference():
    [(name, _, said)] = differences(vector(task=row("Which?", options=[], expected_answer="B")))
    assert name == "episode" and "expected_answer" in said


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"server": "no_such_server"}, "no environment has this server's name"),
        ({"check": "stale"}, "its check is 'stale'"),
        ({"check": None}, "it has no check, such as 'reproduced'"),
        ({"check": "derived", "row_missing": True}, "its row is missing"),
        ({"output": [[]]}, "its output is no list of items"),
    ],
)
def test_what_cannot_be_compared_is_skipped_with_the_reason(fields, why):
    assert replay_vector(vector(**fields)).skipped == why


def test_all_checks_tries_what_need_not_come_out():
    assert differences(vector(check="stale"), all_checks=True) == []


def test_without_its_row_only_the_tools_answers_are_compared():
    task = {"responses_create_params": {"input": "How is it in Oslo?"}}
    rowless = {"task": task, "check": "not recomputed", "row_missing": True, "reward": -5.0}
    assert differences(weather(**rowless)) == []
    assert len(differences(weather("Rome", **rowless))) == 1


def test_the_judges_texts_are_found_where_they_are_recorded():
    response = {"output": [{"type": "reasoning"}, {"content": [{"text": "First"}, {"text": "CORRECT"}]}]}
    said = [{"text": "A"}, {"text": "B"}]
    assert judge_texts({"judge": said, "info": {"judge_output": "C"}}) == ["A", "B"]
    assert judge_texts({"info": {"judge_response": response}}) == ["CORRECT"]
    assert judge_texts({"info": {"judgement_gen_base": "1", "judgement_base_gen": "2"}}) == ["1", "2"]
    assert judge_texts({"info": {"rubric_evaluations": [{"judge_response": "x"}, {"judge_response": None}]}}) == ["x"]
    assert judge_texts({"info": {"judge_output": None}}) == []


def test_the_command_prints_differences_and_counts(tmp_path, capsys):
    file = tmp_path / "vectors.jsonl"
    vectors = [vector(), vector(reward=0.0, source="mcqa/1"), *[vector(server="no_such_server")] * 2]
    file.write_text("".join(json.dumps(vector) + "\n" for vector in vectors))
    assert main(["env", "conform", str(file)]) == 1
    printed = capsys.readouterr()
    difference, *counts = printed.err.splitlines()
    assert difference == "mcqa/1  reward: expected 0.0, got 1.0"
    assert counts == ["1 of 2 agree, of 1 servers; 2 skipped", "  2: no environment has this server's name"]
    assert json.loads(printed.out) == {
        "agreed": 1,
        "tried": 2,
        "servers": {"mcqa": {"agreed": 1, "tried": 2}},
        "missing": {},
        "skipped": {"no_such_server/0": "no environment has this server's name"},
    }


def refusal(capsys, *argv):
    """The sentence with which the command refuses."""
    assert main(["env", "conform", *map(str, argv)]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("gym-llm: ") and printed.err.count("\n") == 1, printed
    return printed.err


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "has no vectors."),
        (b"\n \n", "has no vectors."),
        (b"{}\n", "line 1: a vector has `source`, `task`, `output` and `reward`."),
        (b"\xff\x00\xfe\n", "line 1: not JSON"),
        (b"x" * (1 << 20), "line 1: not JSON"),
        (b"[" * (1 << 20), "line 1: not JSON"),
        *(
            (json.dumps(vector(**{name: value})).encode(), f"line 1: the `{name}` of a vector is {words}")
            for name, value, words in [
                ("source", 5, "a text, not 5."),
                ("task", None, "an object, not None."),
                ("reward", "high", "a number, not 'high'."),
                ("check", ["derived"], "a text, not ['derived']."),
                ("info", [1], "an object, not [1]."),
                ("options", "max_turns", "an object, not 'max_turns'."),
                ("judge", "A", "a list, not 'A'."),
                ("judge", [{"verdict": "A"}], "a list of objects with the `text` that it said."),
                ("recorded_input", [5], "a list of items."),
            ]
        ),
        (json.dumps(vector(options={"max_turns": -1})).encode(), "mcqa/0: max_turns is the number of model turns"),
    ],
)
def test_what_is_no_vector_is_refused_in_one_sentence(tmp_path, capsys, content, sentence):
    file = tmp_path / "vectors.jsonl"
    file.write_bytes(content)
    assert sentence in refusal(capsys, file)


def test_what_is_no_file_of_vectors_is_refused_in_one_sentence(tmp_path, capsys):
    file = tmp_path / "vectors.jsonl"
    assert "No such file" in refusal(capsys, file)
    assert "Is a directory" in refusal(capsys, tmp_path)
    file.write_text("")
    assert "has no rows" in refusal(capsys, "--rows", file)
    file.write_text(json.dumps(vector()) + "\n")
    for kwargs, sentence in (
        ("{", "--env-kwargs is not JSON"),
        ("[" * 100_000, "--env-kwargs is nested too deeply"),
        ("[1]", "--env-kwargs is a JSON object"),
        ('{"max_turn": 1}', "gym_llm/MultipleChoice-v0 has no argument 'max_turn'. Did you mean max_turns?"),
    ):
        assert sentence in refusal(capsys, file, "--env-kwargs", kwargs)


def test_a_vector_without_its_judges_texts_is_skipped(tmp_path, capsys):
    task = row("Which?", expected_answer="B")
    said = {"judge_evaluations": [{"response": {"output": [{"content": [{"text": "A"}]}]}}]}
    broken = [{"judge_evaluations": [5]}, {"rubric_evaluations": {"a": 1}}, {"judge_output": 5}, {}]
    infos = {f"simpleqa/{number}": info for number, info in enumerate([said, *broken])}
    file = tmp_path / "vectors.jsonl"
    file.write_text("".join(json.dumps(vector(source=name, task=task, info=i)) + "\n" for name, i in infos.items()))
    assert main(["env", "conform", str(file)]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["servers"] == {"simpleqa": {"agreed": 1, "tried": 1}}
    assert figures["skipped"] == dict.fromkeys(list(infos)[1:], "what its judge said was not recorded")


def test_rows_of_a_servers_data_are_tasks_or_not(tmp_path, capsys):
    file = tmp_path / "mcqa" / "data" / "example.jsonl"
    file.parent.mkdir(parents=True)
    rows = [vector()["task"], {"responses_create_params": {"input": "Which?"}}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["env", "conform", "--rows", str(file)]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith('mcqa/example.jsonl#1  row: expected "a task", got "expected_answer: Field required')
    assert json.loads(printed.out)["servers"] == {"mcqa": {"agreed": 1, "tried": 2}}


def test_rows_of_a_server_that_plays_in_a_checkout_are_skipped_with_the_reason(tmp_path, capsys):
    file = tmp_path / "indian_banking" / "data" / "example.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"responses_create_params": {"input": "Hello"}}) + "\n")
    assert main(["env", "conform", "--rows", str(file)]) == 0
    assert "plays the customer" in json.loads(capsys.readouterr().out)["skipped"]["indian_banking/example.jsonl#0"]
