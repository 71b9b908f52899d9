"""The picture of an episode for a phone: the same boxes as in episode_cycle.py, from top to bottom."""

from drawing import Picture, colour, path
from episode_cycle import ABOUT

LEFT, RIGHT = 26, 394  # where the outputs of tools and the user's messages go back up


def episode_cycle_narrow():
    """Return the picture."""
    picture = Picture("episode_cycle_narrow", ABOUT, 420, 726)
    for top, height in ((8, 132), (284, 320)):
        picture.raw(
            f'<rect x="8" y="{top}" width="404" height="{height}" rx="12" fill="none" stroke="{colour("line")}" '
            f'stroke-width="1.4" stroke-dasharray="3 4"/>'
        )
    loop = [(210, 248), (210, 322), (90, 322), (90, 413), (LEFT, 413), (LEFT, 209), (210, 209), (210, 248)]
    # A dot goes round, behind the boxes; readers who ask for less motion do not see it.
    picture.raw(
        f'<circle class="moving" r="6" fill="{colour("red")}"><animateMotion dur="9s" repeatCount="indefinite" '
        f'path="{path(loop)}"/></circle>'
    )

    picture.text(20, 31, "the environment: your class", size=15, bold=True)
    picture.box(20, 44, 118, 84, hue="blue", title="generate", lines=["a task, or", "a file has it"])
    picture.box(151, 44, 118, 84, hue="blue", title="setup", lines=["the episode's", "state"])
    picture.box(282, 44, 118, 84, hue="blue", title="opening", lines=["the user's", "first message"])
    picture.arrow((138, 86), (149, 86))
    picture.arrow((269, 86), (280, 86))
    picture.arrow((320, 128), (320, 168), hue="violet")
    picture.text(312, 159, "request: the observation", size=12.5, hue="violet", anchor="end")

    picture.box(
        64, 170, 292, 78, hue="violet", title="engine", lines=["vLLM, a server, an agent,", "a trainer's model: yours"]
    )
    picture.arrow((210, 248), (210, 298), hue="violet")
    picture.text(218, 270, "response: the action", size=12.5, hue="violet")

    picture.box(135, 300, 150, 44, title="calls or text?", mono=False)
    picture.box(44, 374, 152, 78, hue="green", title="@tool", lines=["runs, or says", "what is wrong"])
    picture.box(224, 374, 152, 78, hue="green", title="user_turn", lines=["the user's", "next message"])
    picture.arrow((135, 322), (90, 322), (90, 372), hue="green")
    picture.text(98, 360, "calls", size=12.5, hue="green")
    picture.arrow((285, 322), (330, 322), (330, 372), hue="green")
    picture.text(322, 360, "text", size=12.5, hue="green", anchor="end")
    picture.arrow((44, 413), (LEFT, 413), (LEFT, 209), (62, 209), hue="green")
    picture.text(LEFT + 8, 308, "outputs", size=12.5, hue="green")
    picture.arrow((376, 413), (RIGHT, 413), (RIGHT, 209), (358, 209), hue="green")
    picture.text(RIGHT - 8, 308, "a message", size=12.5, hue="green", anchor="end")

    picture.box(44, 526, 168, 62, hue="red", title="verify", lines=["a reward, or a Verdict"])
    picture.box(236, 526, 140, 62, hue="blue", title="teardown", lines=["on every way out"])
    picture.arrow((210, 344), (210, 480), (84, 480), (84, 524), hue="amber", dashed=True)
    picture.text(92, 473, "cut off: truncated", size=12.5, hue="amber")
    picture.arrow((300, 452), (300, 502), (150, 502), (150, 524), hue="red")
    picture.text(292, 495, "None: the end", size=12.5, hue="red", anchor="end")
    picture.arrow((212, 557), (234, 557))

    picture.box(
        64, 640, 292, 78, title="record", lines=["reward, tokens, timing;", "scored, truncated or masked"], mono=False
    )
    picture.arrow((128, 588), (128, 638), hue="red")
    picture.text(136, 626, "a failure anywhere masks it", size=12.5, hue="soft")
    return picture
