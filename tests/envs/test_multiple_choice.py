"""MultipleChoice: what each grading mode reads from a text."""

import json
import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env
from testing import cpu_seconds
from verifier_vectors import replay_all

import gym_llm  # noqa: F401 - registers the ids
from gym_llm.envs.multiple_choice.grading import GradingMode, chosen_option, extract_answer
from gym_llm.envs.multiple_choice.nemo_gym import extract_answer_as_nemo_gym
from gym_llm.errors import DataError
from gym_llm.grading.choices import Options

VECTORS = Path(os.environ.get("GYM_LLM_VECTORS") or Path(__file__).parents[3] / "shared" / "vectors")
CITIES = [{"A": "Oslo"}, {"B": "Bergen"}, {"C": "New  York"}, {"D": "A and B"}, {"E": None}]


def row(**fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "Where?"}, "options": CITIES, "expected_answer": "B"} | fields


def play(text: str, kwargs: dict[str, Any] | None = None, **fields: Any) -> tuple[float, str | None]:
    """(reward, extracted answer) of an episode in which the model says `text`."""
    env = gym.make("gym_llm/MultipleChoice-v0", **(kwargs or {}))
    env.reset(options={"task": row(**fields)})
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    _, reward, terminated, _, info = env.step([message])
    assert terminated
    return float(reward), info["extracted_answer"]


def choose(text: str, mode: GradingMode) -> str | None:
    return extract_answer(text, Options.read(CITIES), mode)


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        (r"\boxed{B}", "B"),
        (r"\boxed{ [B] }", "B"),
        (r"\boxed{(B)}", "B"),
        (r"\boxed{\text{B}}", "B"),
        (r"\boxed{\text{ \text{B} }}", "B"),
        (r"\boxed{\text{B: Bergen}}", "B"),
        (r"\boxed{B: \text{Bergen}}", "B"),
        (r"\boxed{B) Bergen}", "B"),
        (r"\boxed{B. Bergen}", "B"),
        (r"\boxed{B - Bergen}", "B"),
        (r"\boxed{A} no: \boxed{B}", "B"),
        (r"\boxed{B} or rather \boxed{A", "B"),
        (r"\boxed{\text{an idea}} \boxed{B}", "B"),
        (r"\boxed{B} \boxed{\text{an idea}}", None),
        (r"\boxed{b}", None),
        (r"\boxed{E}", None),
        (r"\boxed{F}", None),
        (r"\boxed{AB}", None),
        (r"\boxed{A, B}", None),
        (r"\boxed{A polygenic score}", None),
        (r"\boxed{Bergen}", None),
        (r"\boxed{}", None),
        (r"\boxed{B", None),
        ("B", None),
        ("", None),
    ],
)
def test_strict_reads_a_capital_letter_in_the_last_box(text: str, letter: str | None) -> None:
    assert choose(text, "strict_single_letter_boxed") == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        (r"\boxed{B}", "B"),
        (r"\boxed{Bergen}", "B"),
        (r"\boxed{\text{bergen}}", "B"),
        (r"\boxed{the city of NEW YORK}", "C"),
        (r"\boxed{Oslo or Bergen}", None),
        *(
            (text, None)
            for text in (r"\boxed{A} or \boxed{B}", r"\boxed{A: Bergen}", r"\boxed{Oslo?}", r"\boxed{less Oslo}")
        ),
        (r"\boxed{Trondheim}", None),
        ("Bergen", None),
    ],
)
def test_lenient_boxed_reads_the_one_option_in_the_box(text: str, letter: str | None) -> None:
    assert choose(text, "lenient_boxed") == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("Answer: B", "B"),
        ("answer : b", "B"),
        ("Answer:\nB", "B"),
        (r"Answer: \text{B}", "B"),
        ("Answer: bergen", "B"),
        ("Answer: new york", "C"),
        ("Answer: A and B", "D"),
        ("Answer: A\nAnswer: B", "B"),
        ("Answer: B\nAnswer: A or C", None),
        ("**Answer: B**", "B"),
        ("Answer: $B$", "B"),
        ("Answer: (B).", "B"),
        ("Answer: B. Bergen", "B"),
        ("Answer: B, because it rains", None),
        ("Answer: ب", "B"),
        ("Answer: ব", "B"),
        ("Answer： Ｂ", "B"),
        ("Answer: A or B", None),
        ("Answer: F", None),
        ("Answer: E", None),
        ("The answer is B", None),
        ("Answer:", None),
    ],
)
def test_lenient_answer_colon_reads_a_letter_or_a_text(text: str, letter: str | None) -> None:
    assert choose(text, "lenient_answer_colon") == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("Answer: B", "B"),
        ("**Answer:** B", "B"),
        ("**Answer: B**", "B"),
        ("Answer: **B**", "B"),
        ("__Answer__: B", "B"),
        ("Answer: (B)", "B"),
        ("Answer: $B$", "B"),
        ("Answer: B.", "B"),
        ("Answer: B/B", "B"),
        ("Answer: B because C is too far", "B"),
        (r"\boxed{\text{Answer: B}}", "B"),
        ("**Answer: Bergen**", "B"),
        ("**Answer: A and B**", "D"),
        ("Answer: **ب**", "B"),
        ("Answer: （Ｂ）", "B"),
        ("Answer: A\n**Answer: B**", "B"),
        ("Answer: B\nAnswer: A/B/C", None),
        ("Answer: B\nAnswer: unknown", None),
        (r"So it is \boxed{B}.", "B"),
        ("The answer is (B).", "B"),
        ("Answer: A or B", None),
        ("Answer: A, B", None),
        ("Answer: A/B", None),
        ("Answer: B and C", None),
        ("Answer: F", None),
        ("Answer: الجواب", None),
        ("I think it is B", None),
    ],
)
def test_lenient_answer_colon_md_sees_through_markdown(text: str, letter: str | None) -> None:
    assert choose(text, "lenient_answer_colon_md") == letter


