"""Runs a command inside of its wall. A wall that cannot be made is no result of the command."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

from driver.execution.command import Command, Ending, Finished
from driver.execution.processes import Processes, capture, shell_argv
from driver.filesystem.temporary import counted_here, scratch_folder
from driver.walls.breaches import named, watch_of
from driver.walls.container import PROFILE, STATUS, contained, listing, removal
from driver.walls.enclose import enclosed, why_not_entered
from driver.walls.filters import engine_profile, families
from driver.walls.groups import MEMORY, PIDS, Group, group_for
from driver.walls.wall import Level, Limits, Means, Wall
from state_store.values.lazy_dataclass import replace
from tools.settings.load import process_environment

Watch = Callable[[int, int], str]
_ENGINE_S = 60.0


def run_inside(
    processes: Processes,
    command: Command,
    wall: Wall,
    means: Means,
    *,
    name: str = "",
    scratch: Path | None = None,
) -> Finished:
    """Run a command to its end inside of `wall`, as `Processes.run` does outside. `scratch` is a
    folder that the command does not reach; without it one is made."""
    if means.level is Level.NONE or not command.argv:
        return processes.run(command, name=name)
    argv = command.argv
    inner = shell_argv(argv) if isinstance(argv, str) else argv
    # The engine of a container has groups of its own.
    counted = Limits() if means.level is Level.CONTAINER else wall.limits
    given = nullcontext(scratch) if scratch else scratch_folder()
    with given as folder, group_for(counted) as group:
        status = folder / STATUS
        watched = replace(command, argv=inner, watch=_both(command.watch, watch_of(wall, group)))
        if means.level is Level.CONTAINER:
            finished = _in_container(processes, watched, wall, means, folder, name)
        else:
            outer = enclosed(watched, _in_group(wall, group), means, status)
            finished = _without_wrapper(processes.run(outer, name=name), means)
        told = status.read_text(encoding="utf-8") if status.exists() else ""
        finished = named(finished, wall.limits, group)
    if finished.ending is not Ending.EXITED:
        return finished
    reason = why_not_entered(means, told, inner[0])
    if not reason:
        return finished
    last = finished.stderr.strip().rpartition("\n")[2]
    words = f"{reason}: {last}" if last else reason
    return replace(finished, ending=Ending.COULD_NOT_START, exit_code=None, reason=words)


def _both(first: Watch | None, second: Watch | None) -> Watch | None:
    """End a run if either watch would. Without both, nothing has to be watched."""
    if first is None or second is None:
        return first or second
    return lambda root, printed: first(root, printed) or second(root, printed)


def _in_container(
    processes: Processes, command: Command, wall: Wall, means: Means, folder: Path, name: str
) -> Finished:
    """Run the command in a container, of which nothing is left."""
    (folder / STATUS).touch(mode=0o600)
    profile = engine_profile(families(wall.network, unix_sockets=True))
    (folder / PROFILE).write_text(profile, encoding="ascii")
    there = tuple(path for path in wall.readable if os.path.exists(path))  # noqa: PTH110
    environ, own = process_environment(), f"{_ours()}{os.getpid()}-{secrets.token_hex(8)}"
    outer = contained(command, replace(wall, readable=there), means, folder, own, environ)
    finished = processes.run(outer, name=name)
    if finished.ending is not Ending.EXITED:
        _engine(removal(means, own))
    return finished


def remove_left_containers(means: Means) -> None:
    """Remove the containers of ended runs of this boot: a killed client leaves its own behind."""
    for name in _engine(listing(means, _ours())).split() if counted_here() else ():
        owner = name.removeprefix(_ours()).partition("-")[0]
        if name.startswith(_ours()) and not Path("/proc", owner).exists():
            _engine(removal(means, name))


def _ours() -> str:
    """The first part of the names of containers whose run has a process number of this boot and
    container."""
    return f"tidegate-{counted_here()}-"


def _engine(command: tuple[str, ...]) -> str:
    """The output of a command of the engine; "" if that fails, as it tells people by itself."""
    with suppress(OSError):
        done = capture(command, cwd=Path("/"), env=process_environment(), timeout_s=_ENGINE_S)
        return os.fsdecode(done.stdout) if done.ok else ""
    return ""


def _in_group(wall: Wall, group: Group) -> Wall:
    """The wall with the group, which makes the weaker limits of single processes needless."""
    limits = wall.limits
    data = 0 if group.counts(MEMORY) else limits.data
    processes = 0 if group.counts(PIDS) else limits.processes
    limits = replace(limits, data=data, processes=processes)
    return replace(wall, groups=(*wall.groups, *group.members), limits=limits)


def _without_wrapper(finished: Finished, means: Means) -> Finished:
    """The first process inside of bwrap is its own. It stays for as long as any other does."""
    if means.level is not Level.BWRAP or not finished.survivors:
        return finished
    named = tuple(one for one in finished.survivors_named if not one.startswith(means.program))
    return replace(finished, survivors=finished.survivors - 1, survivors_named=named)
