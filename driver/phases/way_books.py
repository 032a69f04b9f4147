"""How an item's way through its steps is written down: step by step, or by attempts and reviews.

The way itself is the same (`way`); only what a later run can go on from differs. Steps one by one
cost an entry and a patch each, so they are for pipelines of the user's own, and for a person who is
asked about each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from driver.agents.attempt import save
from driver.domain.phase_receipt import PhaseReceipt
from driver.domain.results import Attempt, ItemOutcome, Verdict
from driver.domain.reviews import Review
from driver.policy.judgement import Judgement
from driver.run_state.attempt_history import Trail
from driver.run_state.context import Placed
from driver.workspace.saved_patch import REVIEWED, of_step


class Books(Protocol):
    """Where an item's steps go. All raise LeasedElsewhereError, and then the step counts for
    nothing."""

    def stepped(self, receipt: PhaseReceipt, work: Attempt | None, number: int | None) -> None:
        """A step is over that gives no verdict on the work; `number` is that of its dispatch."""

    def judged(self, receipt: PhaseReceipt, work: Attempt, *, mend: bool) -> None:
        """The work has its verdict; `mend` when another round follows."""

    def to_address(self, found: Review) -> None:
        """What a reviewer asks for is about to be repaired."""

    def read(
        self, receipt: PhaseReceipt, found: Review, outcome: ItemOutcome, end: Judgement | None
    ) -> None:
        """A review is over, and with it the item stands as `outcome`; `end` None where its findings
        are to be repaired."""


def books_of(at: Placed, trail: Trail) -> Books:
    """Those that the item's steps are written down in."""
    return StepBooks(at, trail) if at.wave.is_stepwise(at.planned) else AttemptBooks(at)


class StepBooks:
    """Each step has a receipt, an event and the patch of the tree that it left."""

    def __init__(self, at: Placed, trail: Trail) -> None:
        self._at, self._trail = at, trail
        self._subject, self._recorder = at.wave.subject(at.planned), at.wave.recorder

    def stepped(self, receipt: PhaseReceipt, work: Attempt | None, number: int | None) -> None:
        self._note(receipt)
        self._recorder.say(f"{self._at.planned.slug}: phase {receipt.phase}: {receipt.status}")
        self._recorder.phased(self._subject, receipt, work, number)

    def judged(self, receipt: PhaseReceipt, work: Attempt, *, mend: bool) -> None:
        self._note(receipt)
        over = work.verdict not in (Verdict.VERIFIED, Verdict.UNDECIDED)
        self._recorder.judged(self._subject, work, final=over and not mend)
        self._recorder.phased(self._subject, receipt, None)

    def to_address(self, found: Review) -> None:
        """The tree that was read is one that a step has left."""

    def read(
        self, receipt: PhaseReceipt, found: Review, outcome: ItemOutcome, end: Judgement | None
    ) -> None:
        self._note(receipt)
        outcome = replace(outcome, phases=tuple(self._trail.phases))
        final = end is not None and end.verdict is Verdict.FAILED
        self._recorder.reviewed(self._subject, found, outcome, final)
        self._recorder.phased(self._subject, receipt, None)

    def _note(self, receipt: PhaseReceipt) -> None:
        """Keep the tree that the step left, then have the next entry of the item name it."""
        at = self._at
        if receipt.output is not None:
            save(at.planned, at.place, at.wave, receipt.output, of_step(receipt.output))
        self._trail.phases.append(receipt)
        self._recorder.note_phase(at.planned.slug, receipt)


class AttemptBooks:
    """Attempts and reviews tell it all: nothing is between them that could be lost."""

    def __init__(self, at: Placed) -> None:
        self._at = at
        self._subject, self._recorder = at.wave.subject(at.planned), at.wave.recorder

    def stepped(self, receipt: PhaseReceipt, work: Attempt | None, number: int | None) -> None:
        """What it came to is told with the attempt's verdict."""

    def judged(self, receipt: PhaseReceipt, work: Attempt, *, mend: bool) -> None:
        del receipt
        green = work.verdict is Verdict.VERIFIED
        is_read_next = green and self._at.wave.wants_review(self._at.planned)
        self._recorder.judged(self._subject, work, final=not (is_read_next or mend))

    def to_address(self, found: Review) -> None:
        at = self._at
        save(at.planned, at.place, at.wave, found.tree, REVIEWED)

    def read(
        self, receipt: PhaseReceipt, found: Review, outcome: ItemOutcome, end: Judgement | None
    ) -> None:
        del receipt
        final = end is not None and end.verdict is not Verdict.UNDECIDED
        self._recorder.reviewed(self._subject, found, outcome, final)
