"""Turns of test runs: a run takes place beside others, or alone. Commands whose runs disturb each
other are learned, kept in the state folder, and run alone from then on. Runs that need the same
named resource, such as a database, take place one after the other."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import IO

from driver.domain.results import TestName
from state_store.documents.files import BadFileError, read_json, write_json_atomic
from state_store.values.lazy_dataclass import dataclass, field

try:
    import fcntl
except ImportError:  # Windows: no locks between processes
    fcntl = None  # type: ignore[assignment]

LEARNED_FILE = "exclusive_tests.json"
LOCK_FILE = "test_turns.lock"
_MAX_LEARNED = 200
_TICK_S = 0.05
# Where the bytes of resources begin in the lock file, and those of the waits for them.
_RESOURCES, _WAITS = 2**33, 2**34


class Alone(IntEnum):
    """The room that a run needs."""

    NO = 0
    COMMAND = 1  # no other run of the same command meanwhile
    ALL = 2  # no other test run meanwhile


@dataclass(eq=False, slots=True)
class Turn:
    """The turn of one run. `needs` are its resources, and `beside` are the tests of the runs that
    took place meanwhile."""

    test: TestName
    alone: Alone
    needs: frozenset[str] = frozenset()
    beside: set[TestName] = field(default_factory=set)

    def excludes(self, other: Turn) -> bool:
        """True if the two runs may not take place at the same time."""
        if Alone.ALL in (self.alone, other.alone) or self.needs & other.needs:
            return True
        return self.test == other.test and Alone.COMMAND in (self.alone, other.alone)


class TestTurns:
    """The turns of one wave, first come, first served. `folder` is the state folder, None for a
    wave without one; waves of several processes with the same state folder wait for each other.
    At most `slots` tests run at once; with `everything` every run is alone. `needs` has the
    resources of each test that needs some. A run gets all that it waits for at once, or waits
    without it, so that no two runs wait for each other. After `is_stopped` nobody waits. Safe to
    use from many threads."""

    __test__ = False  # pytest collects classes by this name otherwise

    def __init__(
        self,
        folder: Path | None,
        is_stopped: Callable[[], bool],
        *,
        slots: int,
        everything: bool = False,
        needs: Mapping[TestName, frozenset[str]] = MappingProxyType({}),
    ) -> None:
        self._file = folder / LEARNED_FILE if folder else None
        self._is_stopped = is_stopped
        self._slots, self._most, self._demand = threading.Semaphore(slots), slots, 0
        self._least = Alone.ALL if everything else Alone.NO
        self._needs = needs
        self._changed = threading.Condition()
        self._running: list[Turn] = []
        self._held: list[Turn] = []
        self._waiting: list[Turn] = []
        self._learned = self._read()
        self._machine = _MachineLock(folder / LOCK_FILE if folder else None)

    @contextlib.contextmanager
    def turn(self, test: TestName, alone: Alone) -> Iterator[Turn]:
        """Wait for a turn and a slot. The run gets at least the room that its command is known to
        need."""
        with self._demanded(), self._room(test, alone) as mine, self._slots, self._at_work(mine):
            yield mine

    def wait_for_idle(self, is_over: Callable[[], bool]) -> None:
        """Wait until a slot is free that no run waits for, until `is_over`, or until the stop."""
        with self._changed:
            while self._demand >= self._most and not (is_over() or self._is_stopped()):
                self._changed.wait(_TICK_S)

    @contextlib.contextmanager
    def _demanded(self) -> Iterator[None]:
        with self._changed:
            self._demand += 1
        try:
            yield
        finally:
            with self._changed:
                self._demand -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def _room(self, test: TestName, alone: Alone) -> Iterator[Turn]:
        """Wait until no other run is at work that the run excludes."""
        room = max(alone, self._least, self.known(test))
        mine = Turn(test, room, self._needs.get(test, frozenset()))
        with self._changed:
            self._waiting.append(mine)
            while not (locked := self._began(mine)) and not self._is_stopped():
                self._changed.wait(_TICK_S)
            self._waiting.remove(mine)
            self._held.append(mine)
            self._machine.end_wait(mine)
        try:
            yield mine
        finally:
            with self._changed:
                self._held.remove(mine)
                if locked:
                    self._machine.give_back(mine)
                self._changed.notify_all()

    @contextlib.contextmanager
    def _at_work(self, turn: Turn) -> Iterator[None]:
        """Note in this turn and in the others which runs take place at the same time."""
        with self._changed:
            for other in self._running:
                other.beside.add(turn.test)
                turn.beside.add(other.test)
            self._running.append(turn)
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(turn)

    def close(self) -> None:
        """Give back the locks of this process."""
        self._machine.close()

    def known(self, test: TestName) -> Alone:
        """The room that the runs of a command need, as far as was learned."""
        return self._learned.get(test, Alone.NO)

    def may_share(self, test: TestName, alone: Alone) -> bool:
        """True if two runs of a test, which asks for this room itself, may take place at once."""
        room = max(alone, self._least, self.known(test))
        return self._most > 1 and room is Alone.NO and not self._needs.get(test)

    def learn(self, test: TestName, alone: Alone) -> bool:
        """Give the later runs of a command more room; False if this was known."""
        with self._changed:
            if self.known(test) >= alone:
                return False
            everything = {**self._read(), **self._learned}
            everything.pop(test, None)
            everything[test] = alone
            self._learned = dict([*everything.items()][-_MAX_LEARNED:])
            if self._file:
                rows = [
                    {"workDir": folder, "command": command, "alone": room.name.lower()}
                    for (folder, command), room in self._learned.items()
                ]
                with contextlib.suppress(OSError):  # then it is learned again
                    write_json_atomic(self._file, {"tests": rows})
            return True

    def _began(self, mine: Turn) -> bool:
        """True if the turn begins. Nobody overtakes a run that it excludes, so none waits for
        ever."""
        before = self._waiting[: self._waiting.index(mine)]
        if any(mine.excludes(other) for other in (*self._held, *before)):
            return False
        return self._machine.taken(mine)

    def _read(self) -> dict[TestName, Alone]:
        try:
            rows = read_json(self._file)["tests"] if self._file else []
            return {
                (str(r["workDir"]), str(r["command"])): Alone[str(r["alone"]).upper()] for r in rows
            }
        except (BadFileError, KeyError, TypeError, ValueError):
            return {}


class _MachineLock:
    """Locks between the processes of this machine: one byte of a file for all tests, and one for
    each command. A lock is shared by the runs of this process, and ends with it."""

    def __init__(self, path: Path | None) -> None:
        self._file: IO[bytes] | None = None
        if path is not None and fcntl is not None:
            with contextlib.suppress(OSError):  # a state folder that cannot be written
                self._file = path.open("ab+")
        self._held: dict[int, int] = {}

    def taken(self, turn: Turn) -> bool:
        """Lock the turn's bytes; False if a run of another process excludes the turn."""
        # All processes wait in one order, so the longest wait ends first, and none is for ever.
        if not all(self._lock(at, alone=True) for at in _waits_of(turn)):
            return False
        wanted = _bytes_of(turn)
        if not all(self._lock(at, alone=alone) for at, alone in wanted):
            for at in {at for at, _ in wanted} - self._held.keys():
                self._unlock(at)
            return False
        for at, _ in wanted:
            self._held[at] = self._held.get(at, 0) + 1
        self._note_others(turn)
        return True

    def end_wait(self, turn: Turn) -> None:
        """Let the next process wait for the turn's resources."""
        for at in _waits_of(turn):
            self._unlock(at)

    def give_back(self, turn: Turn) -> None:
        """Unlock the bytes that no other run of this process holds."""
        self._note_others(turn)
        for at, _ in _bytes_of(turn):
            self._held[at] -= 1
            if not self._held[at]:
                del self._held[at]
                self._unlock(at)

    def close(self) -> None:
        """Close the file, which unlocks every byte."""
        if self._file is not None:
            self._file.close()

    def _note_others(self, turn: Turn) -> None:
        """Note if another process runs the same command now."""
        at = _byte_of(turn.test)
        if turn.alone is Alone.NO:
            if not self._lock(at, alone=True):
                turn.beside.add(turn.test)
            self._lock(at, alone=False)

    def _lock(self, at: int, *, alone: bool) -> bool:
        if self._file is None:
            return True
        kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        try:
            fcntl.lockf(self._file, kind | fcntl.LOCK_NB, 1, at)
        except BlockingIOError:
            return False
        except (OSError, ValueError):  # a file system without locks, or the wave is over
            return True
        return True

    def _unlock(self, at: int) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError, ValueError):
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, at)


def _bytes_of(turn: Turn) -> tuple[tuple[int, bool], ...]:
    """The bytes that a turn locks, each with True if no other run may hold it."""
    return (
        (0, turn.alone is Alone.ALL),
        (_byte_of(turn.test), turn.alone is not Alone.NO),
        *((_RESOURCES + _byte_of((name,)), True) for name in turn.needs),
    )


def _waits_of(turn: Turn) -> tuple[int, ...]:
    """The bytes that a turn holds while it waits for its resources, in the order for all."""
    return tuple(sorted(_WAITS + _byte_of((name,)) for name in turn.needs))


def _byte_of(name: tuple[str, ...]) -> int:
    digest = hashlib.sha256("\0".join(name).encode("utf-8", "surrogatepass")).digest()
    return 1 + int.from_bytes(digest[:4])
