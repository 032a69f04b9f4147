"""What becomes of work that an earlier run left: shipped, verified but not shipped, or interrupted.

The journal is not believed. A commit counts as shipped when it is where it was to go, and one that
was only announced is put there; verified work is proven again on the tree rebuilt from its patch,
and only if that is the tree of then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from driver.agents.attempt import against, save_patch
from driver.backend_api.driver import Usage
from driver.domain.results import RESUME, Attempt, Change, ItemOutcome, Shipment, Verdict
from driver.git.private_git import GitError, is_ancestor, tip_of
from driver.pipeline_run.resume_state import ResumeState
from driver.publishing.pending import PendingPublication
from driver.run_state.context import ItemRun, Wave
from driver.verification.assessment import assess
from driver.verification.test_run import ProvenWork, prove
from driver.workspace.base_branch import already_made, conflicts
from driver.workspace.clone_context import CloneContext
from driver.workspace.saved_patch import origin_of, step_patch
from state_store.documents.errors import CannotRunError, TidegateError

_NONE = nullcontext()


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Remembered work on the base of this run."""

    tree: str
    changes: tuple[Change, ...]


def finish_pending(wave: Wave, memories: Mapping[str, ResumeState]) -> None:
    """Finish what moves the user's checkout before anybody is at work who could have moved it.
    What goes wrong here is told where the items are asked about."""
    for item in wave.items:
        ground, memory = item.repository, memories[item.slug]
        if ground is None or memory.owed is None:
            continue
        if memory.owed.moves_checkout and wave.recorder.still_ours(item.key):
            with (
                suppress(TidegateError),
                ground.checkout_guard.own_changes() if ground.checkout_guard else _NONE,
            ):
                wave.gates.check()
                if memory.owed.is_published(ground) and ground.repository.branch:
                    ground.moved_to = tip_of(
                        ground.repository, ground.repository.branch, ground.environ
                    )


def finished_earlier(memories: Iterable[ResumeState]) -> dict[str, Shipment]:
    """What was done in this run for shipments of earlier ones, each under a key of its own."""
    lines = dict.fromkeys(memory.owed for memory in memories)
    made = (line.shipment for line in lines if line is not None and line.shipment is not None)
    return {f"{one.repo} {one.kept}": one for one in made}


def already_published(memories: Iterable[ResumeState]) -> dict[str, Shipment]:
    """Where shipments of earlier runs are, for which there was nothing to do."""
    lines = dict.fromkeys(memory.owed for memory in memories)
    found = (line.found for line in lines if line is not None and line.found is not None)
    return {f"{one.repo} {one.kept}": one for one in found}


def recover(item: ItemRun, memory: ResumeState) -> ItemOutcome | None:
    """The item's outcome when an earlier run has already earned it, else None."""
    if (known := published(item, memory)) is not None:
        return known
    return _prove_again(item, memory) if memory.tree and memory.patch else None


def published(item: ItemRun, memory: ResumeState) -> ItemOutcome | None:
    """The outcome of an item that an earlier run has shipped, or cannot tell whether it has."""
    ground = item.repository
    if ground is None:
        return None
    try:
        if memory.commit and _is_published(ground, memory.commit, memory.owed):
            done = _outcome(item, Verdict.VERIFIED, (), tree=memory.tree, commit=memory.commit)
            after = memory.after_approval
            return replace(done, approved_tree=memory.approved, after_approval=after)
    except CannotRunError as error:
        # Not journaled: the entry there is must stay, or the work would be shipped twice.
        return replace(
            _outcome(item, Verdict.UNDECIDED, (), tree=memory.tree, commit=None),
            reason=str(error),
        )
    return None


def _is_published(ground: CloneContext, commit: str, owed: PendingPublication | None) -> bool:
    """Whether the commit was merged, or is on its branch."""
    repository = ground.repository
    if is_ancestor(repository, commit, repository.head, ground.environ):
        return True
    return owed is not None and owed.is_published(ground)


def _prove_again(item: ItemRun, memory: ResumeState) -> ItemOutcome | None:
    ground, work = item.repository, acceptable(item, memory)
    if ground is None or work is None:
        return None
    # An entry is not believed, so a proof that ends here has to pass all that any other has.
    item.wave.baselines.begin(item)
    with item.guarded() as strays:
        test = prove(item, work.tree, "test-resumed")
        item.wave.recorder.tested(item.slug, test)
        judgement, found = assess(ProvenWork(item, 1, work.changes, test))
        reached_out = bool(strays())
    if reached_out or judgement.verdict is not Verdict.VERIFIED:
        return None
    save_patch(item, ground.git.patch(ground.base_tree, work.tree))
    again = replace(resumed(max(1, memory.attempts), work), test=test, evidence=found)
    return _outcome(item, Verdict.VERIFIED, (again,), tree=work.tree, commit=None)


def acceptable(item: ItemRun, memory: ResumeState) -> Rebuilt | None:
    """The remembered work; None where it cannot be rebuilt, or may not be shipped."""
    ground = item.repository
    tree = _rebuilt(ground, memory) if ground else None
    if ground is None or tree is None:
        return None
    seen = ground.observed(tree)
    return Rebuilt(tree, seen.changes) if against(item, seen) is None else None


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


def _rebuilt(ground: CloneContext, memory: ResumeState) -> str | None:
    """The remembered tree, if its patch still makes it; on a base that has moved on, its changes on
    that, unless they meet what came meanwhile."""
    patch = memory.patch
    if memory.folder is not None and memory.tree is not None:
        patch = memory.folder / step_patch(memory.tree)
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


def _on_base(ground: CloneContext, base_tree: str, tree: str) -> str | None:
    if base_tree == ground.base_tree:
        return tree
    mine, theirs = (ground.git.changes(base_tree, t) for t in (tree, ground.base_tree))
    if already_made(mine, theirs) or conflicts(mine, theirs):
        return None
    return ground.git.tree_with(ground.base_tree, mine)


def _read_before(memory: ResumeState) -> Iterator[Path]:
    """The patches of the trees that reviewers have read."""
    if memory.reviewed is not None:
        yield memory.reviewed
    if memory.folder is not None:
        yield from (memory.folder / step_patch(t) for t in {one.tree for one in memory.reviews})


def _outcome(
    item: ItemRun,
    verdict: Verdict,
    attempts: tuple[Attempt, ...],
    *,
    tree: str | None,
    commit: str | None,
) -> ItemOutcome:
    return ItemOutcome(
        slug=item.slug,
        verdict=verdict,
        attempts=attempts,
        tree=tree,
        changes=attempts[-1].changes if attempts else (),
        resumed=True,
        shipped_as=commit,
    )
