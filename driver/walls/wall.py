"""The wall around a command as frozen data, and the levels of walls. No I/O."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from state_store.values.lazy_dataclass import dataclass, field


class Role(StrEnum):
    """The kinds of commands that get a wall."""

    AGENT = "agent"
    TEST = "test"
    SETUP = "setup"
    HOOK = "hook"


class Level(StrEnum):
    """The kinds of walls, the strongest first."""

    CONTAINER = "container"
    BWRAP = "bwrap"
    LANDLOCK = "landlock"
    LIMITS = "limits"
    NONE = "none"

    def at_least(self, other: Level) -> bool:
        """True if this level is as strong as `other`, or stronger."""
        order = tuple(Level)
        return order.index(self) <= order.index(other)


class Network(StrEnum):
    """The network inside a wall. LOOPBACK is a loopback of its own, shared with nobody."""

    NONE = "none"
    LOOPBACK = "loopback"
    HOST = "host"


# Agents ask their model over the network, and a set-up fetches packages.
NETWORK_OF = {
    Role.AGENT: Network.HOST,
    Role.TEST: Network.LOOPBACK,
    Role.SETUP: Network.HOST,
    Role.HOOK: Network.HOST,
}


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources of a command of `role`. 0 means no limit of our own.

    `memory` and `processes` count all processes of the command together. Where no control group
    can count them, `memory` is watched, and `processes` are those beside the ones that the user
    runs already. `data` is the private memory of each process, without a group: a limit of the
    address space would stop programs that only reserve it (Node, Java, Go), and this one stops
    AddressSanitizer. `disk` is what the command writes in its places; None is three quarters of
    the room at its start. `output` is what it prints. `scratch` is the size of a private /tmp, at
    the levels that have one.
    """

    role: Role = Role.TEST
    memory: int = 0
    data: int = 0
    processes: int = 0
    disk: int | None = 0
    output: int = 0
    file_size: int = 0
    scratch: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """A folder that a command sees at `target`, an empty folder: it shows `lower`, and what the
    command changes there is in `upper`. `beside` is a folder for the kernel on the
    same disk."""

    lower: Path
    upper: Path
    beside: Path
    target: Path


@dataclass(frozen=True, slots=True)
class Wall:
    """The rules for a command. Paths are absolute. The deepest path that holds a file decides.

    All that is neither `readable` nor `writable` is out of reach. The folders `hidden`, and the
    `hidden_files`, lie inside of readable ones, and so do the targets of `aliases`. `unix_sockets`
    allows sockets of the file system at the levels that cannot hide them. `groups` are the
    `cgroup.procs` files that the command joins. `layers` are for levels with mounts of their own.
    """

    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    hidden_files: tuple[Path, ...] = ()
    aliases: tuple[tuple[Path, str], ...] = ()
    network: Network = Network.NONE
    unix_sockets: bool = False
    limits: Limits = field(default_factory=Limits)
    groups: tuple[Path, ...] = ()
    layers: tuple[Layer, ...] = ()


@dataclass(frozen=True, slots=True)
class Means:
    """The means of this machine for a level.

    `program` is bwrap or the container engine, `machine` is the processor's name, and `namespaces`
    tells if `landlock` may make namespaces of its own, for a private loopback and private shared
    memory.
    """

    level: Level
    machine: str = ""
    program: str = ""
    image: str = ""
    landlock_abi: int = 0
    namespaces: bool = False

    @property
    def name(self) -> str:
        """The level as reports show it, such as `landlock-7`."""
        return f"{self.level}-{self.landlock_abi}" if self.level is Level.LANDLOCK else self.level

    @property
    def is_closed(self) -> bool:
        """True if commands inside are kept from files outside."""
        return self.level.at_least(Level.LANDLOCK)

    @property
    def has_mounts(self) -> bool:
        """True if a command can have `layers`."""
        return self.namespaces or self.level is Level.BWRAP

    @property
    def has_own_loopback(self) -> bool:
        """True if a command can have a loopback that nobody shares."""
        return self.namespaces or self.level in (Level.CONTAINER, Level.BWRAP)