@pytest.mark.parametrize(
    ("regex", "text", "letter"),
    [
        (r"Selected:\s*([A-Z])", "Selected: A, no, selected: b", "B"),
        (r"Choice: [A-Z]", "Choice: B", "B"),
        (r"\b[BC]\b", "It is B", "B"),
        (r"x=(\w)|y=(\w)", "y=B", "B"),
        (r"city: (.+)", "City: BERGEN", "B"),
        (r"الإجابة:\s*([أ-د])", "الإجابة: ب", "B"),
        ([r"Answer\s*:\s*(\w)", r"Antwort\s*:\s*(\w)"], "Antwort: B", "B"),
        ([r"Answer\s*:\s*(\w)", r"Antwort\s*:\s*(\w)"], "Answer: F Antwort: B", "B"),
        (r"Selected: (\w)", r"\boxed{B}", "B"),
        (r"Selected: (\w)", r"Selected: **B**", "B"),
        (r"Selected: (\w)", r"Selected: \text{B}", "B"),
        (r"(a+)+$", "a" * 60 + r"! \boxed{B}", "B"),
    ],
)
def test_output_regex_is_tried_first(regex: str | list[str], text: str, letter: str | None) -> None:
    assert play(text, template_metadata={"output_regex": regex})[1] == letter


@pytest.mark.parametrize("mode", ["strict_single_letter_boxed", "lenient_answer_colon_md"])
def test_what_is_thought_is_no_answer(mode: GradingMode) -> None:
    said = r"Answer: \boxed{B}"
    assert play(f"<think>{said}</think> I do not know.", grading_mode=mode)[1] is None
    assert play(f"<think>{said}", grading_mode=mode)[1] is None
    assert play(f"<think>A?</think> {said}", grading_mode=mode)[1] == "B"


def test_output_regex_needs_no_options() -> None:
    assert play("Selected: b", options=[], template_metadata={"output_regex": r"Selected: (\w)"}) == (1.0, "B")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"expected_answer": "F"}, "expected_answer 'F' is not the letter of an option"),
        ({"expected_answer": "E"}, "expected_answer 'E' is not the letter of an option"),
        ({"options": []}, "is not the letter of an option"),
        ({"grading_mode": "guess"}, "grading_mode"),
        ({"template_metadata": {"output_regex": "(["}}, "is not a regular expression"),
        ({"template_metadata": {"output_regex": ["a", "(["]}}, "is not a regular expression"),
    ],
)
def test_a_row_that_cannot_be_graded_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message.replace("(", r"\(")):
        gym.make("gym_llm/MultipleChoice-v0", tasks=[row(**fields)])


