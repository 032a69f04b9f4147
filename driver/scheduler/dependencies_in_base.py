"""Whether what an item depends on is in the commit that its wave starts from.

A status says that work is shipped or done; only the history says that it can be built on. Looks
once into each repository, and only where an item that is to do depends on a finished one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver.backlog.dependencies import needed
from driver.backlog.publication_status import KEY, Merged, Shipped
from driver.git.ancestry import is_in_history
from driver.git.command import user_environment
from driver.git.private_git import Repository, open_repository, tip_of
from driver.publishing.merged import RemoteView, UnaskedError, merged_in
from driver.publishing.published_history import History
from driver.scheduler.context import Cycle, by_repository
from state_store.documents.item_id import id_of
from state_store.documents.item_status import IN_PROGRESS
from tools.settings.load import Settings

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Start:
    """What a wave starts from, and the git dir that has its history."""

    branch: str
    commit: str
    shallow: bool
    path: Path
    env: Mapping[str, str]

    def landed(self, onto: Iterable[str], history: History) -> Merged:
        return merged_in(self, self.commit, onto, history)

    def has(self, commit: str) -> bool:
        return is_in_history(self.path, self.env, commit, self.commit)


def absent(cycle: Cycle, items: Sequence[Item]) -> dict[str, str]:
    """By id, why nobody can build on a finished item yet: the end of a sentence.

    What is done and was never shipped was done by hand, and counts. Raises GitError.
    """
    asked = [item for item in needed(items) if item.get("status") == IN_PROGRESS or item.get(KEY)]
    found: dict[str, str] = {}
    for top, mine in by_repository(cycle, asked).items():
        repository = open_repository(top, cycle.environ)
        with _start_of(repository, cycle.settings) as start:
            # Not where the target is on its remote, of which as much is kept by itself.
            history = History.kept(cycle.keeps, repository, f"from here: {start.branch}")
            found |= dict(_absent_from(start, mine, history))
    return found


@contextmanager
def _start_of(repository: Repository, settings: Settings) -> Iterator[_Start]:
    """What is checked out, or the head of `[ship] target`, as far as it is on the remote."""
    here, target = repository, settings.ship.target
    with ExitStack() as stack:
        try:
            outlook = stack.enter_context(RemoteView.opened(here, settings)) if target else None
            start = _there(here, outlook, target or "") if outlook else _here(here, settings)
        except UnaskedError:  # then the wave starts from what is here
            start = _here(here, settings)
        yield start


def _there(repository: Repository, outlook: RemoteView, target: str) -> _Start:
    git = outlook.private
    return _Start(target, outlook.tip(target), repository.shallow, git.path, git.env)


def _here(repository: Repository, settings: Settings) -> _Start:
    target, environ = settings.ship.target, settings.environ
    known = tip_of(repository, target, environ) if target else ""
    branch, commit = target or repository.branch or "HEAD", known or repository.head
    git_dir, env = repository.git_dir, user_environment(environ)
    return _Start(branch, commit, repository.shallow, git_dir, env)


def _absent_from(
    start: _Start, items: Sequence[Item], history: History
) -> Iterator[tuple[str, str]]:
    records = {str(id_of(item)): Shipped.of(item) for item in items}
    onto = [record.onto if record else "" for record in records.values()]
    landed = start.landed(onto, history)
    for name, record in records.items():
        merged = record.merged if record else ""  # without a word of ours in the message, perhaps
        if not landed.find(name, record) and not start.has(merged):
            yield name, _lacking(record, start)


def _lacking(record: Shipped | None, start: _Start) -> str:
    base = f"{start.branch} at {start.commit[:12]}"
    if record is None:
        return f"which is in progress, and of which {base} has no commit"
    what = f"commit {record.commit[:12]}" if record.commit else f"wave {record.wave[:8]}"
    where = f" on branch {record.branch}" if record.branch else ""
    so = "merge it and pull" if not start.shallow else "merge it, and fetch the whole history"
    return f"whose {what}{where} is not in {base}, which waves start from: {so}"
