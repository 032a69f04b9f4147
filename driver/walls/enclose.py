"""Turns a command and its wall into the command that runs inside. No I/O.

The supervisor applies the rules of `limits` and `landlock` in the process that becomes the command
(`driver.execution.wall_entry`). At `bwrap` that process becomes bwrap; `container` has a module of
its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from driver.execution.command import Command, why_not
from driver.walls.filters import families, seccomp_filter
from driver.walls.wall import Level, Means, Network, Wall
from state_store.values.lazy_dataclass import replace

# The terminals of a system are those of its user; only a wall with namespaces has its own.
TERMINALS = ("/dev/pts", "/dev/ptmx")
DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))

SHARED_MEMORY = Path("/dev/shm")
# Folders that everybody writes in. A wall with namespaces has its own.
_OF_ALL = (SHARED_MEMORY, Path("/tmp"), Path("/var/tmp"))


def enclosed(command: Command, wall: Wall, means: Means, status: Path) -> Command:
    """The command that runs `command`, whose `argv` is a tuple, inside of `wall`.

    `status` is a new file outside of the wall, which `why_not_entered` reads after the run.
    """
    argv, folder = tuple(command.argv), command.cwd
    if means.level is Level.NONE:
        return command
    limits = wall.limits
    rules = [f"status={status}", "limit=CORE:0", f"processes={limits.processes}"]
    sizes = {"DATA": limits.data, "FSIZE": limits.file_size}
    rules += [f"limit={name}:{size}" for name, size in sizes.items() if size]
    rules += [f"group={path}" for path in wall.groups]
    if means.landlock_abi:
        rules.append(f"abi={means.landlock_abi}")
    parts = ("lower", "upper", "beside", "target")
    rules += [f"{part}={getattr(layer, part)}" for layer in wall.layers for part in parts]
    if means.level is Level.BWRAP:
        # A namespace hides the sockets of the file system, so opening one is no danger.
        allowed = families(wall.network, unix_sockets=True)
        program = _filter(means, allowed, is_alone=True)
        rules += ["wrapper=1", f"seccomp={program.hex()}"]
        argv = (means.program, *_bwrap(folder, wall), "--", *argv)
    elif means.level is Level.LANDLOCK:
        rules += _landlock_words(wall, means)
    return replace(command, argv=argv, wall=tuple(rules))


def why_not_entered(means: Means, status: str, program: str = "the command") -> str:
    """The reason why a command was never started, as a sentence; "" if it was.

    Only for a command that ended by itself: bwrap tells the start together with the end.
    """
    if means.level is Level.NONE:
        return ""
    told = dict(line.partition(" ")[::2] for line in status.splitlines())
    if "entered" not in told:
        reason = f": {told['failed']}" if "failed" in told else ""
        return f"the wall {means.name} could not be made{reason}"
    if "no_command" in told:
        number = int(told["no_command"])
        return why_not(program, OSError(number, os.strerror(number)))
    if means.level is Level.BWRAP and '"exit-code"' not in status:
        return f"bwrap did not start {program}"
    return ""


def _landlock_words(wall: Wall, means: Means) -> list[str]:
    """The words for the launcher. A loopback that nobody shares needs a network of its own."""
    own = ["mounts"] if means.namespaces else []
    if own and wall.network is not Network.HOST:
        own.append("network")
    given = (*wall.readable, *wall.writable)
    covered = [one for one in _OF_ALL if own and not any(one.is_relative_to(p) for p in given)]
    closed = wall.network is Network.NONE or (wall.network is Network.LOOPBACK and not own)
    hidden = (*wall.hidden, *wall.hidden_files)
    network = Network.NONE if closed else wall.network
    program = _filter(means, families(network, wall.unix_sockets))
    return [
        *(f"read={path}" for path in (*wall.readable, "/proc")),
        *(f"write={path}" for path in wall.writable),
        *(f"cover={path}" for path in covered),
        *((f"scratch={wall.limits.scratch}",) if wall.limits.scratch else ()),
        *(f"hidden={path}" for path in hidden),
        *(f"device={path}" for path in (*DEVICES, *(TERMINALS if own else ()))),
        *(f"own={part}" for part in own),
        *(("no_tcp=1",) if closed else ()),
        f"seccomp={program.hex()}",
    ]


def _filter(means: Means, allowed: tuple[int, ...], *, is_alone: bool = False) -> bytes:
    """The filter of system calls. Landlock keeps a command from tracing what is outside; kernels
    that are too old for it let a traced process leave its filter."""
    may_trace = means.landlock_abi > 0
    return seccomp_filter(means.machine, allowed, may_trace=may_trace, is_alone=is_alone)


def _bwrap(folder: Path, wall: Wall) -> list[str]:
    """The arguments of bwrap. Deeper paths come later, because each mount covers those before."""
    mounts: list[tuple[str, tuple[str, ...]]] = [
        *((str(path), ("--symlink", target, str(path))) for path, target in wall.aliases),
        *((path, ("--ro-bind-try", path, path)) for path in map(str, wall.readable)),
        *((path, ("--tmpfs", path)) for path in map(str, wall.hidden)),
        *((path, ("--ro-bind", "/dev/null", path)) for path in map(str, wall.hidden_files)),
        *((path, ("--bind", path, path)) for path in map(str, wall.writable)),
    ]
    size = ("--size", str(wall.limits.scratch)) if wall.limits.scratch else ()
    # bwrap leaves the settings of the kernel in /proc writable for root.
    proc = ("--proc", "/proc", "--remount-ro", "/proc")
    private = ["--dev", "/dev", *proc, *size, "--tmpfs", "/tmp", "--dir", "/var/tmp"]
    ordered = _needed(sorted(mounts, key=lambda mount: mount[0].count("/")))
    return [
        *("--unshare-all", "--cap-drop", "ALL"),
        *(("--share-net",) if wall.network is Network.HOST else ()),
        *private,
        *(word for _, words in ordered for word in words),
        *("--chdir", str(folder)),
    ]


def _needed(
    mounts: Iterable[tuple[str, tuple[str, ...]]],
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The mounts, the shallow ones first, without those that change nothing: each costs time. The
    last mount around a path decides about it."""
    made: dict[str, str] = {}
    for path, words in mounts:
        up = path
        while up and up not in made:
            up = up.rpartition("/")[0]
        around = made.get(up, "")
        if words[0] == "--ro-bind-try" and around in (words[0], "--symlink"):
            continue
        made[path] = words[0]
        yield path, words