BOXED, LENIENT = "strict_single_letter_boxed", "lenient_boxed"
COLON, MARKDOWN = "lenient_answer_colon", "lenient_answer_colon_md"


@pytest.mark.parametrize(
    ("mode", "text", "ours", "nemo"),
    [
        (COLON, "Answer: A\nAnswer: B", "B", "A"),
        (COLON, "Answer: none\nAnswer: B", "B", None),
        (COLON, "Answer: ب", "B", None),
        (COLON, "Answer： B", "B", None),
        (COLON, "Answer: new york", "C", "C"),
        (COLON, r"Answer: \text{b}", "B", "B"),
        (COLON, "answer :\nb", "B", "B"),
        (MARKDOWN, "Answer: Bergen", "B", None),
        (MARKDOWN, "**Answer:** ب", "B", "B"),
        (MARKDOWN, "**Answer:** Ｂ", "B", "B"),
        (MARKDOWN, "**Answer** ： B", "B", "B"),
        (MARKDOWN, "Answer: B\nAnswer: A or C", None, "B"),
        (MARKDOWN, "Answer: not B", None, "B"),
        (MARKDOWN, r"\boxed{B}", "B", None),
        (BOXED, r"\boxed{\textbf{B}}", "B", None),
        (BOXED, r"\boxed{B-cells}", None, "B"),
        (LENIENT, r"\boxed{Bergenhus}", None, "B"),
        (MARKDOWN, "Answer: A Answer: B", "B", "A"),
        (MARKDOWN, "__Answer__: it is (B), surely", "B", "B"),
        (BOXED, r"\boxed {B}", "B", None),
        (BOXED, r"\boxed{\text {B}}", "B", None),
        (BOXED, r"\boxed{B} or \boxed{A", "B", None),
        (BOXED, r"\boxed{A} no: \boxed{\text{B: Bergen}}", "B", "B"),
        (BOXED, r"\boxed{A} \boxed{Ｂ}", "B", None),
        (LENIENT, r"\boxed{bergen} or \boxed{A", "B", None),
        (LENIENT, r"\boxed{the city of NEW YORK}", "C", "C"),
        (LENIENT, r"\boxed{Oslo or Bergen}", None, None),
    ],
)
def test_nemo_gyms_reading_is_there_where_ours_finds_more(
    mode: GradingMode, text: str, ours: str | None, nemo: str | None
) -> None:
    assert play(text, grading_mode=mode)[1] == ours
    assert play(text, {"conform": "nemo"}, grading_mode=mode)[1] == nemo


@pytest.mark.parametrize(
    ("prefix", "text", "ours", "nemo"),
    [
        ("Réponse :", "Réponse : B", "B", "B"),
        ("回答：", "Answer: A\n回答：Ｂ", "B", "B"),
        ("回答：", "回答:B, weil", "B", "B"),
        ("Réponse :", "\\boxed{B}", "B", "B"),
        (None, "Réponse : B", None, None),
        (None, "𝐀𝐧𝐬𝐰𝐞𝐫: 𝐁", None, "B"),
    ],
)
def test_other_words_stand_for_answer_and_letters_of_other_alphabets_count(
    prefix: str | None, text: str, ours: str | None, nemo: str | None
) -> None:
    fields: dict[str, Any] = {"template_metadata": {"answer_prefix": prefix}, "grading_mode": MARKDOWN}
    assert (play(text, **fields)[1], play(text, {"conform": "nemo"}, **fields)[1]) == (ours, nemo)


def test_marks_without_end_are_read_in_time() -> None:
    options, mode, text = Options.read(CITIES), MARKDOWN, "Answer: " + "\u0301" * 100_000 + " B"
    assert cpu_seconds(lambda: extract_answer_as_nemo_gym(text, options, mode, "x")) < 1.0


