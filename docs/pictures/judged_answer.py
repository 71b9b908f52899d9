"""The picture of a judged answer: when a reply of the judge is a verdict, and what happens when it is not."""

from drawing import Picture


def judged_answer():
    """Return the picture."""
    about = (
        "A judged answer: the prompt is filled, the judge replies; a reply that is cut off, refused or unreadable is "
        "asked for again, and then masks the episode; a verdict becomes the reward"
    )
    picture = Picture("judged_answer", about, 1000, 250)
    picture.box(24, 40, 172, 70, hue="blue", title="the prompt", lines=["question, reference,", "answer"], mono=False)
    picture.box(236, 40, 152, 70, hue="violet", title="the judge", lines=["any engine"], mono=False)
    picture.box(428, 40, 152, 70, title="complete?", lines=["not cut off,", "not refused"], mono=False)
    picture.box(620, 40, 152, 70, title="readable?", lines=["the last whole", "label"], mono=False)
    picture.box(812, 40, 164, 70, hue="green", title="reward", lines=["and the verdict", "in the record"], mono=False)
    for x in (196, 388, 580, 772):
        picture.arrow((x, 75), (x + 38, 75))
    picture.text(600, 66, "yes", size=12.5, hue="soft", anchor="middle")
    picture.text(792, 66, "yes", size=12.5, hue="soft", anchor="middle")
    picture.arrow((504, 110), (504, 138), hue="amber", dashed=True)
    picture.arrow((696, 110), (696, 140), (312, 140), (312, 112), hue="amber", dashed=True)
    picture.text(320, 158, "no: the judge is asked again", size=12.5, hue="amber")
    picture.box(
        428,
        176,
        344,
        56,
        hue="red",
        title="masked: no reward",
        lines=["still no verdict, or the engine failed"],
        mono=False,
    )
    picture.arrow((600, 140), (600, 174), hue="red")
    return picture
