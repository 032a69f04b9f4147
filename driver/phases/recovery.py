"""What an earlier run of the same work left: shipped, verified but not shipped, or interrupted.

The journal is not believed. A commit counts as shipped when it is where it was to go, and one that
was only announced is put there; verified work is proven again on the tree rebuilt from its patch,
and only if that is the tree of then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driver.agent_driver import Usage
from driver.git import GitError, is_ancestor, tip_of
from driver.ground import RepositoryGround
from driver.outcome import Attempt, Change, ItemOutcome, Shipment, Verdict
from driver.phases.build import against, save_patch
from driver.phases.owed import Announcement, Owed
from driver.phases.prove import Asked, prove
from driver.phases.watched import watched
from driver.phases.weigh import Weighed, weigh
from driver.pipeline import course, phase_receipt
from driver.pipeline.phase_receipt import PhaseReceipt
from driver.reviews import Review, ReviewWord, from_json
from driver.saved_work import REVIEWED, WORK, of_step, origin_of
from driver.shipped_items import note_of
from driver.subject import Subject
from driver.target import are_there, conflicts
from driver.wave_context import Planned, Wave
from state_store.errors import CannotRunError, TidegateError
from state_store.journal import Key, entries_about, load_entries, safe_slug

Entries = Mapping[Key, dict[str, Any]]

RESUME = "resume"
_NONE = nullcontext()


@dataclass(frozen=True, slots=True)
class Remembered:
    """An item's journal entry for exactly this piece of work. `attempts` counts the dispatches of
    a line that was interrupted; a line that came to its end starts anew. `reviews` are those of
    work that is `tree` now, or that was on its way from there; `reviewed` is the patch that the
    last of them asked changes of. `phases` are the steps that are written down one by one; the
    patches of their trees are in `folder`. `approved` is the tree that a reader has approved of
    shipped work, which differs from it in the paths `after_approval`."""

    attempts: int = 0
    tree: str | None = None
    patch: Path | None = None
    commit: str | None = None
    owed: Owed | None = None
    reviews: tuple[Review, ...] = ()
    reviewed: Path | None = None
    phases: tuple[PhaseReceipt, ...] = ()
    folder: Path | None = None
    approved: str | None = None
    after_approval: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Remembered work on the base of this run."""

    tree: str
    changes: tuple[Change, ...]


def remembered(
    entry: Mapping[str, Any] | None,
    subject: Subject,
    state_dir: Path,
    notes: str = "",
    *,
    stepwise: bool = False,
    from_phase: bool = False,
) -> Remembered:
    """What a journal entry says about `subject`; nothing when it is about other work.

    On a base that has moved on since, only this counts: the item was published or proven, and the
    tracker, whose `notes` would name the wave, has not heard of it.
    """
    if entry is None or (entry.get("content") != subject.content and _heard(entry, subject, notes)):
        return Remembered()
    found = _of_entry(entry, subject, state_dir, stepwise=stepwise, from_phase=from_phase)
    if entry.get("content") == subject.content:
        return found
    # Another tree will come of it, of which nobody has said anything yet.
    proven = found.tree if entry.get("verdict") == Verdict.VERIFIED or entry.get("proven") else None
    patch = found.patch if proven else None
    return Remembered(commit=found.commit, tree=proven, patch=patch)


def _heard(entry: Mapping[str, Any], subject: Subject, notes: str) -> bool:
    """Whether an entry is about another task, or one that the tracker has closed since."""
    told = note_of(str(entry.get("waveId"))) in notes
    return told or entry.get("task") != subject.task


def _of_entry(
    entry: Mapping[str, Any],
    subject: Subject,
    state_dir: Path,
    *,
    stepwise: bool,
    from_phase: bool,
) -> Remembered:
    folder = state_dir / "runs" / safe_slug(str(entry.get("waveId"))) / safe_slug(subject.slug)
    settled, reviews = bool(entry.get("settled")), from_json(entry.get("reviews"))
    green = entry.get("verdict") == Verdict.VERIFIED
    found = Remembered(
        attempts=0 if settled else _count(entry.get("attempt")), commit=_text(entry.get("commit"))
    )
    phases = phase_receipt.from_json(entry.get("phases")) if stepwise else ()
    if phases and (green or from_phase or not settled):
        tree, attempts = course.last_tree(phases), _count(entry.get("attempt"))
        found = replace(found, tree=tree, attempts=attempts, phases=phases, folder=folder)
        after = entry.get("afterApproval")
        paths = tuple(map(str, after)) if isinstance(after, list) else ()
        approved = _text(entry.get("approvedTree"))
        return replace(found, reviews=reviews, approved=approved, after_approval=paths)
    if green or (entry.get("proven") and not settled):
        tree = _text(entry.get("tree"))
        work, read = folder / WORK, folder / REVIEWED
        return replace(found, tree=tree, patch=work, reviews=reviews, reviewed=read)
    if not settled and reviews and reviews[-1].word is ReviewWord.CHANGES_REQUESTED:
        return replace(found, tree=reviews[-1].tree, patch=folder / REVIEWED, reviews=reviews)
    return found