def test_nemo_gym_trusts_a_pattern_and_takes_the_first_of_equal_texts() -> None:
    fields: dict[str, Any] = {"template_metadata": {"output_regex": r"choose (\S+)"}}
    assert play(r"I choose F. \boxed{B}", **fields) == (1.0, "B")
    assert play(r"I choose F \boxed{B}", {"conform": "nemo"}, **fields) == (0.0, "F")
    assert play("I choose ب", {"conform": "nemo"}, **fields) == (1.0, "B")
    twice = [{"A": "Oslo"}, {"B": "Oslo"}]
    assert play("Answer: oslo", options=twice, grading_mode=COLON) == (0.0, None)
    assert play("Answer: oslo", {"conform": "nemo"}, options=twice, grading_mode=COLON) == (0.0, "A")


def test_the_environments_grading_mode_wins_over_the_rows() -> None:
    assert play("**Answer: B**") == (0.0, None)
    assert play("**Answer: B**", {"grading_mode": MARKDOWN}) == (1.0, "B")
    with pytest.raises(ValueError, match="grading_mode"):
        gym.make("gym_llm/MultipleChoice-v0", grading_mode="lenient")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{" * 100_000,
        "\\boxed{" + "\\text{" * 100_000 + "B" + "}" * 100_001,
        "Answer: " * 100_000,
        "Answer:" + " *" * 300_000,
        "Answer: " + "A " * 300_000,
        "answer" + " " * 1_000_000,
        "Answer: " + "\ufdfa" * 100_000,
        "\\boxed{" + "\ud800" * 100_000 + "}",
    ],
    ids=["boxes", "text", "answers", "stars", "letters", "spaces", "ligatures", "surrogates"],
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    modes: list[GradingMode] = [
        "strict_single_letter_boxed",
        "lenient_boxed",
        "lenient_answer_colon",
        "lenient_answer_colon_md",
    ]
    options = Options.read(CITIES)
    assert sum(cpu_seconds(choose, text, mode) for mode in modes) < 8.0  # quadratic time would be minutes
    assert sum(cpu_seconds(extract_answer_as_nemo_gym, text, options, mode) for mode in modes) < 8.0


@pytest.mark.parametrize("mode", ["lenient_answer_colon", "lenient_answer_colon_md"])
@pytest.mark.parametrize("before", ["Answer: ", "Answer: B\nAnswer: ", "**Answer:** a", "\\boxed{"])
def test_a_megabyte_of_marks_on_one_letter_costs_little(before: str, mode: GradingMode) -> None:
    """Normalising them would take ten minutes."""
    assert cpu_seconds(choose, before + "\u0301\u0323" * 250_000, mode) < 1.0


MMMLU = [r"(?i)Answer\s*:[ \t]*([A-D])", r"[\s\S]*\b\(?\s*([A-D])\s*\)?\.?\b"]
PIQA = [
    r"(?i)[Tt]he (?:[Bb]est [Aa]nswer|[Ff]inal [Aa]nswer|[Aa]nswer)[^A-B]*([A-B])",
    r"(?i)[Aa]nswer\s*:[^A-B]*([A-B])",
    r"(?i)\\boxed\{([A-B])\}",
    r"[\s\S]*\b\(?\s*([A-B])\s*\)?\.?\b",
]


