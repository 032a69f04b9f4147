"""Builds and signs the commits of a batch from proven trees: one for each item, or one for all."""

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


def specs_of(batch: Batch, wave: Wave) -> list[CommitSpec]:
    """A commit for each item of a batch."""
    anchor = wave.recorder.anchor
    return [
        _spec(
            commit_message(
                [(item.spec, item.work_dir)],
                wave.wave_id,
                tree,
                anchor,
                {item.slug: outcome.grade},
            ),
            outcome.changes,
            wave,
        )
        for (item, outcome), tree in zip(batch.entries, batch.trees, strict=True)
    ]


def batch_spec(batch: Batch, context: CloneContext, wave: Wave, head: str) -> CommitSpec:
    """The single commit for all items of a batch that stands on `head`."""
    items = [(item.spec, item.work_dir) for item, _ in batch.entries]
    tree = batch.trees[-1]
    grades = {item.slug: outcome.grade for item, outcome in batch.entries}
    message = commit_message(items, wave.wave_id, tree, wave.recorder.anchor, grades)
    return _spec(message, context.git.changes(context.git.tree_of(head), tree), wave)


def commits_of(
    batch: Batch, context: CloneContext, head: str, specs: Sequence[CommitSpec]
) -> tuple[Commit, ...]:
    """The commit of each item of a batch; a single spec gives the same commit for all.

    Raises GitError, also where the user's key does not sign any more.
    """
    trees = batch.trees[-len(specs) :]
    commits = context.git.import_commits(head, specs)
    if tuple(commit.tree for commit in commits) != trees:
        raise AssertionError("a commit's tree is not the tree that was proven")
    if context.signer is not None:
        commits = context.signer.signed(context.git.path, head, specs, trees)
    return commits if len(commits) == len(batch.entries) else commits * len(batch.entries)


def _spec(message: str, changes: Sequence[Change], wave: Wave) -> CommitSpec:
    ship, date = wave.settings.ship, f"{int(time.time())} +0000"
    return CommitSpec(message, tuple(changes), ship.bot_name, ship.bot_email, date)
