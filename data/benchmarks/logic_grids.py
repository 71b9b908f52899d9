"""Logic grid puzzles: ZebraLogic."""

from __future__ import annotations

import json
from typing import Any

from gym_llm.data.files.conversion import messages
from gym_llm.data.recipes.recipe import Benchmark, Source
from gym_llm.types import Row

_ASK = (
    "{puzzle}\n\n"
    "Work out which value belongs in each cell. Write the values as the puzzle lists them. "
    "End with one JSON object of this form:\n\n```json\n{form}\n```"
)
_BLANK = "___"


def zebra(row: dict[str, Any]) -> Row:
    """Ask for every cell of the grid; a puzzle whose solution is blanked out cannot be graded."""
    header, rows = list(row["solution"]["header"]), [list(each) for each in row["solution"]["rows"]]
    if any(_BLANK in each for each in rows):
        raise ValueError("the solution has blank cells")
    form = {"solution": {f"House {each[0]}": dict.fromkeys(header[1:], _BLANK) for each in rows}}
    return {
        "responses_create_params": messages(_ASK.format(puzzle=row["puzzle"], form=json.dumps(form, indent=2))),
        "id": row["id"],
        "size": row["size"],
        "puzzle": row["puzzle"],
        "solution": {"header": header, "rows": rows},
    }


BENCHMARKS = [
    Benchmark(
        name="zebralogic",
        title="ZebraLogic: logic grid puzzles from 2 to 6 houses, every cell of the grid",
        domain="reasoning",
        sources=(Source("WildEval/ZebraLogic", config="grid_mode", split="test"),),
        convert=zebra,
        env_id="gym_llm/ZebraLogic-v0",
        rows=1000,
        facts=(
            "WildEval/ZeroEval 8c1485ed, src/evaluation/zebra_grid_eval.py, src/_TEMPLATES.py and "
            "result_dirs/zebra-grid.summary.md (1,000 puzzles); the dataset's page on the hub"
        ),
        notes="The prompt is ours. ZeroEval's has an example puzzle, and asks for the reasoning in the JSON, too.",
    ),
]
