"""Prepares fresh checkouts by the settings: copied paths and set-up commands."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from driver.domain.results import WITHOUT_WALLS
from driver.domain.wall_hints import about_walls
from driver.execution.process_marks import new_mark
from driver.execution.processes import (
    Command,
    Finished,
    Processes,
    child_environment,
    could_not_run_reason,
)
from driver.filesystem.clock import next_tick
from driver.filesystem.tree import remove_tree
from driver.preparation.kept_copies import KeptCopies
from driver.preparation.kept_places import Limits
from driver.preparation.layered_copies import LayeredCopies
from driver.preparation.private_python import PrivatePython, may_install_python
from driver.preparation.setup_reads import SetupReads
from driver.walls.roles import Places
from driver.walls.wall import Layer, Role
from driver.walls.wave_walls import Enclosure, Walls
from driver.workspace.root import WorkspaceError
from state_store.documents.errors import InputError
from state_store.values.lazy_dataclass import dataclass, replace
from tools.settings.load import Settings

SetupCommand = str | tuple[str, ...]
_MAX_SHOWN = 500
_MB, _DAY_S = 1_000_000, 86_400.0
_SECOND_NS = 1_000_000_000
_TRY_A_LAYER = 'read it < layer/file && test "$it" = lower && echo changed > layer/file'
_TRY_LIMIT_S = 60.0
_HOME = "home"  # of a set-up, in the private environment


def _no_commands(command: SetupCommand, folder: Path, environment: Mapping[str, str]) -> str:
    del environment
    return f"nothing runs {command!r} in {folder}"


@dataclass(frozen=True, slots=True)
class Preparation:
    """The preparation of a fresh checkout. `copy` are untracked paths of the user's checkout. The
    `setup` commands run after the copy. `run` runs a command in a folder with more variables, and
    returns "" or the failure: a sentence and, on further lines, the output. `python` makes the
    environments that the commands install into. `reads` are the user's patterns of files that the
    set-up reads, `leftovers` those of files that are never part of any work. `layers` tries a layer
    in a folder; without it there are none."""

    copy: tuple[str, ...] = ()
    setup: tuple[SetupCommand, ...] = ()
    run: Callable[[SetupCommand, Path, Mapping[str, str]], str] = _no_commands
    leftovers: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    python: PrivatePython | None = None
    layers: Callable[[Path, Layer], bool] | None = None
    agents_inside: bool = False


class SetupError(WorkspaceError):
    """A set-up command failed. `output` is what it printed."""

    def __init__(self, command: SetupCommand, failure: str, where: str = "") -> None:
        self.output = failure.partition("\n")[2]
        super().__init__(f"set-up command {command!r} failed{where}: {shortened(failure)}")
        self.command, self.failure = command, failure

    def of_the_work(self) -> WorkSetupError:
        """This failure as the fault of the work, because the same set-up succeeded on the base."""
        return WorkSetupError(self.command, self.failure, " on this work, but not on the base")


class WorkSetupError(SetupError):
    """A set-up failed on an item's work, but not on the base."""


def environment_at(top: Path) -> Path:
    """The folder of the private environment of the clone or test checkout at `top`."""
    return top.parent.parent / "environments" / f"{top.parent.name}-{top.name}"


def places_at(top: Path, objects: tuple[Path, ...]) -> Places:
    """The places of a command in the clone or test checkout at `top`, whose git also reads
    `objects`."""
    own = environment_at(top)
    if not own.is_dir():
        return Places(top, objects=objects)
    return Places(top, objects=objects, prepared=(own,), prepared_home=own / _HOME)


def places_to_prepare(places: Places) -> Places:
    """The places of a set-up: its home and temporary folder stay for the commands after it."""
    own = environment_at(places.work)
    home, temporary = own / _HOME, own / "tmp"
    home.mkdir(parents=True, exist_ok=True)
    temporary.mkdir(exist_ok=True)
    return replace(places, own=(home, temporary), prepared=(own,), prepared_home=home)


def preparation(
    settings: Settings,
    processes: Processes,
    key: str,
    top: Path,
    walls: Walls,
    objects: tuple[Path, ...],
) -> Preparation:
    """The preparation by the settings, for the user's checkout `top`. `key` is the key of the run's
    marks. The set-up runs inside of `walls`, where its git reads `objects`."""

    def run(command: Command) -> Finished:
        places = places_to_prepare(places_at(command.cwd, objects))
        return run_enclosed(walls.around(Role.SETUP, places), processes, command)

    def works(place: Path, layer: Layer) -> bool:
        inside = walls.around(Role.TEST, Places(place, layers=(layer,)))
        tried = Command(("/bin/sh", "-c", _TRY_A_LAYER), place, environ, _TRY_LIMIT_S)
        return inside.run(processes, tried).exit_code == 0

    given, environ = settings.workspace, child_environment(settings.environ, settings.verify.env)
    may_install = may_install_python(given.setup)
    return Preparation(
        given.copy,
        given.setup,
        functools.partial(run_setup, settings, run, key),
        given.leftovers,
        given.setup_reads,
        PrivatePython(environ, top) if may_install else None,
        works if walls.closed and walls.means.has_mounts else None,
        walls.agents_inside,
    )


