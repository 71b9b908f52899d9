"""From what a model wrote to reasoning, messages and function calls: parsers, and a registry of them by name."""

from gym_llm.tokens.parsers.parser import MessageParser, Parser
from gym_llm.tokens.parsers.parser_registry import make_parser, parser_names

__all__ = ["MessageParser", "Parser", "make_parser", "parser_names"]
