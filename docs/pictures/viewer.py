"""Take the pictures of the viewer for the documentation: `python docs/pictures/viewer.py`.

It plays real runs of the packaged model, opens them with `gym-llm view` in the chromium of this machine, and writes
docs/images/viewer/PAGE-WIDTH-THEME.png: each page, light and dark, 1,440 and 390 pixels wide.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parents[1] / "images" / "viewer"
RUNS = {
    "weather-random": "gym_llm/Weather-v0 --engine random",
    "weather": "gym_llm/Weather-v0 --engine pocket",
    "sums-random": "gym_llm/Arithmetic-v0 --engine random",
    "sums-warm": "gym_llm/Arithmetic-v0 --engine pocket --temperature 0.5",
    "sums": "gym_llm/Arithmetic-v0 --engine pocket --temperature 1",
}
PAGES = {
    "runs": "#run=sums",
    "table": "#run=sums&runs=table",
    "episode": "#run=weather&task=3&repeat=0",
    "tokens": "#run=sums&{failed}&tab=tokens",
    "compare": "#run=sums&{failed}&tab=diff",
    "record": "#run=sums&{failed}&tab=record",
}
SIZES = {1440: 900, 390: 844}
CHROMIUM = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"]
COLOURS = 128
ROWS = """async () => {
    const token = new URLSearchParams(location.search).get("token");
    return (await fetch("/api/rows?limit=1000", { headers: { "X-Token": token } })).json();
}"""


def play(folder):
    """Play the runs into a folder."""
    for name, how in RUNS.items():
        command = [sys.executable, "-m", "gym_llm.cli", "rollout", *how.split(), "--limit", "16", "--repeats", "4"]
        subprocess.run([*command, "--output", f"{folder}/{name}.jsonl"], check=True, stdout=subprocess.DEVNULL)


def save(page, file, height=None):
    """Write a screenshot in few colours: a page of text needs no more. `height` is that of the part, from the top."""
    clip = height and {"x": 0, "y": 0, "width": page.viewport_size["width"], "height": height}
    shot = page.screenshot(clip=clip, full_page=bool(clip))
    picture = Image.open(BytesIO(shot)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(file, optimize=True)
    print(file.relative_to(Path(__file__).parents[2]))


def failed_episode(page):
    """Return the address of the first episode with the reward 0 whose task has another with 1."""
    page.locator("tbody tr[aria-rowindex] a").first.wait_for()
    rows = page.evaluate(ROWS)["rows"]
    solved = {row["task"] for row in rows if row["reward"] == 1}
    failed = [row for row in rows if row["reward"] == 0 and row["task"] in solved]
    row = min(failed, key=lambda row: (row["task"], row["repeat"]))
    return f"task={row['task']}&repeat={row['repeat']}"


def main():
    """Take all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        play(folder)
        command = [sys.executable, "-m", "gym_llm.cli", "view", f"{folder}/sums.jsonl", folder, "--no-browser"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "DISPLAY": ""})
        url = next(match[0] for line in server.stdout if (match := re.search(r"http://\S+", line)))
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM)
        try:
            failed = ""
            for theme in ("light", "dark"):
                for width, height in SIZES.items():
                    page = browser.new_context(
                        viewport={"width": width, "height": height}, color_scheme=theme
                    ).new_page()
                    for name, address in PAGES.items():
                        page.goto("about:blank")
                        page.goto(url + address.format(failed=failed))
                        page.locator("main:not([hidden])").wait_for()
                        failed = failed or failed_episode(page)
                        page.wait_for_timeout(1500)
                        save(page, IMAGES / f"{name}-{width}-{theme}.png")
        finally:
            browser.close()
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
