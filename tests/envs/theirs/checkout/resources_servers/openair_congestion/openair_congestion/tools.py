"""Two tools."""

_CAP = {"type": "object", "properties": {"cap": {"type": "integer", "maximum": 9}}, "required": ["cap"]}
TOOLS = [
    {"type": "function", "function": {"name": "set_cap", "description": "Set the cap.", "parameters": _CAP}},
    {"type": "function", "function": {"name": "noop", "description": "Wait.", "parameters": {"type": "object"}}},
]
