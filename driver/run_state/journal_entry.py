"""What a journal entry says of an attempt and of where an item stands, as JSON (docs/formats.md).

Pure. Whose entry it is, when it is written and what an entry says besides is `recorder`'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driver.domain.results import Attempt, ItemOutcome, Verdict
from state_store.documents.files import StagedFile


def phase_of(attempt: Attempt) -> str:
    """The word that an entry has for an attempt that is judged."""
    if attempt.verdict is Verdict.VERIFIED:
        return "verified" if attempt.number == 1 else "repaired"
    return "failed" if attempt.number == 1 else "repair_failed"


def _counted(last: Attempt) -> int:
    """How many attempts a later run has to count; one that was halted is not the agent's fault."""
    return last.number - (last.verdict is Verdict.HALTED)


def of_attempt(attempt: Attempt) -> dict[str, Any]:
    """What is said of one attempt at the work."""
    return {
        "verified": attempt.verdict is Verdict.VERIFIED,
        "verdict": str(attempt.verdict),
        "testExit": attempt.test.exit_code if attempt.test else None,
        "repairs": attempt.number - 1,
        "attempt": _counted(attempt),
        "error": attempt.reason or None,
        "tree": attempt.tree,
        "filesWritten": [change.path for change in attempt.changes],
        "evidence": attempt.evidence_json(),
    }


def of_outcome(outcome: ItemOutcome) -> dict[str, Any]:
    """What is said of where an item stands."""
    test = outcome.last_test
    last = outcome.attempts[-1] if outcome.attempts else None
    return {
        "verified": outcome.verdict is Verdict.VERIFIED,
        "verdict": str(outcome.verdict),
        "testExit": test.exit_code if test else None,
        "repairs": outcome.repairs,
        "attempt": _counted(last) if last else 0,
        "error": outcome.reason or None,
        "tree": outcome.tree,
        "approvedTree": outcome.approved_tree,
        "afterApproval": list(outcome.after_approval),
        "proven": last is not None and last.verdict is Verdict.VERIFIED,
        "filesWritten": [change.path for change in outcome.changes],
        "evidence": last.evidence_json() if last else None,
        "together": [run.to_json() for run in outcome.batch_runs],
    }


class StagedEntry:
    """A journal entry that is flushed and does not count yet; None where nothing is journaled."""

    def __init__(self, file: StagedFile | None) -> None:
        self.file = file
        self.counts = False

    def __enter__(self) -> StagedEntry:
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None and not self.counts:
            self.file.drop()

    def put(self) -> Path | None:
        """Let it count, and return the folder to flush. Raises CannotRunError."""
        if self.file is None:
            return None
        self.file.swap_in()
        self.counts = True
        return self.file.path.parent
