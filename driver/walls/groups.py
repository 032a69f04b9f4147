"""Control groups: limits on all processes of a run together, which also hold for root.

A group can only be made where the system lets this user: as root, or where it is delegated. A
system has one hierarchy of groups (version 2) or one for each controller (version 1).
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from driver.filesystem.temporary import counted_here
from driver.walls.wall import Limits
from state_store.values.lazy_dataclass import dataclass

MEMORY, PIDS = "memory", "pids"
_MOUNTED = re.compile(r"^\S+ \S+ \S+ \S+ (\S+) .* - (cgroup2?) \S+ (\S+)$", re.MULTILINE)
_PREFIX = "tidegate-"
# By controller and version: the file of the limit; the file that counts its breaches, and the word.
_FILES = {
    (MEMORY, 1): ("memory.limit_in_bytes", "memory.oom_control", "oom_kill"),
    (MEMORY, 2): ("memory.max", "memory.events", "oom_kill"),
    (PIDS, 1): ("pids.max", "pids.events", "max"),
    (PIDS, 2): ("pids.max", "pids.events", "max"),
}
_SWAP = {1: "memory.memsw.limit_in_bytes", 2: "memory.swap.max"}


@dataclass(frozen=True, slots=True)
class Group:
    """The groups of one run. `held` has the folder and the version of each controller."""

    held: tuple[tuple[str, Path, int], ...] = ()

    @property
    def members(self) -> tuple[Path, ...]:
        """The files that the first process of the run writes itself into."""
        return tuple(dict.fromkeys(folder / "cgroup.procs" for _, folder, _ in self.held))

    def counts(self, controller: str) -> bool:
        """True if the group holds the limit of a controller."""
        return any(one == controller for one, _, _ in self.held)

    def reached(self) -> tuple[str, ...]:
        """The controllers whose limit was reached."""
        return tuple(one for one, folder, version in self.held if _breaches(one, folder, version))


@contextmanager
def group_for(limits: Limits) -> Iterator[Group]:
    """A new group with the limits of memory and processes, as far as this user can make one.
    Removed at the end."""
    wanted = {MEMORY: limits.memory, PIDS: limits.processes}
    made = Group(tuple(_made({one: most for one, most in wanted.items() if most})))
    try:
        yield made
    finally:
        for folder in {folder for _, folder, _ in made.held}:
            with suppress(OSError):  # a process that could not be ended is still in it
                folder.rmdir()


def _made(wanted: dict[str, int]) -> Iterator[tuple[str, Path, int]]:
    missing = dict(wanted)
    for parent, version, controllers in _parents() if wanted else ():
        held = [one for one in missing if version == 2 or one in controllers]
        if not held or not os.access(parent / "cgroup.procs", os.W_OK):
            continue
        _sweep(parent)
        folder = parent / f"{_PREFIX}{counted_here()}-{os.getpid()}-{secrets.token_hex(8)}"
        try:
            folder.mkdir()
        except OSError:
            continue
        set_here = [one for one in held if _set(one, folder, version, missing[one])]
        if not set_here:
            folder.rmdir()
        for one in set_here:
            del missing[one]
            yield one, folder, version


def _set(controller: str, folder: Path, version: int, most: int) -> bool:
    """Set a limit; False for a group without this controller."""
    limit = folder / _FILES[controller, version][0]
    try:
        if not limit.exists():  # opening it would fail with rights, not with its absence
            return False
        limit.write_text(str(most), encoding="ascii")
    except OSError:
        return False
    if controller == MEMORY:
        with suppress(OSError):  # a system that does not count swap
            swap = folder / _SWAP[version]
            if swap.exists():
                swap.write_text(str(most if version == 1 else 0), encoding="ascii")
    return True


def _breaches(controller: str, folder: Path, version: int) -> int:
    _, file, word = _FILES[controller, version]
    with suppress(OSError):
        for line in (folder / file).read_text(encoding="ascii").splitlines():
            name, _, number = line.partition(" ")
            if name == word:
                return int(number)
    return 0


@cache
def _sweep(parent: Path) -> None:
    """Remove what ended runs left, once: a look for each command would take longer than its
    group."""
    remove_left(parent)


def remove_left(parent: Path) -> None:
    """Remove the groups of ended runs of this boot and container. One that still holds a process
    stays."""
    ours = f"{_PREFIX}{counted_here()}-"
    with suppress(OSError):
        for name in os.listdir(parent):  # noqa: PTH208 - each test asks
            owner = name.removeprefix(ours).partition("-")[0]
            if name.startswith(ours) and not Path("/proc", owner).exists():
                with suppress(OSError):
                    (parent / name).rmdir()


@cache
def _own_groups() -> tuple[tuple[tuple[Path, ...], int, tuple[str, ...]], ...]:
    """The group of this process in each hierarchy: its folder and those above it, the version and
    the controllers."""
    try:
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    except OSError:
        return ()
    places = {named: path for _, named, path in (line.split(":", 2) for line in own)}
    found = list[tuple[tuple[Path, ...], int, tuple[str, ...]]]()
    for mount, kind, options in _MOUNTED.findall(mounts):
        for named, path in places.items():
            controllers, leaf = tuple(named.split(",")), Path(mount + path)
            folders = tuple(one for one in (leaf, *leaf.parents) if one.is_relative_to(mount))
            if kind == "cgroup2" and not named:
                found.append((folders, 2, ()))
            elif kind == "cgroup" and named and set(controllers) & set(options.split(",")):
                found.append((folders, 1, controllers))
    return tuple(found)


def limits_around(controller: str) -> Iterator[int]:
    """The limits of the groups around this process."""
    for folders, version, controllers in _own_groups():
        if version == 2 or controller in controllers:
            for folder in folders:
                with suppress(OSError, ValueError):  # none, or the word `max`
                    limit = folder / _FILES[controller, version][0]
                    yield int(limit.read_text(encoding="ascii"))


def _parents() -> Iterator[tuple[Path, int, tuple[str, ...]]]:
    """The groups that a new one may be made in. In version 2 that are also those above the own one:
    a group that has processes of its own passes no controllers on."""
    for folders, version, controllers in _own_groups():
        for folder in folders if version == 2 else folders[:1]:
            yield folder, version, controllers
