"""ReplayedAnswers: recorded answers in the place of a judge or a user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gym_llm.data.files.jsonl import read_jsonl
from gym_llm.engines import Engine, text_response
from gym_llm.errors import EngineError
from gym_llm.types import Request, ResponseDict
from gym_llm.utils.json_codec import dumps


class ReplayedAnswers(Engine):
    """An engine that answers with recorded texts: those of the same messages, else the next unused one in order.

    Of several texts for the same messages each is used once, and the last one again and again.

    Args:
        path: A file of JSON lines, `{"text": "…"}` with or without `"input": [messages]`; "" without a file.
        answers: The same as a list: texts, or such objects.

    Raises:
        DataError: If the file cannot be read.
        ValueError: If neither or both are given, or a line has no text.
    """

    def __init__(self, path: str = "", *, answers: Iterable[str | dict[str, Any]] | None = None) -> None:
        if (answers is None) == (not path):
            raise ValueError("replay:FILE has a file of JSON lines, or a bare replay: has answers=[...].")
        lines = [line for _, line in read_jsonl(path)] if answers is None else list(answers)
        self.model = "replay"
        self._texts: list[str] = []
        self._said: set[int] = set()
        self._next = 0
        self._by_input: dict[bytes, list[int]] = {}
        for number, line in enumerate(lines):
            text = line if isinstance(line, str) else line.get("text") if isinstance(line, dict) else None
            if not isinstance(text, str):
                raise ValueError(f"answer {number + 1} of the replay has no `text`.")
            self._texts.append(text)
            if isinstance(line, dict) and isinstance(messages := line.get("input"), list):
                self._by_input.setdefault(_key(messages), []).append(number)

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """Return the recorded answer; see `Engine.respond`. Raise an EngineError when all are used."""
        numbers = self._by_input.get(_key(request["input"]))
        number = (
            next((each for each in numbers if each not in self._said), numbers[-1]) if numbers else self._in_order()
        )
        self._said.add(number)
        return text_response(self._texts[number], model=self.model)

    def _in_order(self) -> int:
        while self._next in self._said:
            self._next += 1
        if self._next >= len(self._texts):
            raise EngineError(f"The replay has {len(self._texts)} answers, and one more was asked for.")
        return self._next


def _key(messages: Any) -> bytes:
    if isinstance(messages, str):
        return dumps([["user", messages]])
    return dumps([[item.get("role"), _text(item.get("content"))] for item in messages if isinstance(item, dict)])


def _text(content: Any) -> Any:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content
