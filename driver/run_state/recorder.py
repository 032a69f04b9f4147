"""The one way to write down a step of a wave: to the store, to the journal, and for people.

The store decides: with a lost lease a step raises LeasedElsewhereError and is not journaled. A
journal entry is the fold of the item's steps. It is flushed before the store's transaction and put
in place inside it: no other thread has to wait for the disk, and a run that was overtaken cannot
write over its successor's entry. A wave can be resumed from the journal without the database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from platform import node
from typing import Any, TypeVar

from driver.domain.item_key import ItemKey
from driver.domain.phase_receipt import PhaseReceipt
from driver.domain.results import ItemOutcome
from driver.domain.reviews import Review
from driver.filesystem.safe_file_access import regular_bytes
from driver.run_state import steps
from driver.run_state.event_log import EventLog
from driver.run_state.leases import LeasedElsewhereError
from driver.run_state.phase_notes import PhaseNotes
from driver.run_state.steps import OnError, Step
from driver.terminal.progress import Progress
from driver.workspace.saved_patch import step_patch
from state_store.database.events import AGENT_DISPATCHED
from state_store.database.interface import Change, Store, StoreTransaction
from state_store.database.publications import Publication
from state_store.documents import journal
from state_store.documents.errors import CannotRunError, TidegateError
from state_store.documents.failpoints import failpoint
from state_store.documents.files import StagedFile, write_bytes_atomic
from state_store.redaction.installed import redacted_value
from state_store.sql.unshipped import Output, Place, Unshipped
from state_store.values.lazy_dataclass import dataclass, field

Result = TypeVar("Result")


class _StagedEntry:
    """A journal entry that is flushed and does not count yet; None where nothing is journaled.
    `history` keeps the one that counts as the last."""

    def __init__(self, file: StagedFile | None, history: _History) -> None:
        self._file, self._history = file, history

    def __enter__(self) -> _StagedEntry:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None and self._history.written is not self._file:
            self._file.drop()

    def put(self) -> Path | None:
        """Let it count, and return the folder to flush. Raises CannotRunError."""
        if self._file is None:
            return None
        self._file.swap_in()
        self._history.written = self._file
        return self._file.path.parent


@dataclass(slots=True)
class _History:
    """The part of an item's entry that stays from step to step; `written` is its last file."""

    reviews: list[dict[str, Any]] = field(default_factory=list)
    phases: list[dict[str, Any]] = field(default_factory=list)
    written: StagedFile | None = None


