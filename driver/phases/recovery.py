"""What an earlier run of the same work left: shipped, verified but not shipped, or interrupted.

The journal is not believed. A commit counts as shipped when it is where it was to go, and one that
was only announced is put there; verified work is proven again on the tree rebuilt from its patch,
and only if that is the tree of then.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driver.agent_driver import Usage
from driver.git import GitError, commit_at, is_ancestor, tip_of
from driver.ground import RepositoryGround
from driver.outcome import Attempt, Change, ItemOutcome, Verdict
from driver.phases.disclosure import disclosed
from driver.phases.prove import Asked, prove
from driver.phases.watched import watched
from driver.phases.weigh import Weighed, weigh
from driver.pipeline import course, phase_receipt
from driver.pipeline.phase_receipt import PhaseReceipt
from driver.protected import refusal
from driver.reviews import Review, ReviewWord, from_json
from driver.saved_work import REVIEWED, WORK, of_step
from driver.ship_names import on_the_way
from driver.subject import Subject
from driver.verdicts import of_changes
from driver.wave_context import Planned, Wave
from state_store.errors import CannotRunError
from state_store.journal import load_entries, safe_slug

RESUME = "resume"


class Announced:
    """A line of commits that was about to be put on `branch`, with `tip` as its last one; asked
    about once for all of its items."""

    def __init__(self, branch: str, tip: str) -> None:
        self._branch, self._tip = branch, tip
        self._lock = threading.Lock()
        self._answer: bool | None = None

    def is_published(self, ground: RepositoryGround) -> bool:
        """Whether the line is on its branch by now, here and on the remote.

        What a crash cut off is made up for. Raises CannotRunError when the remote does not let us.
        """
        with self._lock:
            if self._answer is None:
                self._answer = self._is_kept(ground) and self._is_pushed(ground)
            return self._answer

    def _is_kept(self, ground: RepositoryGround) -> bool:
        repository, tip, ref = ground.repository, self._tip, on_the_way(self._tip)
        if commit_at(repository, ref, ground.environ) == tip and self._branch != repository.branch:
            with suppress(GitError):  # the name was taken meanwhile
                ground.git.keep(repository, tip, f"refs/heads/{self._branch}")
                ground.git.forget(repository, tip, ref)
        here = tip_of(repository, self._branch, ground.environ)
        return bool(here) and is_ancestor(repository, tip, here, ground.environ)

    def _is_pushed(self, ground: RepositoryGround) -> bool:
        here = tip_of(ground.repository, self._branch, ground.environ)
        if ground.remote is None or here != self._tip:  # people have gone on from it
            return True
        answer = ground.git.push(ground.remote, self._tip, self._branch, None)
        if answer.ok:
            return True
        # It may have arrived, and people may have gone on from it there: nothing else may be
        # shipped in its place before a person has looked.
        raise CannotRunError(
            f"built and kept on branch {self._branch}, whose push is not done: {answer.reason}; "
            f"to have it built anew, delete that branch here"
        )


@dataclass(frozen=True, slots=True)
class Remembered:
    """An item's journal entry for exactly this piece of work. `attempts` counts the dispatches of
    a line that was interrupted; a line that came to its end starts anew. `reviews` are those of
    work that is `tree` now, or that was on its way from there; `reviewed` is the patch that the
    last of them asked changes of. `phases` are the steps that are written down one by one; the
    patches of their trees are in `folder`."""

    attempts: int = 0
    tree: str | None = None
    patch: Path | None = None
    commit: str | None = None
    announced: Announced | None = None
    reviews: tuple[Review, ...] = ()
    reviewed: Path | None = None
    phases: tuple[PhaseReceipt, ...] = ()
    folder: Path | None = None


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

    On a base that has moved on since, only this counts: the item was published, and the tracker,
    whose `notes` would name the wave, has not heard of it.
    """
    if entry is None or entry.get("content") != subject.content:
        heard = f"[wave {str((entry or {}).get('waveId'))[:8]}]" in notes
        same = entry is not None and entry.get("task") == subject.task and not heard
        return Remembered(commit=_text(entry.get("commit")) if entry and same else None)
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
        return replace(found, reviews=reviews)
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
    lines: dict[tuple[str, str, str], Announced] = {}
    memories = {}
    for planned in wave.plan:
        entry = entries.get((planned.item.repo, planned.slug))
        notes = str(planned.item.extra.get("notes") or "")
        memory = remembered(
            entry,
            wave.subject(planned),
            wave.state_dir,
            notes,
            stepwise=wave.is_stepwise(planned),
            from_phase=from_phase,
        )
        branch, tip = (_text((entry or {}).get(key)) for key in ("branch", "tip"))
        if memory.commit and branch and tip:
            line = lines.setdefault((planned.home.key, branch, tip), Announced(branch, tip))
            memory = replace(memory, announced=line)
        memories[planned.slug] = memory
    return memories


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
        if memory.commit and _is_published(ground, memory.commit, memory.announced):
            return _outcome(planned, Verdict.VERIFIED, (), tree=memory.tree, commit=memory.commit)
    except CannotRunError as error:
        # Not journaled: the entry there is must stay, or the work would be shipped twice.
        return replace(
            _outcome(planned, Verdict.UNDECIDED, (), tree=memory.tree, commit=None),
            reason=str(error),
        )
    return None


