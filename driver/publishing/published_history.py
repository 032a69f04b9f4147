"""The shipments in the history of a branch; each commit is read once.

The result is cached with the commit up to which it is complete. It is valid as long as the branch
has that commit in its history; a branch that was moved elsewhere is read anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from driver.backlog.publication_status import PublishedItem, published_items_in
from driver.domain.commit_message import SHIPMENT
from driver.domain.item_key import digest
from driver.git.ancestry import commits_matching, is_in_history
from driver.git.branch_view import HEADS
from driver.git.repository import Repository
from state_store.documents.errors import TidegateError
from state_store.documents.files import BadFileError, read_json, write_json_atomic
from state_store.place import has_begun
from state_store.values.lazy_dataclass import dataclass
from state_store.write_api import STATE_DB_FILENAME

FOLDER = "histories"
_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


class GitDir(Protocol):
    """A git dir, and the environment in which git is run on it."""

    @property
    def path(self) -> Path: ...

    @property
    def env(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class History:
    """The history of a branch, cached in `file`; None caches nothing."""

    file: Path | None = None

    @classmethod
    def kept(cls, state_dir: Path | None, repository: Repository, branch: str) -> History:
        """The cached history of a branch, beside an existing store: a cycle that is stopped before
        its first wave leaves no files. The history of a shallow clone is not cached, because it may
        grow at its other end."""
        if state_dir is None or repository.shallow or not has_begun(state_dir / STATE_DB_FILENAME):
            return cls()
        name = digest(str(repository.common_dir), branch)[:16]
        return cls(state_dir / FOLDER / f"{name}.json")

    def shipments(self, git: GitDir, tip: str) -> list[PublishedItem]:
        """All shipments in the history of `tip`, without branches. Raises GitError."""
        known, found = self._cached()
        if known == tip:
            return found
        if not known or not is_in_history(git.path, git.env, known, tip):
            known, found = "", []
        found = [*shipments_in(git, {"": tip}, without=[known] if known else ()), *found]
        if self.file is not None:
            listed = [[one.wave, one.item, one.task, one.commit] for one in found]
            with suppress(TidegateError, OSError):  # then the next cycle reads more commits
                write_json_atomic(self.file, {"tip": tip, "found": listed}, indent=None)
        return found

    def _cached(self) -> tuple[str, list[PublishedItem]]:
        """The cached commit and shipments; nothing from a file that anyone may have damaged."""
        if self.file is None:
            return "", []
        try:
            record = read_json(self.file)
            texts = (map(_text, one) for one in record["found"])
            found = [PublishedItem(wave, name, task, at) for wave, name, task, at in texts]
            # Git is called with these: none may look like an option.
            commits = [_text(record["tip"]), *(one.commit for one in found)]
            return ("", []) if not all(map(_COMMIT.fullmatch, commits)) else (commits[0], found)
        except (BadFileError, KeyError, TypeError, ValueError):
            return "", []


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def shipments_in(
    git: GitDir, heads: Mapping[str, str], without: Iterable[str] = ()
) -> list[PublishedItem]:
    """The shipments in the histories of `heads`, commits by ref, that `without` does not have; each
    with the branch that it was found on first. Raises GitError."""
    if not heads:
        return []
    branches = {commit: ref.removeprefix(HEADS) for ref, commit in heads.items()}
    return [
        item
        for one in commits_matching(git.path, git.env, SHIPMENT, branches, without)
        for item in published_items_in(one.message, one.commit, branches.get(one.tip, ""))
    ]
