"""The page of an episode: answers beside each other, tokens as texts, branches, judges, programs and narrow windows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gym_llm import collect
from gym_llm.evaluation.view.vocabulary import find_tokenizer

pytestmark = pytest.mark.slow  # a browser


@pytest.fixture
def shown(tmp_path: Path, make: Any, serve: Any, visit: Any) -> Callable[..., Any]:
    """`shown(record, fragment)`: the page of the first of these episodes; it went nowhere."""

    def show(*records: Any, fragment: str = "", **settings: Any) -> Any:
        path = make.write(tmp_path / "run.jsonl", list(records))
        with serve(path) as url:
            visitor = visit(f"{url}#task=0&repeat=0{fragment}", **settings)
            visitor.page.locator(".episode-head").wait_for()
            for folded in visitor.page.locator("details.judge > summary, details.prompt-ids > summary").all():
                folded.click()
            visitor.went_nowhere(url.split("?")[0])
            return visitor.page

    return show


def answers(page: Any) -> list[str]:
    return [" ".join(side.inner_text().split()) for side in page.locator(".answers .answer").all()]


def test_the_expected_and_the_extracted_answer_stand_side_by_side(make: Any, shown: Any) -> None:
    record = make.record(0, 0, 0.0, expected_answer="65")
    record["info"]["extracted_answer"] = "45"
    page = shown(record)
    assert answers(page) == ["Expected expected_answer 65", "Extracted extracted_answer 45"]
    left, right = (side.bounding_box() for side in page.locator(".answers .answer").all())
    assert right["x"] > left["x"] + left["width"] and right["y"] == left["y"]
    assert page.locator(".answer mark").all_inner_texts() == ["65", "45"]
    record["expected_answer"], record["info"]["extracted_answer"] = "x = 1065", "x = 1045"
    page = shown(record)
    assert page.locator(".answer mark").all_inner_texts() == ["6", "4"]
    assert page.locator(".sign").get_attribute("aria-label") == "different"
    facts = page.locator(".facts").inner_text()
    assert "expected_answer" not in facts and "extracted_answer" not in facts  # not twice


def test_equal_answers_and_missing_ones_say_so(make: Any, shown: Any) -> None:
    record = make.record(0, 0, 1.0, expected_city="Bern", gold_day="Monday")
    record["info"].update(extracted_city="Bern", extracted_day=None)
    page = shown(record)
    assert [sign.get_attribute("aria-label") for sign in page.locator(".sign").all()] == ["equal", "different"]
    assert answers(page)[3] == "Extracted extracted_day no answer was found"
    assert page.locator(".answer mark").count() == 0
    assert shown(make.record(0)).locator(".answers-panel").count() == 0


def test_an_answer_in_latex_is_shown_as_a_formula_too(make: Any, shown: Any) -> None:
    record = make.record(0, 0, 1.0, expected_answer="\\frac{1}{2}")
    record["info"].update(extracted_answer="0.5")
    page = shown(record)
    assert page.locator(".answer.expected .math").get_attribute("aria-label") == "\\frac{1}{2}"
    assert page.locator(".answer.expected .answer-text").inner_text() == "\\frac{1}{2}"
    assert page.locator(".answer.extracted .math").count() == 0


def pocket_ids(text: str) -> list[int]:
    from transformers import AutoTokenizer

    place = find_tokenizer("pocket")
    assert place is not None
    ids: list[int] = AutoTokenizer.from_pretrained(str(place.parent))(text)["input_ids"]
    return ids


def with_tokens(make: Any, prompt: str, sampled: str, model: str = "pocket") -> dict[str, Any]:
    given, said = pocket_ids(prompt), pocket_ids(sampled)
    log_probs = [-0.01] * len(said)
    log_probs[-1] = -3.5
    message = {**make.said(sampled), "trajectory_span": [0, len(given), len(given) + len(said)]}
    record = make.record(0, 0, 1.0, message)
    record["response"]["model"] = model
    mask, logprobs = [0] * len(given) + [1] * len(said), [0.0] * len(given) + log_probs
    record["trajectory"] = [{"input_ids": given + said, "loss_mask": mask, "logprobs": logprobs}]
    return dict(record)


PROMPT, SAID = "<|im_start|>user\nHow much is 9 - 1?<|im_end|>", "Ones: 9-1=7, Grüße"


def flow(page: Any, part: str) -> str:
    """The text of tokens, without the symbols for line breaks."""
    tokens = page.locator(f"{part} .flow").first
    return str(tokens.evaluate("element => element.textContent")).replace("↵", "").replace("·", "")


def test_tokens_are_texts_coloured_by_their_probability(make: Any, shown: Any) -> None:
    page = shown(with_tokens(make, PROMPT, SAID), fragment="&tab=tokens")
    assert flow(page, ".sampled") == SAID and flow(page, ".prompt-ids") == PROMPT
    last = page.locator(".sampled .token").last
    assert last.get_attribute("class") == "token p4" and "log probability -3.5" in last.get_attribute("title")
    assert page.locator(".prompt-ids .special").all_inner_texts() == ["<|im_start|>", "<|im_end|>"]
    widths = [
        page.locator(f".sampled .token.{name}").first.evaluate("element => getComputedStyle(element).boxShadow")
        for name in ("p0", "p4")
    ]
    assert widths[0] != widths[1]  # the underline says it, too
    last.click()
    assert "log probability -3.5" in page.locator(".token-line").inner_text()
    page.keyboard.press("s")
    page.locator(".sampled .flow").wait_for(state="detached")
    assert page.locator(".sampled .token").all_text_contents() == [str(each) for each in pocket_ids(SAID)]


def test_a_missing_tokenizer_is_named_and_ids_are_shown(make: Any, shown: Any) -> None:
    page = shown(with_tokens(make, PROMPT, SAID, "nowhere/Model-7B"), fragment="&tab=tokens")
    assert "the tokenizer of nowhere/Model-7B is not on this machine" in page.locator(".missing").inner_text()
    assert page.locator(".sampled .token").first.inner_text().isdigit()


def test_an_exported_page_has_the_texts_of_its_tokens(tmp_path: Path, make: Any, visit: Any) -> None:
    from gym_llm.evaluation.view.static_page import export_page

    path, page = make.write(tmp_path / "run.jsonl", [with_tokens(make, PROMPT, SAID)]), tmp_path / "report.html"
    with ThreadPoolExecutor() as pool:  # this thread's event loop is Playwright's
        pool.submit(asyncio.run, export_page([path], page)).result()
    visitor = visit(page.as_uri() + "#task=0&repeat=0&tab=tokens")
    visitor.page.locator(".sampled .flow").wait_for()
    assert flow(visitor.page, ".sampled") == SAID
    visitor.went_nowhere(page.as_uri())


def test_segments_that_share_a_beginning_are_a_tree(make: Any, shown: Any) -> None:
    def segment(*parts: tuple[int, range]) -> dict[str, Any]:
        ids = [each for _, part in parts for each in part]
        mask = [kind for kind, part in parts for _ in part]
        return {"input_ids": ids, "loss_mask": mask, "logprobs": [-0.5] * len(ids)}

    first = segment((0, range(20)), (1, range(100, 120)))
    branch = segment((0, range(20)), (0, range(100, 110)), (1, range(200, 210)))
    deeper = segment((0, range(20)), (0, range(100, 110)), (0, range(200, 205)), (1, range(300, 310)))
    other = segment((0, range(500, 520)), (1, range(600, 610)))
    record = make.record(0, trajectory=[first, branch, deeper, other])
    page = shown(record, fragment="&tab=tokens")
    labels = [each.get_attribute("aria-label") for each in page.locator(".branch").all()]
    assert labels == [
        "Segment 1: 40 ids",
        "Segment 2: 40 ids, leaves segment 1 after 30 ids",
        "Segment 3: 45 ids, leaves segment 2 after 35 ids",
        "Segment 4: 30 ids",
    ]
    depths = page.locator(".branch-map li").evaluate_all(
        "all => all.map((each) => each.style.getPropertyValue('--depth'))"
    )
    assert depths == ["0", "1", "2", "0"]
    shares = page.locator("#segment-2 .prompt-ids summary").all_inner_texts()
    assert shares[0].startswith("30 ids shared with the segment it leaves")
    assert page.locator("#segment-1 .sampled").count() == 1


def test_judges_calls_and_programs_have_places_of_their_own(make: Any, shown: Any) -> None:
    call = {
        "responses_create_params": {"input": [make.said("Is **it** the same?", "user")]},
        "response": {"output": [make.said("No. [[B]]")]},
        "verdict_label": "[[B]]",
        "seconds": 3,
    }
    record = make.record(0, 0, 0.0, *make.called("run", "{}", '{"stdout": "120\\n", "stderr": "oops", "code": 1}'))
    record["info"].update(judge_evaluations=[call], result=[True, False, -2], stdout="1 failed\n", score=4)
    page = shown(record)
    judge = page.locator(".verdicts[aria-label=Judge]")
    assert "verdict [[B]]" in judge.locator("summary").inner_text()
    assert judge.locator(".message strong").inner_text() == "it" and judge.locator(".field").inner_text().split() == [
        "seconds",
        "3",
    ]
    programs = page.locator(".verdicts[aria-label='Programs and tests']")
    assert programs.locator(".results i").evaluate_all("all => all.map((each) => each.className)") == [
        "passed",
        "failed",
        "other",
    ]
    assert programs.locator(".results i").all_inner_texts() == ["✓", "✗", "-2"]
    assert programs.locator(".terminal").inner_text() == "1 failed"
    assert page.locator(".call .terminal").all_inner_texts() == ["120", "oops"]
    assert page.locator(".call .terminal.failed").inner_text() == "oops"
    facts = page.locator(".facts").inner_text()
    assert "score" in facts and "judge_evaluations" not in facts and "stdout" not in facts


def test_extracted_code_is_a_block_of_code(make: Any, shown: Any) -> None:
    record = make.record(0)
    record["info"]["extracted_model_code"] = "def f():\n    return 1\n"
    page = shown(record)
    assert page.locator(".answer .code-block .c-word").all_inner_texts() == ["def", "return"]
    assert "extracted_model_code" not in page.locator(".facts").inner_text()


@pytest.mark.parametrize("fragment", ["", "&tab=tokens", "&tab=diff", "&tab=record"])
def test_a_phone_shows_an_episode_without_scrolling_sideways(make: Any, shown: Any, fragment: str) -> None:
    long = make.record(
        0, 0, 0.5, make.said("word " * 200 + "x" * 300 + "\n\n\\[" + "x+" * 200 + "y\\]"), expected_answer="z" * 200
    )
    long["info"].update(extracted_answer="y" * 200, stdout="o" * 500)
    long["trajectory"] = [{"input_ids": [7] * 300, "loss_mask": [1] * 300, "logprobs": [-1.0] * 300}]
    page = shown(long, make.record(0, 1), fragment=fragment)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    tabs = page.locator(".tabs").bounding_box()
    assert tabs["x"] >= 0 and tabs["x"] + tabs["width"] <= 390


def test_an_episode_uses_the_width_of_the_window(make: Any, shown: Any) -> None:
    record = make.record(0, expected_answer="1", note="n")
    record["info"].update(score=1, extracted_answer="1")
    page = shown(record)
    page.set_viewport_size({"width": 1440, "height": 900})
    right = max(each.bounding_box()["x"] + each.bounding_box()["width"] for each in page.locator(".facts .panel").all())
    assert right > 1440 - 40
    talk, facts = page.locator(".body").bounding_box(), page.locator(".facts").bounding_box()
    assert facts["x"] - (talk["x"] + talk["width"]) < 40 and facts["width"] > 400


def test_a_failure_is_named_at_the_top_and_in_its_place(make: Any, shown: Any) -> None:
    page = shown(make.record(0, 0, None, attempts=3))
    verdict = page.locator(".verdict").inner_text()
    assert re.search(
        r"no reward\s+failed: verifier_error\s+The verifier could not read it.\s+after 3 attempts", verdict
    )
    assert page.locator(".failure").inner_text().startswith("Failed in verify: verifier_error")


def test_signs_of_trouble_are_named_beside_the_episode(make: Any, shown: Any) -> None:
    record = make.record(0, 0, 0.0)
    assert shown(record).locator(".signs").count() == 0
    record["response"]["output"] = []
    page = shown(record)
    assert "empty turn" in page.locator(".signs").inner_text()
    assert "view_signs" not in shown(record, fragment="&tab=record").locator(".raw").inner_text()


def test_each_seat_of_a_game_has_its_own_conversation_tokens_and_reward(make: Any, shown: Any) -> None:
    task = {"responses_create_params": {"input": []}, "board": "." * 9}
    record = collect("gym_llm/TicTacToe-v0", "pocket", tasks=[task], limit=1)[0]
    page = shown(record, fragment="&tab=tokens")
    buttons = page.locator(".seat")
    assert [each.split()[0] for each in buttons.all_inner_texts()] == ["x", "o"]
    assert buttons.nth(0).get_attribute("aria-current") == "true"
    sampled = page.locator(".token:not(.prompt)")
    assert sampled.count() > 6 and "the tokenizer" not in page.locator(".body").inner_text()
    page.get_by_role("tab", name="Conversation").click()
    assert "Your mark is x." in page.locator(".body").inner_text()
    buttons.nth(1).click()
    page.get_by_text("Your mark is o.").wait_for()
    assert "seat=o" in page.url
    assert float(page.locator(".verdict .big").inner_text()) == record["seats"]["o"]["reward"]
