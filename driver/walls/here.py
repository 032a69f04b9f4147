"""The walls of this machine: asks the kernel, runs the escape test, and keeps the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from driver.execution.processes import Processes
from driver.execution.sandbox_probe import kernel_facts
from driver.walls.choice import Asked, Chosen, candidates, choose, kept_choice, text_to_keep
from driver.walls.escape import attempted
from driver.walls.roles import System
from driver.walls.system import hidden_files, hidden_paths, system_paths, toolchain_paths
from driver.walls.wall import Level, Network
from state_store.documents.errors import CannotRunError
from state_store.documents.files import write_text_atomic


def walls_here(
    asked: Asked,
    file: Path,
    environ: Mapping[str, str],
    avoid: Iterable[Path],
    processes: Processes,
) -> Chosen:
    """The means of the strongest wall that holds here. Raises WallRefusedError.

    `file` keeps the answer. No agent may be able to write it, nor the folders of `avoid` to lend a
    program.
    """
    possible = candidates(asked, kernel_facts(), environ, avoid)
    if kept := kept_choice(file, asked, possible):
        return kept
    chosen = choose(asked, possible, lambda means: attempted(means, Network.LOOPBACK, processes))
    # A test that could not run may succeed next time; one that failed for good fails at once.
    if chosen.means.level.at_least(Level.LANDLOCK):
        with suppress(CannotRunError):  # without the file the next run asks again
            write_text_atomic(file, text_to_keep(asked, possible, chosen))
    return chosen


def system_here(environ: Mapping[str, str]) -> System:
    """The parts of this machine that commands inside may read."""
    return System(system_paths(), hidden_paths(), hidden_files(), toolchain_paths(environ))
