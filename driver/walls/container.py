"""Runs a command in a container of podman or docker. No I/O.

The image brings the system; the places of the command and the user's toolchains are bound into it.
A small script inside tells that the command was started, as any failure before is one of the
engine, and lengthens the image's PATH: before it by what belongs to the work, behind it by the
toolchains of the user.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from driver.execution.command import Command
from driver.walls.wall import Means, Network, Wall
from state_store.values.lazy_dataclass import replace

if sys.platform != "win32":
    import resource

_MOST = 32_768  # open files, and processes of a user
STATUS, PROFILE = "status", "seccomp.json"
PODMAN = "podman"
# The engine asks for them outside; those of the command are given to it by their values.
_OF_ENGINE = (
    *("PATH", "HOME", "TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"),
    *("XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "DOCKER_CONTEXT"),
    *("DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "CONTAINER_HOST"),
    *("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF"),
    *("STORAGE_DRIVER", "REGISTRY_AUTH_FILE"),
)
# The command is no first process, which would get no signals and would have to bury others. Its
# errno is that of a missing program.
_SCRIPT = """\
PATH="${2:+$2:}$PATH${3:+:$3}"; export PATH; status=$1; shift 3
command -v "$1" > /dev/null || { echo "entered" > "$status"; echo "no_command 2" >> "$status"
exit 127; }
echo entered > "$status"
"$@"
exit $?
"""


def contained(
    command: Command,
    wall: Wall,
    means: Means,
    folder: Path,
    name: str,
    environ: Mapping[str, str],
) -> Command:
    """The command of the engine that runs `command`, whose `argv` is a tuple, in a container called
    `name`, with `environ` as the engine's own variables. The new `folder` has the files of STATUS
    and of PROFILE, which holds the `engine_profile`."""
    given = {name: value for name, value in command.env.items() if name != "PATH"}
    own = {name: environ[name] for name in _OF_ENGINE if name in environ}
    status = folder / STATUS
    first, last = _paths(command.env, wall)
    argv = (
        *(means.program, "run", *_fixed(means), f"--name={name}"),
        f"--security-opt=seccomp={folder / PROFILE}",
        f"--network={Network.HOST if wall.network is Network.HOST else Network.NONE}",
        *_limits(wall, is_rootless=_is_rootless(means)),
        f"--workdir={command.cwd}",
        *(f"--env={one}" if one not in _OF_ENGINE else f"--env={one}={given[one]}"
          for one in given),
        *_mounts(wall, status),
        *("--entrypoint=/bin/sh", means.image, "-c", _SCRIPT, "sh", str(status), first, last),
        *command.argv,
    )  # fmt: skip
    shown = {name: value for name, value in given.items() if name not in _OF_ENGINE}
    return replace(command, argv=argv, env={**shown, **own})


def listing(means: Means, begin: str) -> tuple[str, ...]:
    """The command that prints the names of containers that may begin with `begin`."""
    return (means.program, "ps", "--all", f"--filter=name={begin}", "--format={{.Names}}")


def removal(means: Means, name: str) -> tuple[str, ...]:
    """The command that ends and removes a container which its client has left."""
    at_once = ("--time=0",) if Path(means.program).name == PODMAN else ()
    return (means.program, "rm", "--force", *at_once, name)


def _fixed(means: Means) -> Iterator[str]:
    yield from ("--rm", "--interactive", "--pull=never", "--read-only", "--ipc=private")
    yield from ("--cap-drop=ALL", "--security-opt=no-new-privileges", "--shm-size=1g")
    if _is_rootless(means):
        yield "--userns=keep-id"  # else the user's own files would be another's
    yield f"--user={os.getuid()}:{os.getgid()}"


def _is_rootless(means: Means) -> bool:
    return Path(means.program).name == PODMAN and os.geteuid() != 0


def _limits(wall: Wall, *, is_rootless: bool) -> Iterator[str]:
    limits = wall.limits
    size = f",size={limits.scratch}" if limits.scratch else ""
    yield from (f"--tmpfs={place}:rw,exec,mode=1777{size}" for place in ("/tmp", "/var/tmp"))
    yield "--ulimit=core=0"
    if limits.memory:
        yield f"--memory={limits.memory}"
    if limits.processes:
        yield f"--pids-limit={limits.processes}"
    sizes = {"data": limits.data, "fsize": limits.file_size, **_of_this_process()}
    if is_rootless and limits.processes:
        # Such an engine may have no control groups, and the kernel counts its users apart.
        sizes["nproc"] = min(limits.processes, _MOST)
    yield from (f"--ulimit={name}={most}" for name, most in sizes.items() if most)


def _of_this_process() -> dict[str, int]:
    """The limits that an engine sets by itself: never above ours, which not each root may raise."""
    if sys.platform == "win32":
        return {}
    kinds = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    hard = {name: resource.getrlimit(kind)[1] for name, kind in kinds.items()}
    found = {name: _MOST if one == resource.RLIM_INFINITY else one for name, one in hard.items()}
    return {name: min(most, _MOST) for name, most in found.items()}


def _mounts(wall: Wall, status: Path) -> Iterator[str]:
    """The options that bind the places. An engine sorts them by depth."""
    places = dict.fromkeys(wall.readable, ",readonly")
    places |= dict.fromkeys((*wall.writable, status), "")
    for path, mode in places.items():
        source, target = f"source={path}", f"target={path}"
        if any(sign in str(path) for sign in ',"'):
            source, target = (f'"{one.replace(chr(34), chr(34) * 2)}"' for one in (source, target))
        yield f"--mount=type=bind,{source},{target}{mode}"


def _paths(env: Mapping[str, str], wall: Wall) -> tuple[str, str]:
    """The folders of PATH that are bound: those of the work, and the others."""
    folders = [Path(one) for one in env.get("PATH", "").split(os.pathsep) if one]
    work = (*wall.writable, *(Path(env[name]) for name in ("VIRTUAL_ENV",) if env.get(name)))
    first = [one for one in folders if any(one.is_relative_to(place) for place in work)]
    others = [one for one in folders if one not in first]
    last = [one for one in others if any(one.is_relative_to(place) for place in wall.readable)]
    return os.pathsep.join(map(str, first)), os.pathsep.join(map(str, last))
