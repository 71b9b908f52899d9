"""AssayBench: ranked genes against a screen's relevances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from testing import scored

from gym_llm.core.registry.classes import own_values
from gym_llm.errors import DataError

ENV_ID = "gym_llm/AssayBench-v0"
SCREEN = {
    "relevance_genes": ["TP53", "MYC", "KRAS", "PRKN", "C1orf43", "EGFR", "PTEN", "RB1", "TNIP3", "NF2"],
    "relevance_scores": [1.0, 0.5, 0.25, 0.125, 0.1, 0.0, 0.0, 0.0, 0.0, -1.0],
}
BEST = "TP53, MYC, KRAS, PRKN, C1orf43"


def ranked(text: str, **kwargs: Any) -> tuple[float, dict[str, Any]]:
    return scored(ENV_ID, text, {"k": 5, **kwargs}, **SCREEN)


def reply(genes: str) -> str:
    return f"[[ ## reasoning ## ]]\nBecause.\n\n[[ ## answer ## ]]\n{genes}\n\n[[ ## completed ## ]]"


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (BEST, "TP53, MYC, KRAS, PRKN"),
        ("TP53, MYC, KRAS, PRKN", "TP53, MYC, PRKN, KRAS"),
        ("TP53, EGFR", "EGFR, TP53"),
        ("TP53, EGFR, MYC", "TP53, NF2, MYC"),
        ("TP53, ZZZ3, MYC", "TP53, EGFR, MYC"),  # a gene that the screen did not test takes no place
        ("TP53, MYC", "ZZZ1, ZZZ2, ZZZ3, ZZZ4, TP53, MYC"),
    ],
)
def test_a_better_order_earns_more(better: str, worse: str) -> None:
    assert ranked(reply(better))[0] > ranked(reply(worse))[0]


@pytest.mark.parametrize("genes", ["", "EGFR, PTEN, RB1, NF2", "NF2, TP53", ", ".join(f"XX{n}" for n in range(99))])
def test_no_better_than_chance_is_worth_nothing(genes: str) -> None:
    assert ranked(reply(genes))[0] == 0.0


@pytest.mark.parametrize(
    ("text", "here", "theirs"),
    [
        (reply("TP53, MYC, TP53"), ["TP53", "MYC", "TP53"], None),
        (reply("TP53, CSV, MYC"), ["TP53", "MYC"], None),
        (f"<think>{reply('NF2, EGFR')}</think>{reply('TP53')}", ["TP53"], None),
        (reply("TP53") + reply("MYC"), ["TP53"], None),
        ("TP53, MYC, KRAS, PTEN, EGFR", ["TP53", "MYC", "KRAS", "PTEN", "EGFR"], None),
        ("1. TP53\n2) MYC\n3. KRAS\n4. NF2\n5. RB1", ["TP53", "MYC", "KRAS", "NF2", "RB1"], None),
        ("\\begin{solution}{\"answer\": \"RB1, MYC, KRAS, NF2, ATM\"}\\end{solution} A1, B1, C1, D1, E1, F1",
         ["RB1", "MYC", "KRAS", "NF2", "ATM"], None),
        ("Of TP53 and MYC I know little.", [], None),
        (reply("1. TP53, **MYC**, KRAS (oncogene)"), ["TP53", "MYC", "KRAS"], []),
        (reply("TP53\nMYC"), ["TP53", "MYC"], []),
        (reply("C1orf43, TP53"), ["C1orf43", "TP53"], ["TP53"]),
        ("[[ ## answer ## ]]\nTP53, MYC", ["TP53", "MYC"], []),
        ("A1," * 50_000, None, None),
        ("[[ ## answer ## ]]\n" * 5_000, [], None),
    ],
)  # fmt: skip
def test_the_list_is_read_from_its_field(text: str, here: list[str] | None, theirs: list[str] | None) -> None:
    if here is not None:
        assert ranked(text)[1]["predicted_genes"] == here
        assert ranked(text, conform="nemo")[1]["predicted_genes"] == (here if theirs is None else theirs)
    else:
        assert ranked(text)[0] == 0.0


def test_names_are_mapped_by_hgncs_table(tmp_path: Path) -> None:
    table = (
        "HGNC ID\tApproved symbol\tPrevious symbols\tAlias symbols\nx\tPRKN\tPARK2\tPARKIN, PDJ\nx\tTNIP3\t\tABIN-3\n"
    )
    (tmp_path / "hgnc_symbols_cache.tsv").write_text(table + "x\tTP53\t\tP53\n")
    (tmp_path / "manual_mappings.json").write_text('{"mappings": {"PARK2": "TP53", "PATHWAY": null}}')
    _, plain = ranked(reply("PARK2, PDJ"))
    reward, info = ranked(reply("P53, PDJ, ABIN3, XX1"), genes=str(tmp_path))
    assert reward > 0 == ranked(reply("P53, PDJ, ABIN3, XX1"))[0] and info["hallucination_rate"] == 0.25
    assert ranked(reply("PARK2"), genes=str(tmp_path))[0] == ranked(reply("TP53"))[0]
    assert "hallucination_rate" not in plain
    with pytest.raises(DataError, match="hgnc_symbols_cache"):
        ranked("", genes=str(tmp_path.parent))


def test_long_lists_have_rates() -> None:
    _, info = ranked(reply("TP53, NF2, EGFR, ZZZ3, MYC, KRAS"))
    assert (info["precision"], info["normalized_precision"], info["fdr"], info["normalized_fdr"]) == (0.5, 0.5, 0.25, 1)
    assert "precision" not in ranked(reply("TP53"))[1]


def test_a_row_needs_a_hit_and_a_score_for_each_gene() -> None:
    nested = {"verifier_metadata": SCREEN}
    assert scored(ENV_ID, reply(BEST), {}, **nested)[0] == 1.0
    for wrong in ({"relevance_scores": [0.0] * 10}, {"relevance_scores": [1.0]}, {"relevance_genes": []}):
        with pytest.raises(DataError):
            scored(ENV_ID, "", {}, **{**SCREEN, **wrong})


def test_nemo_gyms_mapper_needs_the_table() -> None:
    with pytest.raises(ValueError, match="use_gene_mapper needs genes=FOLDER"):
        ranked(reply(BEST), use_gene_mapper=True)
    assert "genes" in own_values(ENV_ID, "nemo_gym_kwargs") and "use_gene_mapper" in own_values(
        ENV_ID, "nemo_gym_kwargs"
    )
