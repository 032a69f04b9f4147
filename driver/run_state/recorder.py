"""Every step of a wave goes through here: to the store, the journal and the people watching.

The store decides: with a lost lease a step raises LeasedElsewhereError and is not journaled. A
journal entry is flushed before the store's transaction and put in place inside it: nobody else has
to wait for the disk, and a run which was overtaken cannot write over its successor's entry. A wave
can be resumed from the journal without the database. Without a state folder only people are told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from driver.domain.item_key import ItemKey
from driver.domain.phase_receipt import PhaseReceipt
from driver.domain.results import Attempt, ItemOutcome, TestRun, Verdict
from driver.domain.reviews import Review
from driver.run_state import journal_entry
from driver.run_state.event_log import EventLog
from driver.run_state.journal_entry import StagedEntry
from driver.run_state.leases import LeasedElsewhereError
from driver.terminal.progress import Progress
from driver.terminal.safe_text import describe_run, describe_verdict
from state_store.documents import journal
from state_store.documents.errors import CannotRunError, TidegateError
from state_store.documents.failpoints import failpoint
from state_store.documents.files import StagedFile

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Announced:
    """The file that announces a shipment, and the items of it that are not said to be shipped."""

    path: Path
    open: set[ItemKey]


class Recorder:
    """Writes down a wave's steps; `state_dir` may be None.

    `problem` is the last step that could not be written, as a sentence.
    """

    def __init__(
        self, state_dir: Path | None, wave_id: str, memory: EventLog, progress: Progress
    ) -> None:
        self._state_dir = state_dir
        self._wave_id = wave_id
        self._memory = memory
        self._progress = progress
        self.problem: str | None = None
        self._started: dict[str, tuple[str, int]] = {}
        self._announced: dict[str, _Announced] = {}
        self._written: dict[ItemKey, tuple[Path, bytes]] = {}
        self._reviews: dict[str, list[dict[str, Any]]] = {}
        self._phases: dict[str, list[dict[str, Any]]] = {}

    @property
    def anchor(self) -> str | None:
        """How far the store is by now; what is written outside it says so, so that a loss shows."""
        anchor = self._memory.anchor()
        return str(anchor) if anchor else None

    def say(self, line: str) -> None:
        """A line for people only."""
        self._progress.say(line)

    def taken_all(self, subjects: Sequence[ItemKey]) -> None:
        """Hold those of the items that nobody else has; `taken` tells the others."""
        self._memory.take_all(subjects)

    def taken(self, subject: ItemKey) -> None:
        """Hold the item from now on. Raises LeasedElsewhereError."""
        self._memory.take(subject)

    def still_ours(self, subject: ItemKey) -> bool:
        """Whether no other run has taken the item over."""
        return self._memory.still_ours(subject)

    def knows(self, wave_id: str) -> bool:
        """Whether a wave, this one or another, began with this state folder."""
        return wave_id == self._wave_id or self._memory.knows(wave_id)

    def dispatched(
        self,
        subject: ItemKey,
        phase: str,
        number: int,
        model: str | None,
        attempts: int | None = None,
    ) -> None:
        """An agent is about to be started; `attempts` is how many there were at the item's work
        where that is another number. Raises CannotRunError where that cannot be noted."""
        data = {"attempt": number if attempts is None else attempts, "settled": False}
        with self._pending(subject, self._file(subject, "dispatched", data)) as entry:
            self._memory.dispatched(subject, phase, number, model, entry.put)
        self.say(f"{subject.slug}: {phase} started (attempt {number})")
        self._started[subject.slug] = (phase, number)

    def started(self, slug: str) -> tuple[str, int] | None:
        """Phase and number of the last attempt that was begun, None when there was none."""
        return self._started.get(slug)

    def left_running(self, slug: str, who: str, survivors: Sequence[str]) -> None:
        """An agent's dispatch ended before processes that it had started."""
        if survivors:
            self.say(f"{slug}: {who} left processes running, now ended: {', '.join(survivors)}")

    def tested(self, slug: str, test: TestRun) -> None:
        """A test run ended."""
        self.say(f"{slug}: test {describe_run(test.kind, test.duration_s)}")

    def judged(self, subject: ItemKey, attempt: Attempt, *, final: bool) -> None:
        """An attempt has its verdict; `final` when no further round will follow it.

        Raises LeasedElsewhereError and CannotRunError, and then the verdict counts for nothing.
        """
        self.say(f"{subject.slug}: {describe_verdict(attempt.verdict, attempt.reason)}")
        over = final and attempt.verdict is not Verdict.HALTED
        data = {**journal_entry.of_attempt(attempt), "settled": over}
        with self._step(subject, journal_entry.phase_of(attempt), data) as entry:
            self._memory.judged(subject, attempt, partial(self._told, subject, entry.put))

    def recall(self, slug: str, past: Sequence[Review]) -> None:
        """Reviews of an earlier run stay in the item's entries."""
        self._reviews[slug] = [review.to_json() for review in past]

    def recall_phases(self, slug: str, past: Sequence[PhaseReceipt]) -> None:
        """The item's phases are written down one by one; these an earlier run has done."""
        self._phases[slug] = [one.to_json() for one in past]

    def note_phase(self, slug: str, done: PhaseReceipt) -> None:
        """A phase is over; whichever entry of the item comes next says so."""
        self._phases.setdefault(slug, []).append(done.to_json())

    def phased(
        self, subject: ItemKey, done: PhaseReceipt, work: Attempt | None, number: int | None = None
    ) -> None:
        """The phase that was noted last is written down: where no other step of the item has an
        entry of its own for it, with the item's `work`. `number` is that of its dispatch.

        Raises LeasedElsewhereError.
        """
        data = {**journal_entry.of_attempt(work), "proven": False, "settled": False} if work else {}
        with self._step(subject, "phase", data) if work else StagedEntry(None) as entry:
            note = partial(self._told, subject, entry.put)
            self._told(subject, lambda: self._memory.phased(subject, done, number, note))
        failpoint("phase.recorded")

    def reviewing(self, subject: ItemKey, number: int, tree: str, model: str | None) -> None:
        """A reviewer is about to be started. The entry of the work it reads stays as it is.

        Raises CannotRunError and LeasedElsewhereError.
        """
        self._memory.reviewing(subject, number, tree, model)
        self.say(f"{subject.slug}: review started (round {number})")

    def reviewed(self, subject: ItemKey, review: Review, outcome: ItemOutcome, final: bool) -> None:
        """A review has its word, and with it the item stands as `outcome`; `final` when neither
        repair nor another review is to follow, in a resumed run either.

        Raises LeasedElsewhereError and CannotRunError, and then the review counts for nothing.
        """
        said = describe_verdict(review.word, review.message)
        self.say(f"{subject.slug}: review {review.number}: {said}")
        self._reviews.setdefault(subject.slug, []).append(review.to_json())
        data = {**journal_entry.of_outcome(outcome), "settled": final}
        with self._step(subject, "reviewed", data) as entry:
            self._memory.reviewed(subject, review, partial(self._told, subject, entry.put))

    def settled(self, subject: ItemKey, outcome: ItemOutcome) -> None:
        """An item's verdict changed after its last attempt, or it never had one."""
        self.say(f"{subject.slug}: {describe_verdict(outcome.verdict, outcome.reason)}")
        stopped = outcome.verdict in (Verdict.HALTED, Verdict.OVER_BUDGET)
        told = journal_entry.of_outcome(outcome)
        # Proven work that nobody could review, or wants now, is not built a second time.
        waits = outcome.verdict in (Verdict.UNDECIDED, Verdict.WITHDRAWN) and told["proven"]
        data = {**told, "settled": not (stopped or waits)}
        # Where nobody worked, what an earlier run left in the journal is all there is to know.
        news = bool(outcome.attempts) or outcome.verdict is Verdict.FAILED
        with (
            self._step(subject, "failed", data) if news else StagedEntry(None) as entry,
            suppress(LeasedElsewhereError),  # whoever has it now has the last word
        ):
            note = partial(self._told, subject, entry.put)
            self._told(subject, lambda: self._memory.settled(subject, outcome, note))

    def shipping(
        self,
        outcomes: Mapping[ItemKey, tuple[ItemOutcome, str]],
        branch: str,
        tip: str,
        target: str | None = None,
    ) -> None:
        """Commits are about to be published, whose last one is `tip`: on `branch`, or on to
        `target`, and then on `branch` only where they do not get there.

        Raises LeasedElsewhereError, and then nothing may be published, and CannotRunError.
        """
        where = {"branch": branch, "tip": tip, "target": target, "settled": True}
        data = {
            subject: {**journal_entry.of_outcome(outcome), **where, "commit": commit}
            for subject, (outcome, commit) in outcomes.items()
        }
        commits = {subject: commit for subject, (_, commit) in outcomes.items()}
        # At once, or a kill in between would leave a line of which only some items are known.
        together = self._together(tip, data)
        with StagedEntry(together) as entry:
            self._memory.shipping(commits, target or branch, entry.put)
        if together is not None:
            self._announced[tip] = _Announced(together.path, set(data))

    def unannounced(self, tip: str) -> None:
        """What `shipping` announced was not published, and will not be."""
        announced = self._announced.pop(tip, None)
        if announced is not None:
            with suppress(OSError):
                announced.path.unlink()

    def shipped(
        self, subject: ItemKey, outcome: ItemOutcome, commit: str, branch: str | None, tip: str
    ) -> None:
        """An item's commit is where it was meant to go. Raises LeasedElsewhereError."""
        where = {"commit": commit, "branch": branch, "tip": tip, "shipped": True, "settled": True}
        data = {**journal_entry.of_outcome(outcome), **where}
        with self._step(subject, "verified", data) as entry:
            note = partial(self._told, subject, entry.put)
            self._told(subject, lambda: self._memory.shipped(subject, commit, note))
        if entry.counts:
            self._own_entry(subject, tip)
        self.say(f"{subject.slug}: shipped as {commit[:12]}")

    def proposed(self, wave_id: str, step: Mapping[str, Any]) -> None:
        """A pull request was asked for; `step` says what came of it."""
        try:
            self._memory.proposed(wave_id, step)
        except TidegateError as error:
            self.problem = str(error)
            self.say(str(error))

    def altered_entry(self, subject: ItemKey) -> Path | None:
        """The item's entry in the journal, where it is no longer what was written last, and no
        other run has the item; asked between writes."""
        path, body = self._written.get(subject, (None, b""))
        try:
            same = path is None or path.read_bytes() == body
        except OSError:
            same = False
        return None if same or not self.still_ours(subject) else path

    def ended(self, abort_reason: str | None) -> None:
        """The wave is over, and its report is about to be given."""
        try:
            self._memory.end(abort_reason)
        except CannotRunError as error:
            self.problem = str(error)
            self.say(str(error))

    def _step(self, subject: ItemKey, phase: str, data: Mapping[str, Any]) -> StagedEntry:
        """The entry of a step that has happened, whether or not it can be journaled."""
        return self._pending(subject, self._told(subject, lambda: self._file(subject, phase, data)))

    def _pending(self, subject: ItemKey, file: StagedFile | None) -> StagedEntry:
        def remember(put: StagedFile) -> None:
            self._written[subject] = put.path, put.body

        return StagedEntry(file, remember)

    def _told(self, subject: ItemKey, work: Callable[[], Result]) -> Result | None:
        # It has happened, so the report must still come; a disk that is full is told there.
        try:
            return work()
        except CannotRunError as error:
            self.problem = str(error)
            self.say(f"{subject.slug}: {error}")
            return None

    def _file(self, subject: ItemKey, phase: str, data: Mapping[str, Any]) -> StagedFile | None:
        if self._state_dir is None:
            return None
        entry = self._entry(subject, data)
        return journal.staged_entry(self._state_dir, subject.slug, phase, entry, subject.repo)

    def _together(
        self, tip: str, entries: Mapping[ItemKey, Mapping[str, Any]]
    ) -> StagedFile | None:
        if self._state_dir is None:
            return None
        whole = [
            journal.entry_of(s.slug, journal.SHIPPING, self._entry(s, data), s.repo)
            for s, data in entries.items()
        ]
        return journal.staged_entries(self._state_dir, f"shipping-{tip}", whole)

    def _own_entry(self, subject: ItemKey, tip: str) -> None:
        """The item has a later entry of its own than the announcement, which is durable by now."""
        announced = self._announced.get(tip)
        if announced is None:
            return
        announced.open.discard(subject)
        if not announced.open:
            with suppress(OSError):
                announced.path.unlink()

    def _entry(self, subject: ItemKey, data: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "waveId": self._wave_id,
            "content": subject.content_key,
            "task": subject.task_key,
            "anchor": self.anchor,
            "reviews": self._reviews.get(subject.slug, []),
            **({"phases": self._phases[subject.slug]} if subject.slug in self._phases else {}),
            **data,
        }
