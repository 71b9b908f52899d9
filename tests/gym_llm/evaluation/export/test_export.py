"""Rollout files in other tools' formats, read back."""

import importlib.util
import json
import subprocess
import sys
from typing import get_args

import pytest
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter
from random_talk import play
from testing import function_call, message_item, outcome_fields, wait_for
from typer.testing import CliRunner

import gym_llm.cli
from gym_llm.data import dumps
from gym_llm.errors import DataError, UsageError
from gym_llm.evaluation.export import FORMATS
from gym_llm.evaluation.export.atif import trajectory
from gym_llm.evaluation.export.formats import export
from gym_llm.evaluation.export.record_conversation import conversation
from gym_llm.records.record import lost_record
from gym_llm.utils.json_codec import dumps_record

USER = {"type": "message", "role": "user", "content": "Go."}


def record(*output, reward=1.0, **fields):
    return {
        "rollout_id": {"task_index": 0, "repeat_index": 0},
        "env_id": "gym_llm/Weather-v0",
        "responses_create_params": {"input": [USER]},
        "response": {"output": list(output), "usage": None, "model": "m"},
        **outcome_fields(reward),
        "info": {"turn": 1, "tool_errors": 0},
        "trajectory": None,
        "timing": {"total": 1.0},
        "schema_version": 2,
        **fields,
    }


@pytest.fixture
def write(tmp_path):
    def written(*records):
        path = tmp_path / "runs.jsonl"
        path.write_bytes(b"".join(dumps_record(one) for one in records))
        return path

    return written


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """A file of random episodes with tools, several segments and masked ones; and its records."""
    records = play(60)
    path = tmp_path_factory.mktemp("talk") / "talk.jsonl"
    path.write_bytes(b"".join(map(dumps_record, records)))
    return path, records


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


# -- chats -----------------------------------------------------------------------------------------------------------


def fit(one):
    chat = conversation(one)["messages"]
    said = [message for message in chat if message["role"] == "assistant"]
    is_whole = all(message.get("content") or message.get("tool_calls") for message in said)
    return one["reward"] is not None and chat[-1]["role"] == "assistant" and is_whole


def test_chats_are_openais_and_hold_no_masked_episode(talk, tmp_path):
    path, records = talk
    done = export(path, "openai-chat", tmp_path / "chats.jsonl", reasoning=True)
    scored = [one for one in records if one["reward"] is not None]
    whole = [one for one in scored if fit(one)]
    assert (done.episodes, done.masked) == (len(whole), len(records) - len(scored))
    assert done.unsayable == len(scored) - len(whole)
    chats = lines(done.output)
    assert chats == [conversation(one) for one in whole]
    checked = TypeAdapter(list[ChatCompletionMessageParam])
    for chat in chats:
        checked.validate_python(chat["messages"])
        assert chat["messages"][0]["role"] == "user" and chat["tools"][0]["function"]["name"] == "look"


THOUGHT = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}


def test_chats_for_fine_tuning_have_openais_fields_alone(write, tmp_path):
    answered = {"type": "function_call_output", "call_id": "call_1", "output": "7"}
    path = write(
        record(THOUGHT, function_call("look"), answered, message_item("7")),
        record(THOUGHT, function_call("look")),
        record(THOUGHT, function_call("look"), answered),
        record(THOUGHT),
        record(),
    )
    done = export(path, "openai-chat", tmp_path / "chats.jsonl")
    assert (done.episodes, done.unsayable) == (2, 3) and "answer of the model" in done.reason
    known = {kind.__name__: set(kind.__annotations__) for kind in get_args(ChatCompletionMessageParam)}
    for chat in lines(done.output):
        for message in chat["messages"]:
            (kind,) = (name for name in known if f"{message['role'].title()}Message" in name)
            assert message.keys() <= known[kind]
    kept = export(path, "openai-chat", tmp_path / "kept.jsonl", reasoning=True)
    assert [chat["messages"][1]["reasoning_content"] for chat in lines(kept.output)] == ["Hm.", "Hm."]
    with pytest.raises(UsageError, match="only openai-chat"):
        export(path, "atif", tmp_path / "x.jsonl", reasoning=True)


def test_what_earned_less_is_left_out_and_counted(write, tmp_path):
    path = write(record(message_item("a"), reward=0.5), record(message_item("b")), record(reward=None))
    done = export(path, "parquet", tmp_path / "x.parquet", min_reward=0.75)
    assert (done.episodes, done.below, done.masked) == (1, 1, 1)


