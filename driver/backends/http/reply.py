"""What an HTTP answer of a model server means: a document, or a fault in the words of all backends.

Pure. Knows what an answer must be, what may have been billed for one that is not, and what servers
ask callers to wait. What their error bodies say is read by `complaint`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backends.http.error_body import Complaint, complaint_in, fault_kind
from driver.terminal.safe_text import safe_line
from state_store.documents import strict_json

MAX_RETRY_AFTER_S = 3600.0
_JSON_TYPES = re.compile(
    r"(application|text)/([\w.+-]*\+)?json|text/plain|application/octet-stream"
)

# An error that comes after the model worked: a gateway gave up waiting for it.
_PERHAPS_BILLED = frozenset({408, 504, 524})


class TransportError(RuntimeError):
    """A request that brought no document. `billed` is true where a model may have worked for it;
    `parameter` is the one that the server named as wrong, "" when it named none."""

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
    """An answer as it came; header names are lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


def read_reply(answer: HttpAnswer, now: float) -> dict[str, Any]:
    """The document of a good answer. Raises TransportError for every other.

    `now`, in seconds since the epoch, is what a date in `Retry-After` counts from.
    """
    if not 200 <= answer.status < 300:
        raise _refused(answer, now)
    content_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type and not _JSON_TYPES.fullmatch(content_type):
        raise malformed(f"it has the content type {safe_line(content_type)[:80]!r}, not JSON")
    if answer.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise malformed("it is compressed, which was not asked for")
    return checked_document(_document(answer.body), answer, now)


def checked_document(
    document: Any, answer: HttpAnswer | None = None, now: float = 0.0
) -> dict[str, Any]:
    """`document` when it holds an answer. Raises TransportError when it reports an error or has
    none; `answer` is what it came in."""
    if not isinstance(document, dict):
        raise malformed("it is no JSON object")
    choice = first_choice(document)
    complaint = complaint_in(document if choice is None else choice)
    if complaint is not None:
        raise _under_200(complaint, answer or HttpAnswer(200, "", {}, b""), now)
    if choice is None:
        raise malformed("it has no choices")
    return document


def foreign_error(error: Exception) -> TransportError:
    """What an error of a transport that is not ours means, by the status that it names."""
    text = str(error) or repr(error)
    named = re.search(r"HTTP Error (\d{3})", text)
    if named is not None:
        kind = fault_kind(int(named[1]), Complaint(text))
    elif isinstance(error, TimeoutError):
        kind = FaultKind.SILENT
    elif isinstance(error, OSError):
        kind = FaultKind.DROPPED
    else:
        kind = FaultKind.MALFORMED if isinstance(error, ValueError) else FaultKind.BAD_REQUEST
    status = int(named[1]) if named is not None else None
    # No answer at all: whether a model worked for it is not known.
    return TransportError(
        ProviderFault(kind, text, status), billed=not isinstance(error, RuntimeError)
    )


def first_choice(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer in a document, None when it has none."""
    choices = document.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else None


def malformed(why: str) -> TransportError:
    """The error for an answer that cannot be one; a model may well have worked for it."""
    fault = ProviderFault(FaultKind.MALFORMED, f"the server's answer is malformed: {why}", 200)
    return TransportError(fault, billed=True)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The wait that a server asks for, in seconds from `now`; None without a readable one.

    LiteLLM hands its upstream's header on under a name of its own.
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


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = strict_json.parse(body.decode("utf-8-sig"))
    except ValueError as error:
        head = safe_line(body[:80].decode("utf-8", "replace").strip())
        raise malformed(f"{safe_line(str(error))[:200]}; it starts with {head!r}") from error
    if isinstance(document, list) and complaint_in(document) is not None:
        return dict(document[0])
    if not isinstance(document, dict):
        raise malformed("it is no JSON object")
    return document


def _refused(answer: HttpAnswer, now: float) -> TransportError:
    try:
        complaint = complaint_in(strict_json.parse(answer.body.decode("utf-8-sig")))
    except ValueError:
        complaint = None
    said = complaint or Complaint()
    kind = fault_kind(answer.status, said)
    text = (
        f"OpenAI API request failed: HTTP Error {answer.status}: {safe_line(answer.reason)[:200]}"
    )
    if complaint is not None:
        text += f" [{said.code}, {said.message}]"
    billed = answer.status in _PERHAPS_BILLED
    return _error(kind, text, said, answer, billed=billed, now=now)


def _under_200(complaint: Complaint, answer: HttpAnswer, now: float) -> TransportError:
    kind = fault_kind(None, complaint)
    text = (
        "OpenAI API request failed: status 200 with an error inside "
        f"[{complaint.code}, {complaint.message}]"
    )
    # Only these come before a model works; any other may have come in the middle of its answer.
    early = kind in (FaultKind.BAD_KEY, FaultKind.BAD_REQUEST, FaultKind.UNKNOWN_MODEL)
    return _error(kind, text, complaint, answer, billed=not early, now=now)


def _error(
    kind: FaultKind, text: str, said: Complaint, answer: HttpAnswer, *, billed: bool, now: float
) -> TransportError:
    wait_s = retry_after_s(answer.headers, now)
    fault = ProviderFault(kind, text, answer.status, wait_s, said.resets_at)
    return TransportError(fault, billed=billed, parameter=said.parameter, code=said.code)


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
