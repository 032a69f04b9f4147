"""The walls of this machine: asks the kernel, runs the escape test, and keeps the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from driver.execution.processes import Processes
from driver.execution.sandbox_probe import kernel_facts
from driver.walls.choice import (
    Asked,
    Chosen,
    candidates,
    choice_key,
    choose,
    kept_choice,
    text_to_keep,
)
from driver.walls.escape import attempted
from driver.walls.roles import System
from driver.walls.system import (
    CACHES,
    READ_BY_SETUPS,
    WRITTEN_BY_HOOKS,
    existing,
    hidden_files,
    hidden_paths,
    named_toolchains,
    outermost,
    path_programs,
    system_aliases,
    system_paths,
    toolchain_paths,
)
from driver.walls.wall import Level, Network, Role
from state_store.documents.errors import CannotRunError
from state_store.documents.files import write_text_atomic


def walls_here(
    asked: Asked,
    file: Path | None,
    environ: Mapping[str, str],
    avoid: Iterable[Path],
    processes: Processes,
    known: dict[str, Chosen] | None = None,
) -> Chosen:
    """The means of the strongest wall that holds here. Raises WallRefusedError.

    `file` keeps the answer, and `known` those of this process. No agent may be able to write the
    file, nor the folders of `avoid` to lend a program.
    """
    possible = candidates(asked, kernel_facts(), environ, avoid)
    key = choice_key(asked, possible)
    if kept := (known or {}).get(key) or (file and kept_choice(file, key, possible)):
        return kept
    chosen = choose(asked, possible, lambda means: attempted(means, Network.LOOPBACK, processes))
    # A test that could not run may succeed next time; one that failed for good fails at once.
    if chosen.means.level.at_least(Level.LANDLOCK):
        if key and known is not None:
            known[key] = chosen
        if file:
            with suppress(CannotRunError):  # without the file the next run asks again
                write_text_atomic(file, text_to_keep(key, chosen))
    return chosen


def system_here(
    environ: Mapping[str, str], settings: Iterable[Path] = (), avoid: Iterable[Path] = ()
) -> System:
    """The parts of this machine that commands inside may read. `settings` are those of the user's
    home for checkers. Nothing in the folders `avoid` is a toolchain."""
    home = Path(environ.get("HOME") or "/nonexistent")
    shared = (
        *toolchain_paths(home),
        *path_programs(environ.get("PATH", ""), home),
        *named_toolchains(environ, home, avoid),
        *(one for one in settings if one.exists()),
    )
    readable_of = {Role.SETUP: existing(home, READ_BY_SETUPS)}
    writable_of = {
        Role.SETUP: existing(home, CACHES),
        Role.HOOK: existing(home, WRITTEN_BY_HOOKS),
    }
    links = {
        role: _links(home, (*writable_of.get(role, ()), *readable_of.get(role, ()), *shared))
        for role in Role
    }
    return System(
        outermost((*system_paths(), *shared)),
        hidden_paths(),
        hidden_files(),
        system_aliases(),
        home,
        readable_of,
        writable_of,
        links,
    )


def _links(home: Path, paths: Iterable[Path]) -> tuple[tuple[str, str], ...]:
    """The names in a private home of parts of the user's own, and their places there."""
    inside = (one for one in outermost(paths) if home in one.parents)
    return tuple(sorted((str(one.relative_to(home)), str(one)) for one in inside))