def test_what_a_chat_has_no_words_for_is_left_out_with_its_reason(write, tmp_path):
    path = write(record({"type": "computer_call", "id": "x"}), record(message_item("b")))
    done = export(path, "openai-chat", tmp_path / "x.jsonl")
    assert (done.episodes, done.unsayable) == (1, 1) and "computer_call" in done.reason


# -- ATIF ------------------------------------------------------------------------------------------------------------


def test_a_turn_is_a_step_with_its_tokens_and_the_tools_answers():
    tokens = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.5]}
    answered = {"type": "function_call_output", "call_id": "c1", "output": "cold"}
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    turn = [thought, message_item("I look."), {**function_call("look", {"at": "it"}, "c1"), **tokens}]
    document = trajectory(record(*turn, answered, message_item("Cold."), {**USER, "content": "Sure?"}))
    user, step, last, again = document["steps"]
    assert (user["source"], user["message"], again["message"]) == ("user", "Go.", "Sure?")
    assert step["reasoning_content"] == "Hm." and step["message"] == "I look."
    assert step["tool_calls"] == [{"tool_call_id": "c1", "function_name": "look", "arguments": {"at": "it"}}]
    assert step["observation"] == {"results": [{"content": "cold", "source_call_id": "c1"}]}
    assert step["metrics"] == {
        "prompt_tokens": 2,
        "completion_tokens": 1,
        "prompt_token_ids": [1, 2],
        "completion_token_ids": [3],
        "logprobs": [-0.5],
    }
    assert last["message"] == "Cold." and "metrics" not in last
    assert document["extra"]["reward"] == 1.0 and document["agent"]["model_name"] == "m"


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", "", "\ud800"])
def test_arguments_that_are_no_object_are_kept_as_they_were_written(arguments):
    (_, step) = trajectory(record(function_call("look", arguments)))["steps"]
    assert step["tool_calls"][0]["arguments"] == {} and step["tool_calls"][0]["extra"] == {"arguments": arguments}


def test_tasks_of_two_datasets_are_two_files_inside_the_folder(write, tmp_path):
    path = write(*(record(message_item("a"), dataset=name) for name in ("a/b", "../x", "a_b")))
    export(path, "atif", tmp_path / "all")
    assert sorted(file.name for file in (tmp_path / "all").iterdir()) == [
        "..%2Fx-0-0.json",
        "a%2Fb-0-0.json",
        "a_b-0-0.json",
    ]


def test_a_folder_has_a_file_for_each_episode(talk, tmp_path):
    path, records = talk
    export(path, "atif", tmp_path / "all")
    assert len(list((tmp_path / "all").glob("*.json"))) == len(records)


@pytest.mark.parametrize("to", ["atif", "hf"])
def test_a_folder_appears_whole_whenever_the_export_is_killed(write, tmp_path, to):
    if to == "hf":
        pytest.importorskip("pyarrow")
    path = write(
        *(record(message_item("a" * 2000), rollout_id={"task_index": n, "repeat_index": 0}) for n in range(4000))
    )
    argv = [sys.executable, "-m", "gym_llm.cli", "export", str(path), "--to", to, "--output", str(tmp_path / "all")]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: any((tmp_path / ".all.tmp").glob("*")))
    process.kill()
    process.wait()
    assert not (tmp_path / "all").exists()
    done = export(path, to, tmp_path / "all")
    assert done.episodes == 4000
    assert [place.name for place in tmp_path.iterdir() if place.name.startswith(".")] == []


def test_a_folder_that_has_files_keeps_them(write, tmp_path):
    path = write(record(message_item("new")))
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "mine.txt").write_text("mine")
    (tmp_path / "all" / "0-0.json").write_text("old")
    export(path, "atif", tmp_path / "all")
    assert (tmp_path / "all" / "mine.txt").read_text() == "mine"
    assert "new" in (tmp_path / "all" / "0-0.json").read_text()


def test_an_export_that_fails_leaves_nothing(write, tmp_path):
    path = write(record(message_item("a")))
    with path.open("ab") as file:
        file.write(b"not a record\n")
    with pytest.raises(DataError):
        export(path, "atif", tmp_path / "all")
    assert [place.name for place in tmp_path.iterdir()] == ["runs.jsonl"]


