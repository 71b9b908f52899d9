"""Environments over MCP: an episode's tools, `submit` for the answer, and `reset` for a task.

Each client has a session of its own, which begins in one of three ways:

- by the handshake (revisions up to 2025-11-25): the session id is in the header `Mcp-Session-Id`;
- by a call of `reset` without a session, as the stateless revision (2026-07-28) requires. The structured result has
  the id as `session`. The client sends it as the header `X-NeMo-Gym-Session-Token` or as `gym-llm/session` in `_meta`;
- by the NeMo Gym protocol, which has begun the episode and gives its client a token.

An address that names a task (`/mcp?task_index=3`, `/mcp?seed=7`) begins that task at once. It has no `reset`, so a
model cannot look for an easier task.
"""

from gym_llm.serve.mcp.mcp_frontend import McpFrontend

__all__ = ["McpFrontend"]
