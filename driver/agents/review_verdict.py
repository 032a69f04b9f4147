"""Turns a reviewer's answer into a review decision. Pure; an unclear answer is undecided. An answer
counts only as an object of exactly the schema that repeats the nonce of its own call. The nonce is
made after the work is done, so no text of an agent can contain it."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from driver.backend_api.driver import WorkerResult
from driver.backend_api.json_schema import shape_problem
from driver.domain.results import Verdict
from driver.domain.reviews import Finding, Review, ReviewWord
from driver.policy.judgement import Judgement
from driver.terminal.safe_text import bounded, safe_line, safe_text
from state_store.values.lazy_dataclass import dataclass

APPROVE = "approve"
REQUEST_CHANGES = "request_changes"
CRITICAL, MAJOR = "critical", "major"
SEVERITIES = (CRITICAL, MAJOR, "minor", "note")
ROUND_CAP = "round_cap"

MAX_FINDINGS = 30  # so that the findings of a few rounds fit into a journal entry
MAX_CHARS = 1_500

_FINDING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "file": {"type": "string"},
        "line": {"type": ["integer", "null"]},
        "severity": {"type": "string", "enum": list(SEVERITIES)},
        "why": {"type": "string"},
        "check": {"type": "string"},
    },
    "required": ["file", "line", "severity", "why", "check"],
    "additionalProperties": False,
}
VERDICT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "nonce": {"type": "string"},
        "verdict": {"type": "string", "enum": [APPROVE, REQUEST_CHANGES]},
        "summary": {"type": "string"},
        "findings": {"type": "array", "items": _FINDING},
    },
    "required": ["nonce", "verdict", "summary", "findings"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class ReviewerAnswer:
    """The content of an answer. `reason` explains an undecided answer, else it is "". `misshapen`
    is the fault of an answer that does not fit the schema; the reviewer can be asked again."""

    word: ReviewWord
    summary: str = ""
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    misshapen: str = ""


def undecided(reason: str, misshapen: str = "") -> ReviewerAnswer:
    """No approval, with the reason."""
    return ReviewerAnswer(ReviewWord.UNDECIDED, reason=reason, misshapen=misshapen)


def answer_of(result: WorkerResult, nonce: str, edited: tuple[str, ...] = ()) -> ReviewerAnswer:
    """The answer of a dispatched reviewer; `edited` are the files of its copy that it changed."""
    if not result.ok:
        return undecided(f"the reviewer gave no verdict: {result.error or 'no reason given'}")
    if edited:
        named = ", ".join(safe_line(path) for path in edited[:5])
        return undecided(f"the reviewer changed the files under review: {named}")
    if result.structured is None:
        why = f": {safe_line(result.error)[:500]}" if result.error else ""
        missing = "it was no JSON object"
        return undecided(f"the reviewer ended without a structured verdict{why}", missing)
    return read_verdict(result.structured, nonce)


def read_verdict(answer: object, nonce: str) -> ReviewerAnswer:
    """The answer in an object that should be a verdict with this `nonce`."""
    if problem := shape_problem(answer, VERDICT_SCHEMA, "the verdict"):
        problem = safe_line(problem)[:400]
        return undecided(f"the reviewer's verdict cannot be used: {problem}", problem)
    if not isinstance(answer, Mapping) or not _same(answer["nonce"], nonce):
        return undecided("the reviewer's verdict is not of this review: it has another nonce")
    findings = tuple(_finding(one) for one in answer["findings"][:MAX_FINDINGS])
    more = len(answer["findings"]) - len(findings)
    summary = _shown(answer["summary"]) + (f" (and {more} more findings)" if more else "")
    if answer["verdict"] == APPROVE:
        return _approval(summary, findings)
    if not findings and not summary.strip():
        return undecided("the reviewer asks for changes but does not say which")
    return ReviewerAnswer(ReviewWord.CHANGES_REQUESTED, summary, findings)


def _approval(summary: str, findings: tuple[Finding, ...]) -> ReviewerAnswer:
    """An approval; undecided if it lists a critical or major finding."""
    severe = next((one for one in findings if one.severity in (CRITICAL, MAJOR)), None)
    if severe is not None:
        reason = f"the reviewer approves but contradicts itself: {severe}"
        return ReviewerAnswer(ReviewWord.UNDECIDED, summary, findings, reason)
    return ReviewerAnswer(ReviewWord.APPROVED, summary, findings)


def judge(review: Review, *, gate_green: bool, number: int, repair_cap: int) -> Judgement | None:
    """The verdict on reviewed work; None if its findings shall be repaired. `number` is the attempt
    that made the work: rounds of repair and review share one count."""
    if review.word == ReviewWord.UNDECIDED:
        return Judgement(Verdict.UNDECIDED, f"review undecided: {review.reason}")
    if review.word == ReviewWord.APPROVED:
        if gate_green:
            return Judgement(Verdict.VERIFIED)
        return Judgement(Verdict.FAILED, "approval_withheld: approved, but its test is not green")
    if number <= repair_cap:
        return None
    asked = bounded("; ".join(map(str, review.findings)) or review.summary, MAX_CHARS)
    asked_last = f"after {review.number} of them the reviewer still asks for changes: {asked}"
    return Judgement(Verdict.FAILED, f"{ROUND_CAP}: no round is left, and {asked_last}")


def too_long(size: int, limit: int) -> ReviewerAnswer:
    """No approval for a change that is too long to show in full."""
    return undecided(
        f"its diff of {size} bytes is longer than [review] max_diff_bytes = {limit}, and a"
        " change must be shown in full to be approved: have a person review it, or raise the limit"
    )


def _same(given: str, nonce: str) -> bool:
    # A text with non-ASCII characters cannot be compared directly, and is no nonce of ours.
    return hmac.compare_digest(given.encode("utf-8", "replace"), nonce.encode())


def _finding(entry: Mapping[str, Any]) -> Finding:
    return Finding(
        file=safe_line(entry["file"])[:500],
        line=entry["line"],
        severity=entry["severity"],
        why=_shown(entry["why"]),
        check=_shown(entry["check"]),
    )


def _shown(text: str) -> str:
    return bounded(safe_text(text), MAX_CHARS)
