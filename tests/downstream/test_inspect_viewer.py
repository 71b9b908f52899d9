"""What `gym-llm export --to inspect` writes opens in Inspect's own viewer, in the chromium of this machine."""

from __future__ import annotations

import functools
import shutil
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from peers import in_peer
from random_talk import play

from gym_llm.utils.json_codec import dumps_record

pytestmark = pytest.mark.slow


@pytest.fixture
def viewer(tmp_path):
    """The address of Inspect's viewer with 20 episodes, and their records."""
    records = play(20)
    path = tmp_path / "talk.jsonl"
    path.write_bytes(b"".join(map(dumps_record, records)))
    assert in_peer("inspect", "inspect_bundle.py", str(path), str(tmp_path))["samples"] == 20
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "viewer"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", records
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(viewer):  # whose event loop comes after that of `play`
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium on PATH")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield browser.new_page(viewport={"width": 1400, "height": 900})
        browser.close()


def test_the_viewer_lists_the_episodes_and_shows_one(viewer, page):
    url, records = viewer
    page.goto(url)
    page.get_by_text("talk").first.click()
    page.get_by_text("20 Samples", exact=True).wait_for()
    listed = page.inner_text("body")
    masked = [record["error"] for record in records if record["reward"] is None]
    assert masked and all(error in listed for error in masked)
    assert "NaN" not in listed
    page.get_by_text("Go 1.", exact=True).first.click()
    page.get_by_text("assistant", exact=True).first.wait_for()
    shown = page.inner_text("body")
    (record,) = [record for record in records if record["rollout_id"]["task_index"] == 1]
    calls = [item for item in record["response"]["output"] if item.get("type") == "function_call"]
    assert calls and shown.count("look") == len(calls)
    assert str(record["reward"]) in shown
