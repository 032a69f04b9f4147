"""Reads what the journal says of a wave's items, and passes over what is about other work.

It is not believed, here or later: `resume` decides what follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver.backlog.publication_status import note_of
from driver.domain import phase_receipt
from driver.domain.item_key import ItemKey
from driver.domain.phase_receipt import PhaseReceipt
from driver.domain.results import Verdict
from driver.domain.reviews import Review, from_json
from driver.pipeline import position
from driver.publishing.reconcile import Reconciliation
from driver.run_state.context import Wave
from state_store.documents.journal import stored_slug
from state_store.documents.journal_facts import JournalFacts, journal_facts
from state_store.values.lazy_dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class ResumeState:
    """The facts that the journal has about exactly this piece of work.

    `attempts` are the dispatches that count if the work is lost: those of an item that was
    interrupted; one that came to its end starts anew. `number` is the attempt that made the work.
    `phases` are the steps that were done; the patches of their trees are in `folder`, and `tree` is
    the last of them. `reviews` are of that work. `approved` is the tree that a reviewer approved of
    shipped work, which differs from it in the paths `after_approval`. On a base that has moved
    another tree will come of the work, and no reviewer has read that.
    """

    attempts: int = 0
    number: int = 0
    commit: str | None = None
    pending: Reconciliation | None = None
    tree: str | None = None
    phases: tuple[PhaseReceipt, ...] = ()
    folder: Path | None = None
    reviews: tuple[Review, ...] = ()
    approved: str | None = None
    after_approval: tuple[str, ...] = ()
    base_moved: bool = False


def resume_state(
    entry: Mapping[str, Any] | None,
    key: ItemKey,
    state_dir: Path,
    notes: str = "",
    *,
    from_phase: bool = False,
) -> ResumeState:
    """The facts of a journal entry about `key`; none if it is about other work.

    On a base that has moved on since, only this counts: the item was published or proven or waits
    for a person, and the tracker, whose `notes` would name the wave, has not heard of it.
    """
    if entry is None:
        return ResumeState()
    moved = entry.get("content") != key.content_key
    in_tracker = note_of(str(entry.get("waveId"))) in notes
    if moved and (in_tracker or entry.get("task") != key.task_key):
        return ResumeState()
    settled, green = bool(entry.get("settled")), entry.get("verdict") == Verdict.VERIFIED
    counted = entry.get("attempt")
    number = counted if isinstance(counted, int) and not isinstance(counted, bool) else 0
    undecided = entry.get("verdict") == Verdict.UNDECIDED  # no fault of the work
    attempts = 0 if settled or green or moved or undecided else number
    commit = text_or_none(entry.get("commit"))
    kept = entry.get("proven") or entry.get("waits")
    proven = green or (bool(kept) and not settled)
    if not (proven if moved else green or from_phase or not settled):
        return ResumeState(attempts, commit=commit)
    phases = phase_receipt.from_json(entry.get("phases"))
    wave, after = stored_slug(str(entry.get("waveId"))), entry.get("afterApproval")
    return ResumeState(
        attempts,
        0 if moved else number,
        commit,
        tree=position.last_tree(phases) or text_or_none(entry.get("tree")),
        phases=phases,
        folder=state_dir / "runs" / wave / stored_slug(key.slug),
        reviews=() if moved else from_json(entry.get("reviews")),
        approved=None if moved else text_or_none(entry.get("approvedTree")),
        after_approval=tuple(map(str, after)) if isinstance(after, list) and not moved else (),
        base_moved=moved,
    )


def recall(wave: Wave) -> dict[str, ResumeState]:
    """The resume states of all items by slug; empty ones unless a resume was asked for."""
    from_phase = wave.options.from_phase is not None
    if not (wave.resume or from_phase):
        return {item.slug: ResumeState() for item in wave.items}
    # A caller with leases has begun its cycle by asking each file.
    facts = journal_facts(wave.state_dir, only_replaced=wave.options.leases is not None)
    for path in facts.unreadable:
        wave.recorder.say(f"{path} is no journal entry and was not read")
    entries = {item.slug: _entry_about(facts, item.key) for item in wave.items}
    commits = {text_or_none((entry or {}).get("commit")) for entry in entries.values()}
    known = wave.recorder.publications(commits={commit for commit in commits if commit})
    rows = {(row.tip, one.commit): row for row in known for one in row.items}
    pending: dict[tuple[str, str], Reconciliation] = {}
    states = {}
    for item in wave.items:
        entry = entries[item.slug]
        notes = str(item.spec.extra.get("notes") or "")
        state = resume_state(entry, item.key, wave.state_dir, notes, from_phase=from_phase)
        if not position.keeps_reviews(item.pipeline, wave.options.from_phase):
            state = replace(state, reviews=())
        row = rows.get((str(entry.get("tip")), state.commit)) if entry and state.commit else None
        if row is not None and not row.is_dropped(item.slug) and wave.shipping.is_wanted:
            knows, advance = wave.knows, wave.recorder.advance
            fresh = Reconciliation(row, knows, advance, onto_target=wave.shipping.onto_target)
            key = (item.planned.home.key, row.tip)
            state = replace(state, pending=pending.setdefault(key, fresh))
        states[item.slug] = state
    return states


def _entry_about(facts: JournalFacts, key: ItemKey) -> dict[str, Any] | None:
    """The latest entry of an item, and of its namesakes only what is about the same task."""
    return next(
        (
            entry
            for entry in facts.about(key.slug, key.repo, key.location)
            if entry.get("repo") == key.repo or entry.get("task") == key.task_key
        ),
        None,
    )


def text_or_none(value: object) -> str | None:
    """A field of the journal if it is a text, else None."""
    return value if isinstance(value, str) else None
