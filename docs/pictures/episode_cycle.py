"""The picture of an episode: who calls which hook, and in which order."""

from drawing import Picture, colour, path

ABOUT = (
    "An episode: generate, setup and opening make the first request; the engine responds; calls run tools, "
    "texts ask user_turn, and both lead to the next request; verify scores the end, "
    "teardown follows, and a record is written"
)


def episode_cycle():
    """Return the picture."""
    picture = Picture("episode_cycle", ABOUT, 1000, 490)
    picture.raw(
        f'<rect x="308" y="20" width="672" height="450" rx="14" fill="none" stroke="{colour("line")}" '
        f'stroke-width="1.4" stroke-dasharray="3 4"/>'
    )
    picture.text(326, 46, "the environment: your class", size=15, bold=True)
    picture.text(960, 46, "each hook may be async; only verify is required", size=12.5, hue="soft", anchor="end")

    loop = [(244, 282), (510, 282), (510, 221), (826, 221), (826, 166), (134, 166), (134, 282), (244, 282)]
    # A dot goes round, behind the boxes; readers who ask for less motion do not see it.
    picture.raw(
        f'<circle class="moving" r="6" fill="{colour("red")}"><animateMotion dur="9s" repeatCount="indefinite" '
        f'path="{path(loop)}"/></circle>'
    )

    picture.box(320, 64, 196, 62, hue="blue", title="generate", lines=["a task, or a file has it"])
    picture.box(540, 64, 196, 62, hue="blue", title="setup", lines=["the episode's state"])
    picture.box(760, 64, 196, 62, hue="blue", title="opening", lines=["the user's first message"])
    picture.arrow((516, 95), (538, 95))
    picture.arrow((736, 95), (758, 95))

    picture.box(
        24, 148, 220, 152, hue="violet", title="engine", lines=["vLLM, a server, an agent,", "a trainer's model: yours"]
    )
    picture.arrow((858, 126), (858, 166), (246, 166), hue="violet")
    picture.text(322, 158, "request: the observation", size=12.5, hue="violet")
    picture.arrow((244, 282), (318, 282), hue="violet")
    picture.text(302, 318, "response:", size=12.5, hue="violet", anchor="end")
    picture.text(302, 334, "the action", size=12.5, hue="violet", anchor="end")

    picture.box(320, 250, 150, 64, title="calls or text?", mono=False)
    picture.box(560, 190, 196, 62, hue="green", title="@tool", lines=["runs, or says what is wrong"])
    picture.box(560, 282, 196, 62, hue="green", title="user_turn", lines=["the user's next message"])
    picture.arrow((470, 268), (510, 268), (510, 221), (558, 221), hue="green")
    picture.text(476, 212, "calls", size=12.5, hue="green")
    picture.arrow((470, 298), (510, 298), (510, 313), (558, 313), hue="green")
    picture.text(476, 334, "text", size=12.5, hue="green")
    picture.arrow((756, 221), (826, 221), (826, 168), hue="green")
    picture.text(764, 214, "outputs", size=12.5, hue="green")
    picture.arrow((756, 313), (890, 313), (890, 166), (862, 166), hue="green")
    picture.text(764, 306, "a message", size=12.5, hue="green")

    picture.box(560, 386, 196, 62, hue="red", title="verify", lines=["a reward, or a Verdict"])
    picture.box(780, 386, 176, 62, hue="blue", title="teardown", lines=["on every way out"])
    picture.arrow((658, 344), (658, 384), hue="red")
    picture.text(668, 369, "None: the end", size=12.5, hue="red")
    picture.arrow((756, 417), (778, 417))
    picture.arrow((395, 314), (395, 402), (558, 402), hue="amber", dashed=True)
    picture.text(403, 394, "cut off: truncated", size=12.5, hue="amber")
    picture.box(
        24, 376, 220, 82, title="record", lines=["reward, tokens, timing;", "scored, truncated or masked"], mono=False
    )
    picture.arrow((560, 434), (246, 434), hue="red")
    picture.text(322, 453, "a failure anywhere masks it", size=12.5, hue="soft")

    return picture
