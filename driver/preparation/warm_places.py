"""Brings the work tree of an earlier clone or test checkout to a git tree, which takes a tenth of
the time of a new one.

After a place is written, `find` lists it. At its next use, what `find` prints otherwise is removed,
for no program can set back the change time of a file. The files that tests read are compared with
their ids in git as well, and so are all files where a file system does not note every change. Then
git writes what is missing or differs. What cannot be brought back like this is removed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from driver.domain.results import MODE_FILE, MODE_LINK, MODE_PROGRAM
from driver.execution.worker_pool import BackgroundTask
from driver.filesystem.safe_file_access import regular_bytes
from driver.filesystem.tree import folders_above, remove_tree
from driver.git.private_git import GitError, PrivateGit
from driver.preparation.kept_places import (
    INDEX,
    LISTING,
    TREE,
    KeptPlace,
    KeptPlaces,
    PlaceFacts,
    identity_of,
    is_ours,
    write_facts,
)
from driver.preparation.stat_listing import StatListing, folders_in, records_in, size_of
from driver.tree_files.index_file import without_extensions
from driver.tree_files.small_trees import Entry
from state_store.documents.errors import CannotRunError
from state_store.values.lazy_dataclass import dataclass, replace

AGENTS, TESTS, REVIEWS = "agents", "tests", "reviews"
_NEW, _USED, _PROVEN = "new", "used", "proven"
_FEW = 500  # with fewer files, a new checkout takes no longer
_MOST_MENDED = 5000
_END_LIMIT_S = 10.0
_HARMLESS = "security."  # the labels of a system


@dataclass(frozen=True, slots=True)
class _Laid:
    """A place in use. Its folder `beside` has the listing and the index of its first state. `past`
    tells if it was used before, and if all of it was compared with its tree then."""

    beside: Path
    kind: str
    tree: str
    identity: tuple[int, ...]
    past: str


class WarmPlaces:
    """The places of one run. `scratch` is a folder of the run, and `remove` removes a large folder.
    `files` returns the files of a tree, None if they may not be compared by their ids. With
    `by_content`, the file system does not note every change. Without `kept`, all places are new.
    Safe to use from many threads."""

    def __init__(
        self,
        git: PrivateGit,
        scratch: Path,
        files: Callable[[str], Mapping[str, Entry] | None],
        remove: Callable[[Path], None],
        *,
        by_content: bool,
    ) -> None:
        self.kept: KeptPlaces | None = None
        self._git, self._scratch, self._remove = git, scratch, remove
        self._files = files
        self._by_content = by_content
        self._numbers = itertools.count()
        self._laid: dict[Path, _Laid] = {}
        self._lock = threading.Lock()
        self._waiting: list[_Laid] = []
        self._task: BackgroundTask[None] | None = None

    def lay(self, tree: str, path: Path, index: Path, kind: str) -> bytes | None:
        """Write `tree` to `path`, and the stat data of its files into `index`. Neither exists
        yet. Returns how `find` lists the place, if that is known."""
        files = self._files(tree) if self.kept else None
        if files is None or len(files) <= _FEW:
            self._git.checkout(tree, path, index)
            return None
        if self._from_kept(tree, files, path, index, kind):
            return self._seen_again(path) if self.is_proven(path) else None
        self._git.checkout(tree, path, index)
        return self._note(path, index, kind, tree)

    def _seen_again(self, path: Path) -> bytes | None:
        """List a proven place again. What was written there since it was listed, perhaps by a
        process of an earlier run, takes the proof away."""
        printed, laid = StatListing(path, without=(".git",)).printed(), self._laid[path]
        if printed != regular_bytes(laid.beside / LISTING):
            self._laid[path] = replace(laid, past=_USED)
        return printed

    def is_warm(self, path: Path) -> bool:
        """True for a place that was used before."""
        return path in self._laid and self._laid[path].past != _NEW

    def is_proven(self, path: Path) -> bool:
        """True for a place that was used before, if all of it was compared with its tree."""
        return path in self._laid and self._laid[path].past == _PROVEN

    def keep(self, path: Path) -> bool:
        """Take a place away and keep it for a later use; False if it is to be removed instead."""
        laid = self._laid.pop(path, None)
        if laid is None:
            return False
        if self.kept is None or identity_of(path) != laid.identity:
            self._throw_away(laid.beside)
            return False
        try:
            path.rename(laid.beside / TREE)
        except OSError:
            self._throw_away(laid.beside)
            return False
        with self._lock:
            self._waiting.append(laid)
            if self._task is None:
                self._task = BackgroundTask(self._work)
        return True

    def forget(self, path: Path) -> None:
        """Never keep the place at `path`."""
        if laid := self._laid.pop(path, None):
            self._throw_away(laid.beside)

    def finish(self) -> None:
        """Wait until the places are kept, but not for long. What is left goes with the run."""
        deadline = time.monotonic() + _END_LIMIT_S
        while (task := self._task) and time.monotonic() < deadline:
            task.wait(max(0.0, deadline - time.monotonic()))
        with self._lock:
            self._waiting.clear()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._task = None
                    return
                laid = self._waiting.pop(0)
            place = laid.beside
            try:
                assert self.kept is not None
                remove_tree(place / TREE / ".git")
                found, _ = _mended(place / TREE, place)
                size = size_of(records_in(found).values())
                facts = (laid.kind, laid.tree, size, laid.identity)
                write_facts(place, PlaceFacts(*facts, self.kept.run))
                self.kept.put(place)
            except OSError:
                self._throw_away(place)

    def _note(
        self,
        path: Path,
        index: Path,
        kind: str,
        tree: str,
        *,
        past: str = _NEW,
        printed: bytes | None = None,
    ) -> bytes | None:
        """Note the state of a place, so that it can be kept. `printed` is its listing, if known.
        Returns it."""
        identity = identity_of(path)
        printed = printed or StatListing(path, without=(".git",)).printed()
        if self.kept is None or printed is None or not is_ours(path):
            return printed
        beside = self._scratch / str(next(self._numbers))
        try:
            beside.mkdir(mode=0o700, parents=True)
            (beside / LISTING).write_bytes(printed)
            shutil.copyfile(index, beside / INDEX)
        except OSError:
            self._throw_away(beside)
        else:
            self._laid[path] = _Laid(beside, kind, tree, identity, past)
        return printed

    def _from_kept(
        self, tree: str, files: Mapping[str, Entry], path: Path, index: Path, kind: str
    ) -> bool:
        assert self.kept is not None
        own = kind == AGENTS  # no test of this run was ever in the checkout of another test
        while place := self.kept.take(kind, tree, self._scratch, of_this_run=own):
            try:
                self._bring(place, tree, files, path, index, kind)
                return True
            except (OSError, CannotRunError, GitError, ValueError):
                self._throw_away(path)
                index.unlink(missing_ok=True)
            finally:
                self._throw_away(place.path)
        return False

    def _bring(
        self,
        place: KeptPlace,
        tree: str,
        files: Mapping[str, Entry],
        path: Path,
        index: Path,
        kind: str,
    ) -> None:
        """Bring a place to `tree` at `path`. Raises OSError, CannotRunError, GitError or ValueError
        if that is impossible."""
        if identity_of(place.path / TREE) != place.facts.identity:
            raise OSError(f"{place.path} has another work tree")
        (place.path / TREE).rename(path)
        (place.path / INDEX).rename(index)
        found, is_right = _mended(path, place.path)
        if sys.platform == "linux":
            _require_no_attributes(path, folders_in(found))
        is_compared = self._by_content or kind != AGENTS
        if is_compared:
            noted, records = without_extensions(index, self._git.object_format), records_in(found)
            wrong = [*self._differing(path, records, files, index)]
            for name in wrong:
                remove_tree(path / name)
            is_right = is_right and not wrong and noted == files and _has_only(records, files)
        is_right = is_right and place.facts.tree == tree
        if not is_right:
            self._git.switch(tree, path, index)
        past = _PROVEN if is_right and is_compared else _USED
        self._note(path, index, kind, tree, past=past, printed=found if is_right else None)

    def _differing(
        self, top: Path, found: Mapping[str, str], files: Mapping[str, Entry], index: Path
    ) -> Iterator[str]:
        """The files that are not as in `files`, by mode and content. Others are left to git."""
        modes = _modes(index.with_suffix(".mode"))
        asked = []
        for name, record in found.items():
            mode, blob = files.get(name, ("", ""))
            if not mode or record[0] == "d":
                continue
            if mode == MODE_LINK and record[0] == "l":
                target = os.fsencode((top / name).readlink())
                if self._git.name_of(target) != blob:
                    yield name
            elif "\n" in name or record.split(" ", 1)[0] != f"f{modes.get(mode)}":
                yield name
            else:
                asked.append(name)
        names = self._git.names_of_files(top, asked)
        for name, blob in zip(asked, names, strict=True):
            if files[name][1] != blob:
                yield name

    def _throw_away(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            self._remove(folder)


def _mended(top: Path, place: Path) -> tuple[bytes, bool]:
    """Remove what is not as in the listing of a place; returns the listing of what is left, and
    whether nothing differed. Raises OSError if that is impossible."""
    before = regular_bytes(place / LISTING)
    listing = StatListing(top, without=(".git",))
    printed = listing.printed()
    if printed is None:
        raise OSError(f"{top} cannot be listed")
    if printed == before:
        return printed, True
    noted, now = records_in(before), records_in(printed)
    differing = [name for name, record in now.items() if noted.get(name) != record]
    if len(differing) > _MOST_MENDED:
        raise OSError(f"too much differs in {top}")
    for name in sorted(differing):
        right = noted.get(name, "")
        if now[name][0] == right[:1] == "d":
            (top / name).chmod(int(right[1:], 8))
        else:
            remove_tree(top / name)
    if not differing:
        return printed, len(now) == len(noted)
    again = listing.printed()
    if again is None:
        raise OSError(f"{top} cannot be listed")
    if any(noted.get(name) != record for name, record in records_in(again).items()):
        raise OSError(f"{top} is still written to")
    return again, False


def _has_only(records: Mapping[str, str], files: Mapping[str, Entry]) -> bool:
    """True if the `records` name each of the `files` and the folders above them, and no more."""
    folders = {name for name, record in records.items() if record[0] == "d"}
    return folders == folders_above(files) and records.keys() - folders == files.keys()


def _require_no_attributes(top: Path, folders: Iterable[str]) -> None:
    """Raise OSError if a folder has extended attributes, such as rights for others that its new
    files would get."""
    for folder in ("", *folders):
        names = os.listxattr(top / folder, follow_symlinks=False)
        if any(not name.startswith(_HARMLESS) for name in names):
            raise OSError(f"{top / folder} has extended attributes")


def _modes(probe: Path) -> dict[str, str]:
    """The modes of files in git, and those of new files on disk."""
    probe.unlink(missing_ok=True)
    probe.touch()
    mode = stat.S_IMODE(probe.lstat().st_mode)
    probe.unlink()
    return {MODE_FILE: f"{mode:o}", MODE_PROGRAM: f"{mode | (mode & 0o444) >> 2:o}"}
