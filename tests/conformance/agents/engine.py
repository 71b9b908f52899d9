"""The model behind the capture server, and its log: the truth that a trajectory is compared with.

What it answers is up to the conversation. Where the prompt's last directive, `[[run:0123abcd {"say": "yes"}]]`, says
what to sample, it samples the tokens of that, with log probabilities that are made up and alike in no two calls. Where
there is none, the pocket model samples. In both cases the prompt is made by the real `PromptTokens` from the real
tokenizer and chat template, and every call is logged with the ids that were read and sampled.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gym_llm.engines.engine import Capabilities, Engine
from gym_llm.engines.engine_response import text_response
from gym_llm.engines.parsing_engine import ParsingEngine
from gym_llm.engines.pocket import PocketEngine
from gym_llm.engines.prompt_ids import build_prompt, load_prompt_tokens
from gym_llm.engines.thoughts import settle_thought
from gym_llm.tokens.prompt_tokens import PromptTokens
from gym_llm.types import Item, Request, ResponseDict

MODEL = "pocket"
"""The name of the model that is trained."""
OTHER_MODEL = "judge-of-another-house"
"""The name of one that is not."""

RUN = re.compile(r"run:([0-9a-f]{8})")
_DIRECTIVE = re.compile(r"\[\[run:([0-9a-f]{8}) (?=\{)")
_SPECIAL = re.compile(r"(<\|?/?[a-z_]+\|?>)")


@dataclass(frozen=True)
class Call:
    """One call as the engine sampled it.

    Attributes:
        number: In the order in which the calls were finished.
        run: Whose it is: the last `run:` in its prompt, "" without one.
        model: The model that was asked.
        prompt: The token ids that were read.
        sampled: Those that were sampled.
        log_probs: Theirs.
        said: What a client gets of it; see `said`.
        prompt_text: The prompt as text, for whoever looks for a mistake.
    """

    number: int
    run: str
    model: str
    prompt: list[int]
    sampled: list[int]
    log_probs: list[float]
    said: list[Any]
    prompt_text: str = ""


@dataclass
class Log:
    """All calls that an engine has answered, in order."""

    calls: list[Call] = field(default_factory=list)

    def of(self, run: str) -> list[Call]:
        """Those of one run."""
        return [call for call in self.calls if call.run == run]

    async def fetch(self, run: str) -> list[Call]:
        """As `of`, for where the log may be another process's."""
        return self.of(run)


def said(reasoning: str, text: str, calls: list[tuple[str, str]]) -> list[Any]:
    """What was said, comparable whichever API told it: no space around texts, arguments as JSON values."""
    return [reasoning.strip(), text.strip(), [[name, _value(arguments)] for name, arguments in calls]]


class DirectedEngine(PocketEngine):
    """The pocket model, which says what a directive in its prompt tells it to.

    A directive is a JSON object after the name of its run. `think`, `say` and `calls` (`[[name, arguments], ...]`) are
    what is sampled, in that order; `{n}` in `say` is the number of the call in its run. `odd` splits the text into
    other tokens than the tokenizer does, as a model that samples may. `wait` is how many seconds it takes.
    `max_output_tokens` and `stop` of the request count, as with vLLM: a stop text is sampled, and not told.
    """

    capabilities = Capabilities(token_ids=True, tools=True)

    def __init__(self) -> None:
        super().__init__(max_new_tokens=96)
        self.prompts: PromptTokens  # its own: the pocket model makes its prompts in another thread
        self._tokens: Any
        self._answers: Counter[str] = Counter()

    async def start(self) -> None:
        await super().start()
        self.prompts = load_prompt_tokens(self._path, self.history)
        self._tokens = self.prompts._tokenizer

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        prompt = build_prompt(self.prompts, request, conversation=episode_id, model=self.model)
        run, directive = _last_directive(self.prompts.decode(prompt))
        if directive is None:
            return await super().respond(request, episode_id=episode_id)
        self._answers[run] += 1
        number = self._answers[run]
        if directive.get("wait"):
            await asyncio.sleep(directive["wait"])
        text = _written(directive, number)
        # The same pieces in each run of an agent, so that it is the same for each server.
        sampled = self._ids(text, random.Random(f"{number} {text}") if directive.get("odd") else None)
        text, sampled, incomplete = self._cut(sampled, request)
        generator = random.Random(f"{run} {number}")
        log_probs = [-generator.expovariate(2.0) for _ in sampled]
        response = text_response(text, tokens=(prompt, sampled, log_probs), model=self.model, incomplete=incomplete)
        return settle_thought(response, prompt, self.prompts)

    def _ids(self, text: str, generator: random.Random | None) -> list[int]:
        """A turn's ids, end included; with a generator, its words in pieces that the tokenizer would not make."""
        pieces = [text]
        if generator is not None:
            pieces = []
            for part in _SPECIAL.split(text):
                while part and not _SPECIAL.fullmatch(part):
                    size = generator.randint(1, 3)
                    pieces.append(part[:size])
                    part = part[size:]
                pieces.append(part)
        ids = [token for piece in pieces if piece for token in self._tokens.encode(piece, add_special_tokens=False)]
        return [*ids, self._tokens.eos_token_id]

    def _cut(self, sampled: list[int], request: Request) -> tuple[str, list[int], str | None]:
        """What is told of a turn, its ids, and why it ended early, if it did."""
        stops: Any = request.get("stop") or ()
        stops = [stops] if isinstance(stops, str) else stops
        limit = request.get("max_output_tokens") or len(sampled)
        text = self.prompts.decode(sampled[:-1])
        for count in range(1, min(limit, len(sampled) - 1) + 1) if stops else ():
            text = self.prompts.decode(sampled[:count])
            if places := [text.index(stop) for stop in stops if stop in text]:
                return text[: min(places)], sampled[:count], None
        if limit < len(sampled):
            return self.prompts.decode(sampled[:limit]), sampled[:limit], "max_output_tokens"
        return text, sampled, None


