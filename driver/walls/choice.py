"""The choice of a level: the strongest whose wall no attempt of the escape test left.

The answer is kept in a file of the state folder until the next boot, or until the kernel, the user
or a program of the walls changes.
"""

from __future__ import annotations

import json
import os
import platform
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from driver.execution import wall_entry
from driver.execution.processes import Processes
from driver.execution.sandbox_probe import Facts, kernel_facts, program_outside
from driver.filesystem.safe_file_access import regular_bytes
from driver.walls.escape import OF_LIMITS, Held, attempted
from driver.walls.filters import known_machine
from driver.walls.wall import Level, Means, Network
from state_store.documents.errors import CannotRunError
from state_store.documents.files import write_text_atomic
from state_store.values.lazy_dataclass import dataclass

WALLS = "walls.json"  # in the state folder
ENGINES = ("podman", "docker")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
# An escape that a level is known to allow. Landlock stops signals from ABI 6 on, and without
# namespaces it has no rule for the mode and the times of files.
_TOLERATED = {
    Level.CONTAINER: OF_LIMITS,
    Level.BWRAP: OF_LIMITS,
    Level.LANDLOCK: OF_LIMITS | {"signal_outside", "change_mode"},
}


class WallRefusedError(Exception):
    """The machine has no wall as strong as the settings require."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The settings of `[sandbox]`. `level` None is `auto`; `require` is the weakest allowed."""

    level: Level | None = None
    require: Level = Level.NONE
    image: str = ""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chosen means, and why each stronger level was passed over, as sentences."""

    means: Means
    passed_over: tuple[str, ...] = ()


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
    if chosen.means.is_closed:
        if key and known is not None:
            known[key] = chosen
        if file:
            with suppress(CannotRunError):  # without the file the next run asks again
                write_text_atomic(file, text_to_keep(key, chosen))
    return chosen


def candidates(
    asked: Asked, facts: Facts, environ: Mapping[str, str], avoid: Iterable[Path]
) -> tuple[Means, ...]:
    """The means that may work here, the strongest first. `facts` are those of `sandbox_probe`."""
    machine = platform.machine()
    abi = facts.landlock_abi if facts.seccomp and known_machine(machine) else 0
    path, folders = environ.get("PATH", os.defpath), tuple(avoid)
    engine = engine_on(path, folders)
    found: list[Means] = []
    if Level.CONTAINER in (asked.level, asked.require) and asked.image and engine:
        found.append(Means(Level.CONTAINER, machine, program=engine, image=asked.image))
    bwrap = program_outside("bwrap", path, folders)
    if bwrap and known_machine(machine) and facts.seccomp:
        found.append(Means(Level.BWRAP, machine, program=bwrap, landlock_abi=abi))
    if abi:
        shared = Means(Level.LANDLOCK, machine, landlock_abi=abi)
        own = Means(Level.LANDLOCK, machine, landlock_abi=abi, namespaces=True)
        found += [own, shared]
    if facts.posix:
        found.append(Means(Level.LIMITS, machine))
    found.append(Means(Level.NONE, machine))
    return tuple(one for one in found if asked.level in (None, one.level))


def engine_on(path: str, avoid: Iterable[Path] = ()) -> str:
    """The first engine of containers on a PATH; "" for none."""
    folders = tuple(avoid)
    return next(filter(None, (program_outside(one, path, folders) for one in ENGINES)), "")


def choose(asked: Asked, possible: tuple[Means, ...], held: Callable[[Means], Held]) -> Chosen:
    """The first means whose wall holds. Raises WallRefusedError below `require`."""
    passed_over: list[str] = []
    for means in possible:
        if not means.level.at_least(asked.require):
            break
        if not means.is_closed:
            return Chosen(means, tuple(passed_over))
        result = held(means)
        wrong = result.problem or ", ".join(result.escaped.keys() - _TOLERATED[means.level])
        if not wrong:
            return Chosen(means, tuple(passed_over))
        passed_over.append(f"{means.name}: {wrong}")
    needs = "nothing that it needs was found"
    if Level.CONTAINER in (asked.level, asked.require):
        needs = f"it needs {' or '.join(ENGINES)} on PATH" if asked.image else "set [sandbox] image"
    reasons = "; ".join(passed_over) or needs
    least = asked.level or asked.require
    raise WallRefusedError(f"no wall of level {least} can be made here: {reasons}")


def kept_choice(file: Path, key: str, possible: tuple[Means, ...]) -> Chosen | None:
    """The choice of an earlier run since this boot, if nothing that it rests on has changed. `key`
    is the `choice_key` of now."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(regular_bytes(file, 2**20))
        if key and kept["key"] == key:
            known = {repr(means): means for means in possible}
            return Chosen(known[kept["means"]], tuple(map(str, kept["passed_over"])))
    return None


def text_to_keep(key: str, chosen: Chosen) -> str:
    """The text for the file that `kept_choice` reads."""
    kept = {"key": key, "means": repr(chosen.means), "passed_over": chosen.passed_over}
    return json.dumps(kept)


def choice_key(asked: Asked, possible: tuple[Means, ...]) -> str:
    """The facts that a choice rests on; "" where nothing tells one boot from the next."""
    with suppress(OSError):
        boot = _BOOT.read_text(encoding="ascii").strip()
        own = [*sorted(Path(__file__).parent.glob("*.py")), Path(wall_entry.__file__)]
        programs = [Path(means.program) for means in possible if means.program]
        stamps = [(str(one), one.stat().st_mtime_ns, one.stat().st_size) for one in programs]
        sums = [zlib.crc32(one.read_bytes()) for one in own]
        rests_on = (boot, os.getuid(), platform.release(), repr(asked), tuple(possible))
        return repr((*rests_on, stamps, sums))
    return ""
