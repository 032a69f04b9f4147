"""A folder that is in no repository: agents and tests work in it directly.

Its results say `in_place`, so that nobody takes them for the real thing, and nothing is shipped.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from driver.checkout_guard.guard import CheckoutGuard
from driver.domain.ownership import OwnedPath
from driver.domain.results import MODE_FILE, Change
from driver.workspace.repository_context import IN_PLACE, Observed, Place, ProvingPlace


class InPlaceContext:
    """A folder in no repository: agents work in it directly and nothing is ever shipped."""

    base = ""
    paths: frozenset[str] = frozenset()
    tripwire: CheckoutGuard | None = None

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def place(self, slug: str, work_dir: str, owned: tuple[OwnedPath, ...]) -> Place:
        """The folder itself; what its owned files are now is what changes are counted from."""
        del slug, work_dir
        return _FolderPlace(self._folder, owned)

    def text(self, path: str) -> str:
        del path
        return ""

    def close(self) -> None:
        """Nothing was made."""


class _FolderPlace:
    isolation = IN_PLACE

    def __init__(self, folder: Path, owned: tuple[OwnedPath, ...]) -> None:
        self.top = self.workdir = self.path = folder
        self._owned = owned
        self._before = _digests(folder, owned)

    def observe(self) -> Observed:
        now = _digests(self.top, self._owned)
        return Observed(tuple(_differences(self._before, now)))

    def ignored(self) -> tuple[str, ...]:
        return ()

    @contextmanager
    def proving(self, tree: str | None, *, fresh: bool = False) -> Iterator[ProvingPlace]:
        del tree, fresh
        yield self

    def base_with(self, changes: Sequence[Change]) -> str | None:
        del changes
        return None

    def tampered(self) -> tuple[str, ...]:
        return ()

    def contents(self, change: Change) -> bytes:
        return b"" if change.deleted else (self.top / change.path).read_bytes()

    def patch(self, tree: str | None) -> bytes:
        del tree
        return b""

    def whole_diff(self, tree: str, since: str | None = None) -> bytes:
        del tree, since
        return b""

    @contextmanager
    def reading(self, tree: str) -> Iterator[ProvingPlace]:
        del tree
        yield self

    def put(self, tree: str) -> None:
        del tree

    def forget_commits(self) -> None:
        return

    def close(self) -> None:
        return


def _digests(folder: Path, owned: Sequence[OwnedPath]) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
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


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Change]:
    for path in sorted(before.keys() | now.keys()):
        if before.get(path) != now.get(path):
            mode, base_mode = (MODE_FILE if path in side else None for side in (now, before))
            yield Change(path, mode, now.get(path), base_mode)