class LoggedEngine(Engine):
    """A `DirectedEngine` behind parsers for thinking and calls, which writes down what it answers.

    Attributes:
        log: What it has answered. A call that is cancelled before its answer was there is not in it.
    """

    model = MODEL
    capabilities = DirectedEngine.capabilities

    def __init__(self) -> None:
        self.directed = DirectedEngine()
        self._engine = ParsingEngine(self.directed, ["reasoning", "tool_calls"])
        self.log = Log()

    async def start(self) -> None:
        await self._engine.start()

    async def aclose(self) -> None:
        await self._engine.aclose()

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        return await self.answer(request, model=MODEL, episode_id=episode_id)

    async def answer(self, request: Request, *, model: str, episode_id: str = "") -> ResponseDict:
        """Answer as the model of this name, which is another only to the log."""
        response = await self._engine.respond(request, episode_id=episode_id)
        turn = response["output"][-1]
        text = self.directed.prompts.decode(turn["prompt_token_ids"])
        runs = RUN.findall(text)
        self.log.calls.append(
            Call(
                number=len(self.log.calls),
                run=runs[-1] if runs else "",
                model=model,
                prompt=list(turn["prompt_token_ids"]),
                sampled=list(turn["generation_token_ids"]),
                log_probs=list(turn["generation_log_probs"]),
                said=_said_by(response["output"]),
                prompt_text=text,
            )
        )
        return {**response, "model": model}


class OtherModel(Engine):
    """The same engine under another name, started and closed as `engine` is: a model that is not trained."""

    model = OTHER_MODEL
    capabilities = DirectedEngine.capabilities

    def __init__(self, engine: LoggedEngine) -> None:
        self._engine = engine

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        return await self._engine.answer(request, model=self.model, episode_id=episode_id)


def _said_by(output: list[Item]) -> list[Any]:
    parts: dict[str, str] = {"reasoning": "", "message": ""}
    calls = []
    for item in output:
        if item["type"] == "function_call":
            calls.append((item["name"], item["arguments"]))
        else:
            parts[item["type"]] += "".join(part["text"] for part in item.get("content") or item.get("summary") or ())
    return said(parts["reasoning"], parts["message"], calls)


def _written(directive: dict[str, Any], number: int) -> str:
    """The text of a turn, as the model's chat template would show it."""
    text = f"<think>\n{directive['think']}\n</think>\n\n" if directive.get("think") else ""
    spoken = directive.get("say", "").replace("{n}", str(number))
    calls = []
    for name, arguments in directive.get("calls", ()):
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        calls.append(f'<tool_call>\n{{"name": "{name}", "arguments": {written}}}\n</tool_call>')
    return text + "\n".join(filter(None, [spoken, *calls]))


def _last_directive(prompt: str) -> tuple[str, dict[str, Any] | None]:
    """Its run, and what it says; None if there is none."""
    matches = list(_DIRECTIVE.finditer(prompt))
    if not matches:
        return "", None
    directive: dict[str, Any] = json.JSONDecoder().raw_decode(prompt, matches[-1].end())[0]
    return matches[-1][1], directive


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
