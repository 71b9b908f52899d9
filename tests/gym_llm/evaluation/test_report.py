"""Reports of an evaluation, whatever names, values and errors are in it."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from played import Scripted
from testing import row

from gym_llm.errors import EngineError
from gym_llm.evaluation.evaluation import Evaluation
from gym_llm.evaluation.page import page
from gym_llm.evaluation.plots import draw_plots
from gym_llm.evaluation.report import report
from gym_llm.evaluation.results import EvaluationResult
from gym_llm.evaluation.suite import env_parts
from gym_llm.rollouts.workload import Part

HOSTILE = [
    "<script>window.pwned=1</script>",
    "</style><img src=x onerror=pwned=1>",
    "\"><a href='javascript:pwned=1'>x</a>",
    "![x](http://collect.example/a) [y](http://collect.example/b)",
    "| a | b |\n|---|---|\n# heading",
    "\u202egnp.exe \x1b[31m \0 \ud800",
    "$\\frac{x^2}$ `code` *b* ${HOME} &lt;i&gt;",
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    """A small evaluation in which everything that somebody else names is hostile."""

    def say(request: Any, task: int, repeat: int) -> str:
        if task == 0 and repeat == 1:
            raise EngineError(HOSTILE[1])
        return "yes" if (task + repeat) % 3 else HOSTILE[0]

    rows = [row(f"Question {n}", expected_answer="yes", kind=HOSTILE[n]) for n in range(len(HOSTILE))]
    engines = {HOSTILE[0]: Scripted(say), HOSTILE[3]: Scripted(lambda *_: "no")}
    parts = env_parts([Part("gym_llm/FollowUp-v0", tasks=rows, repeats=3, dataset=HOSTILE[1])], engines)
    folder = tmp_path_factory.mktemp("hostile")
    with Evaluation(parts, output=folder / "out", by=["kind"], max_failures=None, retries=0) as evaluation:
        evaluation.play()
        return evaluation.report()


class Tags(HTMLParser):
    """The tags of a page, and the values of their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update((name, value or "") for name, value in attrs)


def test_the_page_has_no_tag_but_its_own_and_refers_to_nothing(hostile):
    text = (hostile.folder / "report.html").read_text("utf-8")
    found = Tags(text)
    assert found.tags <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "div", "table", "thead", "tbody", "tr"),
        *("th", "td", "bdi", "small", "picture", "source", "img", "code", "details", "summary", "pre", "a"),
    }
    assert {name for name, _ in found.attributes} <= {
        *(
            "lang",
            "charset",
            "http-equiv",
            "content",
            "name",
            "class",
            "srcset",
            "media",
            "src",
            "alt",
            "data-column",
            "href",
        ),
    }
    for name, value in found.attributes:
        if name in ("src", "srcset"):
            assert value.startswith("data:image/svg+xml;base64,")
        if name == "href":
            assert (hostile.folder / unquote(value.partition("#")[0])).is_file()
    (policy,) = [value for name, value in found.attributes if name == "content" and "default-src" in value]
    (style,) = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert "&lt;script&gt;" in text
    assert not re.search("[\0\x1b\u202e]", text)


def test_markdown_has_no_markup_but_its_own(hostile):
    text = (hostile.folder / "report.md").read_text("utf-8")
    assert "\\<script\\>" in text
    assert not re.search(r"(?<!\\)<|[\0\x1b\u202e]", text)
    assert set(re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text)) == {
        f"plots/{name}.png" for name in ("mean_reward", "pass_at_k", "rewards", "group_1")
    }
    assert re.findall(r"(?<!\!)\[[^\]]*\]\(", re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)) == []
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert tables
    for table in tables:  # nothing that is in a cell ends it
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser_nothing_runs_and_nothing_is_asked_for(hostile, scheme):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium on PATH")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    requests: list[str] = []
    events: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page(color_scheme=scheme)
        opened.on("request", lambda request: requests.append(request.url))
        for name in ("pageerror", "popup", "dialog", "console", "download"):
            opened.on(name, lambda event, name=name: events.append(f"{name}: {event}"))
        address = (hostile.folder / "report.html").as_uri()
        opened.goto(address)
        images = opened.evaluate("[...document.images].map((image) => image.naturalWidth > 0)")
        ground = opened.evaluate("getComputedStyle(document.body).backgroundColor")
        shown = opened.evaluate("document.images[0].currentSrc")
        pwned = opened.evaluate("window.pwned ?? null")
        browser.close()
    assert (pwned, events) == (None, [])
    assert [url for url in requests if url != address and not url.startswith("data:")] == []
    assert images == [True] * 4
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 23, 42)"}[scheme]
    plot = base64.b64decode(shown.partition(",")[2])
    assert (b"#60a5fa" in plot) == (scheme == "dark")


def test_plots_are_pictures_for_light_and_for_dark_pages(hostile):
    plots = draw_plots(hostile.data)
    assert [plot.name for plot in plots] == ["mean_reward", "pass_at_k", "rewards", "group_1"]
    for plot in plots:
        assert plot.files["png"].startswith(b"\x89PNG")
        for image in (plot.files["svg"], plot.dark):
            assert ElementTree.fromstring(image).tag.endswith("svg")
        assert b"#ffffff" in plot.files["svg"] and b"#ffffff" not in plot.dark
        assert (hostile.folder / "plots" / f"{plot.name}.svg").read_bytes() == plot.files["svg"]  # the same every time


def test_without_matplotlib_there_are_reports_without_plots(hostile, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert draw_plots(hostile.data) == []
    assert "<picture>" not in page(hostile.data)
    assert "plots/" not in report(hostile.data)


def test_no_figure_is_in_the_report_twice(hostile):
    text = (hostile.folder / "report.md").read_text("utf-8")
    headers = [line for line in text.splitlines() if line.startswith("| dataset")]
    shares = [line.endswith("| truncated | masked | tool errors |") for line in headers]
    assert shares == [
        True,
        False,
        False,
        True,
        False,
        False,
    ]  # results, pass@k, pass^k, groups, length and cost, masked
    ks = re.findall(r"\| (pass[@^][0-9])", " ".join(headers))
    assert ks == ["pass@1", "pass@3", "pass@2", "pass^2", "pass^3", "pass@1", "pass@3"]
    assert not re.search(r"(pass\^|majority@|best of )1\b", text)
    assert hostile.data["results"][0]["metrics"]["masked"] == 1
    assert "The first one so:" in text


def test_an_evaluation_that_nobody_has_played_has_a_report(tmp_path):
    parts = env_parts(["gym_llm/FollowUp-v0"], ["random", "replay:no.jsonl"])
    with Evaluation(parts, output=tmp_path / "out") as evaluation:
        result = evaluation.report()
    assert not result.complete
    assert "0 of 10 episodes" in Path(tmp_path, "out", "report.md").read_text("utf-8")
