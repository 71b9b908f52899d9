"""CitationIF: citations in each grammar, gate by gate."""

import gymnasium as gym
import pytest
from testing import cpu_seconds, function_call, message_item, row, scored
from verifier_vectors import replay_all

from gym_llm.envs.citation_if.env import CitationIF
from gym_llm.envs.citation_if.grading import GRAMMARS, is_simple, read_citations
from gym_llm.errors import DataError

ENV = "gym_llm/CitationIF-v0"
ONE, TWO, THREE = "citation_aa11", "citation_bb22", "citation_cc33"
FORMS = {
    "cite_xml": "<cite>{}</cite>",
    "ascii_brackets": "[{}]",
    "claim_wrap_xml": '(cite index="{}">so it is</cite>'.replace("(", "<"),
    "fullwidth_brackets": "【{}】",
    "ref_colon": "[ref:{}]",
    "double_angle": "<<{}>>",
    "web_brackets": "[web:{}]",
    "paren_part": "({})",
    "markdown_footnote": "[^{}]",
    "curly_double": "{{{{{}}}}}",
    "angle_pipe": "<ref|{}>",
}
every_grammar = pytest.mark.parametrize("grammar", FORMS)


def details(action, grammar="ascii_brackets", kwargs=None, **rules):
    rules = {"id_regex": "citation_[a-z0-9]{4}", "valid_id_set": [ONE, TWO]} | rules
    reward, info = scored(ENV, action, kwargs, verifier={"type": "citation_if", "grammar": grammar, **rules})
    assert reward == float(info["match_details"]["gate_failed"] is None)
    return info["match_details"]


def failed(action, grammar="ascii_brackets", **rules):
    return details(action, grammar, **rules)["gate_failed"]


def test_recorded_episodes_score_as_recorded():
    assert len(replay_all("citation_if")) >= 3


def test_all_grammars_are_tried_here():
    assert GRAMMARS.keys() == FORMS.keys()


@every_grammar
def test_a_citation_in_the_grammar_passes_every_gate(grammar):
    text = f"Yes {FORMS[grammar].format(ONE)}, and {FORMS[grammar].format(TWO)}."
    found = details(text, grammar, expected_ids=[TWO])
    assert found["gate_failed"] is None
    assert found["cited_ids"] == found["parsed_ids"] == found["valid_cited"] == [ONE, TWO]
    assert (found["num_valid_cited"], found["expected_ids"], found["missed_ids"]) == (2, [TWO], [])


@every_grammar
@pytest.mark.parametrize("other", FORMS)
def test_a_citation_in_another_grammar_does_not(grammar, other):
    text = f"Yes {FORMS[other].format(ONE)}."
    assert failed(text, grammar) == (None if grammar == other else "malformed_attempt")


@pytest.mark.parametrize("grammar", ["cite_xml", "claim_wrap_xml"])
def test_tags_may_cite_several(grammar):
    assert details("Yes " + FORMS[grammar].format(f"{ONE},{TWO}"), grammar)["parsed_ids"] == [ONE, TWO]
    assert failed("Yes " + FORMS[grammar].format(f"{ONE}, {TWO}"), grammar) == "malformed_attempt"
    assert failed(f"Yes [{ONE},{TWO}]") == "malformed_attempt"


def test_a_link_is_no_citation():
    assert failed(f"Yes [{ONE}](http://a)") == "malformed_attempt"


def test_a_claim_may_go_over_lines_but_not_be_blank():
    wrapped = FORMS["claim_wrap_xml"]
    assert failed(wrapped.format(ONE).replace("so it", "so\nit"), "claim_wrap_xml") is None
    assert failed("Yes " + wrapped.format(ONE).replace("so it is", " \n"), "claim_wrap_xml") == "malformed_attempt"
    assert details(wrapped.format(ONE).replace("so it is", ""), "claim_wrap_xml")["cited_ids"] == []


def test_ids_are_counted_once():
    found = details(f"Yes [{ONE}] [{ONE}]", expected_ids=[ONE], expected_slack=0)
    assert (found["gate_failed"], found["parsed_ids"], found["cited_ids"]) == (None, [ONE], [ONE])


@pytest.mark.parametrize("action", ["", " \n", [function_call("search")]])
def test_a_blank_answer_or_a_call_fails_structurally(action):
    found = details(action)
    assert (found["gate_failed"], found["structural_ok"]) == ("structural", False)
    assert found["function_call_count"] == int(action not in ("", " \n"))


def test_a_call_beside_an_answer_ends_the_episode_and_fails():
    action = [message_item(f"Yes [{ONE}]"), function_call("search"), function_call("search")]
    found = details(action)
    assert (found["gate_failed"], found["function_call_count"], found["cited_ids"]) == ("structural", 2, [])


def test_markup_alone_is_no_answer_but_a_wrapped_claim_is():
    assert failed(f"[{ONE}] ...") == "no_answer"
    assert failed(f"[{ONE}] 5") is None
    assert failed(FORMS["claim_wrap_xml"].format(ONE), "claim_wrap_xml") is None
    assert failed(FORMS["cite_xml"].format(ONE), "cite_xml") == "no_answer"


@pytest.mark.parametrize(
    "text",
    [
        f"Yes [{ONE}]. Sources: {TWO}",
        f"Yes [{ONE}], CITATION_1",
        f"Yes [{ONE}] [citation_1:snippet_2]",
        f"Yes [[{ONE}], ({TWO})",
    ],
)
def test_nothing_else_may_look_like_an_id(text):
    found = details(text)
    assert (found["gate_failed"], found["attempt_hits"], found["cited_ids"]) == ("malformed_attempt", True, [ONE])


