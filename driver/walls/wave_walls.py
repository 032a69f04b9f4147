"""The walls of a wave: made once at its opening, then around every command that runs for a role."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from driver.execution.command import Command, Ending, Finished
from driver.execution.processes import Processes
from driver.execution.worker_pool import Afterwards
from driver.filesystem.temporary import new_scratch
from driver.filesystem.tree import remove_tree
from driver.homes.compiled import CompilerCaches
from driver.homes.login import LoginFile, give_back
from driver.homes.private_home import HomeRecipe
from driver.walls.choice import Asked, Chosen, WallRefusedError, walls_here
from driver.walls.inside import Watch, remove_left_containers, run_inside
from driver.walls.machine import limits_of
from driver.walls.roles import Places, RoleSettings, System, wall_of
from driver.walls.system import beside_an_image, is_of_system, system_here
from driver.walls.wall import NETWORK_OF, Level, Means, Network, Role, Wall
from state_store.documents.errors import CannotRunError
from state_store.values.lazy_dataclass import dataclass, field, replace
from tools.settings.load import Settings
from tools.settings.run_sections import HOST, PRIVATE, RoleSandboxSettings


@dataclass(frozen=True, slots=True)
class Enclosure:
    """The wall of one command, ready to run it. A backend gets it with a test or a request. Without
    a `recipe` the command has the home and temporary folder of its environment. `watch` can end it,
    as that of a `Command`. `removals` remove its folders while others go on, as some disks take
    longer for that than a short test runs."""

    wall: Wall
    means: Means
    places: Places
    recipe: HomeRecipe | None = None
    caches: CompilerCaches | None = None
    watch: Watch | None = None
    removals: Afterwards | None = None

    @property
    def name(self) -> str:
        """The level as receipts show it."""
        return self.means.name

    def run(self, processes: Processes, command: Command, *, name: str = "") -> Finished:
        """Run the command to its end inside, as `Processes.run` does outside."""
        command = replace(command, watch=self.watch or command.watch)
        if self.recipe is None:
            return run_inside(processes, command, self.wall, self.means, name=name)
        with self._own_folders() as (home, temporary, scratch):
            lent = self.recipe.furnish(home, command.env)
            wall = replace(self.wall, writable=(*self.wall.writable, home, temporary))
            given = (*wall.readable, *wall.writable) if self.means.is_closed else None
            env = self.recipe.environment(command.env, home, temporary, given)
            command = replace(command, env=env)
            finished = run_inside(processes, command, wall, self.means, name=name, scratch=scratch)
            give_back(lent, home)
            if self.recipe.compiled is not None and finished.ending is Ending.EXITED:
                self.recipe.compiled.keep(home)
            return finished

    def reading(self, paths: Iterable[Path]) -> Enclosure:
        """Give the same wall with `paths` readable as well. An image has those of its system."""
        if self.means.level is Level.CONTAINER:
            paths = (path for path in paths if not is_of_system(path))
        return replace(self, wall=replace(self.wall, readable=(*self.wall.readable, *paths)))

    def lending(self, login: Iterable[LoginFile]) -> Enclosure:
        """Give the same wall with copies of a login in the private home."""
        recipe = replace(self.recipe, login=tuple(login)) if self.recipe else None
        return replace(self, recipe=recipe)

    def compiling(self, test: tuple[str, ...], *, on_base: bool) -> Enclosure:
        """Give the same wall with the kept caches of a test's compilers, which a run `on_base`
        fills."""
        if self.recipe is None or self.caches is None:
            return self
        compiled = self.caches.of(test, on_base=on_base)
        return replace(self, recipe=replace(self.recipe, compiled=compiled))

    @contextmanager
    def _own_folders(self) -> Iterator[tuple[Path, Path, Path | None]]:
        """The home and the temporary folder of a command, and the folder around both if it is new:
        the command reaches nothing else in it."""
        if self.places.own:
            yield *self.places.own, None
            return
        folder = new_scratch()
        home, temporary = folder / "home", folder / "tmp"
        try:
            home.mkdir()
            temporary.mkdir()
            yield home, temporary, folder
        finally:
            if self.removals is None:
                remove_tree(folder)
            else:
                self.removals.do(partial(remove_tree, folder))


@dataclass(frozen=True, slots=True)
class Walls:
    """The walls of a wave: the means of this machine, what is on it, and the settings.

    With `has_homes` each command has a private home. `agents_inside` is true if no backend of the
    wave runs an agent's program outside. `caches` are those of compilers, at closed levels.
    `removals` remove the folders of its commands.
    """

    means: Means
    system: System = field(default_factory=lambda: System(()))
    roles: Mapping[Role, RoleSettings] = field(default_factory=lambda: MappingProxyType({}))
    passed_over: tuple[str, ...] = ()
    has_homes: bool = False
    agents_inside: bool = False
    caches: CompilerCaches | None = None
    removals: Afterwards | None = None

    @property
    def name(self) -> str:
        """The level as people read it."""
        return self.means.name

    @property
    def closed(self) -> bool:
        """True if commands inside reach neither the user's checkout nor another item's places."""
        return self.means.is_closed

    def keep_from(self, places: Iterable[Path]) -> bool:
        """True if no command inside can write to these places of the user."""
        given = [path for role in self.roles.values() for path in role.writable]
        of_system = [path for paths in self.system.writable_of.values() for path in paths]
        writable = [path.resolve() for path in (*given, *of_system)]
        resolved = [path.resolve() for path in places]
        return (
            self.closed
            and self.agents_inside
            and not any(
                one.is_relative_to(path) or path.is_relative_to(one)
                for one in writable
                for path in resolved
            )
        )

    def network_of(self, role: Role) -> Network:
        """The network that commands of a role have, which the level may not be able to close."""
        asked = (self.roles.get(role) or RoleSettings()).network
        if not self.closed:
            return Network.HOST
        wanted = asked or NETWORK_OF[role]
        if wanted is not Network.LOOPBACK or self.means.has_own_loopback:
            return wanted
        # Servers of tests need a loopback, and this level can only give the host's or none.
        return Network.NONE if asked else Network.HOST

    @property
    def part_tests(self) -> bool:
        """True if tests share no processes, network or writable places: none can disturb another,
        and only a lock on a file that both may read tells one that another runs."""
        given = self.roles.get(Role.TEST) or RoleSettings()
        shared = given.writable or given.unix_sockets or self.system.writable_of.get(Role.TEST)
        apart = self.means.level in (Level.CONTAINER, Level.BWRAP) and self.has_homes
        return apart and not shared and self.network_of(Role.TEST) is not Network.HOST

    def to_json(self) -> dict[str, Any]:
        """The walls as the report of a wave has them."""
        inside = {role: self.agents_inside or role is not Role.AGENT for role in Role}
        return {
            **{
                str(role): {
                    "level": self.name if inside[role] else str(Level.NONE),
                    "network": str(self.network_of(role) if inside[role] else Network.HOST),
                }
                for role in Role
            },
            "home": PRIVATE if self.has_homes else HOST,
            "passedOver": list(self.passed_over),
        }

    def around(self, role: Role, places: Places) -> Enclosure:
        """The wall around a command of this role in these places."""
        given = self.roles.get(role) or RoleSettings()
        given = replace(given, network=self.network_of(role))
        wall = wall_of(role, places, self.system, given)
        # A place that is not there yet cannot be mounted.
        wall = replace(wall, writable=tuple(one for one in wall.writable if one.exists()))
        if not self.has_homes:
            return Enclosure(wall, self.means, places)
        made_anew = self.closed and role is not Role.SETUP
        prepared = None if role is Role.SETUP else places.prepared_home
        links = (*self.system.links.get(role, ()), *self._in_home(given.readable))
        shared = tuple(self._in_home(given.writable))
        recipe = HomeRecipe(self.system.home, links, prepared, (), made_anew, shared)
        return Enclosure(wall, self.means, places, recipe, self.caches, removals=self.removals)

    def _in_home(self, paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
        """The paths that exist in the user's home, with their names there."""
        for path in paths:
            if self.system.home in path.parents and path.exists():
                yield str(path.relative_to(self.system.home)), str(path)


