r"""Reading a ranked list of genes, and mapping their names to HGNC's symbols.

`nemo_answer`, `scanned` and the list of other words follow the benchmark's harness: `collect_llm_predictions.py` of
Genentech/AssayBench at 640c68b (MIT).
"""

from __future__ import annotations

import csv
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gym_llm.errors import DataError

_HEADER = re.compile(r"\[\[ ## (\w{1,99}) ## \]\]")
_SYMBOL = re.compile(r"[A-Z][A-Z0-9][-A-Z0-9]{0,13}")
_WORD = re.compile(r"\b[A-Z][A-Z0-9][-A-Z0-9]{0,13}\b")
_NUMBERED = re.compile(r"^[ \t]*\d{1,9}[.)][ \t]*([A-Z][A-Z0-9][-A-Z0-9]{0,13})\b", re.MULTILINE)
_ENTRY = re.compile(
    r"[\s*_`\"'\[(•-]*(?:\d{1,4}[.):]?\s)?[\s*_`\"'(]*([A-Z][A-Z0-9][-A-Z0-9]{0,13}|C[\dXY]{1,2}orf\d{1,4})"
    r"[*_`\"')\].]*(?:\s*[(\[–:-].*)?\s*"
)
_LETTERS_AND_NUMBER = re.compile(r"([A-Z]+)(\d+)")
_SOLUTION = r"\begin{solution}", r"\end{solution}"
_ANSWER = re.compile(r'"answer"\s{0,99}:\s{0,99}"([^"]*)')
_MOST_CHARACTERS = 200_000
_LONGEST_ENTRY = 200
_FEWEST = 5
_NOT_GENES = """
ID RRID CCLE CCLEN COSMICID BROAD WTSIM TCGACODE DEPMAP SANGER ENTREZ CSV TSV JSON HTML HTTP HTTPS URL URI PDF PNG JPG
GIF SVG NULL NONE TRUE FALSE NAN INF AND NOT THE FOR WITH FROM INTO GENE GENES SYMBOL NAME TYPE CODE FDR PVALUE LOG MEAN
STD VAR RNA DNA MRNA CDNA CRISPR CRISPRI CRISPRN KNOCKOUT KO MODEL DATA INDEX ROW COL COLUMN FILE PATH DIR
"""
_NO_GENES = frozenset(_NOT_GENES.split())


class Ranking(NamedTuple):
    """The genes of an answer in order, where they were found, and whether the answer had the right form."""

    genes: list[str]
    mode: str
    in_form: bool


def ranking_in(text: str, *, fewest: int = 0, conform: bool = False) -> Ranking:
    """Return the genes of the answer's field, else those that the text lists.

    Args:
        text: What the model wrote, without its thinking.
        fewest: With fewer genes in the field, the text's list counts if it is longer.
        conform: Whether to read as NeMo Gym does: the field counts after one for the reasoning, and as whole names
            between commas.

    >>> ranking_in("[[ ## answer ## ]] 1. TP53, MYC (c-Myc)")
    Ranking(genes=['TP53', 'MYC'], mode='dspy_answer', in_form=False)
    """
    text = text[-_MOST_CHARACTERS:]
    fields = _fields(text)
    in_form = {"reasoning", "answer"} <= fields.keys()
    if "answer" not in fields or (conform and not in_form):
        genes = scanned(text)
        return Ranking(genes, "raw_fallback" if genes else "none", in_form)
    genes = nemo_answer(fields["answer"]) if conform else _answer(fields["answer"])
    if len(genes) < fewest and len(longer := scanned(text)) > len(genes):
        return Ranking(longer, "quality_gate_fallback", in_form)
    return Ranking(genes, "dspy_answer" if genes else "none", in_form)


def _fields(text: str) -> dict[str, str]:
    """Return the text below each header, the first of each name."""
    fields: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        line = line.strip()
        if header := _HEADER.match(line):
            lines = []
            fields.setdefault(header[1], lines)
            line = line[header.end() :]
        lines.append(line)
    return {name: "\n".join(lines).strip() for name, lines in fields.items()}


