"""The environments on the site: a page each in the navigation, and the catalogue's tables as cards with filters.

On GitHub `environments.md` has tables, which `gym-llm list` writes. `javascripts/environments.js` filters the cards.
"""

import html
import re

_ROW = re.compile(r"(?m)^\| id \|.*\n\|---.*\n((?:\|.*\n)+)")
_LINK = re.compile(r"\[`[\w-]+/(\w+)-v\d+`\]\((\S+)\)")
_PAGE = "environments.md"
_FEW = 3


def on_config(config):
    """Put the environments' pages below the catalogue, by domain."""
    from gym_llm.author.catalogue import domains
    from gym_llm.core.registry.ids import verifier_folder

    groups = [
        {_title(domain): [f"environments/{verifier_folder(env_id).name}.md" for env_id in env_ids]}
        for domain, env_ids in domains().items()
    ]
    for section in config["nav"]:
        if section.get("Environments") == _PAGE:
            section["Environments"] = [_PAGE, *groups]
    return config


def on_page_markdown(markdown, page, **_):
    """Return the catalogue with cards in place of its tables; the search shows how-tos before the reference."""
    if page.file.src_uri.startswith("reference/"):
        page.meta.setdefault("search", {"boost": 0.3})
    if page.file.src_uri != _PAGE:
        return markdown
    cards = _ROW.sub(lambda table: cards_of(table[1]), markdown)
    return re.sub(r"(?m)^### ", "## ", cards)


def cards_of(rows):
    """Return a block of HTML, with Markdown inside, for the rows of a table."""
    cards = [_card([cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]) for row in rows.splitlines()]
    return '<div class="cards" markdown>\n\n' + "\n".join(cards) + "\n</div>\n"


def _card(cells):
    link, summary, needs, tools, nemo_gym = cells
    name, target = _LINK.fullmatch(link).groups()
    count = len(tools.split(", ")) if tools else 0
    words = html.escape(re.sub(r"[`\\]", "", f"{link} {summary} {tools} {nemo_gym}").lower(), quote=True)
    facts = "".join(f'<span class="card-fact card-{need}">{need}</span>' for need in needs.split(", ") if need)
    lines = [
        f'<div class="card" data-needs="{needs.replace(",", "")}" data-tools="{count}" '
        f'data-nemo="{len(nemo_gym) and 1}" data-words="{words}" markdown>\n',
        f"[{name}]({target}){{ .card-name }} {facts}\n",
        f"{summary}\n",
    ]
    if 0 < count <= _FEW:
        lines.append(f"{tools}\n{{ .card-tools }}\n")
    elif count:
        listed = f"<summary>{count} tools</summary>\n\n{tools}\n\n</details>\n"
        lines.append(f'<details class="card-tools" markdown>{listed}')
    if nemo_gym:
        lines.append(f"NeMo Gym: {nemo_gym}\n{{ .card-nemo }}\n")
    return "\n".join([*lines, "</div>\n"])


def _title(domain):
    return domain.replace("_", " ").capitalize()
