"""Finds dependencies that are not in the commit that a wave starts from.

A status says that work is shipped or done; only the history says that it can be built on. Each
repository is examined once, and only if an open item there depends on a finished one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from driver.backlog.dependencies import needed
from driver.backlog.publication_status import KEY, Shipped
from driver.git.ancestry import is_in_history
from driver.git.branch_view import BranchView
from driver.git.command import user_environment
from driver.git.private_git import Repository, open_repository
from driver.publishing.merged import RemoteView, UnaskedError, merged_in
from driver.publishing.published_history import History
from driver.scheduler.context import Cycle, by_repository
from state_store.documents.item_id import id_of
from state_store.documents.item_status import IN_PROGRESS
from state_store.values.lazy_dataclass import dataclass
from tools.settings.load import Settings

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Start:
    """The commit that a wave starts from, and the git dir that has its history."""

    branch: str
    commit: str
    shallow: bool
    path: Path
    env: Mapping[str, str]


def absent(cycle: Cycle, items: Sequence[Item]) -> dict[str, str]:
    """By id, why no item can build on a finished one yet: the end of a sentence.

    An item that is done and was never shipped was done by hand, and counts. Raises GitError.
    """
    asked = [item for item in needed(items) if item.get("status") == IN_PROGRESS or item.get(KEY)]
    found: dict[str, str] = {}
    for top, mine in by_repository(cycle, asked).items():
        repository = open_repository(top, cycle.environ)
        with _start_of(repository, cycle.settings) as start:
            # A cache of its own: that of the target on its remote may be ahead of this start.
            history = History.kept(cycle.keeps, repository, f"from here: {start.branch}")
            records = {str(id_of(item)): Shipped.of(item) for item in mine}
            onto = [record.onto if record else "" for record in records.values()]
            there = merged_in(start, start.commit, onto, history)
            for name, record in records.items():
                merged = record.merged if record else ""  # its commit may not have our trailers
                if not there.find(name, record) and not is_in_history(
                    start.path, start.env, merged, start.commit
                ):
                    found[name] = _lacking(record, start)
    return found


@contextmanager
def _start_of(repository: Repository, settings: Settings) -> Iterator[_Start]:
    """The commit that is checked out, or the head of `[ship] target`, the remote's if it has it."""
    target, environ, shallow = settings.ship.target, settings.environ, repository.shallow
    with ExitStack() as stack:
        known = BranchView(repository, environ).tip(target) if target else ""
        branch, commit = target or repository.branch or "HEAD", known or repository.head
        start = _Start(branch, commit, shallow, repository.git_dir, user_environment(environ))
        if target:
            with suppress(UnaskedError):  # then the wave starts from the branch here
                remote = stack.enter_context(RemoteView.opened(repository, settings))
                git = remote.private
                start = _Start(target, remote.tip(target), shallow, git.path, git.env)
        yield start


def _lacking(record: Shipped | None, start: _Start) -> str:
    base = f"{start.branch} at {start.commit[:12]}"
    if record is None:
        return f"which is in progress, and of which {base} has no commit"
    what = f"commit {record.commit[:12]}" if record.commit else f"wave {record.wave[:8]}"
    where = f" on branch {record.branch}" if record.branch else ""
    so = "merge it and pull" if not start.shallow else "merge it, and fetch the whole history"
    return f"whose {what}{where} is not in {base}, which waves start from: {so}"
