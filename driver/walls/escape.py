"""The escape test: runs the attempts inside a wall, and looks outside for what they did."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from driver.execution.command import Command
from driver.execution.processes import Processes
from driver.walls import attempts
from driver.walls.inside import run_inside
from driver.walls.stage import Stage, staged
from driver.walls.system import (
    hidden_files,
    hidden_paths,
    is_of_system,
    system_aliases,
    system_paths,
)
from driver.walls.wall import Level, Limits, Means, Network, Wall
from state_store.values.lazy_dataclass import dataclass, field

TIMEOUT_S = 60.0
MIB = 1 << 20
_LIMITS = Limits(data=192 * MIB, processes=48, file_size=64 * MIB, scratch=64 * MIB)
_MORE_MEMORY, _MORE_PROCESSES = 256 * MIB, 96
# These two break a limit; all other attempts leave the wall.
OF_LIMITS = frozenset({"fill_memory", "fork_bomb"})
ESCAPES = tuple(name for name in attempts.ATTEMPTS if name not in OF_LIMITS)


@dataclass(frozen=True, slots=True)
class Held:
    """The result of the test. `escaped` has the attempts that succeeded, with their words.

    `blocked` has the others, with the errors that stopped them. `problem` says why a command
    cannot work in this wall as usual, "" if it can.
    """

    escaped: dict[str, str] = field(default_factory=dict)
    blocked: dict[str, str] = field(default_factory=dict)
    problem: str = ""


def attempted(means: Means, network: Network, processes: Processes) -> Held:
    """Try to escape from a wall of this level."""
    with staged() as stage:
        in_image = means.level is Level.CONTAINER
        system = [path for path in system_paths() if not (in_image and is_of_system(path))]
        wall = Wall(
            readable=(*system, Path(attempts.__file__)),
            writable=(stage.inside,),
            hidden=hidden_paths(),
            hidden_files=hidden_files(),
            aliases=system_aliases(),
            network=network,
            limits=_LIMITS,
        )
        has_loopback = means.has_own_loopback or not means.is_closed
        facts = stage.facts() | {
            "memory": _MORE_MEMORY,
            "processes": _MORE_PROCESSES,
            "own_loopback": network is Network.LOOPBACK and has_loopback,
        }
        # The Python of this machine may not run on the system of an image.
        interpreter = "python3" if in_image else sys.executable
        program = (interpreter, "-I", "-S", "-B", attempts.__file__, json.dumps(facts))
        path = f"{os.defpath}:{Path(sys.executable).parent}" if in_image else os.defpath
        environment = {"PATH": path, "HOME": str(stage.inside), "TMPDIR": str(stage.inside)}
        command = Command(program, stage.inside, environment, TIMEOUT_S)
        done = run_inside(processes, command, wall, means)
        if done.exit_code != 0:
            last = done.stderr.strip().rpartition("\n")[2]
            ending = done.ending if done.exit_code is None else f"exit code {done.exit_code}"
            return Held(problem=done.reason or f"the attempts ended with {ending}: {last}")
        return _judged(stage, json.loads(done.stdout))


def _judged(stage: Stage, words: dict[str, str]) -> Held:
    """Sort the attempts by what the outside shows, and by secrets in their words."""
    seen = {f"write_{name}": path.exists() for name, path in stage.places.items()}
    seen |= {
        "connect_loopback": stage.reached("loopback"),
        "connect_abroad": stage.reached("abroad") | stage.reached("abroad_udp"),
        "connect_abstract": stage.reached("abstract"),
        "docker_socket": stage.reached("docker"),
        "ssh_agent": stage.reached("ssh_agent"),
        "signal_outside": stage.signalled.exists(),
        "change_mode": stage.secret_file.stat().st_mode & 0o777 == attempts.CHANGED_MODE,
    }
    of_secrets = ("read_key_file", "read_environment", "read_through_root", "kernel_keyring")
    seen |= {name: stage.secret in words[name] for name in of_secrets}
    claimed = {name: words[name].startswith(attempts.GOT) for name in attempts.ATTEMPTS}
    result = {name: seen.get(name, claimed[name]) for name in attempts.ATTEMPTS}
    return Held(
        escaped={name: words[name] for name, escaped in result.items() if escaped},
        blocked={name: words[name] for name, escaped in result.items() if not escaped},
        problem=words["as_usual"],
    )
