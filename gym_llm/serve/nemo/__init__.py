"""Environments as NeMo Gym's resources servers (0.4 to 0.7): its agents seed a session, call tools, and have it scored.

- `POST /seed_session`: take a row, begin a session and set its cookie; the answer has the address of MCP.
- `POST /TOOL`: take a call's arguments, return the text for the model.
- `POST /verify`: take the row and `response`, return both with `reward`, `mask_sample` and the verifier's fields.
- `POST /close_session`: end the session without a reward.
- `POST /reset`, `/step`, `/close`: play turn by turn, as NeMo Gym's Gymnasium servers do.
- `POST /aggregate_metrics`: return statistics over many answers of `/verify`.
- `GET /reverify_mode`: return whether `/verify` needs a session.

A signed cookie identifies the session. Every answer sets it, because some agents keep only the last cookie.
"""

from gym_llm.serve.nemo.nemo_frontend import NemoFrontend

__all__ = ["NemoFrontend"]
