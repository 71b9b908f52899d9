"""Environments as NeMo Gym's resources servers (0.4 to 0.7): its agents seed a session, call tools, and have it scored.

    POST /seed_session    a row                    -> {} and a session cookie (and where MCP is)
    POST /TOOL            a call's arguments       -> the text for the model
    POST /verify          the row and `response`   -> the same, with `reward`, `mask_sample` and what the verifier says
    POST /close_session                            -> the session is given up
    POST /reset, /step, /close                     -> the same turn by turn, as NeMo Gym's Gymnasium servers have it
    POST /aggregate_metrics                        -> figures over many answers of /verify
    GET  /reverify_mode                            -> whether /verify needs a session

A session is known by a signed cookie, which comes with every answer, because some agents keep only the last one.
"""

from gym_llm.serve.nemo.nemo_frontend import NemoFrontend

__all__ = ["NemoFrontend"]