def layered(copies: KeptCopies, folder: Path, prepare: Preparation) -> LayeredCopies:
    """The copies as layers, in the folder `folder`. A set-up may change them, so with one each
    place has its own."""
    works = None if prepare.setup else prepare.layers
    return LayeredCopies(copies, folder, works, prepare.agents_inside)


def place_limits(settings: Settings) -> Limits:
    """The limits of the clones and test checkouts that are kept for later."""
    given = settings.workspace
    return Limits(given.warm_places, given.warm_mb * _MB, given.warm_days * _DAY_S)


def run_enclosed(inside: Enclosure, processes: Processes, command: Command) -> Finished:
    """Run a command of a set-up. A failed one tells what its walls may have kept from it."""
    done = inside.run(processes, command)
    if not done.exit_code or inside.name in WITHOUT_WALLS:
        return done
    walls = about_walls(inside.name, f"{done.stderr}\n{done.stdout}", Role.SETUP)
    return replace(done, hint="; ".join(filter(None, (done.hint, walls))))


def run_setup(
    settings: Settings,
    run: Callable[[Command], Finished],
    key: str,
    command: SetupCommand,
    folder: Path,
    more: Mapping[str, str],
) -> str:
    """Run one set-up command in a fresh checkout; returns "" or the failure: a sentence and, on
    further lines, the output. `run` runs it, `key` is the key of the run's marks, `more` are more
    variables."""
    extra = {**more, **new_mark(key)}
    environment = child_environment(settings.environ, settings.verify.env, extra)
    limit = settings.workspace.setup_timeout_s
    done = run(Command(command, folder, environment, limit))
    if done.exit_code == 0:
        return ""
    if could_not_run := could_not_run_reason(done):
        return could_not_run
    why = done.reason or "; ".join(
        filter(None, (f"it ended with exit {done.exit_code}", done.hint))
    )
    output = (done.stderr.strip() or done.stdout.strip()).replace(f"{folder}/", "")
    return f"{why}\n{output}" if output else why


def set_up(
    prepare: Preparation, reads: SetupReads, path: Path, index: Path, tracked: Iterable[str]
) -> dict[str, str]:
    """Run the set-up of a new checkout at `path`, and learn which of the `tracked` files it reads.
    Returns the variables for programs there. Raises SetupError."""
    environment = dict[str, str]()
    remove_tree(environment_at(path))
    if prepare.python is not None:
        environment = prepare.python.make(environment_at(path))
    began = next_tick(index.with_suffix(".tick"))
    # Git reads the files that are as new as its index, which would look like reads.
    ahead = began + _SECOND_NS
    os.utime(path / ".git" / "index", ns=(ahead, ahead))
    for command in prepare.setup:
        if failure := prepare.run(command, path, environment):
            raise SetupError(command, failure)
    reads.learn(path, tracked, began)
    return environment


def shortened(failure: str) -> str:
    """The failure of a set-up command with the end of its output."""
    sentence, _, output = failure.partition("\n")
    shown = output[-_MAX_SHOWN:].strip()
    return f"{sentence}: {shown}" if shown else sentence


def check_copies(top: Path, paths: Sequence[str], tracked: frozenset[str]) -> None:
    """Raise InputError for paths of `[workspace] copy` that cannot be copied from `top`."""
    problems = [
        f"[workspace] copy {path!r}: {why}"
        for path in paths
        if (why := _objection(top, path, tracked))
    ]
    if problems:
        raise InputError(problems)


def _objection(top: Path, path: str, tracked: frozenset[str]) -> str:
    pure = PurePosixPath(path)
    parts = [part.casefold() for part in path.replace("\\", "/").split("/")]
    if not pure.parts or pure.is_absolute() or ":" in parts[0] or ".." in parts:
        return f"name a path inside {top}"
    if ".git" in parts:
        return "a git dir is never copied"
    mine = {str(pure), *map(str, pure.parents)} - {"."}
    if mine & tracked or any(one.startswith(f"{pure}/") for one in tracked):
        return "it is tracked, so every workspace has it already: remove it from the list"
    source = top / path
    if not os.path.lexists(source):
        return f"{source} does not exist: create it, or remove it from the list"
    usual = source.is_symlink() or source.is_file() or source.is_dir()
    return "" if usual else "it is no file, link or folder"
