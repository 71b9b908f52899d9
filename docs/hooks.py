"""Site pages generated from the environments' READMEs, ARCHITECTURE.md and the command line's help."""

import html
import re
from pathlib import Path

from mkdocs.structure.files import File, InclusionLevel

ROOT = Path(__file__).parents[1]


def on_files(files, config):
    """Add the generated pages."""
    for readme in sorted(ROOT.glob("envs/*/README.md")):
        uri = f"environments/{readme.parent.name}.md"
        files.append(File.generated(config, uri, content=environment_page(readme), inclusion=InclusionLevel.NOT_IN_NAV))
    architecture = (ROOT / "ARCHITECTURE.md").read_text("utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "architecture.md", content=architecture))
    files.append(File.generated(config, "reference/command-line.md", content=command_line()))
    return files


def environment_page(readme):
    """Return a README whose links lead to pages of the site; links to other files become plain text."""
    text = readme.read_text("utf-8")
    text = re.sub(r"\]\(\.\./(\w+)/README\.md(#[^)]*)?\)", r"](\1.md\2)", text)
    text = re.sub(r"\]\(\.\./\.\./docs/", "](../", text)
    text = text.replace("](../../ARCHITECTURE.md", "](../architecture.md")
    return re.sub(r"\[([^]]+)\]\((?!https?://|#|[\w./-]+\.md)[^)]+\)", r"\1", text)


def on_page_markdown(markdown, page, **_):
    """Return the page with links to repository files replaced by links to their pages."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]
    here = "../" * page.file.src_uri.count("/")
    markdown = re.sub(r"\]\((?:\.\./)+envs/(\w+)/README\.md\)", rf"]({here}environments/\1.md)", markdown)
    return re.sub(r"\]\((?:\.\./)+ARCHITECTURE\.md\)", f"]({here}architecture.md)", markdown)


def on_page_content(html, page, **_):
    """Return the page with drawn pictures as parts of it: there they have the colours that the reader chose.

    A picture NAME_narrow.svg is shown in place of NAME.svg on a phone.
    """
    folder = ROOT / "docs" / "images"

    def inside(match):
        picture = folder / match[1]
        narrow = picture.with_name(f"{picture.stem}_narrow.svg")
        if "--picture-" not in picture.read_text("utf-8"):
            return match[0]
        if narrow.exists():
            return drawn(picture, "picture wide") + drawn(narrow, "picture narrow")
        return drawn(picture, "picture")

    def drawn(picture, classes):
        text = re.sub(r"<style>.*?</style>\n", "", picture.read_text("utf-8"), flags=re.DOTALL)
        return f'<div class="{classes}" data-search-exclude>{text}</div>'

    return re.sub(r'(?:<p>)?<img [^>]*src="[^"]*?images/(\w+\.svg)"[^>]*>(?:</p>)?', inside, html)


def command_line():
    """The help of every command."""
    from typer.main import get_command

    from gym_llm.cli import app

    opening = "`gym-llm COMMAND --help` says the same; for `rollout` and `eval`, `--help-all`."
    lines = ["# Command line", "", opening, ""]
    _describe(get_command(app), "gym-llm", lines)
    return "\n".join(lines)


def _describe(command, name, lines):
    if hasattr(command, "commands"):
        for sub, child in command.commands.items():
            _describe(child, f"{name} {sub}", lines)
        return
    lines += [f"## {name}", "", (command.help or "").partition("\n\n")[0], "", "| option | what it does |", "|---|---|"]
    for parameter in command.params:
        if parameter.name == "help" or getattr(parameter, "hidden", False):
            continue
        names = (
            ", ".join(f"`{option}`" for option in parameter.opts)
            if parameter.param_type_name == "option"
            else (f"`{(parameter.metavar or parameter.name).upper()}`")
        )
        # A browser would take `<think>` for a tag, and show nothing.
        about = html.escape(getattr(parameter, "help", None) or "", quote=False).replace("|", r"\|").replace("\n", " ")
        lines.append(f"| {names} | {about} |")
    if command.epilog:
        lines += ["", "``` { .text .wrapped }", command.epilog.rstrip(), "```"]
    lines.append("")