def _answer(field: str) -> list[str]:
    entries = (entry for entry in re.split(r"[,;\n]", field) if len(entry) <= _LONGEST_ENTRY)
    genes = (match[1] for entry in entries if (match := _ENTRY.fullmatch(entry)))
    return [gene for gene in genes if gene not in _NO_GENES]


def nemo_answer(field: str) -> list[str]:
    """Return the names between commas that are symbols and nothing else."""
    names = (name.strip() for name in field.split(","))
    return [name for name in names if _SYMBOL.fullmatch(name) and name not in _NO_GENES]


def scanned(text: str) -> list[str]:
    r"""Return the genes that a text without fields lists: five or more.

    A `\begin{solution}` block goes first, then the line that names most between commas. A numbered list comes third,
    and then all that look like a gene.
    """
    begin, end = _SOLUTION
    if (start := text.find(begin)) >= 0 and (stop := text.find(end, start)) >= 0:
        genes = _in_commas(_solution(text[start + len(begin) : stop].strip()))
        if len(genes) >= _FEWEST:
            return genes
    lines = (line.strip() for line in text.split("\n"))
    lists = (_in_commas(line) for line in lines if line and not line.startswith(("#", "```")))
    numbered = [gene for gene in _NUMBERED.findall(text) if gene not in _NO_GENES]
    named = dict.fromkeys(gene for gene in _WORD.findall(text) if gene not in _NO_GENES)
    choices = (max(lists, key=len, default=[]), numbered, list(named))
    return next((genes for genes in choices if len(genes) >= _FEWEST), [])


def _solution(block: str) -> str:
    try:
        members = json.loads(block)
    except (ValueError, RecursionError):
        match = _ANSWER.search(block)
        return match[1] if match else ""
    answer = members.get("answer") if isinstance(members, dict) else None
    return answer if isinstance(answer, str) else ""


def _in_commas(line: str) -> list[str]:
    matches = (_SYMBOL.search(name) for name in line.split(","))
    return [match[0] for match in matches if match and match[0] not in _NO_GENES]


@cache
def read_symbols(folder: str) -> dict[str, str]:
    """Return HGNC's symbols by all names of genes, in upper case.

    Args:
        folder: One with `hgnc_symbols_cache.tsv`, HGNC's download with the columns `Approved symbol`, `Previous
            symbols` and `Alias symbols`. It may have the package assaybench's `uniprot_protein_to_gene.json` and
            `manual_mappings.json`.

    Raises:
        DataError: If the table is missing or has other columns.
    """
    table = Path(folder) / "hgnc_symbols_cache.tsv"
    symbols: dict[str, str] = {}
    try:
        with table.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                symbol = row["Approved symbol"].strip()
                names = f"{row['Previous symbols'] or ''}, {row['Alias symbols'] or ''}".split(", ")
                if symbol:
                    symbols[symbol.upper()] = symbol
                for name in filter(None, map(str.strip, names if symbol else [])):
                    symbols.setdefault(name.upper(), symbol)
    except (OSError, KeyError, ValueError, AttributeError) as error:
        raise DataError(f"genes: {table} must be HGNC's table of symbols ({type(error).__name__}).") from None
    proteins = _members(table.with_name("uniprot_protein_to_gene.json"))
    manual = _members(table.with_name("manual_mappings.json")).get("mappings", {})
    return _upper(proteins) | symbols | _upper(manual)


def mapped(name: str, symbols: dict[str, str]) -> str | None:
    """Return HGNC's symbol for a gene's name; None for an unknown one.

    >>> mapped("ABIN3", {"ABIN-3": "TNIP3"}), mapped("VPS11-LIKE", {"VPS11": "VPS11"})
    ('TNIP3', 'VPS11')
    """
    name = name.strip().upper()
    candidates = [name, name.removesuffix("-LIKE")]
    if match := _LETTERS_AND_NUMBER.fullmatch(name):
        candidates.append(f"{match[1]}-{match[2]}")
    return next((symbols[each] for each in candidates if each in symbols), None)


def _members(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text("utf-8"))) if file.is_file() else {}


def _upper(symbols: dict[str, str | None]) -> dict[str, str]:
    return {name.upper(): symbol for name, symbol in symbols.items() if symbol}