@pytest.mark.parametrize(
    ("text", "mmmlu", "piqa"),
    [
        ("Answer: B", "B", "B"),
        ("Answer: b", "B", "B"),
        ("**Answer: B**", "B", "B"),
        ("Answer: **(B)**", "B", "B"),
        ("The best answer is: B", "B", "B"),
        ("The best answer is: B, because it rains.", "B", "B"),
        (r"\boxed{B}", "B", "B"),
        ("Ich denke, die Antwort lautet B.", "B", "B"),
        ("答案是 B。", "B", "B"),
        ("It rains.\n\nB", "B", "B"),
        ("I do not know, this is a hard one.", None, None),
        ("I cannot determine a single option.", None, None),
        ("Answer: Don't know", None, None),
        ("Answer: Both", None, None),
        ("Answer: Cannot say", None, None),
        ("Answer: Bergen or so", None, None),
        ("The best answer is not B.", None, None),
        ("The answer is unclear: neither A nor B", None, None),
        ("The best answer is hard to tell, a guess at most.", None, None),
        ("A. Oslo\nB. Bergen", None, None),
        ("The options are A and B.", None, None),
        ("Is it A or B?", None, None),
        ("I would rather not say A", None, None),
        ("Je ne sais pas, il y a deux villes.", None, None),
        ("No lo sé; voy a pensar.", None, None),
        ("It has vitamin B and more.", None, None),
        ("This would be plan B", None, None),
        ("Option A: Oslo\n\nOption B: Bergen", None, None),
        ("La respuesta correcta es la B.", "B", "B"),
        ("C'est B", "B", "B"),
        ("", None, None),
    ],
)
def test_rows_patterns_take_no_letter_out_of_a_word_or_a_list(text: str, mmmlu: str | None, piqa: str | None) -> None:
    """The patterns of mmmlu's and global_piqa's rows, in which case does not matter."""
    options = [{"A": "Oslo"}, {"B": "Bergen"}, {"C": "Narvik"}, {"D": "Alta"}]
    assert play(text, template_metadata={"output_regex": MMMLU}, options=options)[1] == mmmlu
    assert play(text, template_metadata={"output_regex": PIQA}, options=options[:2])[1] == piqa


REFUSALS = [
    "I do not know.",
    "I'm sorry, but I can't help with that.",
    "Don't know",
    "Both",
    "all of them",
    "none of the above",
    "It depends.",
    "A or B",
    "A, B, C, D",
    "(A) Oslo (B) Bergen (C) New York (D) A and B and more",
    "Where? A: Oslo B: Bergen C: New York D: A and B",
    "Each of A, B, C and D",
    "a",
    "0",
    "1",
    "Let me think. If A is right, then B",
    "",
]


@pytest.mark.parametrize("answer", REFUSALS)
@pytest.mark.parametrize(
    "form", ["{}", "Answer: {}", "**Answer:** {}", "The answer is {}", "\\boxed{{{}}}", "Answer: {} \\boxed{{"]
)
def test_refusals_and_hedges_choose_nothing(form: str, answer: str) -> None:
    text = form.format(answer)
    for fields in (
        *({"grading_mode": mode} for mode in (BOXED, LENIENT, COLON, MARKDOWN)),
        {"template_metadata": {"output_regex": MMMLU}},
        {"template_metadata": {"output_regex": PIQA}},
    ):
        chosen = play(text, **fields)[1]
        assert chosen is None or (answer == "a" and chosen == "A"), (text, fields, chosen)
    env = gym.make("gym_llm/GPQADiamond-v0")
    env.reset(options={"task": row()})
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    info = env.step([message])[4]
    assert info["extracted_answer"] is None or answer == "a", text


def test_a_captured_megabyte_costs_little() -> None:
    options = Options.read(CITIES)
    assert cpu_seconds(chosen_option, "\u0301\u0323" * 250_000, options) < 1.0
    assert chosen_option(" " * 100_000 + "Ｂ" + " " * 100_000, options) == "B"


def test_recorded_episodes_replay_exactly() -> None:
    path = VECTORS / "multiple_choice.jsonl"
    if not path.exists():
        pytest.skip(f"no vectors in {VECTORS}")
    for line in path.read_text().splitlines():
        vector = json.loads(line)
        env = gym.make("gym_llm/MultipleChoice-v0", tasks=[vector["task"]])
        env.reset(options={"task_index": 0})
        assert env.step(vector["output"])[1] == vector["reward"], vector["source"]


def test_episodes_of_nemo_gyms_server_score_as_recorded() -> None:
    assert len(replay_all("mcqa")) >= 2


def test_the_example_tasks_are_five_and_pass_gymnasiums_checker() -> None:
    env = gym.make("gym_llm/MultipleChoice-v0").unwrapped
    assert env.num_tasks == 5  # type: ignore[attr-defined]
    check_env(env, skip_render_check=True)
