"""What a wave has to remember, and the memory of one that keeps nothing.

The real one, which writes into the store, is `wave_memory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from driver.domain.item_key import Subject
from driver.domain.phase_receipt import PhaseReceipt
from driver.domain.results import Attempt, ItemOutcome
from driver.domain.reviews import Review
from state_store.anchors import Anchor
from state_store.store import Note


class Memory(Protocol):
    """The store as a wave needs it. All but `begin` and `end` raise LeasedElsewhereError.

    `note` lets the journal say it: after the question whose the item is, before the answer counts.
    """

    def begin(self, slugs: Sequence[str]) -> None:
        """The wave starts."""

    def end(self, abort_reason: str | None) -> None:
        """The wave is over."""

    def knows(self, wave_id: str) -> bool:
        """Whether a wave began in this store."""

    def take_all(self, subjects: Sequence[Subject]) -> None:
        """Hold those of the items that nobody else has, before the first of them is begun."""

    def take(self, subject: Subject) -> None:
        """Hold the item from now on."""

    def still_ours(self, subject: Subject) -> bool:
        """Whether nobody has taken the item over."""

    def dispatched(
        self, subject: Subject, phase: str, number: int, model: str | None, note: Note
    ) -> None:
        """An agent is about to be started."""

    def judged(self, subject: Subject, attempt: Attempt, note: Note) -> None:
        """An attempt has its verdict."""

    def reviewing(self, subject: Subject, number: int, tree: str, model: str | None) -> None:
        """A reviewer is about to be started."""

    def reviewed(self, subject: Subject, review: Review, note: Note) -> None:
        """A review has its word."""

    def phased(self, subject: Subject, done: PhaseReceipt, number: int | None, note: Note) -> None:
        """A phase of the item is over; `number` is that of its dispatch, where an agent was asked
        that neither builds nor reviews."""

    def settled(self, subject: Subject, outcome: ItemOutcome, note: Note) -> None:
        """The item has its verdict."""

    def shipping(self, shipped: Mapping[Subject, str], branch: str, note: Note) -> None:
        """Commits are about to be published; all of the items must still be ours."""

    def shipped(self, subject: Subject, commit: str, note: Note) -> None:
        """The item's commit is where it was meant to go."""

    def proposed(self, wave_id: str, step: Mapping[str, Any]) -> None:
        """A pull request was asked for, of this wave or an earlier one."""

    def anchor(self) -> Anchor | None:
        """How far the wave's stream is, to be written down outside the store."""


class Forgetful:
    """A wave without a state folder: nothing is kept, and nobody else can know of its items."""

    def begin(self, slugs: Sequence[str]) -> None:
        del slugs

    def end(self, abort_reason: str | None) -> None:
        del abort_reason

    def knows(self, wave_id: str) -> bool:
        del wave_id
        return False

    def take_all(self, subjects: Sequence[Subject]) -> None:
        del subjects

    def take(self, subject: Subject) -> None:
        del subject

    def still_ours(self, subject: Subject) -> bool:
        del subject
        return True

    def dispatched(
        self, subject: Subject, phase: str, number: int, model: str | None, note: Note
    ) -> None:
        del subject, phase, number, model
        note()

    def judged(self, subject: Subject, attempt: Attempt, note: Note) -> None:
        del subject, attempt
        note()

    def reviewing(self, subject: Subject, number: int, tree: str, model: str | None) -> None:
        del subject, number, tree, model

    def reviewed(self, subject: Subject, review: Review, note: Note) -> None:
        del subject, review
        note()

    def phased(self, subject: Subject, done: PhaseReceipt, number: int | None, note: Note) -> None:
        del subject, done, number
        note()

    def settled(self, subject: Subject, outcome: ItemOutcome, note: Note) -> None:
        del subject, outcome
        note()

    def shipping(self, shipped: Mapping[Subject, str], branch: str, note: Note) -> None:
        del shipped, branch
        note()

    def shipped(self, subject: Subject, commit: str, note: Note) -> None:
        del subject, commit
        note()

    def proposed(self, wave_id: str, step: Mapping[str, Any]) -> None:
        del wave_id, step

    def anchor(self) -> Anchor | None:
        return None
