"""Runs a command inside of its wall. A wall that cannot be made is no result of the command."""

from __future__ import annotations

from driver.execution.command import Command, Ending, Finished
from driver.execution.processes import Processes, shell_argv
from driver.filesystem.temporary import scratch_folder
from driver.walls.enclose import enclosed, why_not_entered
from driver.walls.groups import group_for
from driver.walls.wall import Level, Means, Wall
from state_store.values.lazy_dataclass import replace


def run_inside(
    processes: Processes, command: Command, wall: Wall, means: Means, *, name: str = ""
) -> Finished:
    """Run a command to its end inside of `wall`, as `Processes.run` does outside."""
    if means.level is Level.NONE or not command.argv:
        return processes.run(command, name=name)
    argv = command.argv
    inner = shell_argv(argv) if isinstance(argv, str) else argv
    with scratch_folder() as folder, group_for(wall.limits) as groups:
        status = folder / "status"
        walled = replace(wall, groups=(*wall.groups, *groups))
        outer = enclosed(replace(command, argv=inner), walled, means, status)
        finished = processes.run(outer, name=name)
        told = status.read_text(encoding="utf-8") if status.exists() else ""
    finished = _without_wrapper(finished, means)
    if finished.ending is not Ending.EXITED:
        return finished
    reason = why_not_entered(means, told, inner[0])
    if not reason:
        return finished
    last = finished.stderr.strip().rpartition("\n")[2]
    words = f"{reason}: {last}" if last else reason
    return replace(finished, ending=Ending.COULD_NOT_START, exit_code=None, reason=words)


def _without_wrapper(finished: Finished, means: Means) -> Finished:
    """The first process inside of bwrap is its own. It stays for as long as any other does."""
    if means.level is not Level.BWRAP or not finished.survivors:
        return finished
    named = tuple(one for one in finished.survivors_named if not one.startswith(means.program))
    return replace(finished, survivors=finished.survivors - 1, survivors_named=named)
