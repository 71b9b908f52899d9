"""ParsingEngine: any engine, with parsers behind it."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from gym_llm.concurrency import drive
from gym_llm.engines.engine import Engine
from gym_llm.engines.sampling import wants_log_probs
from gym_llm.engines.text_log_probs import spread_log_probs
from gym_llm.protocols.responses.actions import output_items, with_status
from gym_llm.tokens.parsers import Parser, make_parser
from gym_llm.types import Request, ResponseDict


class ParsingEngine(Engine):
    """An engine that parses another engine's answers: reasoning and calls become separate items.

    Clients and environments then need no parsing wrapper. Everything but `respond` is the other engine's.

    Args:
        engine: The engine; started and closed with this one.
        parsers: Parsers (`gym_llm.tokens.parsers`) or their names, in the order of their use: reasoning is taken out
            before the tool-call parser runs.

    Raises:
        ValueError: If a parser's name is unknown.

    >>> from gym_llm.engines import make_engine
    >>> ParsingEngine(make_engine("http://localhost:8000/v1"), ["reasoning", "tool_calls"]).model
    ''
    """

    def __init__(self, engine: Engine, parsers: Iterable[str | Parser]) -> None:
        self.engine = engine
        self._parsers = [make_parser(parser) if isinstance(parser, str) else parser for parser in parsers]

    async def respond(self, request: Request, *, episode_id: str = "") -> ResponseDict:
        """The engine's answer, parsed; see `Engine.respond`."""
        response = await self.engine.respond(request, episode_id=episode_id)
        sampled = items = with_status(response, output_items(response))  # what a server sent may be anything
        for parser in self._parsers:
            items = await drive(parser.parse, items, request)  # one that works in another process waits for it
        if wants_log_probs(request):
            items = spread_log_probs(sampled, items)
        return {**response, "output": items}

    def __getattr__(self, name: str) -> Any:
        """What this engine has not, the other may have: weights, say."""
        if name == "engine":  # while this is being unpickled
            raise AttributeError(name)
        return getattr(self.engine, name)


# What the base class has is not looked for by `__getattr__`.
for _name in vars(Engine).keys() - vars(ParsingEngine).keys():
    if not _name.startswith("_"):
        setattr(ParsingEngine, _name, property(attrgetter(f"engine.{_name}")))
