"""How texts of models are rendered: Markdown, code and formulas as elements, and nothing hidden or followed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # a browser


@pytest.fixture
def shown(tmp_path: Path, make: Any, serve: Any, visit: Any) -> Callable[[str], tuple[Any, Any]]:
    """`shown(text)`: the model's message with this text, and the page; it went nowhere."""

    def show(text: str, fragment: str = "") -> tuple[Any, Any]:
        path = make.write(tmp_path / "run.jsonl", [make.record(0, 0, 1.0, make.said(text))])
        with serve(path) as url:
            visitor = visit(url + f"#task=0&repeat=0{fragment}")
            message = visitor.page.locator(".message.assistant .said")
            message.wait_for()
            visitor.page.evaluate("document.fonts.ready")
            visitor.went_nowhere(url.split("?")[0])
            return message, visitor.page

    return show


def test_a_boxed_answer_is_a_box_around_the_answer(shown: Any) -> None:
    message, _ = shown(r"The answer is \boxed{45}, or **\boxed{\frac{1}{2}}**, or \boxed{New York}; write \boxed{}.")
    boxes = message.locator(".math")
    assert [box.get_attribute("aria-label") for box in boxes.all()] == [
        r"\boxed{45}",
        r"\boxed{\frac{1}{2}}",
        r"\boxed{New York}",
    ]
    border = boxes.first.locator(".fbox")
    assert border.evaluate("element => getComputedStyle(element).borderTopStyle") == "solid"
    outer, inner = border.bounding_box(), boxes.first.locator(".mord.mathrm, .mord:not(:has(*))").first.bounding_box()
    assert outer["x"] <= inner["x"] and inner["x"] + inner["width"] <= outer["x"] + outer["width"]
    assert boxes.nth(2).inner_text().strip("\n\t\u200b ").replace("\xa0", " ") == "New York"  # words, with their space
    assert message.locator("code.tex").all_inner_texts() == [r"\boxed{}"]
    assert "\\boxed{45}" not in message.inner_text()


def test_formulas_are_found_and_prices_are_none(shown: Any) -> None:
    text = "It costs $5 and $6, or $x+1$; \\(a_b\\).\n\n\\[\n a\n - b\n\\]\n\n$$c^2$$\n\n"
    text += "\\begin{align}\nd &= 50% \\\\\n\\end{align}"
    message, _ = shown(text)
    labels = [each.get_attribute("aria-label") for each in message.locator(".math").all()]
    assert [label.strip() for label in labels[:4]] == ["x+1", "a_b", "a\n - b", "c^2"]
    assert labels[4].startswith("\\begin{align}") and len(labels) == 5
    assert message.locator(".math.display").count() == 3
    assert "It costs $5 and $6, or " in message.inner_text()


def test_a_formula_that_cannot_be_read_stays_as_it_is_written(shown: Any) -> None:
    wrong = [r"$\frac{1}$", r"\(\nothing{x}\)", r"$\def\a{\a\a}\a$", f"${'{' * 60}x{'}' * 60}$", rf"\({'x+' * 1500}y\)"]
    message, _ = shown("\n\n".join(wrong))
    assert message.locator("code.tex").all_text_contents() == wrong
    assert message.locator(".katex").count() == 0


def test_markdown_becomes_elements(shown: Any) -> None:
    text = (
        "# Title\n\n1. one\n2. *two*\n\n| a | b |\n|---|--:|\n| 1 | `2` |\n\n> said\n\n"
        "```python\ndef f():  # why\n    return 'x' + 1\n```\n\nline\nbreak"
    )
    message, _ = shown(text)
    assert message.locator("[role=heading]").inner_text() == "Title"
    assert message.locator("ol > li").all_inner_texts() == ["one", "two"] and message.locator("em").count() == 1
    assert message.locator("td").all_inner_texts() == ["1", "2"] and message.locator("blockquote").count() == 1
    assert message.locator("pre code").text_content() == "def f():  # why\n    return 'x' + 1"
    assert message.locator("pre .c-comment").text_content() == "# why"
    assert message.locator("pre .c-word").all_text_contents() == ["def", "return"]
    assert message.locator("p").last.locator("br").count() == 1


def test_links_and_images_are_texts_and_lead_nowhere(shown: Any) -> None:
    text = (
        '[a](https://collect.example/x "title") ![b](https://collect.example/y.png) <https://collect.example/z>\n\n'
        "[c]: https://collect.example/hidden\n\n<b>not bold</b> <!-- a comment -->"
    )
    message, _ = shown(text)
    assert message.locator("a, img, b").count() == 0
    said = message.inner_text()
    for part in (
        "x title",
        "/y.png",
        "/z",
        "[c]: https://collect.example/hidden",
        "<b>not bold</b> <!-- a comment -->",
    ):
        assert part in said  # nothing vanishes


@pytest.mark.parametrize("hidden", [r"\color{white}", r"\textcolor{transparent}", r"\phantom"])
def test_no_part_of_a_formula_is_hidden(shown: Any, hidden: str) -> None:
    message, page = shown(f"${hidden}{{secret}}$ ok")
    for letter in message.locator(".katex .mathnormal, code.tex").all():
        assert letter.evaluate("element => getComputedStyle(element).color") == page.evaluate(
            "getComputedStyle(document.body).color"
        )


def test_texts_can_be_seen_as_they_are_written(shown: Any, visit: Any) -> None:
    text = "**bold** \\(x\\)\n# no title"
    message, page = shown(text, "&text=source")
    assert message.inner_text() == text
    page.keyboard.press("s")
    page.locator(".message.assistant strong").wait_for()
    page.get_by_role("button", name="As written").click()
    page.locator(".message.assistant strong").wait_for(state="detached")
    assert "text=source" in page.url


def test_long_texts_are_rendered_in_parts(shown: Any) -> None:
    text = "\n\n".join(f"paragraph **{number}**" for number in range(10_000))
    message, page = shown(text)
    drawn = message.locator("p").count()
    assert 200 < drawn < 5000
    page.get_by_role("button", name="more characters").click()
    message.locator("p").nth(drawn).wait_for()
    assert message.locator("strong").nth(drawn).inner_text() == str(drawn)


@pytest.mark.parametrize(
    "text", ["*a **a " * 20_000, "> " * 50_000, "[a](" * 40_000, "$x^{" * 30_000, "```\n" * 30_000]
)
def test_texts_that_are_hard_to_read_are_shown_all_the_same(shown: Any, text: str) -> None:
    message, page = shown(text)
    page.get_by_role("button", name="more characters").wait_for()
    assert message.inner_text()
