"""Reviews of an item, as data and as JSON for reports and journal. No I/O. A review covers exactly
one tree. A review read from a journal is not billed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from driver.backend_api.driver import Usage
from state_store.values.lazy_dataclass import asdict, dataclass, field

OFF = "off"
NOT_REQUIRED = "not_required"


class ReviewWord(StrEnum):
    """The decision of a review. Any unclear answer is UNDECIDED."""

    APPROVED = "approved"
    CHANGES_REQUESTED = "changes_requested"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault that a reviewer found. `check` describes how to see that it is repaired."""

    file: str
    line: int | None
    severity: str
    why: str
    check: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line is not None else self.file
        return f"{where}: {self.severity}: {self.why}"


@dataclass(frozen=True, slots=True)
class Review:
    """A review of `tree`. `number` counts an item's rounds from 1. `since` is the tree of the last
    round. `reason` explains an undecided review. A `recalled` review is from an earlier run.
    `prompt_hash` is the hash of the prompt without its nonce, known only in the run that asked."""

    number: int
    tree: str
    word: ReviewWord
    summary: str = ""
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    backend: str = ""
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    duration_s: float = 0.0
    since: str | None = None
    worker_id: str | None = None
    recalled: bool = False
    prompt_hash: str | None = None

    @property
    def message(self) -> str:
        """The reason for an undecided review, else the reviewer's summary."""
        return self.reason or self.summary or "; ".join(map(str, self.findings))

    def to_json(self) -> dict[str, Any]:
        """The JSON form in reports, events and journal."""
        return {
            "round": self.number,
            "tree": self.tree,
            "since": self.since,
            "verdict": str(self.word),
            "summary": self.summary,
            "findings": [asdict(finding) for finding in self.findings],
            "reason": self.reason or None,
            "backend": self.backend,
            "model": self.model,
            "workerId": self.worker_id,
            "durationS": round(self.duration_s, 3),
            "recalled": self.recalled,
            "usage": self.usage.to_json(),
        }


def settled_by(reviews: Sequence[Review], tree: str | None) -> Review | None:
    """The newest review of exactly `tree` with a decision."""
    known = (r for r in reversed(reviews) if r.tree == tree and r.word != ReviewWord.UNDECIDED)
    return next(known, None)


def review_word(reviews: Sequence[Review], tree: str | None, *, required: bool, mode: str) -> str:
    """The report's word for an item that ended with `tree`. Only a review of this tree
    approves it."""
    if mode == OFF:
        return OFF
    if not is_required(required=required, mode=mode):
        return NOT_REQUIRED
    last = reviews[-1] if reviews else None
    if last is None or (last.word == ReviewWord.APPROVED and last.tree != tree):
        return str(ReviewWord.UNDECIDED)
    return str(last.word)


def is_required(*, required: bool, mode: str) -> bool:
    """True if work ships only after a review. `required` is the value of the item's policy."""
    return mode != OFF and (required or mode == "always")


def from_json(record: object) -> tuple[Review, ...]:
    """Reviews read from a journal; empty if any is malformed."""
    try:
        return tuple(_review(one) for one in record) if isinstance(record, list) else ()
    except (KeyError, TypeError, ValueError):
        return ()


def _review(record: Mapping[str, Any]) -> Review:
    return Review(
        number=int(record["round"]),
        tree=str(record["tree"]),
        word=ReviewWord(record["verdict"]),
        summary=str(record["summary"]),
        findings=tuple(Finding(**finding) for finding in record["findings"]),
        reason=record["reason"] or "",
        backend=str(record["backend"]),
        model=record["model"],
        usage=Usage.from_json(record["usage"]),
        duration_s=float(record["durationS"]),
        since=record["since"],
        worker_id=record["workerId"],
        recalled=True,
    )