def recall(wave: Wave) -> dict[str, Remembered]:
    """The memories of all items by slug; they remember nothing unless a resume was asked for."""
    from_phase = wave.options.from_phase is not None
    if not (wave.resume or from_phase) or wave.state_dir is None:
        return {planned.slug: Remembered() for planned in wave.plan}
    entries, unreadable = load_entries(wave.state_dir)
    for path in unreadable:
        wave.recorder.say(f"{path} is no journal entry and was not read")
    lines: dict[tuple[str, Announcement], Owed] = {}
    memories = {}
    for planned in wave.plan:
        subject = wave.subject(planned)
        entry = _entry_about(entries, subject)
        notes = str(planned.item.extra.get("notes") or "")
        memory = remembered(
            entry,
            subject,
            wave.state_dir,
            notes,
            stepwise=wave.is_stepwise(planned),
            from_phase=from_phase,
        )
        if not course.keeps_reviews(planned.pipeline, wave.options.from_phase):
            memory = replace(memory, reviews=())
        line = Announcement.of_entry(entry) if entry and memory.commit else None
        if line is not None and wave.shipping.mode != "none":
            fresh = Owed(line, wave.knows, onto_target=wave.shipping.mode == "current")
            memory = replace(memory, owed=lines.setdefault((planned.home.key, line), fresh))
        memories[planned.slug] = memory
    return memories


def _entry_about(entries: Entries, subject: Subject) -> dict[str, Any] | None:
    """The latest entry of an item, and of its namesakes only what is about the same task."""
    return next(
        (
            entry
            for entry in entries_about(entries, subject.slug, subject.repo, subject.place)
            if entry.get("repo") == subject.repo or entry.get("task") == subject.task
        ),
        None,
    )


def make_up(wave: Wave, memories: Mapping[str, Remembered]) -> None:
    """Finish what moves the user's checkout before anybody is at work who could have moved it.
    What goes wrong here is told where the items are asked about."""
    for planned in wave.plan:
        ground, memory = wave.ground_of(planned), memories[planned.slug]
        if not isinstance(ground, RepositoryGround) or memory.owed is None:
            continue
        if memory.owed.moves_checkout and wave.recorder.still_ours(wave.subject(planned)):
            with suppress(TidegateError), ground.tripwire.by_us() if ground.tripwire else _NONE:
                wave.gates.check()
                if memory.owed.is_published(ground) and ground.repository.branch:
                    ground.moved_to = tip_of(
                        ground.repository, ground.repository.branch, ground.environ
                    )


def made_up_for(memories: Iterable[Remembered]) -> dict[str, Shipment]:
    """What was done in this run for shipments of earlier ones, each under a key of its own."""
    lines = dict.fromkeys(memory.owed for memory in memories)
    made = (line.shipment for line in lines if line is not None and line.shipment is not None)
    return {f"{one.repo} {one.kept}": one for one in made}


def recover(planned: Planned, wave: Wave, memory: Remembered) -> ItemOutcome | None:
    """The item's outcome when an earlier run has already earned it, else None."""
    ground = wave.ground_of(planned)
    if not isinstance(ground, RepositoryGround):
        return None
    if (known := published(planned, wave, memory)) is not None:
        return known
    if memory.tree and memory.patch:
        return _prove_again(planned, wave, ground, memory)
    return None


def published(planned: Planned, wave: Wave, memory: Remembered) -> ItemOutcome | None:
    """The outcome of an item that an earlier run has shipped, or cannot tell whether it has."""
    ground = wave.ground_of(planned)
    if not isinstance(ground, RepositoryGround):
        return None
    try:
        if memory.commit and _is_published(ground, memory.commit, memory.owed):
            done = _outcome(planned, Verdict.VERIFIED, (), tree=memory.tree, commit=memory.commit)
            after = memory.after_approval
            return replace(done, approved_tree=memory.approved, after_approval=after)
    except CannotRunError as error:
        # Not journaled: the entry there is must stay, or the work would be shipped twice.
        return replace(
            _outcome(planned, Verdict.UNDECIDED, (), tree=memory.tree, commit=None),
            reason=str(error),
        )
    return None


