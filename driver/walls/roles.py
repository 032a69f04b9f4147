"""The wall of each role: the places that a command may read and write. No I/O.

An agent and a test see the same toolchains, so that a test that the agent runs says what ours says.
"""

from __future__ import annotations

from pathlib import Path

from driver.walls.wall import NETWORK_OF, Limits, Network, Role, Wall
from state_store.values.lazy_dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class System:
    """The parts of this machine that everybody inside may read, and the hidden parts of these."""

    readable: tuple[Path, ...]
    hidden: tuple[Path, ...] = ()
    hidden_files: tuple[Path, ...] = ()
    toolchains: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Places:
    """The places of one command. `work` is its clone or test checkout.

    `own` are the private home and temporary folder of its item. `objects` are the folders from
    which its git borrows. `prepared` is what the set-up installed: only a set-up may write it.
    `login` is the state of an agent program's login, which only agents get.
    """

    work: Path
    own: tuple[Path, ...] = ()
    objects: tuple[Path, ...] = ()
    prepared: tuple[Path, ...] = ()
    login: tuple[Path, ...] = ()


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
            *places.objects,
            *(() if prepares else places.prepared),
            *settings.readable,
        ),
        writable=(
            *(places.work, *places.own),
            *(places.prepared if prepares else ()),
            *(places.login if role is Role.AGENT else ()),
            *settings.writable,
        ),
        hidden=system.hidden,
        hidden_files=system.hidden_files,
        network=settings.network or NETWORK_OF[role],
        unix_sockets=settings.unix_sockets,
        limits=settings.limits,
    )
