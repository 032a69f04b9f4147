"""The shipments that the history of a branch tells of, each of its commits looked at once.

What was found is kept, with the commit up to which all is known. It counts as long as the branch
has that commit in its history; a branch that was moved elsewhere is walked through anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from driver.backlog.publication_status import PublishedItem, published_items_in
from driver.domain.commit_message import SHIPMENT
from driver.domain.item_key import digest
from driver.git.ancestry import is_in_history, written
from driver.git.repository import Repository
from driver.publishing.wave_branches import HEADS
from state_store.documents.errors import TidegateError
from state_store.documents.files import BadFileError, read_json, write_json_atomic
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
    """A branch's; what is known of it is kept in `file`, None keeps nothing."""

    file: Path | None = None

    @classmethod
    def kept(cls, state_dir: Path | None, repository: Repository, branch: str) -> History:
        """What is kept of a branch beside a store that is there: who is stopped before its first
        wave leaves nothing. The history of a shallow clone may grow at its other end, so nothing
        is known of it for long."""
        if state_dir is None or repository.shallow or not (state_dir / STATE_DB_FILENAME).exists():
            return cls()
        name = digest(str(repository.common_dir), branch)[:16]
        return cls(state_dir / FOLDER / f"{name}.json")

    def shipments(self, git: GitDir, tip: str) -> list[PublishedItem]:
        """All shipments in the history of `tip`, without branches. Raises GitError."""
        known, found = self._known()
        if known == tip:
            return found
        if not known or not is_in_history(git.path, git.env, known, tip):
            known, found = "", []
        found = [*sighted(git, {"": tip}, without=[known] if known else ()), *found]
        self._keep(tip, found)
        return found

    def _known(self) -> tuple[str, list[PublishedItem]]:
        if self.file is None:
            return "", []
        try:
            return _read(read_json(self.file))
        except (BadFileError, KeyError, TypeError, ValueError):
            return "", []

    def _keep(self, tip: str, found: Iterable[PublishedItem]) -> None:
        if self.file is None:
            return
        listed = [[one.wave, one.item, one.task, one.commit] for one in found]
        with suppress(TidegateError, OSError):  # then the next cycle walks a longer way
            write_json_atomic(self.file, {"tip": tip, "found": listed}, indent=None)


def _read(kept: Any) -> tuple[str, list[PublishedItem]]:
    found = [_sighting(*map(_text, one)) for one in kept["found"]]
    return _commit(kept["tip"]), found


def _sighting(wave: str, item: str, task: str, commit: str) -> PublishedItem:
    return PublishedItem(wave, item, task, _commit(commit))


def _commit(value: object) -> str:
    # Git is asked for it: nothing else may look like an option, or be no text that it can be told.
    if not _COMMIT.fullmatch(_text(value)):
        raise ValueError(value)
    return _text(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def sighted(
    git: GitDir, heads: Mapping[str, str], without: Iterable[str] = ()
) -> list[PublishedItem]:
    """The shipments in the histories of `heads`, commits by ref, that `without` does not have; each
    with the branch that it was found on first. Raises GitError."""
    if not heads:
        return []
    branches = {commit: ref.removeprefix(HEADS) for ref, commit in heads.items()}
    return [
        sighting
        for one in written(git.path, git.env, SHIPMENT, branches, without)
        for sighting in published_items_in(one.message, one.commit, branches.get(one.tip, ""))
    ]
