"""The wall of each role: the places that a command may read and write. No I/O.

An agent and a test see the same toolchains, so that a test that the agent runs says what ours says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from driver.walls.wall import NETWORK_OF, Layer, Limits, Network, Role, Wall
from state_store.values.lazy_dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class System:
    """The parts of this machine that everybody inside may read, and the hidden parts of these.

    `aliases` are links of the system and their targets, such as `/bin`. `readable_of` and
    `writable_of` are further parts of the user's `home` for one role. `links` are the names in a
    private home of each role, with the parts of the user's home that they lead to.
    """

    readable: tuple[Path, ...]
    hidden: tuple[Path, ...] = ()
    hidden_files: tuple[Path, ...] = ()
    aliases: tuple[tuple[Path, str], ...] = ()
    home: Path = Path("/nonexistent")
    readable_of: Mapping[Role, tuple[Path, ...]] = field(default_factory=dict)
    writable_of: Mapping[Role, tuple[Path, ...]] = field(default_factory=dict)
    links: Mapping[Role, tuple[tuple[str, str], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Places:
    """The places of one command. `work` is its clone or test checkout.

    `own` are the home and temporary folder of a set-up, which stay; without them the command gets
    new ones. `objects` are the folders from which its git borrows. `prepared` is what the set-up
    installed: only a set-up may write it; `prepared_home` is the home that a set-up had. `read` and
    `written` are further places of the command, and `layers` lie in `work`.
    """

    work: Path
    own: tuple[Path, Path] | tuple[()] = ()
    objects: tuple[Path, ...] = ()
    prepared: tuple[Path, ...] = ()
    prepared_home: Path | None = None
    read: tuple[Path, ...] = ()
    written: tuple[Path, ...] = ()
    layers: tuple[Layer, ...] = ()


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """The settings of `[sandbox]` for one role. `network` None is the role's usual network."""

    network: Network | None = None
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    unix_sockets: bool = False
    limits: Limits = field(default_factory=Limits)


def wall_of(role: Role, places: Places, system: System, settings: RoleSettings) -> Wall:
    """The wall of a command of this role."""
    prepares = role is Role.SETUP
    return Wall(
        readable=(
            *system.readable,
            *system.readable_of.get(role, ()),
            *places.objects,
            *(() if prepares else places.prepared),
            *places.read,
            *settings.readable,
        ),
        writable=(
            *(places.work, *places.own),
            *(places.prepared if prepares else ()),
            *places.written,
            *system.writable_of.get(role, ()),
            *settings.writable,
        ),
        hidden=system.hidden,
        hidden_files=system.hidden_files,
        aliases=system.aliases,
        network=settings.network or NETWORK_OF[role],
        unix_sockets=settings.unix_sockets,
        limits=settings.limits,
        layers=places.layers,
    )
