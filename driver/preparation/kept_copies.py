"""Copies of large folders for test checkouts and agents' clones. A copy is made once and moves from
one checkout to the next, or from one clone to the next. What an agent could write never moves to a
test.

Between two uses each file is compared with its stat data, whose change time no program can set
back. What a test or agent changed is copied again, and what it added is removed. So a test may
write in its copy, and no later test sees it. No two checkouts share a file.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.plain_copies import Below, copy_plain, make_folder, move_plain
from driver.filesystem.tree import Signature, newest_of, remove_tree, signature_at
from driver.preparation.copies import copy_folder
from driver.preparation.stat_listing import StatListing

_MOST_ASIDE = 8  # copies of ended agents; more agents seldom work at once
_MOST_MENDED = 500  # with more changed paths, a new copy takes no longer


class KeptCopies:
    """The copies of the paths `names` below the folder `top`. Copies without a place wait in the
    folder `spare`. With `by_content`, they are compared by their content as well. Safe to use from
    many threads."""

    def __init__(
        self,
        top: Path,
        names: tuple[str, ...],
        environ: Mapping[str, str],
        spare: Path,
        *,
        by_content: bool = False,
    ) -> None:
        self.names = tuple(str(PurePosixPath(name)) for name in names)
        self._top, self._environ, self._spare = top, environ, spare
        self._by_content = by_content
        self._sources = {name: StatListing(top, (name,)) for name in self.names}
        self._at_start = {name: self._source(name) for name in self.names}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._waiting: list[KeptCopy] = []
        self._aside: list[KeptCopy] = []  # of agents; what they changed is still in them

    @property
    def size(self) -> int:
        """The number of files and folders that were there at the start."""
        return sum(map(len, self._at_start.values()))

    @property
    def may_move(self) -> bool:
        """False for compiled files beside tracked ones: they belong to the tree that they are
        from."""
        return not any("__pycache__" in name.split("/") for name in self.names)

    @property
    def are_folders(self) -> bool:
        """True if each path is a folder, and none is in another."""
        inner = any(one.startswith(f"{other}/") for one in self.names for other in self.names)
        return not inner and all(_is_folder(self._top / name) for name in self.names)

    def changed(self) -> tuple[str, ...]:
        """The names whose sources are not as they were at the start."""
        return tuple(name for name in self.names if self._source(name) != self._at_start[name])

    def holds(self, path: str) -> bool:
        """True for a path that is copied, or in a copied folder."""
        return path in self.names or path.startswith(tuple(f"{name}/" for name in self.names))

    def meets(self, path: str) -> bool:
        """True for a path that is or holds a copied one, or is in one."""
        return self.holds(path) or any(one.startswith(f"{path}/") for one in self.names)

    def lay(self, place: Path) -> KeptCopy:
        """A copy in the folder `place`. Raises OSError."""
        self.require_inside(place)
        with self._lock:
            spare = self._waiting.pop() if self._waiting else None
        if spare is not None:
            with contextlib.suppress(OSError):
                if (moved := self._moved(spare, place)) is not None:
                    return moved
            for name in self.names:
                remove_tree(place / name)
        self.copy_to(place)
        return KeptCopy(self, place, self._listing(place))

    def lay_for_agent(self, place: Path) -> KeptCopy:
        """A copy in the folder `place`, perhaps that of an agent that has ended. Raises OSError."""
        self.require_inside(place)
        with self._lock:
            aside = self._aside.pop() if self._aside else None
        if aside is not None:
            with contextlib.suppress(OSError):
                self._move(aside.place, place)
                aside.moved_to(place)
                if aside.put_back():
                    return aside
            for name in self.names:
                remove_tree(place / name)
        self.copy_to(place)
        return KeptCopy(self, place, self._listing(place))

    def put_aside(self, copy: KeptCopy) -> None:
        """Take the copy of an agent that has ended out of its clone. Raises OSError."""
        self.require_inside(copy.place)
        if copy.place.is_symlink() or len(self._aside) >= _MOST_ASIDE:
            return
        folder = self._spare / str(next(self._numbers))
        self._move(copy.place, folder)
        copy.moved_to(folder)
        with self._lock:
            self._aside.append(copy)

    def copy_to(self, place: Path) -> None:
        """Make a copy in the folder `place` that stays there, also over files of the place's tree,
        which are gone then. Raises OSError."""
        self.require_inside(place)
        for name in self.names:
            known = self._at_start[name]
            remove_tree(place / name)
            copy_folder(self._top / name, place / name, self._environ, known)

    def take_back(self, copy: KeptCopy) -> None:
        """Keep a copy for the next place. It is as it was laid. Raises OSError."""
        folder = self._spare / str(next(self._numbers))
        self._move(copy.place, folder)
        copy.moved_to(folder)
        with self._lock:
            self._waiting.append(copy)

    def restore(self, path: str, place: Path) -> bool:
        """Copy one file, link or folder, without its content, again; False if its source changed
        since the start."""
        found = signature_at(f"{self._top}/{path}")
        if found is None or all(found != seen.get(path) for seen in self._at_start.values()):
            return False
        with _links_refused():
            if stat.S_ISDIR(found[0]):
                make_folder(Below(place, path), stat.S_IMODE(found[0]))
            else:
                copy_plain(Below(self._top, path), Below(place, path))
        return True

    def _listing(self, place: Path) -> StatListing:
        return StatListing(place, self.names, expected=self.size, by_content=self._by_content)

    def require_inside(self, place: Path) -> None:
        """Raise OSError if a link of the tree leads a copied path out of `place`."""
        top = os.path.realpath(place)
        for name in self.names:
            if not Path(os.path.realpath((place / name).parent)).is_relative_to(top):
                raise OSError(errno.ELOOP, "a link above it leads elsewhere", str(place / name))

    def _source(self, name: str) -> Mapping[str, Signature]:
        try:
            return self._sources[name].look()
        except OSError as trouble:  # a folder that nobody may read
            return {name: (trouble.errno or 0,)}

    def _moved(self, spare: KeptCopy, place: Path) -> KeptCopy | None:
        """Move a waiting copy to `place`; None if it was changed. A moved file gets a new change
        time, so single files are copied again."""
        folders = self._move(spare.place, place)
        single = {*self.names} - {*folders}
        for name in single:
            copy_folder(self._top / name, place / name, self._environ)
        moved = KeptCopy(self, place, spare.listing.at(place))  # looks at it after the move
        return moved if _without(moved.seen, single) == _without(spare.seen, single) else None

    def _move(self, here: Path, there: Path) -> list[str]:
        """Move the copied folders; returns their names."""
        folders = [name for name in self.names if _is_folder(here / name)]
        with _links_refused():
            for name in folders:
                move_plain(Below(here, name), Below(there, name))
        return folders


class LaidCopy(ABC):
    """A copy that was laid in the folder `place`. `newest_ns` is the time of the last file that was
    copied again."""

    place: Path
    newest_ns = 0

    @abstractmethod
    def put_back(self) -> bool:
        """Undo the changes of the last test; False if that is impossible. Raises OSError."""

    @abstractmethod
    def give_back(self) -> None:
        """Take the copy out of its place, for the next place. Raises OSError."""

    @abstractmethod
    def put_aside(self) -> None:
        """Take the copy out of the clone of an agent that has ended. Raises OSError."""

    def discard(self) -> None:
        """Give up the copy together with its place, which is removed. Raises OSError."""
        return


class KeptCopy(LaidCopy):
    """The copy in the folder `place`. `seen` is its stat data as it was laid."""

    def __init__(self, copies: KeptCopies, place: Path, listing: StatListing) -> None:
        self.place, self.listing = place, listing
        self.seen = dict(listing.look())
        self.names = frozenset(copies.names)
        self._copies = copies

    def moved_to(self, place: Path) -> None:
        """Note that the copy is in another folder now."""
        self.place, self.listing = place, self.listing.at(place)

    def put_back(self) -> bool:
        above = {folder for name in self.names for folder in (self.place / name).parents}
        if any(folder.is_symlink() for folder in above if folder.is_relative_to(self.place)):
            return False  # what is behind a link may be another's
        now = self.listing.look()
        if now == self.seen:
            return True
        differing = [p for p in now.keys() | self.seen.keys() if now.get(p) != self.seen.get(p)]
        if len(differing) > _MOST_MENDED:
            return False
        for path in sorted(differing):  # a folder before what is in it
            if not self._mended(path, now.get(path)):
                return False
        now = self.listing.look()
        copied = {path: now[path] for path in differing if path in now and path in self.seen}
        self.newest_ns = newest_of(copied)
        self.seen |= copied
        return now == self.seen

    def give_back(self) -> None:
        self._copies.take_back(self)

    def put_aside(self) -> None:
        self._copies.put_aside(self)

    def _mended(self, path: str, now: Signature | None) -> bool:
        """Undo the change of one path; False if its source has changed too."""
        whole, before = self.place / path, self.seen.get(path)
        if now and before and stat.S_ISDIR(now[0]) and stat.S_ISDIR(before[0]):
            with _links_refused():
                make_folder(Below(self.place, path), stat.S_IMODE(before[0]))
            return True
        remove_tree(whole)
        return before is None or self._copies.restore(path, self.place)


@contextlib.contextmanager
def _links_refused() -> Iterator[None]:
    """A link in place of a folder, which a test may have put there, is a failure like others."""
    try:
        yield
    except NotPlainError as refused:
        raise OSError(errno.ELOOP, str(refused)) from refused


def _without(seen: Mapping[str, Signature], names: set[str]) -> dict[str, Signature]:
    return {path: one for path, one in seen.items() if path not in names}


def _is_folder(path: Path) -> bool:
    """True for a folder, but not for a link to one, which is copied like a file."""
    return path.is_dir() and not path.is_symlink()
