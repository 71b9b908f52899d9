"""Draw the pictures of the documentation into docs/images: `python docs/pictures/draw.py [NAME...]`."""

import sys
from pathlib import Path

from attack_report import attack_report
from episode_cycle import episode_cycle
from episode_cycle_narrow import episode_cycle_narrow
from judged_answer import judged_answer
from outcomes import outcomes
from played_episode import played_episode
from token_branches import token_branches

IMAGES = Path(__file__).parents[1] / "images"
PICTURES = {
    draw.__name__: draw
    for draw in (
        episode_cycle,
        episode_cycle_narrow,
        outcomes,
        judged_answer,
        token_branches,
        attack_report,
        played_episode,
    )
}


def main(names):
    """Draw the named pictures, or all of them."""
    for name in names or PICTURES:
        (IMAGES / f"{name}.svg").write_text(PICTURES[name]().svg(), "utf-8")
        print(f"docs/images/{name}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
