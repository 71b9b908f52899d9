"""A check of the built site: every link, anchor and picture of its pages leads to something that is there."""

import logging
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_ATTRIBUTES = {"href", "src", "poster", "data"}

# Warnings of this logger fail a strict build.
_LOGGER = logging.getLogger("mkdocs.site_links")


def on_post_build(config):
    """Warn of every broken link when the pages are written."""
    for problem in broken_links(config["site_dir"]):
        _LOGGER.warning(problem)


class _Page(HTMLParser):
    """Collects the anchors and the links of one page."""

    def __init__(self, text):
        super().__init__()
        self.anchors = set()
        self.links = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)
            elif name in _ATTRIBUTES and value is not None:
                self.links.append((self.getpos()[0], value))


def broken_links(site):
    """Return a sentence for each link inside the folder of a built site that leads nowhere."""
    site = Path(site).resolve()
    pages = {path: _Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    problems = []
    for path, page in pages.items():
        for line, link in page.links:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            # 404.html is served at any depth, so its links begin at the root.
            start = site if target.path.startswith("/") else path.parent
            file = (start / unquote(target.path).lstrip("/")).resolve() if target.path else path
            if file.is_dir():
                file /= "index.html"
            anchor = unquote(target.fragment)
            if not file.is_relative_to(site) or not file.is_file():
                problems.append(f"{path.relative_to(site)}:{line}: no file for {link!r}")
            elif anchor and file in pages and anchor not in pages[file].anchors:
                problems.append(f"{path.relative_to(site)}:{line}: no anchor for {link!r}")
    return problems