class Recorder:
    """Writes down a wave's steps. `problem` is the last one that could not be written."""

    def __init__(self, state_dir: Path, wave_id: str, log: EventLog, progress: Progress) -> None:
        self._state_dir = state_dir
        self._wave_id = wave_id
        self._log = log
        self._progress = progress
        self.problem: str | None = None
        self.notes = PhaseNotes()
        self._history: dict[ItemKey, _History] = {}
        self.knows = log.knows
        self.publications = log.publications
        self.folder = log.store.folder
        self._run_dir = state_dir / "runs" / journal.safe_slug(wave_id)

    @property
    def anchor(self) -> str | None:
        """The end of the store; what is written outside it names this, so that a loss shows."""
        anchor = self._log.anchor()
        return str(anchor) if anchor else None

    @property
    def store(self) -> Store:
        """The store, for readers of the wave's progress."""
        return self._log.store

    def say(self, line: str, *, passing: bool = False) -> None:
        """Show people a line; a live screen shows `passing` lines by the item's phase."""
        self._progress.say_at(line, passing=passing)

    def write_notes(self) -> None:
        """Write the phases that have lasted a while."""
        with suppress(TidegateError):  # only the screens lack them
            self._log.note(self.notes.due())

    def acquire_all(self, keys: Sequence[ItemKey]) -> None:
        """Hold those of the items that no other run holds; `acquire` names the others."""
        self._log.leases.take_all([key.resource for key in keys])

    def acquire(self, key: ItemKey, reviews: Sequence[Review] = ()) -> None:
        """Hold the item from now on; `reviews` of an earlier run stay in its entries. Raises
        LeasedElsewhereError."""
        self._log.leases.take(key.resource)
        self._of(key).reviews.extend(review.to_json() for review in reviews)

    def still_ours(self, key: ItemKey) -> bool:
        """Returns True while this run holds the item. Only a hint: each step checks again."""
        return self._log.leases.holds(key.resource)

    def resumed(self, key: ItemKey, phases: Sequence[PhaseReceipt]) -> None:
        """These phases of the item are done by an earlier run, and stay in its entries."""
        self._of(key).phases.extend(one.to_json() for one in phases)

    def record(self, key: ItemKey, step: Step, change: Change = lambda _: None) -> None:
        """Write down what happens to one item, with a `change` of other rows; `step.on_error`
        decides what is raised.

        Raises LeasedElsewhereError, and then the step counts for nothing.
        """
        strict = step.on_error is OnError.RAISE
        passing = step.trace is not None and step.trace.kind == AGENT_DISPATCHED
        if step.message and not strict:
            self.say(f"{key.slug}: {step.message}")
        known = self._of(key)
        known.reviews.extend([step.review.to_json()] if step.review else [])
        known.phases.extend([step.receipt.to_json()] if step.receipt else [])
        stage = partial(self._staged, key, step)
        with _StagedEntry(stage() if strict else self._tried(key, stage), known) as entry:
            put = entry.put if strict else partial(self._tried, key, entry.put)
            told = self._told_to_others(key, step, change)
            write = partial(self._log.record, {key: step}, put, told)
            if step.on_error is OnError.REPORT:
                self._tried(key, write)
            else:
                write()
        if step.receipt:
            failpoint("phase.recorded")
        self.notes.passed(key.slug)
        if step.message and strict:
            self.say(f"{key.slug}: {step.message}", passing=passing)

    def shipping(self, outcomes: Mapping[ItemKey, ItemOutcome], new: Publication) -> None:
        """Commits are about to be published; see `steps.shipping`. The row of the store announces
        them; the entries say the same in case that the store is lost.

        Raises LeasedElsewhereError, and then nothing may be published, and CannotRunError.
        """
        commits = {one.slug: one.commit for one in new.items}
        begun = {
            key: steps.shipping(outcome, commits[key.slug], new.branch, new.tip, new.target)
            for key, outcome in outcomes.items()
        }
        with ExitStack() as cleanup:
            entries = [
                cleanup.enter_context(_StagedEntry(self._staged(key, step), self._of(key)))
                for key, step in begun.items()
            ]

            def put() -> Path | None:
                return [entry.put() for entry in entries][-1]

            def announce(transaction: StoreTransaction) -> None:
                transaction.publications.announce(new, transaction.now.wall_s)
                for key, step in begun.items():
                    self._told_to_others(key, step)(transaction)

            self._log.record(begun, put, announce)

    def advance(self, tip: str, state: str) -> None:
        """The publication that ends in `tip` came as far as `state`."""
        try:
            self._log.advance(tip, state)
        except TidegateError as error:  # it has happened; the next run finds out by itself
            self._report(str(error))

    def given_up(self, key: ItemKey) -> None:
        """Drop the item from publications that earlier runs announced: its work is done anew.

        Raises LeasedElsewhereError.
        """
        places = (key.location, key.repo)

        def drop(transaction: StoreTransaction) -> None:
            transaction.publications.drop(key.slug, transaction.now.wall_s, *places)

        known = self.publications(only_open=True)
        if any(one.is_open_for(key.slug, *places) for one in known):
            self._log.change([key], drop)

    def found(self, key: ItemKey, commit: str) -> None:
        """The item's commit, which an earlier run announced, is where it was meant to go."""

        def mark(transaction: StoreTransaction) -> None:
            transaction.publications.mark(key.slug, commit, transaction.now.wall_s)
            if self.folder:
                transaction.unshipped.drop(key.slug)

        known = (one for one in self.publications(only_open=True) if key.slug in one.open_slugs)
        if any(one.has(commit) for one in known):
            with suppress(LeasedElsewhereError):
                self._tried(key, partial(self._log.change, [key], mark))

    def shipped(
        self, key: ItemKey, outcome: ItemOutcome, commit: str, branch: str | None, tip: str
    ) -> None:
        """An item's commit is where it was meant to go. Raises LeasedElsewhereError."""

        def mark(transaction: StoreTransaction) -> None:
            transaction.publications.mark(key.slug, commit, transaction.now.wall_s, branch)

        self.record(key, steps.shipped(outcome, commit, branch, tip), mark)
        self.say(f"{key.slug}: shipped as {commit[:12]}")

    def settled(self, key: ItemKey, outcome: ItemOutcome) -> None:
        """An item's verdict changed after its last attempt, or it never had one."""
        with suppress(LeasedElsewhereError):  # the run that has it now has the last word
            self.record(key, steps.settled(outcome))

    def handed_over(self, key: ItemKey, place: Place, patch: str = "") -> None:
        """The item's work lies at `place` for other machines, or in the store if there is a packed
        `patch`. Raises LeasedElsewhereError."""
        name, folder = step_patch(place.tree), self._run_dir / journal.safe_slug(key.slug)
        file = Output(self._wave_id, key.slug, name, node(), str(folder / name), place.size, patch)

        def handed(transaction: StoreTransaction) -> None:
            transaction.unshipped.put_place(key.slug, place)
            transaction.unshipped.drop_patches(self._wave_id, key.slug)
            if patch:
                transaction.unshipped.put_output(file, transaction.now.wall_s)

        self._log.change([key], handed)

    def kept_outputs(self, key: ItemKey, outputs: Sequence[Output]) -> None:
        """Keep what the item's agents and tests printed. Raises LeasedElsewhereError."""

        def kept(transaction: StoreTransaction) -> None:
            for one in outputs:
                transaction.unshipped.put_output(one, transaction.now.wall_s)

        self._log.change([key], kept)

    def taken_over(self, key: ItemKey, entry: Mapping[str, Any]) -> None:
        """Journal the entry of another machine's run as this one's. Raises CannotRunError."""
        mine = {**entry, "anchor": self.anchor}
        journal.write_entry(self._state_dir, key.slug, str(entry.get("phase")), mine, key.repo)

    def proposed(self, wave_id: str, facts: Mapping[str, Any]) -> None:
        """A pull request was asked for; `facts` say what came of it."""
        try:
            self._log.proposed(wave_id, facts)
        except TidegateError as error:
            self._report(str(error))

    def restored_entry(self, key: ItemKey) -> Path | None:
        """Put the item's entry in the journal back if it is no longer what was written last, and
        this run still holds the item; its path if so. Asked between writes."""
        written = self._of(key).written
        try:
            same = written is None or regular_bytes(written.path) == written.body
        except OSError:
            same = False
        if same or written is None or not self.still_ours(key):
            return None
        self._tried(key, partial(write_bytes_atomic, written.path, written.body))
        return written.path

    def ended(self, abort_reason: str | None) -> None:
        """The wave is over, and its report is about to be given."""
        self.notes.close()
        try:
            self._log.end(abort_reason)
        except CannotRunError as error:
            self._report(str(error))

    def _of(self, key: ItemKey) -> _History:
        return self._history.setdefault(key, _History())

    def _told_to_others(self, key: ItemKey, step: Step, change: Change = lambda _: None) -> Change:
        """The change with the row that tells other machines how the item stands."""
        if not self.folder or step.entry is None:
            return change
        entry = journal.entry_of(key.slug, step.entry[0], self._entry(key, step))
        place = node(), self.folder, str(self._run_dir / journal.safe_slug(key.slug))
        row = Unshipped(key.slug, self._wave_id, *place, redacted_value(entry))

        def told(transaction: StoreTransaction) -> None:
            change(transaction)
            if entry.get("shipped"):
                transaction.unshipped.drop(key.slug)
            else:
                transaction.unshipped.put(row, transaction.now.wall_s)

        return told

    def _staged(self, key: ItemKey, step: Step) -> StagedFile | None:
        if step.entry is None:
            return None
        entry = self._entry(key, step)
        return journal.staged_entry(self._state_dir, key.slug, step.entry[0], entry, key.repo)

    def _entry(self, key: ItemKey, step: Step) -> dict[str, Any]:
        known = self._of(key)
        return {
            "waveId": self._wave_id,
            "content": key.content_key,
            "task": key.task_key,
            "anchor": self.anchor,
            "reviews": known.reviews,
            "phases": known.phases,
            **(step.entry[1] if step.entry else {}),
        }

    def _tried(self, key: ItemKey, work: Callable[[], Result]) -> Result | None:
        # It has happened, so the report must still come; it says that a disk is full.
        try:
            return work()
        except CannotRunError as error:
            self._report(str(error), f"{key.slug}: ")
            return None

    def _report(self, problem: str, item: str = "") -> None:
        self.problem = problem
        self.say(f"{item}{problem}")
