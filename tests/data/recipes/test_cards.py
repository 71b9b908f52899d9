"""The cards beside the recipes say what an audit says."""

from __future__ import annotations

from testing import ROOT

from gym_llm.author.audit import Audit, card_of
from gym_llm.data.recipes.catalogue import find_benchmark


def test_cards_belong_to_recipes_and_name_the_rows() -> None:
    cards = sorted((ROOT / "data/benchmarks/cards").glob("*.md"))
    assert cards
    for card in cards:
        recipe = find_benchmark(card.stem.replace("--", ":"))
        assert card_of(recipe).resolve() == card and "- digest of " in card.read_text()


def test_a_card_shows_its_origin() -> None:
    audit = Audit("sums", 3, played=3, official=2, failures=[(1, "reward 0")], origin={"revision": "abc"})
    assert "- task 1: reward 0" in audit.card() and audit.card().endswith("- revision: abc\n")
