"""StructEval: what is taken out of an answer, and which paths are in it."""

import gymnasium as gym
import pytest
from testing import cpu_seconds, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.structeval.env import StructEval
from gym_llm.envs.structeval.grading import code_as_nemo_gym, code_of, has_path, steps_of
from gym_llm.errors import DataError

ENV = "gym_llm/StructEval-v0"


def score(text, kind="json", paths=("a", "b.c"), **kwargs):
    return scored(ENV, text, kwargs, output_type=kind, raw_output_metric=list(paths))


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("structeval")) >= 3


@pytest.mark.parametrize(
    ("text", "kind", "reward"),
    [
        ('{"a": 1, "b": {"c": null}}', "json", 1.0),
        ('{"a": 1, "b": {}}', "JSON", 0.6),
        ('{"x": 1}', "json", 0.2),
        ('{"a": 1', "json", 0.0),
        ("{}", "json", 0.0),
        ("a: 1\nb: {c: 2}", "Yaml", 1.0),
        ("a = 1\n[b]\nc = 2", "toml", 1.0),
        ("<r><a>1</a></r>", "xml", 0.2),
        ("a,b\n1,2", "csv", 0.2),
        ("a", "html", 0.0),
        ("", "json", 0.0),
    ],
)
def test_the_reward_is_a_fifth_for_parsing_and_the_rest_for_the_paths(text, kind, reward):
    assert score(text, kind)[0] == reward


def test_what_is_reported():
    _, info = score('{"A": 1, "b": {"c": 1}}')
    assert (info["render_score"], info["key_validation_score"], info["raw_output_score"]) == (1.0, 0.5, 0.5)
    assert (info["error_type"], info["error_message"]) == (None, None)
    _, info = score("{")
    assert (info["render_score"], info["error_type"]) == (0.0, "parse_error")
    assert info["error_message"].startswith("JSONDecodeError: ")
    assert score("[]")[1]["error_message"] == "Parsed result is empty"
    assert score("")[1]["error_type"] == "empty_response"
    assert score("x", "html")[1]["error_type"] == "unsupported_type"


def test_without_paths_there_is_a_fifth_at_most():
    assert score('{"a": 1}', paths=())[0] == 0.2


def test_a_third_of_the_paths_is_rounded():
    assert score('{"a": 1}', paths=("a", "b", "c"))[0] == 0.47


def test_columns_are_paths_of_csv():
    paths = ("csv::a", "csv::b", "csv::c")
    _, info = score("a,b\n", "csv", paths)
    assert (info["render_score"], round(info["key_validation_score"], 3)) == (1.0, 0.667)
    assert not has_path({"csv_headers": ["a"]}, ("csv::a", "b"))
    assert not has_path({"a": 1}, ("csv::a",))


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("a", True),
        ("a[0].b", True),
        ("a.[1].b", False),
        ("a[2]", False),
        ("a[-1]", False),
        ("a[x]", False),
        ("a.*.c", True),
        ("a.*.d", False),
        ("*", False),
        ("`x.y`", True),
        ("x.y", False),
        ("e.@id", True),
        ("e.@k", True),
        ("e.@n", False),
        ("a.b", False),
        ("", True),
    ],
)
def test_paths(path, there):
    value = {"a": [{"b": 1}, {"c": 2}], "x.y": 0, "e": {"@id": "1", "k": 2}}
    assert has_path(value, steps_of(path)) is there


@pytest.mark.parametrize(
    ("text", "here", "nemo"),
    [
        ("a: 1", "a: 1", "a: 1"),
        (" <|BEGIN_CODE|>\na: 1\n<|END_CODE|> as you see", "a: 1", "a: 1"),
        ("<|begin_code|> a: 1", "a: 1", "a: 1"),
        ("So:\n```yaml\na: 1\n```\nor\n```\nb\n```", "a: 1", "a: 1"),
        ("```\na: 1", "a: 1", "a: 1"),
        ("``` a: 1", "``` a: 1", "``` a: 1"),
        ("<|BEGIN_CODE|>a: 1<|END_CODE|>\n```\nb\n```", "a: 1", "b"),
        ("<|BEGIN_CODE|>```yaml\na: 1\n```<|END_CODE|>", "a: 1", "a: 1"),
        ("<think>\n\n</think>\n\na: 1", "a: 1", "a: 1"),
        ("<think>b: 2</think>a: 1", "a: 1", "<think>b: 2</think>a: 1"),
        ("a: &lt;b&gt;", "a: &lt;b&gt;", "a: <b>"),
        ("é", "é", "Ã©"),
        (r'{"a": "x\ny"}', r'{"a": "x\ny"}', '{"a": "x\ny"}'),
        ("a\\", "a\\", "a\\"),
        (r"\d", r"\d", r"\d"),
    ],
)
def test_what_is_taken_out_of_an_answer(text, here, nemo):
    assert (code_of(text), code_as_nemo_gym(text)) == (here, nemo)


def test_escapes_in_json_are_jsons_but_not_in_nemo_gym():
    text = r'{"a": "x\ny", "b": {"c": "\"é\""}}'
    assert (score(text)[0], score(text, conform="nemo")[0]) == (1.0, 0.0)


def test_yaml_is_read_as_nemo_gym_does():
    text = "a:\t1\nb:\n  c: 2"
    assert (score(text, "yaml")[0], score(text, "yaml", conform="nemo")[0]) == (1.0, 0.0)
    info = score("a: `x", "yaml", conform="nemo")[1]
    assert info["error_message"].startswith("ScannerError: while scanning for the next token\nfound character '`'")


def test_a_long_answer_is_scored_in_a_worker():
    assert score('{"a": [' + "1," * 20_000 + '1], "b": {"c": 1}}')[0] == 1.0


@pytest.mark.parametrize("fields", [{"output_type": "json"}, {"output_type": "json", "raw_output_metric": ["a[0"]}])
def test_a_wrong_row_is_refused(fields):
    with pytest.raises(DataError, match="raw_output_metric"):
        StructEval([row(**fields)])


def test_arguments_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="deadline"):
        gym.make(ENV, deadline=0)


@pytest.mark.parametrize("kind", ["json", "yaml", "xml", "toml", "csv", "html"])
@pytest.mark.parametrize("unit", ["```", "[", "- ", "<a>", "a.", "<|BEGIN_CODE|>"])
def test_a_hostile_megabyte_costs_the_loop_little(kind, unit):
    text = unit * (1_000_000 // len(unit))
    assert cpu_seconds(lambda: score(text, kind, deadline=0.1)) < 0.5
    assert cpu_seconds(code_of, text) + cpu_seconds(code_as_nemo_gym, text) < 1.0
