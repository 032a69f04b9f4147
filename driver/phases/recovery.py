"""What an earlier run of the same work left: shipped, verified but not shipped, or interrupted.

The journal is not believed. A commit counts as shipped when it is where it was to go; verified
work is proven again on the tree rebuilt from its patch, and only if that is the tree of then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver.agent_driver import Usage
from driver.git import GitError, is_ancestor, tip_of
from driver.ground import RepositoryGround
from driver.outcome import Attempt, ItemOutcome, Verdict
from driver.phases.prove import run_test
from driver.subject import Subject
from driver.verdicts import of_changes, of_test
from driver.wave_context import Planned, Wave
from state_store.journal import load_entries, safe_slug

RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Remembered:
    """An item's journal entry for exactly this piece of work. `attempts` counts the dispatches of
    a line that was interrupted; a line that came to its end starts anew."""

    attempts: int = 0
    tree: str | None = None
    patch: Path | None = None
    commit: str | None = None
    branch: str | None = None
    tip: str | None = None


def remembered(entry: Mapping[str, Any] | None, subject: Subject, state_dir: Path) -> Remembered:
    """What a journal entry says about `subject`; nothing when it is about other work."""
    if entry is None or entry.get("content") != subject.content:
        return Remembered()
    patch = state_dir / "runs" / safe_slug(str(entry.get("waveId"))) / safe_slug(subject.slug)
    green = entry.get("verdict") == Verdict.VERIFIED
    return Remembered(
        attempts=0 if entry.get("settled") else _count(entry.get("attempt")),
        tree=_text(entry.get("tree")) if green else None,
        patch=patch / "work.patch" if green else None,
        commit=_text(entry.get("commit")),
        branch=_text(entry.get("branch")),
        tip=_text(entry.get("tip")),
    )


def recall(wave: Wave) -> dict[str, Remembered]:
    """The memories of all items by slug; they remember nothing unless a resume was asked for."""
    if not wave.resume or wave.state_dir is None:
        return {planned.slug: Remembered() for planned in wave.plan}
    entries, unreadable = load_entries(wave.state_dir)
    for path in unreadable:
        wave.recorder.say(f"{path} is no journal entry and was not read")
    return {
        planned.slug: remembered(
            entries.get((planned.item.repo, planned.slug)), wave.subject(planned), wave.state_dir
        )
        for planned in wave.plan
    }


def recover(planned: Planned, wave: Wave, memory: Remembered) -> ItemOutcome | None:
    """The item's outcome when an earlier run has already earned it, else None."""
    ground = wave.ground_of(planned)
    if not isinstance(ground, RepositoryGround):
        return None
    if memory.commit and _is_published(ground, memory):
        return _outcome(planned, Verdict.VERIFIED, (), tree=memory.tree, commit=memory.commit)
    if memory.tree and memory.patch:
        return _prove_again(planned, wave, ground, memory.tree, memory.patch)
    return None


def _is_published(ground: RepositoryGround, memory: Remembered) -> bool:
    """Whether the commit is on its branch, here and on the remote, or was merged; a push that a
    crash cut off is made up for."""
    repository, tip = ground.repository, memory.tip or ""
    if is_ancestor(repository, memory.commit or "", repository.head, ground.environ):
        return True
    if not memory.branch or tip_of(repository, memory.branch, ground.environ) != tip:
        return False
    return ground.remote is None or ground.git.push(ground.remote, tip, memory.branch, None).ok


def _prove_again(
    planned: Planned, wave: Wave, ground: RepositoryGround, tree: str, patch: Path
) -> ItemOutcome | None:
    try:
        rebuilt = ground.git.apply(ground.base_tree, patch.read_bytes())
    except (OSError, GitError):
        return None
    if rebuilt != tree:
        return None
    changes = ground.git.changes(ground.base_tree, tree)
    if of_changes(changes, planned.owned) is not None:
        return None
    with ground.trees.checkout(tree) as proving:
        output = wave.scratch(planned.slug) / "test-resumed"
        test = run_test(planned, proving, tree, wave, output)
    wave.recorder.tested(planned.slug, test)
    if of_test(test).verdict is not Verdict.VERIFIED:
        return None
    again = Attempt(
        number=1,
        phase=RESUME,
        verdict=Verdict.VERIFIED,
        usage=Usage(0, 0, 0.0),
        tree=tree,
        changes=changes,
        test=test,
    )
    return _outcome(planned, Verdict.VERIFIED, (again,), tree=tree, commit=None)


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