def _is_published(ground: RepositoryGround, commit: str, owed: Owed | None) -> bool:
    """Whether the commit was merged, or is on its branch."""
    repository = ground.repository
    if is_ancestor(repository, commit, repository.head, ground.environ):
        return True
    return owed is not None and owed.is_published(ground)


def _prove_again(
    planned: Planned, wave: Wave, ground: RepositoryGround, memory: Remembered
) -> ItemOutcome | None:
    work = acceptable(planned, wave, ground, memory)
    if work is None:
        return None
    # An entry is not believed, so a proof that ends here has to pass all that any other has.
    wave.baselines.begin(planned, wave)
    with watched(planned, wave) as strays:
        test = prove(planned, ground, work.tree, wave, Asked("test-resumed"))
        wave.recorder.tested(planned.slug, test)
        judgement, found = weigh(planned, ground, wave, Weighed(1, work.changes, test))
        reached_out = bool(strays())
    if reached_out or judgement.verdict is not Verdict.VERIFIED:
        return None
    save_patch(planned, wave, ground.git.patch(ground.base_tree, work.tree))
    again = replace(resumed(max(1, memory.attempts), work), test=test, evidence=found)
    return _outcome(planned, Verdict.VERIFIED, (again,), tree=work.tree, commit=None)


def acceptable(
    planned: Planned, wave: Wave, ground: RepositoryGround, memory: Remembered
) -> Rebuilt | None:
    """The remembered work; None where it cannot be rebuilt, or may not be shipped."""
    tree = _rebuilt(ground, memory)
    if tree is None:
        return None
    seen = ground.observed(tree)
    return Rebuilt(tree, seen.changes) if against(planned, wave, seen) is None else None


def resumed(number: int, work: Rebuilt) -> Attempt:
    """The attempt that an earlier run made, as the first of this one."""
    return Attempt(
        number=number,
        phase=RESUME,
        verdict=Verdict.VERIFIED,
        usage=Usage(0, 0, 0.0),
        tree=work.tree,
        changes=work.changes,
    )


def _rebuilt(ground: RepositoryGround, memory: Remembered) -> str | None:
    """The remembered tree, if its patch still makes it; on a base that has moved on, its changes on
    that, unless they meet what came meanwhile."""
    patch = memory.patch
    if memory.folder is not None and memory.tree is not None:
        patch = memory.folder / of_step(memory.tree)
    if patch is None:
        return None
    git = ground.git
    try:
        work = patch.read_bytes()
        origin = origin_of(work)
        if origin.top not in (None, ground.repository.top):
            return None
        base_tree = git.tree_of(origin.base or ground.base)
        rebuilt = git.apply(base_tree, work)
        for path in _read_before(memory):
            with suppress(OSError, GitError):  # only so that its difference can be shown
                git.apply(base_tree, path.read_bytes())
    except (OSError, GitError):
        return None
    return _on_base(ground, base_tree, rebuilt) if rebuilt == memory.tree else None


def _on_base(ground: RepositoryGround, base_tree: str, tree: str) -> str | None:
    if base_tree == ground.base_tree:
        return tree
    mine, theirs = (ground.git.changes(base_tree, t) for t in (tree, ground.base_tree))
    if are_there(mine, theirs) or conflicts(mine, theirs):
        return None
    return ground.git.tree_with(ground.base_tree, mine)


def _read_before(memory: Remembered) -> Iterator[Path]:
    """The patches of the trees that reviewers have read."""
    if memory.reviewed is not None:
        yield memory.reviewed
    if memory.folder is not None:
        yield from (memory.folder / of_step(t) for t in {one.tree for one in memory.reviews})


def _outcome(
    planned: Planned,
    verdict: Verdict,
    attempts: tuple[Attempt, ...],
    *,
    tree: str | None,
    commit: str | None,
) -> ItemOutcome:
    return ItemOutcome(
        slug=planned.slug,
        verdict=verdict,
        attempts=attempts,
        tree=tree,
        changes=attempts[-1].changes if attempts else (),
        resumed=True,
        shipped_as=commit,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
