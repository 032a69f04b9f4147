"""Copies of large folders that all test checkouts and clones share. Commands see them by mounts
inside of their walls, and each place has only what its own commands changed.

The copy itself is in no place that a command may write. To undo all changes, a place gets a new
empty folder for them. Outside of the walls, the folder of the copy is empty.
"""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from driver.filesystem.tree import remove_tree
from driver.preparation.kept_copies import KeptCopies, LaidCopy
from driver.walls.wall import Layer

_SEPARATORS = frozenset(",:\\")  # in the options of a mount


class LayeredCopies:
    """The `copies` below the folder `folder`. `works` tries a layer in a real command, at first
    use. With `for_agents`, agents have layers too. Safe to use from many threads."""

    def __init__(
        self,
        copies: KeptCopies,
        folder: Path,
        works: Callable[[Path, Layer], bool] | None,
        for_agents: bool,
    ) -> None:
        self.copies, self._for_agents = copies, for_agents
        self._folder, self._works = folder, works
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._is_usable: bool | None = None
        self._are_hidden: bool | None = None
        self._laid: dict[Path, LayeredCopy] = {}

    @property
    def are_usable(self) -> bool:
        """True if commands here can have layers. The first question takes a command, and a copy of
        the folders."""
        with self._lock:
            if self._is_usable is None:
                self._is_usable = self._try()
            return self._is_usable

    def lay_for_test(self, place: Path) -> LaidCopy:
        """Lay a copy for the tests in the checkout `place`. Raises OSError."""
        return self._lay(place) if self.are_usable else self.copies.lay(place)

    def lay_for_agent(
        self,
        owned: Collection[str],
        ignored: Callable[[list[str]], Collection[str]],
        place: Path,
        *,
        hands_on: bool,
    ) -> LaidCopy | None:
        """Lay a copy for the agents in the clone `place`, whose item owns the paths `owned`.
        `ignored` are those of some paths that git ignores there. What may be work has to be on
        disk, for git to see. With `hands_on`, the copy may be that of an agent that has ended.
        Raises OSError."""
        copies = self.copies
        if self._for_agents and self.are_usable and not any(map(copies.meets, owned)):
            if self._are_hidden is None:
                found = ignored([f"{name}/" for name in copies.names])
                self._are_hidden = len(found) == len(copies.names)
            if self._are_hidden:
                return self._lay(place)
        if hands_on:
            return copies.lay_for_agent(place)
        copies.copy_to(place)
        return None

    def at(self, place: Path) -> tuple[Layer, ...]:
        """The layers of a command in `place`."""
        laid = self._laid.get(place)
        return laid.layers() if laid and laid.is_ready() else ()

    def new_upper(self, lower: Path) -> tuple[Path, Path]:
        """Two new folders: for changes, and for the kernel. The mode and the times of the first are
        what a command sees of the folder `lower` itself."""
        top = self._folder / str(next(self._numbers))
        upper, beside = top / "upper", top / "beside"
        for folder in (upper, beside):
            folder.mkdir(parents=True)
        shutil.copystat(lower, upper)
        return upper, beside

    def lower(self, name: str) -> Path:
        """The copy of the folder `name` that all places show."""
        return self._folder / "lower" / name

    def forget(self, copy: LayeredCopy) -> None:
        """Note that no command runs in a place any more."""
        self._laid.pop(copy.place, None)

    def _lay(self, place: Path) -> LayeredCopy:
        self.copies.require_inside(place)
        for name in self.copies.names:
            (place / name).mkdir(parents=True)
        made = self._laid[place] = LayeredCopy(self, place)
        return made

    def _try(self) -> bool:
        if self._works is None or not self.copies.are_folders or not self.copies.may_move:
            return False
        if any(map(_SEPARATORS.intersection, (str(self._folder), *self.copies.names))):
            return False
        lower, place = self._folder / "tried" / "lower", self._folder / "tried" / "place"
        try:
            for folder in (lower, place / "layer"):
                folder.mkdir(parents=True)
            (lower / "file").write_text("lower\n", encoding="ascii")
            upper, beside = self.new_upper(lower)
            works = self._works(place, Layer(lower, upper, beside, place / "layer"))
            if not works or not (upper / "file").is_file():
                return False
            self.copies.copy_to(self._folder / "lower")
            is_as_before = (lower / "file").read_text(encoding="ascii") == "lower\n"
            return is_as_before and _all_ours(self._folder / "lower")
        except OSError:
            return False


def _all_ours(top: Path) -> bool:
    """True if commands inside may change all files: a user's namespace knows only one group."""
    if os.geteuid() == 0:
        return True
    ours, paths = (os.geteuid(), os.getegid()), [str(top)]
    paths += [f"{at}/{name}" for at, *inside in os.walk(top) for name in itertools.chain(*inside)]
    return all((found.st_uid, found.st_gid) == ours for found in map(os.lstat, paths))


class LayeredCopy(LaidCopy):
    """The layers of the commands in the folder `place`, and what they changed there."""

    def __init__(self, copies: LayeredCopies, place: Path) -> None:
        self.place = place
        self._copies = copies
        self._uppers = {name: copies.new_upper(copies.lower(name)) for name in copies.copies.names}

    def layers(self) -> tuple[Layer, ...]:
        """The layers of a command here."""
        lower = self._copies.lower
        return tuple(
            Layer(lower(name), *folders, self.place / name)
            for name, folders in self._uppers.items()
        )

    def is_ready(self) -> bool:
        """True if each copied path is an empty folder of this place."""
        try:
            self._copies.copies.require_inside(self.place)
            found = [self.place / name for name in self._uppers]
            return not any(one.is_symlink() or os.listdir(one) for one in found)  # noqa: PTH208
        except OSError:
            return False

    def put_back(self) -> bool:
        for name, (upper, _) in self._uppers.items():
            self._uppers[name] = self._copies.new_upper(self._copies.lower(name))
            remove_tree(upper.parent)
        return self.is_ready()

    def give_back(self) -> None:
        self.discard()

    def put_aside(self) -> None:
        self.discard()

    def discard(self) -> None:
        self._copies.forget(self)
        for upper, _ in self._uppers.values():
            remove_tree(upper.parent)
