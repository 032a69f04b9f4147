"""What the journal says of a wave's items: read, and told apart from what is about other work.

It is not believed here or later: what follows from it is `recovery`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driver.backlog.publication_status import note_of
from driver.domain import phase_receipt
from driver.domain.item_key import ItemKey
from driver.domain.phase_receipt import PhaseReceipt
from driver.domain.results import Verdict
from driver.domain.reviews import Review, ReviewWord, from_json
from driver.pipeline import position as course
from driver.publishing.pending import PendingPublication, PublicationIntent, text_or_none
from driver.run_state.context import Wave
from driver.workspace.saved_patch import REVIEWED, WORK
from state_store.documents.journal import Key, entries_about, load_entries, safe_slug

Entries = Mapping[Key, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ResumeState:
    """An item's journal entry for exactly this piece of work. `attempts` counts the dispatches of
    an item that was interrupted; one that came to its end starts anew. `reviews` are those of
    work that is `tree` now, or that was on its way from there; `reviewed` is the patch that the
    last of them asked changes of. `phases` are the steps that are written down one by one; the
    patches of their trees are in `folder`. `approved` is the tree that a reader has approved of
    shipped work, which differs from it in the paths `after_approval`."""

    attempts: int = 0
    tree: str | None = None
    patch: Path | None = None
    commit: str | None = None
    owed: PendingPublication | None = None
    reviews: tuple[Review, ...] = ()
    reviewed: Path | None = None
    phases: tuple[PhaseReceipt, ...] = ()
    folder: Path | None = None
    approved: str | None = None
    after_approval: tuple[str, ...] = ()


def remembered(
    entry: Mapping[str, Any] | None,
    subject: ItemKey,
    state_dir: Path,
    notes: str = "",
    *,
    stepwise: bool = False,
    from_phase: bool = False,
) -> ResumeState:
    """What a journal entry says about `subject`; nothing when it is about other work.

    On a base that has moved on since, only this counts: the item was published or proven, and the
    tracker, whose `notes` would name the wave, has not heard of it.
    """
    if entry is None or (
        entry.get("content") != subject.content_key and _heard(entry, subject, notes)
    ):
        return ResumeState()
    found = _of_entry(entry, subject, state_dir, stepwise=stepwise, from_phase=from_phase)
    if entry.get("content") == subject.content_key:
        return found
    # Another tree will come of it, of which nobody has said anything yet.
    proven = found.tree if entry.get("verdict") == Verdict.VERIFIED or entry.get("proven") else None
    patch = found.patch if proven else None
    return ResumeState(commit=found.commit, tree=proven, patch=patch)


def _heard(entry: Mapping[str, Any], subject: ItemKey, notes: str) -> bool:
    """Whether an entry is about another task, or one that the tracker has closed since."""
    told = note_of(str(entry.get("waveId"))) in notes
    return told or entry.get("task") != subject.task_key


def _of_entry(
    entry: Mapping[str, Any],
    subject: ItemKey,
    state_dir: Path,
    *,
    stepwise: bool,
    from_phase: bool,
) -> ResumeState:
    folder = state_dir / "runs" / safe_slug(str(entry.get("waveId"))) / safe_slug(subject.slug)
    settled, reviews = bool(entry.get("settled")), from_json(entry.get("reviews"))
    green = entry.get("verdict") == Verdict.VERIFIED
    found = ResumeState(
        attempts=0 if settled else _count(entry.get("attempt")),
        commit=text_or_none(entry.get("commit")),
    )
    phases = phase_receipt.from_json(entry.get("phases")) if stepwise else ()
    if phases and (green or from_phase or not settled):
        tree, attempts = course.last_tree(phases), _count(entry.get("attempt"))
        found = replace(found, tree=tree, attempts=attempts, phases=phases, folder=folder)
        after = entry.get("afterApproval")
        paths = tuple(map(str, after)) if isinstance(after, list) else ()
        approved = text_or_none(entry.get("approvedTree"))
        return replace(found, reviews=reviews, approved=approved, after_approval=paths)
    if green or (entry.get("proven") and not settled):
        tree = text_or_none(entry.get("tree"))
        work, read = folder / WORK, folder / REVIEWED
        return replace(found, tree=tree, patch=work, reviews=reviews, reviewed=read)
    if not settled and reviews and reviews[-1].word is ReviewWord.CHANGES_REQUESTED:
        return replace(found, tree=reviews[-1].tree, patch=folder / REVIEWED, reviews=reviews)
    return found


def recall(wave: Wave) -> dict[str, ResumeState]:
    """The memories of all items by slug; they remember nothing unless a resume was asked for."""
    from_phase = wave.options.from_phase is not None
    if not (wave.resume or from_phase) or wave.state_dir is None:
        return {item.slug: ResumeState() for item in wave.items}
    entries, unreadable = load_entries(wave.state_dir)
    for path in unreadable:
        wave.recorder.say(f"{path} is no journal entry and was not read")
    announced: dict[tuple[str, PublicationIntent], PendingPublication] = {}
    memories = {}
    for item in wave.items:
        entry = _entry_about(entries, item.key)
        notes = str(item.spec.extra.get("notes") or "")
        memory = remembered(
            entry,
            item.key,
            wave.state_dir,
            notes,
            stepwise=item.is_stepwise,
            from_phase=from_phase,
        )
        if not course.keeps_reviews(item.pipeline, wave.options.from_phase):
            memory = replace(memory, reviews=())
        line = PublicationIntent.of_entry(entry) if entry and memory.commit else None
        if line is not None and wave.shipping.is_wanted:
            fresh = PendingPublication(line, wave.knows, onto_target=wave.shipping.onto_target)
            memory = replace(
                memory, owed=announced.setdefault((item.planned.home.key, line), fresh)
            )
        memories[item.slug] = memory
    return memories


def _entry_about(entries: Entries, subject: ItemKey) -> dict[str, Any] | None:
    """The latest entry of an item, and of its namesakes only what is about the same task."""
    return next(
        (
            entry
            for entry in entries_about(entries, subject.slug, subject.repo, subject.location)
            if entry.get("repo") == subject.repo or entry.get("task") == subject.task_key
        ),
        None,
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
