"""Environments as NeMo Gym's resources servers (0.4 to 0.7): agents seed a session, call tools, and verify it.

```text
POST /seed_session    a row                    -> {}, a session cookie, and MCP's address
POST /TOOL            a call's arguments       -> the text for the model
POST /verify          the row and `response`   -> both, with `reward`, `mask_sample` and the verifier's details
POST /close_session                            -> ends the session
POST /reset, /step, /close                     -> an episode turn by turn, as in NeMo Gym's Gymnasium servers
POST /aggregate_metrics                        -> figures over many replies of /verify
GET  /reverify_mode                            -> whether /verify needs a session
```

A signed cookie identifies a session. Every reply sets it, because some agents keep only the last one.
"""

from gym_llm.serve.nemo.nemo_frontend import NemoFrontend

__all__ = ["NemoFrontend"]
