"""The picture of an attack's report, drawn from an attack on the verifier of docs/how-to/attack.md."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from drawing import Picture, colour

PAGE = Path(__file__).parents[1] / "how-to" / "attack.md"
_SHOWN = ("letters after", "two answers", "taken back", "expected_answer")
_STATES = {"found": ("red", "\u2715"), "clean": ("green", "\u2713"), "not applicable": ("line", "\u2013")}


def attack_report():
    """Return the picture.

    Raises:
        RuntimeError: If a check had no time, or a finding that the picture shows is missing.
    """
    report = _attack()
    about = "The report of an attack on a verifier: wrong answers that it rewards, and the checks that found something"
    picture = Picture("attack_report", about, 1000, 560)
    picture.text(28, 42, "gym-llm env attack ./letters.py:Capitals", size=15, bold=True, mono=True)
    picture.text(28, 66, "return float(task.expected_answer in episode.answer)", size=13, hue="soft", mono=True)
    count = len(report["findings"])
    picture.box(786, 22, 186, 50, hue="red", title=f"{count} findings", mono=False)

    for x, title in ((28, "asked for a capital, the model says"), (560, "reward"), (690, "found by")):
        picture.text(x, 108, title, size=13, hue="soft")
    findings = {finding["attack"]: finding for finding in report["findings"]}
    for number, name in enumerate(_SHOWN):
        finding = findings.get(name)
        if finding is None:
            raise RuntimeError(f"The attack found no {name!r}; draw again on an idle machine.")
        y = 120 + number * 46
        picture.box(28, y, 944, 40)
        picture.text(44, y + 25, _in_a_line(finding["action"]), size=14, mono=True)
        # The bar is as long as the reward.
        picture.raw(f'<rect x="560" y="{y + 13}" width="60" height="14" rx="3" fill="{colour("red")}"/>')
        picture.text(630, y + 25, finding["got"].removeprefix("reward "), size=14, bold=True, hue="red")
        picture.text(690, y + 25, f"{finding['check']}: {name}", size=13)

    picture.text(28, 334, "all checks", size=13, hue="soft")
    for number, check in enumerate(sorted(report["checks"], key=lambda each: list(_STATES).index(each["state"]))):
        hue, sign = _STATES[check["state"]]
        x, y = 28 + 238 * (number % 4), 346 + 34 * (number // 4)
        picture.box(x, y, 228, 28, hue="plain" if hue == "line" else hue)
        picture.text(x + 14, y + 19, sign, size=14, bold=True, hue=hue if hue != "line" else "soft")
        picture.text(x + 34, y + 19, check["name"], size=13)
    return picture


def _attack():
    code = re.search(r"<!-- file: letters.py -->\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[1]
    command = [
        sys.executable,
        "-m",
        "gym_llm.cli",
        "env",
        "attack",
        "./letters.py:Capitals",
        "--json",
        "--seconds",
        "300",
    ]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "letters.py").write_text(code, "utf-8")
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    (report,) = json.loads(done.stdout)
    late = [check["name"] for check in report["checks"] if check["state"] not in _STATES]
    if late:
        raise RuntimeError(f"There was no time for {', '.join(late)}; draw again on an idle machine.")
    return report


def _in_a_line(text):
    return text.replace("\n", " \u23ce ")
