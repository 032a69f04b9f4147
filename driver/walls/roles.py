"""The wall of each role: the places that a command may read and write. No I/O.

An agent and a test see the same toolchains, so that a test that the agent runs says what ours says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from driver.walls.wall import NETWORK_OF, Limits, Network, Role, Wall
from state_store.values.lazy_dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class System:
    """The parts of this machine that everybody inside may read, and the hidden parts of these.

    `settings` are those of checkers in the `home`. `readable_of` and `writable_of` are further
    parts of it for one role.
    """

    readable: tuple[Path, ...]
    hidden: tuple[Path, ...] = ()
    hidden_files: tuple[Path, ...] = ()
    toolchains: tuple[Path, ...] = ()
    home: Path = Path("/nonexistent")
    settings: tuple[Path, ...] = ()
    readable_of: Mapping[Role, tuple[Path, ...]] = field(default_factory=dict)
    writable_of: Mapping[Role, tuple[Path, ...]] = field(default_factory=dict)

    def links(self, role: Role) -> tuple[tuple[str, Path], ...]:
        """The links that a private home of this role has to parts of the user's own."""
        of_role = (*self.writable_of.get(role, ()), *self.readable_of.get(role, ()))
        parts = dict.fromkeys((*of_role, *self.settings, *self.toolchains))
        inside = (one for one in parts if self.home in one.parents)
        return tuple(sorted((str(one.relative_to(self.home)), one) for one in inside))


@dataclass(frozen=True, slots=True)
class Places:
    """The places of one command. `work` is its clone or test checkout.

    `own` are the private home and temporary folder of its item; without them each command gets new
    ones. `objects` are the folders from which its git borrows. `prepared` is what the set-up
    installed: only a set-up may write it; `prepared_home` is the home that a set-up had. `read` and
    `written` are further places of the command.
    """

    work: Path
    own: tuple[Path, Path] | tuple[()] = ()
    objects: tuple[Path, ...] = ()
    prepared: tuple[Path, ...] = ()
    prepared_home: Path | None = None
    read: tuple[Path, ...] = ()
    written: tuple[Path, ...] = ()


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
            *system.toolchains,
            *system.settings,
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
        network=settings.network or NETWORK_OF[role],
        unix_sockets=settings.unix_sockets,
        limits=settings.limits,
    )
