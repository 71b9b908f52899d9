"""Take the pictures of the site's home page for the documentation: `python docs/pictures/home.py`.

It builds the site, opens it in the chromium of this machine, and writes docs/images/home/home-WIDTH-THEME.png: from the
top to the end of the three steps, light and dark, 1,440 and 390 pixels wide.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import sync_playwright
from viewer import CHROMIUM, SIZES, save

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images" / "home"
END = "document.querySelector('.steps').getBoundingClientRect().bottom + 24"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *_):
        """Print nothing."""


def main():
    """Take all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder]
        subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM)
        try:
            for theme in ("light", "dark"):
                for width, height in SIZES.items():
                    size = {"width": width, "height": height}
                    # Without motion, so that a dot on its way makes no other picture each time.
                    context = browser.new_context(viewport=size, color_scheme=theme, reduced_motion="reduce")
                    page = context.new_page()
                    page.goto(f"http://127.0.0.1:{server.server_address[1]}/", wait_until="networkidle")
                    save(page, IMAGES / f"home-{width}-{theme}.png", height=page.evaluate(END))
        finally:
            browser.close()
            server.shutdown()


if __name__ == "__main__":
    main()
