"""Every step of a wave goes through here: to the journal and to the people watching.

Nothing else writes the journal while a wave runs. Without a state folder only people are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver.outcome import Attempt, ItemOutcome, TestRun, Verdict
from driver.progress import Progress
from driver.text import verdict_said
from state_store import journal
from state_store.errors import CannotRunError


class Recorder:
    """Knows where an item's journal entry is; `state_dir` may be None.

    `problem` is the last entry that could not be written, as a sentence.
    """

    def __init__(self, state_dir: Path | None, wave_id: str, progress: Progress) -> None:
        self._state_dir = state_dir
        self._wave_id = wave_id
        self._progress = progress
        self.problem: str | None = None
        self._started: dict[str, tuple[str, int]] = {}

    def say(self, line: str) -> None:
        """A line for people only."""
        self._progress.say(line)

    def dispatched(self, slug: str, repo: str | None, phase: str, number: int) -> None:
        """An agent is about to be started. Raises CannotRunError where that cannot be noted."""
        self.say(f"{slug}: {phase} started (attempt {number})")
        self._write(slug, repo, "dispatched", {"verified": False, "testExit": None})
        self._started[slug] = (phase, number)

    def started(self, slug: str) -> tuple[str, int] | None:
        """Phase and number of the last attempt that was begun, None when there was none."""
        return self._started.get(slug)

    def tested(self, slug: str, test: TestRun) -> None:
        """A test run ended."""
        self.say(f"{slug}: test {test.kind} after {test.duration_s:.1f} s")

    def judged(self, slug: str, repo: str | None, attempt: Attempt) -> None:
        """An attempt has its verdict."""
        self.say(f"{slug}: {verdict_said(attempt.verdict, attempt.reason)}")
        self._note(slug, repo, _journal_phase(attempt), _attempt_entry(attempt))

    def settled(self, slug: str, repo: str | None, outcome: ItemOutcome) -> None:
        """An item's verdict changed after its last attempt, or it never had one."""
        self.say(f"{slug}: {verdict_said(outcome.verdict, outcome.reason)}")
        self._note(slug, repo, "failed", _outcome_entry(outcome))

    def shipped(self, slug: str, repo: str | None, outcome: ItemOutcome, commit: str) -> None:
        """An item's commit is where it was meant to go."""
        self.say(f"{slug}: shipped as {commit[:12]}")
        self._note(slug, repo, "verified", {**_outcome_entry(outcome), "commit": commit})

    def _note(self, slug: str, repo: str | None, phase: str, data: Mapping[str, Any]) -> None:
        # It has happened, so the report must still come; a disk that is full is told there.
        try:
            self._write(slug, repo, phase, data)
        except CannotRunError as error:
            self.problem = str(error)
            self.say(f"{slug}: {error}")

    def _write(self, slug: str, repo: str | None, phase: str, data: Mapping[str, Any]) -> None:
        if self._state_dir is not None:
            entry = {"waveId": self._wave_id, **data}
            journal.write_entry(self._state_dir, slug, phase, entry, repo=repo)


def _journal_phase(attempt: Attempt) -> str:
    if attempt.verdict is Verdict.VERIFIED:
        return "verified" if attempt.number == 1 else "repaired"
    return "failed" if attempt.number == 1 else "repair_failed"


def _attempt_entry(attempt: Attempt) -> dict[str, Any]:
    return {
        "verified": attempt.verdict is Verdict.VERIFIED,
        "verdict": str(attempt.verdict),
        "testExit": attempt.test.exit_code if attempt.test else None,
        "repairs": attempt.number - 1,
        "error": attempt.reason or None,
        "tree": attempt.tree,
        "filesWritten": [change.path for change in attempt.changes],
    }


def _outcome_entry(outcome: ItemOutcome) -> dict[str, Any]:
    test = outcome.last_test
    return {
        "verified": outcome.verdict is Verdict.VERIFIED,
        "verdict": str(outcome.verdict),
        "testExit": test.exit_code if test else None,
        "repairs": outcome.repairs,
        "error": outcome.reason or None,
        "tree": outcome.tree,
        "filesWritten": [change.path for change in outcome.changes],
    }
