"""Tools: methods of an environment that the model may call."""

from gym_llm.core.tools.tool import Tool, error_output, tool, tool_output, tools_of

__all__ = ["Tool", "error_output", "tool", "tool_output", "tools_of"]
