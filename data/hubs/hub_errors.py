"""Error messages for the HTTP statuses of a hub."""

from __future__ import annotations

from gym_llm.errors import Refused

_REASONS = {
    401: "does not accept the token (401) to {doing}: put a valid {token} into env.yaml",
    403: "does not allow this {token} to {doing} (403): use another, or ask its owner",
    404: "cannot {doing} (404): there is no such thing, or your {token} may not see it{detail}",
    409: "cannot {doing} (409): it is there already, or somebody else is changing it{detail}",
    412: "cannot {doing} (412): somebody else changed it meanwhile; try again",
    429: "has had too many requests to {doing} (429): try again {when}",
}


def refusal(
    place: str, doing: str, status: int, *, token: str, detail: str = "", code: str = "", wait: str = ""
) -> Refused:
    """The error for a status (0: there was no answer), in a sentence that names the `token`'s setting where it matters.

    `detail` is what the hub said and `code` its name for that; `wait` are the seconds that its header asks for.

    >>> print(refusal("GitLab", "read dataset a", 401, token="mlflow_tracking_token"))
    GitLab does not accept the token (401) to read dataset a: put a valid mlflow_tracking_token into env.yaml.
    """
    detail = " ".join(detail.split()).rstrip(".")[:300]
    if status == 0:
        reason = f"could not be reached to {doing}: {detail or 'no answer'}"
    elif status in _REASONS:
        when = f"in {wait} seconds" if wait.isdigit() else "in some minutes"
        reason = _REASONS[status].format(doing=doing, token=token, when=when, detail=detail and f" ({detail})")
    else:
        reason = f"could not {doing} ({status}{': ' + detail if detail else ''})"
    return Refused(f"{place} {reason}.", status, code)
