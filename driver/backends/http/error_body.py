"""What a model server complains of in an error body, and which fault that is. Pure.

Knows the shapes in which servers report errors and the words that say more than a status does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from driver.backend_api.provider_fault import FaultKind
from driver.terminal.safe_text import safe_line

_MAX_SHOWN = 600

_BY_STATUS = {
    401: FaultKind.BAD_KEY,
    402: FaultKind.NO_CREDIT,
    403: FaultKind.BAD_KEY,
    408: FaultKind.OVERLOADED,
    409: FaultKind.OVERLOADED,
    425: FaultKind.OVERLOADED,
    429: FaultKind.RATE_LIMITED,
    501: FaultKind.BAD_REQUEST,
}

_WORDS = (
    (FaultKind.USAGE_LIMIT, re.compile(r"usage_limit_reached|usage limit")),
    (
        FaultKind.NO_CREDIT,
        re.compile(
            r"insufficient[_ ](quota|credit|balance|fund)|exceeded your current quota"
            r"|billing_|credit balance"
        ),
    ),
    (
        FaultKind.UNKNOWN_MODEL,
        re.compile(
            r"model_not_found|(invalid|unknown|no such) model"
            r"|model\b.{0,200}\b(not found|not exist|unknown|not a valid)|no endpoints found"
            r"|no models? loaded"
        ),
    ),
    (
        FaultKind.BAD_KEY,
        re.compile(r"api[_ ]key|unauthori[sz]ed|authentication|permission_denied"),
    ),
)
# Asked only where no status tells: an error body under 200.
_LATE_WORDS = (
    (FaultKind.RATE_LIMITED, re.compile(r"rate[_ -]?limit|too many requests")),
    (FaultKind.OVERLOADED, re.compile(r"overloaded|loading|unavailable|capacity|server[_ ]error")),
    (FaultKind.BAD_REQUEST, re.compile(r"invalid_request|context (length|window|size)")),
)
# Whose words say more than the status does: 400 is everybody's default. The number of kinds that
# are looked for; a 429 tells of its limit with a link to the page of keys.
_WORDY = {None: 4, 400: 4, 403: 4, 404: 4, 422: 4, 429: 2}


@dataclass(frozen=True, slots=True)
class Complaint:
    """What an error body says, all as text."""

    message: str = ""
    code: str = ""
    kind: str = ""
    parameter: str = ""
    resets_at: float | None = None

    @property
    def status(self) -> int | None:
        """The HTTP status that some servers put into the body."""
        return int(self.code) if re.fullmatch(r"[45]\d\d", self.code) else None


def complaint_in(document: Any) -> Complaint | None:
    """The error that a body reports, in any of the shapes that servers use; None without one."""
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    if not isinstance(document, dict):
        return None
    for key in ("error", "errors", "detail"):
        if found := document.get(key):
            return _complaint(found[0] if isinstance(found, list) else found)
    if document.get("object") == "error" or ("message" in document and "code" in document):
        return _complaint(document)
    return None


def fault_kind(status: int | None, complaint: Complaint) -> FaultKind:
    """The kind of fault that a status and the words beside it mean."""
    said = f"{complaint.code} {complaint.kind} {complaint.message}".lower()
    status = status or complaint.status
    names_parameter = bool(complaint.parameter) and complaint.parameter != "model"
    if not names_parameter:
        for kind, words in _WORDS[: _WORDY.get(status, 0)]:
            if words.search(said):
                return kind
    if status is not None:
        usual = FaultKind.OVERLOADED if status >= 500 else FaultKind.BAD_REQUEST
        return _BY_STATUS.get(status, usual)
    return next((kind for kind, words in _LATE_WORDS if words.search(said)), FaultKind.MALFORMED)


def _complaint(found: Any) -> Complaint:
    if not isinstance(found, dict):
        return Complaint(_shown(found))
    inner = found.get("error")
    if isinstance(inner, dict):
        return _complaint(inner)
    return Complaint(
        message=_shown(found.get("message") or found.get("msg") or inner),
        code=_shown(found.get("code")),
        kind=_shown(found.get("type") or found.get("status")),
        parameter=_shown(found.get("param")),
        resets_at=_moment(found.get("resets_at")),
    )


def _moment(value: Any) -> float | None:
    """Seconds since the epoch, within the times that a calendar has."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e11 else None


def _shown(value: Any) -> str:
    return "" if value is None else safe_line(str(value))[:_MAX_SHOWN]
