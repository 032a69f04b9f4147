"""Work in a folder that is in no repository: agents and tests use the folder itself. Results say
`in_place`, because they prove less than results from a clean checkout. Nothing ships."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from driver.domain.ownership import OwnedPath
from driver.domain.results import MODE_FILE, Change
from driver.filesystem.safe_file_access import regular_bytes
from driver.workspace.repository_context import Observed, RepositoryContext, Workspace


class InPlaceContext(RepositoryContext):
    """A plain folder, the only workspace of its items: no base, no remote, no publication."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def workspace(
        self, slug: str, work_dir: str = "", owned: Sequence[OwnedPath] = ()
    ) -> Workspace:
        del slug, work_dir
        return InPlaceWorkspace(self._folder, owned)


class InPlaceWorkspace(Workspace):
    """The folder itself. Changes are counted from the state of the owned files when it is
    created."""

    def __init__(self, folder: Path, owned: Sequence[OwnedPath]) -> None:
        self.top = self.workdir = folder
        self._owned = owned
        self._before = _digests(folder, owned)

    def observe(self) -> Observed:
        before, now = self._before, _digests(self.top, self._owned)
        changes = list[Change]()
        for path in sorted(before.keys() | now.keys()):
            if before.get(path) != now.get(path):
                mode, base_mode = (MODE_FILE if path in side else None for side in (now, before))
                changes.append(Change(path, mode, now.get(path), base_mode))
        return Observed(tuple(changes))

    def contents(self, change: Change) -> bytes:
        return b"" if change.deleted else regular_bytes(self.top / change.path)


def _digests(folder: Path, owned: Sequence[OwnedPath]) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(regular_bytes(path)).hexdigest()
        for entry in owned
        for path in _regular_files(folder / entry.path)
    }


def _regular_files(path: Path) -> Iterator[Path]:
    if path.is_symlink():
        return
    if path.is_file():
        yield path
    for folder, _, names in os.walk(path):
        yield from (
            p for p in (Path(folder, n) for n in names) if p.is_file() and not p.is_symlink()
        )