def test_an_episode_of_which_nothing_is_left_is_a_trajectory_that_says_why(write, tmp_path):
    path = write(lost_record("gym_llm/Weather-v0", (3, 1), "The process died."))
    export(path, "atif", tmp_path / "x.jsonl")
    (document,) = lines(tmp_path / "x.jsonl")
    assert document["trajectory_id"] == "3-1" and document["steps"][0]["message"] == "The process died."


# -- tables ----------------------------------------------------------------------------------------------------------


def test_parquet_has_every_token_and_null_for_a_masked_reward(talk, tmp_path):
    import pyarrow.parquet

    path, records = talk
    export(path, "parquet", tmp_path / "t.parquet")
    rows = pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pylist()
    unconstrained = [
        [{**segment, "constrained": None, "weight_versions": None} for segment in one["trajectory"]] for one in records
    ]
    assert [row["segments"] for row in rows] == unconstrained
    assert [row["reward"] for row in rows] == [one["reward"] for one in records]
    assert [json.loads(row["task"])["number"] for row in rows] == list(range(60))


def test_parquet_says_what_sampled_the_ids(write, tmp_path):
    import pyarrow.parquet

    segment = {"input_ids": [5, 6, 7], "loss_mask": [0, 1, 1], "logprobs": [0.0, -0.5, -0.1], "constrained": [0, 0, 1]}
    segment["weight_versions"] = [0, 3, 4]
    path = write(record(message_item("a"), trajectory=[segment]))
    export(path, "parquet", tmp_path / "t.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pylist()[0]["segments"] == [segment]


def test_datasets_loads_the_folder(talk, tmp_path):
    from datasets import load_dataset

    path, records = talk
    export(path, "hf", tmp_path / "talk-hf")
    loaded = load_dataset(str(tmp_path / "talk-hf"), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded["reward"] == [one["reward"] for one in records]
    assert loaded[0]["messages"][0]["content"] == "Go 0."


def test_an_empty_folder_can_be_loaded_too(write, tmp_path):
    export(write(record(reward=None)), "hf", tmp_path / "none", drop_masked=True)
    assert [file.name for file in (tmp_path / "none" / "data").iterdir()] == ["train-00000.parquet"]


# -- groups ----------------------------------------------------------------------------------------------------------


def test_a_tasks_episodes_are_one_group_for_atropos(write, tmp_path):
    tokens = {"input_ids": [1, 2], "loss_mask": [0, 1], "logprobs": [0.0, -0.5]}
    places = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0)]
    records = [
        record(
            message_item("a"),
            reward=None if task == 2 else float(repeat),
            rollout_id={"task_index": task, "repeat_index": repeat},
            trajectory=[tokens],
        )
        for task, repeat in places
    ]
    done = export(write(*records), "atropos", tmp_path / "x.jsonl")
    groups = lines(tmp_path / "x.jsonl")
    assert done.episodes == 5 and [group["scores"] for group in groups] == [[0.0, 1.0]] * 2
    assert groups[0]["masks"] == [[-100, 2]] * 2


# -- the command and what is wrong -----------------------------------------------------------------------------------


def test_the_command_says_what_it_wrote_and_what_it_left_out(write):
    path = write(record(message_item("a")), record(reward=None))
    result = CliRunner().invoke(gym_llm.cli.app, ["export", str(path), "--to", "openai-chat"])
    assert result.exit_code == 0, result.output
    assert "1 episodes" in result.output and "left out: 1 (masked)" in result.output
    assert path.with_name("runs.chat.jsonl").exists()


def test_every_format_is_named_in_the_commands_help():
    result = CliRunner().invoke(gym_llm.cli.app, ["export", "--help"])
    assert [form for form in FORMATS if form not in result.output] == []


def test_a_format_whose_package_is_missing_says_how_to_install_it(write):
    if importlib.util.find_spec("inspect_ai"):
        pytest.skip("Inspect is installed here")
    with pytest.raises(UsageError, match=r"The format inspect needs inspect_ai: pip install .*\[inspect\]"):
        export(write(record()), "inspect")


def test_what_a_user_gives_wrong_is_said_at_once(write, tmp_path):
    path = write(record())
    with pytest.raises(UsageError, match="There is no format 'parket'"):
        export(path, "parket")
    with pytest.raises(UsageError, match="is the file that is read"):
        export(path, "openai-chat", path)
    assert path.read_bytes() == dumps(record())
