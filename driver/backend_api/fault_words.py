"""From the error text of an agent CLI, and the HTTP status where it tells one, to a fault.

Pure, and the one table for all CLIs. None means that the text speaks of no provider: then it is
the agent's own failure.
"""

from __future__ import annotations

import re
from datetime import datetime

from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backend_api.throttle import DEFAULT_CAP_S
from driver.backend_api.usage_limits import resets_at, says_used_up

MESSAGE_CHARACTERS = 500
SOON_S = DEFAULT_CAP_S  # what is over by then is waited for like any other rate limit

# Asked in this order: what no waiting cures comes first, whatever status it was sent with.
_WORDS = (
    (
        FaultKind.NO_CREDIT,
        r"credit balance is too low|insufficient[_ ](?:quota|credits?|balance)|quota exceeded"
        r"|exceeded your current quota|check your plan and billing|billing_hard_limit"
        r"|out of credits|to use codex with your chatgpt plan|payment required",
    ),
    (
        FaultKind.UNKNOWN_MODEL,
        r"issue with the selected model|model_not_found|\bmodel\b.{0,80}(?:does not exist|not found"
        r"|is not supported|is not available)|(?:unknown|invalid|no such) model",
    ),
    (
        FaultKind.BAD_KEY,
        r"not logged in|please run /login|failed to authenticate|(?:invalid|incorrect) api key"
        r"|invalid x-api-key|authentication_error|invalid_api_key|\b401\b|unauthorized"
        r"|oauth (?:access )?token (?:has )?(?:expired|been revoked)|missing environment variable"
        r"|missing bearer|please (?:log in|sign in)|refresh token",
    ),
    (
        FaultKind.OVERLOADED,
        r"overloaded|high demand|at capacity|\b529\b|service unavailable|server-side issue"
        r"|internal server error|bad gateway|gateway time-?out|\b50[0234]\b",
    ),
    (FaultKind.RATE_LIMITED, r"\b429\b|rate[ _-]?limit|too many requests"),
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
)
_TABLE = tuple((kind, re.compile(words, re.IGNORECASE | re.DOTALL)) for kind, words in _WORDS)
_OF_STATUS = {
    401: FaultKind.BAD_KEY,
    402: FaultKind.NO_CREDIT,
    403: FaultKind.BAD_KEY,
    404: FaultKind.BAD_REQUEST,
    407: FaultKind.BAD_REQUEST,
    408: FaultKind.SILENT,
    429: FaultKind.RATE_LIMITED,
}


def fault_in(
    text: str,
    now: datetime,
    *,
    status: int | None = None,
    retry_after_s: float | None = None,
) -> ProviderFault | None:
    """The fault of a failed run. `now` is the time of reading, with its zone.

    A status of 400, 413 or 422 without a known word is the request's own matter, such as a prompt
    that is too long, and no fault of the provider.
    """
    if (used_up := used_up_in(text, now, status=status)) is not None:
        return used_up
    message = text.strip()[:MESSAGE_CHARACTERS]
    kind = _by_words(text, lasting=True) or _by_status(status)
    if kind is None and status is None:
        kind = _by_words(text, lasting=False)
    return None if kind is None else ProviderFault(kind, message, status, retry_after_s)


def used_up_in(text: str, now: datetime, *, status: int | None = None) -> ProviderFault | None:
    """The fault of a run whose plan is used up; a rate limit when it is over soon."""
    if not says_used_up(text):
        return None
    message, when = text.strip()[:MESSAGE_CHARACTERS], resets_at(text, now)
    if when is not None and 0 <= (wait_s := when - now.timestamp()) <= SOON_S:
        return ProviderFault(FaultKind.RATE_LIMITED, message, status, retry_after_s=wait_s)
    return ProviderFault(FaultKind.USAGE_LIMIT, message, status, resets_at=when)


def _by_words(text: str, *, lasting: bool) -> FaultKind | None:
    kinds = (FaultKind.NO_CREDIT, FaultKind.UNKNOWN_MODEL, FaultKind.BAD_KEY)
    table = [(kind, words) for kind, words in _TABLE if (kind in kinds) == lasting]
    return next((kind for kind, words in table if words.search(text)), None)


def _by_status(status: int | None) -> FaultKind | None:
    if status is None:
        return None
    return FaultKind.OVERLOADED if status >= 500 else _OF_STATUS.get(status)
