"""Environments over MCP: an episode's tools, `submit` for the answer, and `reset` for a task.

Each client has its own session, which begins in one of three ways:

- By the handshake (revisions up to 2025-11-25). The session id is in the header `Mcp-Session-Id`.
- By a call of `reset` without a session, as the stateless revision (2026-07-28) requires. The id is `session` in the
  structured result. The client sends it as the header `X-NeMo-Gym-Session-Token`, or as `gym-llm/session` in `_meta`.
- By the NeMo Gym protocol, which starts the episode and gives its client a token.

An address can name a task: `/mcp?task_index=3` or `/mcp?seed=7`. It starts the task at once and has no `reset`, so a
model cannot look for an easier task.
"""

from gym_llm.serve.mcp.mcp_frontend import McpFrontend

__all__ = ["McpFrontend"]