def _is_published(ground: RepositoryGround, commit: str, announced: Announced | None) -> bool:
    """Whether the commit was merged, or is on its branch."""
    repository = ground.repository
    if is_ancestor(repository, commit, repository.head, ground.environ):
        return True
    return announced is not None and announced.is_published(ground)


def _prove_again(
    planned: Planned, wave: Wave, ground: RepositoryGround, memory: Remembered
) -> ItemOutcome | None:
    changes = acceptable(planned, wave, ground, memory)
    if changes is None or memory.tree is None:
        return None
    # An entry is not believed, so a proof that ends here has to pass all that any other has.
    wave.baselines.begin(planned, wave)
    with watched(planned, wave) as strays:
        test = prove(planned, ground, memory.tree, wave, Asked("test-resumed"))
        wave.recorder.tested(planned.slug, test)
        judgement, found = weigh(planned, ground, wave, Weighed(1, changes, test))
        reached_out = bool(strays())
    if reached_out or judgement.verdict is not Verdict.VERIFIED:
        return None
    again = resumed(max(1, memory.attempts), memory.tree, changes)
    again = replace(again, test=test, evidence=found)
    return _outcome(planned, Verdict.VERIFIED, (again,), tree=memory.tree, commit=None)


def acceptable(
    planned: Planned, wave: Wave, ground: RepositoryGround, memory: Remembered
) -> tuple[Change, ...] | None:
    """What the remembered tree changes; None where it cannot be rebuilt, or may not be shipped."""
    tree = _rebuilt(ground, memory)
    if tree is None:
        return None
    changes = ground.git.changes(ground.base_tree, tree)
    protected = refusal(wave.protection(planned).touched(changes, planned.owned))
    barred = of_changes(changes, planned.owned, protected=protected)
    if barred is not None or disclosed(ground, changes, wave.settings):
        return None
    return changes


def resumed(number: int, tree: str, changes: tuple[Change, ...]) -> Attempt:
    return Attempt(
        number=number,
        phase=RESUME,
        verdict=Verdict.VERIFIED,
        usage=Usage(0, 0, 0.0),
        tree=tree,
        changes=changes,
    )


def _rebuilt(ground: RepositoryGround, memory: Remembered) -> str | None:
    """The remembered tree, if its patch still makes it."""
    for path in _read_before(memory):
        with suppress(OSError, GitError):  # only so that its difference to this tree can be shown
            ground.git.apply(ground.base_tree, path.read_bytes())
    patch = memory.patch
    if memory.folder is not None and memory.tree is not None:
        patch = memory.folder / of_step(memory.tree)
    if patch is None:
        return None
    try:
        rebuilt = ground.git.apply(ground.base_tree, patch.read_bytes())
    except (OSError, GitError):
        return None
    return rebuilt if rebuilt == memory.tree else None


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
