"""Web pages in headless Chromium through BrowserGym: MiniWoB++, offline."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ENV_ID = "gym_llm/BrowserGym-v0"
PACKAGES = ("browsergym-miniwob==0.14.3", "miniwob==1.1.0", "lxml<6")
MODULE = "browsergym"
FRAMEWORKS = ("browsergym",)
APART = True  # it wants an old Playwright, and Playwright a thread of its own
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FENCED = re.compile(r"```(?:\w*\n)?(.*?)```", re.DOTALL)
_LONG_WAIT = re.compile(r"\bnoop\s*\((?!\s*(?:wait_ms\s*=\s*)?(?:\d{1,4}(?:\.\d*)?)?\s*\))")  # of 10 s or more
_MOST_CHARACTERS = 10_000
_LAYOUT = "InlineTextBox "  # where lines break, which depends on the fonts of the machine
_CALL_LOG = "\nCall log:"  # of Playwright: how often it tried within its time, which depends on the machine's speed
_PAGES = re.compile(r"file://\S*?/miniwob/html/")


class Peer:
    """A task in a web page: the model sees the accessibility tree, and answers with one call such as `click('13')`.

    Args:
        env: Its id, with or without `browsergym/`: `miniwob.click-test`.
        env_kwargs: What `gymnasium.make` takes besides.
        subsets: Which of BrowserGym's actions there are. With `nav` the model can open each address, also of files.
        pictures: Whether the model sees the page as a picture, too.
    """

    recording = False

    def __init__(
        self,
        env: str = "miniwob.click-test",
        env_kwargs: dict[str, Any] | None = None,
        subsets: list[str] | None = None,
        pictures: bool = False,
    ) -> None:
        self._id, self._kwargs = f"browsergym/{env.removeprefix('browsergym/')}", dict(env_kwargs or {})
        self._subsets, self._pictures = subsets or ["chat", "infeas", "bid"], pictures
        self._env: Any = None

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Start a browser and open the page; the first message has the goal and the actions.

        Raises:
            FileNotFoundError: If Chromium is not installed.
        """
        return _in_thread(self._begin, seed)

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Act; the model reads why an action failed."""
        fenced = _FENCED.findall(action["text"])
        code = (fenced[-1] if fenced else action["text"]).strip()
        if len(code) > _MOST_CHARACTERS or _LONG_WAIT.search(code):
            said = f"Invalid: an action has at most {_MOST_CHARACTERS:,} characters, and waits less than 10 s."
            return {"say": said, "info": {"invalid_action": True}}
        return _in_thread(self._act, code)

    def close(self) -> None:
        """Close the browser."""
        if self._env is not None:
            _in_thread(self._env.close)

    def _begin(self, seed: int | None) -> dict[str, Any]:
        os.environ["PLAYWRIGHT_BROWSERS_PATH"] = _browsers()
        import gymnasium
        import miniwob
        from browsergym.core.action.highlevel import HighLevelActionSet

        __import__(f"browsergym.{self._id.partition('/')[2].partition('.')[0]}")
        os.environ.setdefault("MINIWOB_URL", f"file://{Path(miniwob.__file__).parent}/html/miniwob/")
        actions = HighLevelActionSet(subsets=self._subsets, multiaction=False, strict=False)
        self._env = gymnasium.make(self._id, action_mapping=actions.to_python_code, **self._kwargs)
        observation, _ = self._env.reset(seed=seed)
        turn = self._turn(observation)
        about = f"Goal: {observation['goal']}\n\n{actions.describe(with_long_description=False)}\nThe page:"
        say = turn["say"]
        if self._pictures:
            say[0]["content"].insert(0, {"type": "input_text", "text": about})
        else:
            turn["say"] = f"{about}\n{say}"
        if self.recording:
            turn["observation"] = {"goal": observation["goal"], **turn["observation"], "url": observation["url"]}
            del turn["observation"]["last_action_error"]
        return turn

    def _act(self, code: str) -> dict[str, Any]:
        observation, reward, terminated, truncated, _ = self._env.step(code)
        turn = self._turn(observation)
        return {**turn, "reward": float(reward), "terminated": bool(terminated), "truncated": bool(truncated)}

    def _turn(self, observation: Any) -> dict[str, Any]:
        from _gym_llm_theirs_views import picture
        from browsergym.utils.obs import flatten_axtree_to_str

        tree = flatten_axtree_to_str(observation["axtree_object"])
        error = observation["last_action_error"]
        text = f"The last action failed: {error}\n\n{tree}" if error else tree
        say: Any = text
        if self._pictures:
            parts = [{"type": "input_text", "text": text}, picture(observation["screenshot"])]
            say = [{"role": "user", "content": parts}]
        turn = {"say": say, "info": {"invalid_action": bool(error)}}
        if self.recording:
            turn["observation"] = {"axtree": tree, "last_action_error": error}
        return turn


@functools.cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)


def _in_thread(function: Any, *arguments: Any) -> Any:
    """Call a function in the thread of Playwright, which must not run in that of an event loop."""
    return _thread().submit(function, *arguments).result()


@functools.cache
def _browsers() -> str:
    """Return a folder with the machine's browser, where Playwright looks for the build that it would download."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise FileNotFoundError(f"{_BROWSERS[0]}: BrowserGym needs Chromium on the PATH")
    import playwright

    builds = json.loads((Path(playwright.__file__).parent / "driver/package/browsers.json").read_text())["browsers"]
    revision = next(build["revision"] for build in builds if build["name"] == "chromium")
    folder = Path(sys.prefix) / "browsers"
    place = folder / f"chromium-{revision}" / "chrome-linux" / "chrome"
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(f"chrome-{os.getpid()}")
    new.symlink_to(browser)
    new.replace(place)  # another child may do so at the same time
    return str(folder)


def compared(observation: dict[str, Any]) -> dict[str, Any]:
    """Return an observation without the folder of the pages, where lines break, and Playwright's log of its tries."""
    shown = {name: _PAGES.sub("file:///miniwob/html/", str(text)) for name, text in observation.items()}
    if "last_action_error" in shown:
        shown["last_action_error"] = shown["last_action_error"].partition(_CALL_LOG)[0]
    lines = shown.get("axtree", "").splitlines()
    return {**shown, "axtree": "\n".join(line for line in lines if not line.lstrip().startswith(_LAYOUT))}


def recorded(episode: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return the arguments and the seed of a recorded episode."""
    return {"env": episode["env"], "env_kwargs": episode["kwargs"]}, episode["seed"]
