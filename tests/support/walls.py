"""Walls of the machine that runs the tests, and commands inside of them."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

import pytest

from driver.execution.command import Command, Finished
from driver.execution.processes import Processes
from driver.execution.sandbox_probe import kernel_facts
from driver.walls.choice import Asked, candidates
from driver.walls.escape import attempted
from driver.walls.inside import run_inside
from driver.walls.system import hidden_files, hidden_paths, system_aliases, system_paths
from driver.walls.wall import Level, Limits, Means, Network, Wall

NAMES = ("bwrap", "landlock with namespaces", "landlock", "limits", "none")
# The means and the levels that keep files from a command.
CLOSED = NAMES[:3]
CLOSED_LEVELS = (Level.BWRAP, Level.LANDLOCK)


def means_of(name: str) -> Means:
    """The means of this name, untried. The test is skipped if this machine cannot have them."""
    for means in candidates(Asked(), kernel_facts(), os.environ, ()):
        own = " with namespaces" if means.namespaces else ""
        if f"{means.level}{own}" == name:
            return means
    pytest.skip(f"this machine has no {name}")


def needs(level: str) -> None:
    """Skip the test if no wall of the level can be made here."""
    if level in CLOSED_LEVELS and not _can_be_made(Level(level)):
        pytest.skip(f"this machine has no {level}")


@cache
def _can_be_made(level: Level) -> bool:
    possible, processes = candidates(Asked(level), kernel_facts(), os.environ, ()), Processes()
    return any(not attempted(one, Network.LOOPBACK, processes).problem for one in possible)


def place(folder: Path, name: str) -> Path:
    """A folder in a folder, made if it is missing."""
    (folder / name).mkdir(exist_ok=True)
    return folder / name


def python(program: str) -> tuple[str, ...]:
    """The command line of a program that imports nothing but the standard library."""
    return (sys.executable, "-I", "-S", "-c", program)


def run(
    folder: Path,
    means: Means,
    argv: tuple[str, ...] | str,
    *,
    network: Network = Network.LOOPBACK,
    limits: Limits | None = None,
    timeout_s: float = 60.0,
) -> Finished:
    """Run a command in the folder `work` of `folder`, which alone it may write."""
    work = place(folder, "work")
    wall = Wall(
        readable=system_paths(),
        writable=(work,),
        hidden=hidden_paths(),
        hidden_files=hidden_files(),
        aliases=system_aliases(),
        network=network,
        limits=limits or Limits(),
    )
    environment = {"PATH": os.defpath, "HOME": str(work), "TMPDIR": str(work)}
    return run_inside(Processes(), Command(argv, work, environment, timeout_s), wall, means)
