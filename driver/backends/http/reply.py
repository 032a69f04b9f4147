"""Parses an HTTP answer of a model server into a document or a fault. Pure.

Knows the formats of server errors, the possible bill of a failed request, and the waits that
servers ask for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from driver.backend_api.fault_words import fault_kind
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.terminal.safe_text import safe_line
from state_store.documents import strict_json
from state_store.values.lazy_dataclass import dataclass

MAX_RETRY_AFTER_S = 3600.0
_MAX_SHOWN = 600
_JSON_TYPES = re.compile(
    r"(application|text)/([\w.+-]*\+)?json|text/plain|application/octet-stream"
)

# With these errors the model may have worked: a gateway gave up waiting for it.
_PERHAPS_BILLED = frozenset({408, 504, 524})
# Only these faults come before a model works. All others may come in the middle of its answer.
_BEFORE_ANY_WORK = (FaultKind.BAD_KEY, FaultKind.BAD_REQUEST, FaultKind.UNKNOWN_MODEL)


class TransportError(RuntimeError):
    """A request failed. `billed` is true if a model may have worked for it. `parameter` is the
    wrong parameter that the server named, or ""."""

    def __init__(
        self, fault: ProviderFault, *, billed: bool = False, parameter: str = "", code: str = ""
    ) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.billed = billed
        self.parameter = parameter
        self.code = code


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP answer. Header names are lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Complaint:
    """The error in a body, all fields as text."""

    message: str = ""
    code: str = ""
    kind: str = ""
    parameter: str = ""
    resets_at: float | None = None

    def fault_kind(self, status: int | None) -> FaultKind:
        """The fault for this error and `status`, or the status in the body."""
        if status is None and re.fullmatch(r"[45]\d\d", self.code):
            status = int(self.code)
        words = f"{self.code} {self.kind} {self.message}"
        if self.parameter not in ("", "model"):  # the message is about that parameter
            status, words = status or 400, ""
        usual = FaultKind.MALFORMED if status is None else FaultKind.BAD_REQUEST
        return fault_kind(status, words) or usual


def read_reply(answer: HttpAnswer, now: float) -> dict[str, Any]:
    """The document of a good answer. Raises TransportError for all other answers.

    A date in `Retry-After` is compared with `now`, in seconds since the epoch.
    """
    if not 200 <= answer.status < 300:
        complaint = None
        with suppress(ValueError):
            complaint = complaint_in(strict_json.parse(answer.body.decode("utf-8-sig")))
        reason = safe_line(answer.reason)[:200]
        text = f"OpenAI API request failed: HTTP Error {answer.status}: {reason}"
        raise _error(text, complaint, answer, now)
    content_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type and not _JSON_TYPES.fullmatch(content_type):
        raise malformed(f"it has the content type {safe_line(content_type)[:80]!r}, not JSON")
    if answer.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise malformed("it is compressed, which was not asked for")
    try:
        document = strict_json.parse(answer.body.decode("utf-8-sig"))
    except ValueError as error:
        head = safe_line(answer.body[:80].decode("utf-8", "replace").strip())
        raise malformed(f"{safe_line(str(error))[:200]}; it starts with {head!r}") from error
    if isinstance(document, list) and complaint_in(document) is not None:
        document = document[0]
    return checked_document(document, answer, now)


def checked_document(
    document: Any, answer: HttpAnswer | None = None, now: float = 0.0
) -> dict[str, Any]:
    """`document` if it contains a model's answer. Raises TransportError if it contains an error or
    no answer. `answer` is its HTTP answer."""
    if not isinstance(document, dict):
        raise malformed("it is not a JSON object")
    choice = first_choice(document)
    complaint = complaint_in(document if choice is None else choice)
    if complaint is not None:
        text = "OpenAI API request failed: status 200 with an error inside"
        raise _error(text, complaint, answer or HttpAnswer(200, "", {}, b""), now)
    if choice is None:
        raise malformed("it has no choices")
    return document


def foreign_error(error: Exception) -> TransportError:
    """The fault in an error of a caller's transport, by the status in its text."""
    text = str(error) or repr(error)
    named = re.search(r"HTTP Error (\d{3})", text)
    status = int(named[1]) if named is not None else None
    if status is not None:
        kind = Complaint(text).fault_kind(status)
    elif isinstance(error, TimeoutError):
        kind = FaultKind.SILENT
    elif isinstance(error, OSError):
        kind = FaultKind.DROPPED
    else:
        kind = FaultKind.MALFORMED if isinstance(error, ValueError) else FaultKind.BAD_REQUEST
    # Without an answer, a model may have worked for the request.
    billed = not isinstance(error, RuntimeError)
    return TransportError(ProviderFault(kind, text, status), billed=billed)


def first_choice(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer in a document, or None."""
    choices = document.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else None


def malformed(why: str) -> TransportError:
    """The error for a malformed answer. A model may have worked for it."""
    fault = ProviderFault(FaultKind.MALFORMED, f"the server's answer is malformed: {why}", 200)
    return TransportError(fault, billed=True)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The wait that a server asks for, in seconds from `now`; None if missing or unreadable.

    LiteLLM forwards the header under another name.
    """
    if (thousandths := _number(headers.get("retry-after-ms"))) is not None:
        return min(thousandths / 1000, MAX_RETRY_AFTER_S)
    for name in ("retry-after", "llm_provider-retry-after"):
        text = headers.get(name)
        seconds = _number(text)
        if seconds is None and text:
            seconds = _until(text, now)
        if seconds is not None:
            return min(seconds, MAX_RETRY_AFTER_S)
    return None


def complaint_in(document: Any) -> Complaint | None:
    """The error in a body, in any of the servers' formats, or None."""
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


def _complaint(found: Any) -> Complaint:
    if not isinstance(found, dict):
        return Complaint(_shown(found))
    inner, moment = found.get("error"), found.get("resets_at")
    if isinstance(inner, dict):
        return _complaint(inner)
    # Seconds since the epoch, within the calendar.
    if isinstance(moment, bool) or not isinstance(moment, int | float) or not 0 <= moment < 1e11:
        moment = None
    return Complaint(
        message=_shown(found.get("message") or found.get("msg") or inner),
        code=_shown(found.get("code")),
        kind=_shown(found.get("type") or found.get("status")),
        parameter=_shown(found.get("param")),
        resets_at=None if moment is None else float(moment),
    )


def _shown(value: Any) -> str:
    return "" if value is None else safe_line(str(value))[:_MAX_SHOWN]


def _error(
    text: str, complaint: Complaint | None, answer: HttpAnswer, now: float
) -> TransportError:
    """The error of an answer with an error status or an error inside."""
    if complaint is not None:
        text += f" [{complaint.code}, {complaint.message}]"
    complaint = complaint or Complaint()
    good = 200 <= answer.status < 300
    kind = complaint.fault_kind(None if good else answer.status)
    billed = kind not in _BEFORE_ANY_WORK if good else answer.status in _PERHAPS_BILLED
    wait_s = retry_after_s(answer.headers, now)
    fault = ProviderFault(kind, text, answer.status, wait_s, complaint.resets_at)
    return TransportError(fault, billed=billed, parameter=complaint.parameter, code=complaint.code)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(date: str, now: float) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.fromtimestamp(now, UTC)).total_seconds())
