"""Classifies a provider's error by its HTTP status and its text. Pure.

One table serves agent CLIs and HTTP servers. `fault_in` reads the error texts of CLIs.
"""

from __future__ import annotations

import re
from datetime import datetime

from driver.backend_api.provider_fault import WRONG_ADDRESS, FaultKind, ProviderFault
from driver.backend_api.throttle import DEFAULT_CAP_S

MESSAGE_CHARACTERS = 500
SOON_S = DEFAULT_CAP_S  # a plan that works again this soon counts as a rate limit

_OF_STATUS = {
    401: FaultKind.BAD_KEY,
    402: FaultKind.NO_CREDIT,
    403: FaultKind.BAD_KEY,
    408: FaultKind.OVERLOADED,
    409: FaultKind.OVERLOADED,
    425: FaultKind.OVERLOADED,
    429: FaultKind.RATE_LIMITED,
    501: FaultKind.BAD_REQUEST,
}

# Searched in this order. Faults that waiting does not cure come first.
_WORDS = (
    (FaultKind.USAGE_LIMIT, r"usage_limit_reached|usage limit"),
    (
        FaultKind.NO_CREDIT,
        r"credit balance|insufficient[_ ](?:quota|credit|balance|fund)|quota exceeded(?! for)"
        r"|exceeded your current quota|check your plan and billing|billing_|out of credits"
        r"|to use codex with your chatgpt plan|payment required",
    ),
    (
        FaultKind.UNKNOWN_MODEL,
        r"issue with the selected model|model_not_found|(?:invalid|unknown|no such)[_ ]model"
        r"|\bmodel\b.{0,200}\b(?:not found|not exist|is unknown|not a valid)|not a valid model"
        r"|\bmodel (?:\S+ )?is not (?:supported|available)|no endpoints found|no models? loaded",
    ),
    (
        FaultKind.BAD_KEY,
        r"not logged in|please run /login|failed to authenticate|api[_ -]key|unauthori[sz]ed"
        r"|authentication[_ ](?:error|fail|required|is required)|invalid authentication"
        r"|permission_denied|\b401\b|missing environment variable|missing bearer"
        r"|oauth (?:access )?token (?:has )?(?:expired|been revoked)|please (?:log|sign) in"
        r"|refresh token",
    ),
    (FaultKind.RATE_LIMITED, r"\b429\b|rate[ _-]?limit|too many requests|quota exceeded for"),
    (
        FaultKind.OVERLOADED,
        r"overloaded|high demand|(?:at|over|out of|insufficient|no) capacity|loading model"
        r"|model is (?:\w+ )?loading|(?:service|temporarily|currently) unavailable"
        r"|unavailable_error|server-side issue|server[_ ]error|bad gateway|gateway time-?out"
        r"|\b(?:50[0234]|529)\b(?! tokens)",
    ),
    (
        FaultKind.MALFORMED,
        r"empty or malformed response|incomplete (?:chunked|response body)|invalid sse|bad json",
    ),
    (FaultKind.SILENT, r"request timed out|idle timeout|timed out waiting|operation timed out"),
    (
        FaultKind.DROPPED,
        r"econnre(?:set|fused)|enotfound|eai_again|epipe|unable to connect"
        r"|connection (?:error|reset|closed|refused|failed)|stream (?:disconnected|closed)"
        r"|error sending request|socket hang up|fetch failed|network error|exceeded retry limit",
    ),
    (FaultKind.BAD_REQUEST, r"invalid_request|context (?:length|window|size)"),
)
_FLAGS = re.IGNORECASE | re.DOTALL  # compiled at the first fault: most runs have none
# Statuses whose text says more than the status, with the number of table rows to search: a 400
# may mean anything, and a 429 quotes a link to the page of keys.
_ROWS = {None: len(_WORDS), 400: 4, 403: 4, 404: 4, 422: 4, 429: 2}


def fault_kind(status: int | None, words: str) -> FaultKind | None:
    """The fault in an HTTP status and its text; None if neither names a fault."""
    for kind, pattern in _WORDS[: _ROWS.get(status, 0)]:
        if re.search(pattern, words, _FLAGS):
            return kind
    if status is None:
        return None
    usual = FaultKind.OVERLOADED if status >= 500 else FaultKind.BAD_REQUEST
    return _OF_STATUS.get(status, usual)


def fault_in(
    text: str,
    now: datetime,
    *,
    status: int | None = None,
    retry_after_s: float | None = None,
) -> ProviderFault | None:
    """The fault in the error text of an agent CLI; None if the agent itself failed.

    `now` is the time of reading, with its zone. A refused prompt, such as a prompt that is too
    long, is not a fault of the provider.
    """
    if (used_up := used_up_in(text, now, status=status)) is not None:
        return used_up
    # A CLI reports 408 after it has waited itself; a server sends it at once.
    kind = FaultKind.SILENT if status == 408 else fault_kind(status, text)
    if kind is None or (kind is FaultKind.BAD_REQUEST and status not in WRONG_ADDRESS):
        return None
    return ProviderFault(kind, text.strip()[:MESSAGE_CHARACTERS], status, retry_after_s)


def used_up_in(text: str, now: datetime, *, status: int | None = None) -> ProviderFault | None:
    """The fault of a used-up plan; a rate limit if the plan works again soon."""
    from driver.backend_api.usage_limits import (  # noqa: PLC0415 - by need, as above
        resets_at,
        says_used_up,
    )

    if not says_used_up(text):
        return None
    message, when = text.strip()[:MESSAGE_CHARACTERS], resets_at(text, now)
    if when is not None and 0 <= (wait_s := when - now.timestamp()) <= SOON_S:
        return ProviderFault(FaultKind.RATE_LIMITED, message, status, retry_after_s=wait_s)
    return ProviderFault(FaultKind.USAGE_LIMIT, message, status, resets_at=when)
