"""The commits that ship: what each says and holds, made from proven trees and signed.

A line of items is a commit each, or one for all of them. Which items those are is `ship`'s
decision, and where they go is `publish`'s.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from driver.domain.commit_message import commit_message
from driver.domain.results import Change
from driver.git.private_git import Commit, CommitSpec
from driver.merge_queue.batch import Batch
from driver.run_state.context import Wave
from driver.workspace.clone_context import CloneContext

BATCH = "batch"


def specs_of(line: Batch, wave: Wave) -> list[CommitSpec]:
    """A commit for each item of a line."""
    anchor = wave.recorder.anchor
    return [
        _spec(
            commit_message([(item.spec, item.work_dir)], wave.wave_id, tree, anchor),
            outcome.changes,
            wave,
        )
        for (item, outcome), tree in zip(line.entries, line.trees, strict=True)
    ]


def batch_of(line: Batch, ground: CloneContext, wave: Wave, head: str) -> CommitSpec:
    """One commit for all items of a line that stands on `head`."""
    items = [(item.spec, item.work_dir) for item, _ in line.entries]
    tree = line.trees[-1]
    message = commit_message(items, wave.wave_id, tree, wave.recorder.anchor)
    return _spec(message, ground.git.changes(ground.git.tree_of(head), tree), wave)


def made(
    line: Batch, ground: CloneContext, head: str, specs: Sequence[CommitSpec]
) -> tuple[Commit, ...]:
    """The commit of each item of a line; one for all where there is but one spec.

    Raises GitError, also where the user's key does not sign any more.
    """
    trees = line.trees[-len(specs) :]
    commits = ground.git.import_commits(head, specs)
    if tuple(commit.tree for commit in commits) != trees:
        raise AssertionError("a commit's tree is not the tree that was proven")
    if ground.signer is not None:
        commits = ground.signer.signed(ground.git.path, head, specs, trees)
    return commits if len(commits) == len(line.entries) else commits * len(line.entries)


def _spec(message: str, changes: Sequence[Change], wave: Wave) -> CommitSpec:
    ship, date = wave.settings.ship, f"{int(time.time())} +0000"
    return CommitSpec(message, tuple(changes), ship.bot_name, ship.bot_email, date)
