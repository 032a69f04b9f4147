"""Work trees of clones and test checkouts that wait for a later run, in a folder of the repository.

A run takes a place by renaming it into a folder of its own, so only one of several runs gets it,
and a killed run leaves no lock behind. No waiting place is trusted: `warm_places` compares it
before its next use.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import stat
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from state_store.documents.files import BadFileError, read_json, replace_unflushed
from state_store.values.lazy_dataclass import asdict, dataclass

FOLDER = "places"  # in the folder of the workspaces
TREE, INDEX, LISTING = "tree", "index", "listing"
_FACTS = "place.json"
_PARTS = (INDEX, LISTING, _FACTS)
_KINDS = {TREE: stat.S_IFDIR, **dict.fromkeys(_PARTS, stat.S_IFREG)}


@dataclass(frozen=True, slots=True)
class Limits:
    """At most so many places and bytes wait in one folder, and none for longer."""

    places: int = 16
    size: int = 2_000_000_000
    age_s: float = 604_800.0


@dataclass(frozen=True, slots=True)
class PlaceFacts:
    """`kind` tells who had the place: agents or tests. The files of `tree` are about `size` bytes
    large. `identity` is the work tree's folder itself, and `run` the mark of the run that kept
    it."""

    kind: str
    tree: str
    size: int
    identity: tuple[int, ...]
    run: str


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """A place that waits at `path`, kept at the time `kept`, in seconds since the epoch."""

    path: Path
    kept: float
    facts: PlaceFacts


def folder_of(root: Path, repository: Path) -> Path:
    """The folder of the places of a repository, in the folder `root` of the workspaces."""
    name = hashlib.sha256(os.fsencode(repository.resolve())).hexdigest()[:12]
    return root / FOLDER / name


def identity_of(folder: Path) -> tuple[int, ...]:
    """Device, inode, owner and mode of a folder; () if there is none."""
    try:
        found = folder.lstat()
    except OSError:
        return ()
    is_folder = stat.S_ISDIR(found.st_mode)
    return (found.st_dev, found.st_ino, found.st_uid, found.st_mode) if is_folder else ()


def is_ours(folder: Path) -> bool:
    """True for a real folder that only this user can write."""
    found = identity_of(folder)
    return bool(found) and found[2] == os.geteuid() and not found[3] & 0o022


def write_facts(place: Path, facts: PlaceFacts) -> None:
    """Make a folder a place. Raises OSError."""
    replace_unflushed(place / _FACTS, json.dumps(asdict(facts)).encode())


def places_in(folder: Path) -> list[KeptPlace]:
    """The places that wait in a folder, the newest first. Everything else is left out."""
    if os.name != "posix" or not (is_ours(folder.parent) and is_ours(folder)):
        return []
    found = [place for path in folder.iterdir() if (place := _place_at(path))]
    return sorted(found, key=lambda place: -place.kept)


def surplus(places: Sequence[KeptPlace], limits: Limits) -> Iterator[KeptPlace]:
    """The places that are too many, too large or too old; the newest stay."""
    size, oldest = 0, time.time() - limits.age_s
    for number, place in enumerate(places):
        size += place.facts.size
        if number >= limits.places or size > limits.size or place.kept < oldest:
            yield place


class KeptPlaces:
    """The places of one repository in `folder`, for the run with the mark `run`. `remove` removes
    a folder. Safe to use from many threads and processes."""

    def __init__(
        self, folder: Path, limits: Limits, run: str, remove: Callable[[Path], None]
    ) -> None:
        self.folder, self.run = folder, run
        self._limits, self._remove = limits, remove
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def take(self, kind: str, tree: str, into: Path, *, of_this_run: bool) -> KeptPlace | None:
        """Move a place into the folder `into`, preferably one that shows `tree`; None if none
        waits. `of_this_run` allows one that this run has used already."""
        fits = [
            place
            for place in places_in(self.folder)
            if place.facts.kind == kind and (of_this_run or place.facts.run != self.run)
        ]
        into.mkdir(exist_ok=True)
        for place in sorted(fits, key=lambda one: one.facts.tree != tree):
            to = into / f"taken-{next(self._numbers)}"
            with contextlib.suppress(OSError):  # another run has it
                place.path.rename(to)
                return KeptPlace(to, place.kept, place.facts)
        return None

    def put(self, place: Path) -> None:
        """Let a place wait for its next use, and remove the places that are too many, too large or
        too old. Raises OSError if it cannot wait."""
        with self._lock:
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(mode=0o700, exist_ok=True)
                if not is_ours(folder):
                    raise PermissionError(f"{folder} is not only ours")
            place.rename(self.folder / uuid.uuid4().hex)
            for one in surplus(places_in(self.folder), self._limits):
                with contextlib.suppress(OSError):
                    self._remove(one.path)


def _place_at(path: Path) -> KeptPlace | None:
    """The place at `path`; None unless all its parts are what Tidegate makes."""
    try:
        parts = {name: (path / name).lstat() for name in _KINDS}
        if not is_ours(path) or not all(
            stat.S_IFMT(seen.st_mode) == _KINDS[name] and seen.st_uid == os.geteuid()
            for name, seen in parts.items()
        ):
            return None
        told = read_json(path / _FACTS)
        facts = PlaceFacts(
            str(told["kind"]),
            str(told["tree"]),
            max(0, int(told["size"])),
            tuple(map(int, told["identity"])),
            str(told["run"]),
        )
        return KeptPlace(path, parts[_FACTS].st_mtime, facts)
    except (BadFileError, OSError, TypeError, KeyError, ValueError):
        return None