NO_WALLS = Walls(Means(Level.NONE))  # a command has the home and folders of its environment
_known: dict[str, Chosen] = {}  # the answers of this process


def walls_of(
    settings: Settings,
    file: Path | None,
    avoid: Iterable[Path],
    processes: Processes,
    of_checkers: Iterable[Path] = (),
) -> Walls:
    """The walls by `[sandbox]`. `file` keeps the answer of the escape test, `of_checkers` are the
    settings of checkers in the home. Raises CannotRunError below the level that the settings
    require."""
    asked, avoid = asked_of(settings), tuple(avoid)
    try:
        chosen = walls_here(asked, file, settings.environ, avoid, processes, _known)
    except WallRefusedError as refused:
        raise CannotRunError(f"[sandbox]: {refused}") from refused
    roles = {Role(name): _role(Role(name), one) for name, one in settings.sandbox_roles.items()}
    system = system_here(settings.environ, of_checkers, avoid)
    if chosen.means.level is Level.CONTAINER:
        system = beside_an_image(system)
        remove_left_containers(chosen.means)
    homes = settings.sandbox.home == PRIVATE
    return Walls(chosen.means, system, MappingProxyType(roles), chosen.passed_over, homes)


def asked_of(settings: Settings) -> Asked:
    """The level that the settings name, and the weakest one that they allow."""
    given = settings.sandbox
    level = None if given.level == "auto" else Level(given.level)
    return Asked(level, Level(given.require), given.image or "")


def _role(role: Role, given: RoleSandboxSettings) -> RoleSettings:
    """The settings of one role. Without a network it is the usual one of the role and level."""
    network = Network(given.network) if given.network else None
    limits = limits_of(role, given)
    return RoleSettings(network, given.readable, given.writable, given.unix_sockets, limits)