@pytest.mark.parametrize("extra", ["<cite>", "</cite>", "<cite></cite>"])
@pytest.mark.parametrize("grammar", ["cite_xml", "claim_wrap_xml"])
def test_tags_need_a_partner(grammar, extra):
    assert failed(f"Yes {FORMS[grammar].format(ONE)} {extra}", grammar) == "malformed_attempt"


def test_other_grammars_do_not_look_at_tags():
    assert failed(f"Yes <cite> [{ONE}]") is None


def test_enough_different_valid_ids_have_to_be_cited():
    assert failed("Yes.") == "must_cite"
    assert failed(f"Yes [{THREE}]") == "must_cite"
    assert failed(f"Yes [{ONE}] [{ONE}]", min_valid_citations=2) == "must_cite"
    assert failed(f"Yes [{ONE}] [{TWO}]", min_valid_citations=2) is None
    assert failed("Yes.", min_valid_citations=0) is None


def test_only_what_was_found_may_be_cited():
    found = details(f"Yes [{ONE}] [{THREE}]")
    assert (found["gate_failed"], found["invalid_cited"]) == ("no_hallucination", [THREE])


def test_what_is_expected_has_to_be_cited_and_little_more():
    found = details(f"Yes [{TWO}]", expected_ids=[ONE])
    assert (found["gate_failed"], found["missed_ids"], found["over_cap"]) == ("correctness_missed_gold", [ONE], False)
    found = details(f"Yes [{ONE}] [{TWO}]", expected_ids=[ONE], expected_slack=0)
    assert (found["gate_failed"], found["over_cap"]) == ("correctness_over_cap", True)
    assert failed(f"Yes [{ONE}] [{TWO}]", expected_ids=[ONE]) is None


@pytest.mark.parametrize("grammar", [None, "ascii_brackets", "paren_part"])
@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("Yes [1].", None),
        ("", "structural"),
        (f"Yes [{ONE}]", "no_cite"),
        ("Yes, Citation_9", "no_cite"),
    ],
)
def test_nothing_may_be_cited_where_that_is_told(grammar, text, gate):
    assert failed(text, grammar, mode="no_cite") == gate


@pytest.mark.parametrize(("grammar", "gate"), [(None, "no_cite"), ("cite_xml", "no_cite"), ("paren_part", None)])
def test_where_nothing_may_be_cited_tags_are_citations_of_grammars_that_have_them(grammar, gate):
    assert failed("<CITE>Yes</cite>", grammar, mode="no_cite") == gate


def test_tags_have_partners_in_whatever_case():
    assert failed(f"Yes <cite>{ONE}</cite> </CITE>", "cite_xml") == "malformed_attempt"


def test_ids_are_cited_too_often_only_if_they_are_valid():
    found = details(f"Yes [{ONE}] [citation_zzzz]", expected_ids=[ONE], expected_slack=0)
    assert (found["gate_failed"], found["cited_ids"]) == ("no_hallucination", [ONE])


def test_ids_look_by_default_as_their_kind_says():
    assert failed("Yes [citation_12]", id_regex="", valid_id_set=["citation_12"]) is None
    snippet = {"id_kind": "snippet", "id_regex": "", "valid_id_set": ["citation_1:snippet_2"]}
    assert failed("Yes [citation_1:snippet_2]", **snippet) is None
    assert failed("Yes [citation_1]", **snippet) == "malformed_attempt"


@pytest.mark.parametrize("id_regex", ["citation_[a-z0-9]{4}:snippet_[0-9]+", "citation_[0-9]+", "doc-[a-z]{3}"])
def test_simple_ids_need_no_worker(id_regex):
    assert is_simple(id_regex)


@pytest.mark.parametrize(
    "id_regex", ["(a+)+", "citation_(?:a|b)", "a*a*a*", "[a-z]+[a-z]+", "ab+[c]+", r"citation_\d+"]
)
def test_others_do(id_regex):
    assert not is_simple(id_regex)


def test_a_pattern_that_backtracks_without_end_costs_the_reward():
    rules = {"id_regex": "(a|b|ab)*c", "valid_id_set": [ONE]}
    assert details("Yes [" + "ab" * 60 + "]", kwargs={"deadline": 0.2}, **rules)["gate_failed"] == "malformed_attempt"
    assert details("Yes [abc]", id_regex="(a|b|ab)*c", valid_id_set=["abc"])["gate_failed"] is None


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"grammar": "footnotes"}, "grammar is one of"),
        ({}, "grammar is missing"),
        ({"grammar": "paren_part", "id_regex": "("}, "not a regular expression"),
        ({"grammar": "paren_part", "mode": "some"}, "'cite' or 'no_cite'"),
        ({"grammar": "paren_part", "type": "regex"}, "citation_if"),
    ],
)
def test_a_wrong_row_is_refused(rules, words):
    with pytest.raises(DataError, match=words):
        CitationIF([row(verifier=rules)])


def test_a_deadline_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="deadline"):
        gym.make(ENV, deadline=-1)


@every_grammar
@pytest.mark.parametrize("unit", ["{}", "{},", "citation_", "<", "[[", "((", "<cite>", '(cite index="citation_1">a'])
def test_a_hostile_megabyte_costs_little(grammar, unit):
    unit = unit.replace("(cite", "<cite").replace("{}", FORMS[grammar].format("citation_1"))
    text = unit * (1_000_000 // len(unit))
    assert cpu_seconds(read_citations, (grammar, "citation_[0-9]+", text)) < 0.5
