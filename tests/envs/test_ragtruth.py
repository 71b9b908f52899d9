"""RAGTruth: which answers list a hallucination."""

import gymnasium as gym
import pytest
from testing import cpu_seconds, scored
from verifier_vectors import replay_all

from gym_llm.envs.ragtruth.env import parsed, unfenced
from gym_llm.tokens.parsers.thinking import without_tagged

LISTED, NONE = '{"hallucination list": ["1889"]}', '{"hallucination list": []}'


def score(text, is_halu, **kwargs):
    return scored("gym_llm/RAGTruth-v0", text, kwargs, is_halu=is_halu)


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("ragtruth")) >= 3


@pytest.mark.parametrize(("text", "found"), [(LISTED, True), (NONE, False)])
@pytest.mark.parametrize("is_halu", [True, False])
def test_a_span_has_to_be_listed_exactly_where_there_is_one(text, found, is_halu):
    reward, info = score(text, is_halu)
    assert reward == float(found == is_halu)
    assert (info["is_halu"], info["pred_halu"], info["parse_fail"]) == (int(is_halu), int(found), 0)
    assert info["extracted"] == ('["1889"]' if found else "[]")


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{LISTED}\n```",
        f"```\n{LISTED}```",
        f"```JSON{LISTED} ```",
        f"I say:\n```json\n{LISTED}\n```\nand ```no``` more",
        f"<think>\n{NONE}</think>{LISTED}",
        f"<THINK>a</Think>{LISTED}<think>",
        f"no tag opened {NONE}</think> {LISTED}",
        f"  {LISTED}\n",
    ],
)
def test_fences_and_thinking_are_passed_over(text):
    assert score(text, True)[0] == 1.0


@pytest.mark.parametrize(
    "text", ["", "none", f"{LISTED} is it", "[1]", f"``````{LISTED}", '{"Hallucination List": ["a"]}', f"<b>{LISTED}"]
)
def test_what_is_no_list_is_wrong_whatever_is_right(text):
    assert score(text, True)[0] == score(text, False)[0] == 0.0
    assert score(text, True)[1]["parse_fail"] == 1


def test_it_may_be_taken_for_no_hallucination():
    assert score("", False, unparsed="no")[0] == score("", False, conform="nemo")[0] == 1.0
    assert score("", False, conform="nemo", unparsed="wrong")[0] == 0.0


def test_an_object_without_the_list_is_a_failure_but_not_in_nemo_gym():
    assert score("{}", False) == (0.0, score("{}", False)[1])
    reward, info = score("{}", False, conform="nemo", unparsed="wrong")
    assert (reward, info["parse_fail"], info["extracted"]) == (1.0, 0, "")


@pytest.mark.parametrize("span", ['""', "null", '"  "', "{}"])
def test_a_blank_span_is_no_hallucination_but_is_one_in_nemo_gym(span):
    text = f'{{"hallucination list": [{span}]}}'
    assert (score(text, False)[0], score(text, False, conform="nemo")[0]) == (1.0, 0.0)


def test_another_tag_may_be_passed_over():
    assert score(f"<plan.x>{NONE}</plan.x>{LISTED}", True, think_tag="plan.x")[0] == 1.0


def test_the_list_is_shown_up_to_500_characters():
    _, info = score('{"hallucination list": ["é' + "a" * 900 + '"]}', True)
    assert info["extracted"] == '["é' + "a" * 497


def test_numbers_that_json_does_not_have_are_read():
    reward, info = score('{"hallucination list": [NaN, 12345678901234567890123]}', True)
    assert (reward, info["extracted"]) == (1.0, "[NaN, 12345678901234567890123]")


@pytest.mark.parametrize("kwargs", [{"think_tag": ""}, {"unparsed": "maybe"}, {"conform": "nvidia"}])
def test_arguments_that_make_no_sense_are_refused(kwargs):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        gym.make("gym_llm/RAGTruth-v0", **kwargs)


@pytest.mark.parametrize(
    "text",
    [
        "<think>" * 140_000,
        "<think></think>" * 66_000,
        "</think>" * 125_000,
        "```" * 333_000,
        '{"hallucination list": ' + "[" * 1_000_000,
        '{"hallucination list": [' + '"a",' * 250_000 + '"b"]}',
        "{" * 1_000_000,
    ],
    ids=["opened", "pairs", "closed", "fences", "deep", "long", "braces"],
)
def test_a_hostile_megabyte_costs_little(text):
    assert cpu_seconds(lambda: parsed(unfenced(without_tagged(text, "think")))) < 0.5
    score(text, False)
