"""The built site: links, search, filters and widths, the last three in the chromium of this machine."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from testing import ROOT

pytestmark = pytest.mark.slow
pytest.importorskip("mkdocs")

_SPEC = importlib.util.spec_from_file_location("site_links", ROOT / "docs" / "site_links.py")
assert _SPEC is not None and _SPEC.loader is not None
site_links = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(site_links)


def build(*options: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Build a site as `make docs` does."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", *options]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    done = build("--site-dir", str(folder))
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING" not in done.stderr, done.stderr[-3000:]
    return folder


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def copyfile(self, *files: Any) -> None:
        with contextlib.suppress(ConnectionError):  # the browser has left the page
            super().copyfile(*files)


@pytest.fixture(scope="module")
def page(site: Path) -> Iterator[Any]:
    """A page of the browser, 1,280 pixels wide, whose links begin at the site."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium on PATH")
    playwright = pytest.importorskip("playwright.sync_api")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        opened = browser.new_page(viewport={"width": 1280, "height": 900}, base_url=url)
        opened.set_default_timeout(60_000)
        yield opened
        browser.close()
    server.shutdown()
    server.server_close()


def test_the_site_has_a_page_of_each_environment_and_of_the_commands(site: Path) -> None:
    pages = {path.relative_to(site).as_posix() for path in site.rglob("index.html")}
    environments = {f"environments/{readme.parent.name}/index.html" for readme in ROOT.glob("envs/*/README.md")}
    assert len(environments) > 80
    assert {"index.html", "reference/command-line/index.html"} | environments <= pages
    reference = (site / "reference" / "command-line" / "index.html").read_text("utf-8")
    assert "gym-llm rollout" in reference and "--max-failures" in reference
    assert "look for &lt;think&gt;" in reference


def test_the_site_asks_no_other_server_for_code(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert not re.search(r'(?:src|href)="https?://(?!github\.com)[^"]+\.(?:js|css)"', text), page


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    assert site_links.broken_links(site) == []


def test_dead_links_anchors_and_pictures_are_found(tmp_path: Path) -> None:
    (tmp_path / "guide").mkdir()
    (tmp_path / "index.html").write_text(
        '<p id="top">\n<a href="guide/#there">1</a> <a href="https://example.org/gone">2</a> <a href="#top">3</a>\n'
        '<a href="guide/#gone">4</a>\n<a href="gone/">5</a>\n<img src="gone.svg">\n<a href="#gone">6</a>\n'
        '<a href="../outside.html">7</a>',
        "utf-8",
    )
    (tmp_path / "guide" / "index.html").write_text('<h2 id="there"></h2><a href="../index.html#top">1</a>', "utf-8")
    assert site_links.broken_links(tmp_path) == [
        "index.html:3: no anchor for 'guide/#gone'",
        "index.html:4: no file for 'gone/'",
        "index.html:5: no file for 'gone.svg'",
        "index.html:6: no anchor for '#gone'",
        "index.html:7: no file for '../outside.html'",
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[a page](gone.md)", "gone.md"),
        ('<a href="gone/">a page</a>', "gone/"),
        ('<img src="gone.svg" alt="a picture">', "gone.svg"),
        ("fine", None),
    ],
)
def test_a_build_fails_on_a_dead_link(text: str, found: str | None, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# A page\n\n{text}\n", "utf-8")
    settings = f"site_name: small\nhooks: [{ROOT / 'docs' / 'site_links.py'}]\n"
    (tmp_path / "mkdocs.yml").write_text(settings, "utf-8")
    done = build(cwd=tmp_path)
    if found is None:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode != 0 and "WARNING" in done.stderr and found in done.stderr


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("AIME", "how-to/run-benchmarks/"),
        ("GPQA", "environments/gpqa_diamond/"),
        ("reward hacking", "how-to/attack/"),
        ("pass@k", "how-to/evaluate/"),
    ],
)
def test_the_search_shows_the_right_page_first(words: str, first: str, page: Any) -> None:
    page.goto("glossary/")
    page.keyboard.press("/")
    page.keyboard.type(words)
    link = page.locator(".md-search-result__item > .md-search-result__link").first
    link.wait_for(timeout=60_000)
    assert f"/{first}" in link.evaluate("link => link.href")


def test_cards_of_environments_are_filtered_and_the_address_keeps_the_choice(page: Any) -> None:
    page.goto("environments/")
    shown = page.locator(".card:visible")
    everything = shown.count()
    assert everything == len(list(ROOT.glob("envs/*/env.py")))
    page.get_by_role("button", name="Math", exact=True).click()
    page.get_by_role("button", name="no judge").click()
    names = page.locator(".card:visible .card-name").all_inner_texts()
    assert "Arithmetic" in names and "MathWithJudge" not in names and "Weather" not in names
    page.reload()
    assert page.locator(".card:visible .card-name").all_inner_texts() == names
    page.goto("environments/?words=get_weather")
    assert set(page.locator(".card:visible .card-name").all_inner_texts()) == {"ToolCallMultiReward", "Weather"}
    page.goto("environments/?domain=math&with=judge+no-tools+nemo")
    assert 0 < shown.count() < everything
    assert page.locator(".filter-count").inner_text().startswith(f"{shown.count()} of {everything}")


WIDER_THAN_THEIR_PLACE = """() => [...document.querySelectorAll(".md-content :is(pre > code, .md-typeset__scrollwrap)")]
    .filter(place => place.scrollWidth > place.clientWidth + 1)
    .map(place => place.textContent.trim().slice(0, 60))"""


def test_no_table_and_no_code_is_cut_on_a_laptop(site: Path, page: Any) -> None:
    page.route("**/search*", lambda route: route.abort())  # half of the time that a page takes
    cut = {}
    for file in sorted(site.rglob("index.html")):
        address = f"{file.parent.relative_to(site).as_posix()}/"
        page.goto(address, wait_until="domcontentloaded")
        if places := page.evaluate(WIDER_THAN_THEIR_PLACE):
            cut[address] = places
    page.unroute("**/search*")
    assert cut == {}


@pytest.mark.parametrize("address", ["", "environments/", "how-to/trainers/", "concepts/tokens/"])
def test_a_page_is_no_wider_than_a_phone(address: str, page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(address or "index.html")
    outside = """() => [...document.querySelectorAll(".md-content__inner > *, .step, .card")]
        .filter(part => part.getBoundingClientRect().right > innerWidth + 1).map(part => part.outerHTML.slice(0, 80))"""
    assert page.evaluate(outside) == []
    page.set_viewport_size({"width": 1280, "height": 900})


def test_contents_and_commands_are_in_sight_and_lines_are_short(page: Any) -> None:
    for width in (1280, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto("how-to/evaluate/")
        assert page.locator(".md-sidebar--primary").get_by_text("Prices", exact=True).is_visible()
        assert page.locator(".md-sidebar--primary").get_by_text("Train with TRL", exact=True).is_hidden()
        page.goto("index.html")
        assert page.locator("pre", has_text="gym-llm rollout").first.bounding_box()["y"] < 600
        assert page.locator(".md-content p").first.bounding_box()["width"] <= 760
    page.set_viewport_size({"width": 1280, "height": 900})


def test_the_home_page_shows_an_episode_whole_on_a_phone(page: Any) -> None:
    drawn = page.locator(".picture:visible svg").first
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        page.goto("index.html")
        box = drawn.bounding_box()
        assert "generate, setup and opening" in drawn.get_attribute("aria-label")
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
    page.set_viewport_size({"width": 1280, "height": 900})
