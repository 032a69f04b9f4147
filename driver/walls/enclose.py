"""Turns a command and its wall into the arguments that run it inside. Asks no kernel.

At `container` the engine's client is started, at `bwrap` and `landlock` the launcher, at `limits`
the launcher without rules for files, and at `none` the command itself.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from driver.execution.command import why_not
from driver.walls import launcher
from driver.walls.filters import families, seccomp_filter
from driver.walls.wall import Level, Limits, Means, Network, Wall

DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))

SHARED_MEMORY = Path("/dev/shm")


def enclosed(
    argv: Sequence[str], folder: Path, wall: Wall, means: Means, status: Path
) -> tuple[str, ...]:
    """The arguments that run `argv` in `folder`, inside `wall`.

    `status` is a new file outside of the wall, which `why_not_entered` reads after the run.
    """
    if means.level is Level.NONE:
        return tuple(argv)
    if means.level is Level.CONTAINER:
        return _container(argv, folder, wall, means, status)
    start = (str(means.python), "-I", "-S", "-B", launcher.__file__, f"status={status}")
    words = [*start, *_limit_words(wall.limits), *(f"group={path}" for path in wall.groups)]
    if means.landlock_abi:
        words.append(f"abi={means.landlock_abi}")
    if means.level is Level.LIMITS:
        return (*words, "--", *argv)
    if means.level is Level.BWRAP:
        # A namespace hides the sockets of the file system, so opening one is no danger.
        allowed = families(wall.network, unix_sockets=True)
        words += ["wrapper=1", f"seccomp={seccomp_filter(means.machine, allowed).hex()}"]
        return (*words, "--", means.program, *_bwrap(folder, wall), "--", *argv)
    return (*words, *_landlock_words(wall, means), "--", *argv)


def why_not_entered(means: Means, status: str, program: str = "the command") -> str:
    """The reason why a command was never started, as a sentence; "" if it was.

    Only for a command that ended by itself: bwrap tells the start together with the end.
    """
    if means.level in (Level.NONE, Level.CONTAINER):
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


def _limit_words(limits: Limits) -> list[str]:
    values = {
        "DATA": limits.memory,
        "FSIZE": limits.file_size,
        "NOFILE": limits.open_files,
        "CPU": limits.cpu_s,
    }
    words = [f"limit={name}:{value}" for name, value in values.items() if value]
    return ["limit=CORE:0", *words, f"processes={limits.processes}"]


def _landlock_words(wall: Wall, means: Means) -> list[str]:
    """The words for the launcher. A loopback that nobody shares needs a network of its own."""
    own = []
    if means.namespaces and wall.network is not Network.HOST:
        own.append("network")
    places = (*wall.readable, *wall.writable)
    if means.namespaces and not any(path.is_relative_to(SHARED_MEMORY) for path in places):
        own.append("memory")
    closed = wall.network is Network.NONE or (wall.network is Network.LOOPBACK and not own)
    network = Network.NONE if closed else wall.network
    program = seccomp_filter(means.machine, families(network, wall.unix_sockets))
    return [
        *(f"read={path}" for path in (*wall.readable, "/proc")),
        *(f"write={path}" for path in wall.writable),
        *((f"write={SHARED_MEMORY}",) if "memory" in own else ()),
        *(f"hidden={path}" for path in wall.hidden),
        *(f"device={path}" for path in DEVICES),
        *(f"own={part}" for part in own),
        *(("no_tcp=1",) if closed else ()),
        f"seccomp={program.hex()}",
    ]


def _bwrap(folder: Path, wall: Wall) -> list[str]:
    """The arguments of bwrap. Deeper paths come later, because each mount covers those before."""
    mounts: list[tuple[Path, list[str]]] = [
        *((path, ["--ro-bind-try", str(path), str(path)]) for path in wall.readable),
        *((path, ["--tmpfs", str(path)]) for path in wall.hidden),
        *((path, ["--bind", str(path), str(path)]) for path in wall.writable),
    ]
    size = ("--size", str(wall.limits.scratch)) if wall.limits.scratch else ()
    private = ["--dev", "/dev", "--proc", "/proc", *size, "--tmpfs", "/tmp"]
    ordered = sorted(mounts, key=lambda mount: len(mount[0].parts))
    return [
        *("--unshare-all", "--cap-drop", "ALL"),
        *(("--share-net",) if wall.network is Network.HOST else ()),
        *private,
        *(word for _, words in ordered for word in words),
        *("--chdir", str(folder)),
    ]


def _container(
    argv: Sequence[str], folder: Path, wall: Wall, means: Means, status: Path
) -> tuple[str, ...]:
    """The arguments of docker or podman. The image brings the system, so only places are bound."""
    limits = wall.limits
    network = "host" if wall.network is Network.HOST else "none"
    bound = [f"--volume={path}:{path}:ro" for path in wall.readable]
    bound += [f"--volume={path}:{path}:rw" for path in wall.writable]
    return (
        *(means.program, "run", "--rm", "--interactive", "--init", "--pull=never"),
        *(f"--cidfile={status}", f"--network={network}", "--read-only", "--ipc=private"),
        *("--cap-drop=ALL", "--security-opt=no-new-privileges"),
        f"--tmpfs=/tmp:rw,exec,size={limits.scratch}" if limits.scratch else "--tmpfs=/tmp:rw,exec",
        *((f"--memory={limits.memory}",) if limits.memory else ()),
        *((f"--pids-limit={limits.processes}",) if limits.processes else ()),
        *(f"--user={os.getuid()}:{os.getgid()}", f"--workdir={folder}", *bound),
        *(means.image, *argv),
    )
