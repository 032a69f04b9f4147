"""Detects changes in the user's checkout during a wave and attributes them to items. The guard
looks when an item's work begins and ends, so the same items are active between two looks. A change
between them is by one of these items or by the user. `fingerprint` takes the look."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from driver.checkout_guard.fingerprint import (
    AROUND,
    FILE,
    INSTALLED,
    SETTING,
    STATE,
    TAG,
    CheckoutFingerprint,
    can_execute_code,
)
from driver.checkout_guard.installed import is_module, runs_by_itself
from driver.domain.ownership import OwnedPath, covers
from state_store.values.lazy_dataclass import dataclass, field

# Runs the work of all items, so it is guarded like an item.
TOGETHER = "tests of all items together"
_MAX_NAMED = 10
_CHECKOUT = "your checkout"
_ELSEWHERE = {AROUND: "the environment of all tests", STATE: "the journal of this run"}
_STREAMS = (1, 2)  # often sent into a file of the checkout: `... 2> wave.log`


@dataclass(frozen=True, slots=True)
class CheckoutChange:
    """A change of the part `name` of the user's checkout. `suspects` are the items that were active
    during the change; `blamed` are those that it keeps back, if it `holds_back`, else those that
    may have made it: `evidence` then decides."""

    name: str
    suspects: tuple[str, ...]
    blamed: tuple[str, ...]

    @property
    def can_execute_code(self) -> bool:
        """True if the change can make a program run later, or change what git shows."""
        return can_execute_code(self.name)

    @property
    def holds_back(self) -> bool:
        """True if it keeps the blamed items back without further evidence: it can execute code, or
        it is in the journal, where only the run writes."""
        return self.can_execute_code or self.name.startswith(STATE)


@dataclass(slots=True)
class _AtWork:
    owned: tuple[OwnedPath, ...]
    changes: list[CheckoutChange] = field(default_factory=list)


class CheckoutGuard:
    """Watches one checkout. `is_ours` is true for the name of a part that Tidegate itself writes.
    Every method raises GitError. Safe to use from many threads: callers that wait during a look
    share the next look. With `walled` no agent and no command of an item can write to the checkout:
    no item is suspected, and the guard looks only before the ship."""

    def __init__(
        self,
        look: Callable[[], CheckoutFingerprint],
        is_ours: Callable[[str], bool],
        walled: bool = False,
    ) -> None:
        self.walled = walled
        self._look = look
        self._is_ours = is_ours
        self._lock = threading.Lock()
        self._looked_at = time.monotonic()
        self._seen = look()
        self._at_work: dict[str, _AtWork] = {}
        self._ever_at_work: set[str] = set()
        self._reported: set[str] = set()
        self._changes: list[CheckoutChange] = []

    @contextlib.contextmanager
    def guarded(self, item: str, owned: tuple[OwnedPath, ...] = ()) -> Iterator[None]:
        """Mark the item, which owns `owned`, as active during the block."""
        if self.walled:
            yield
            return
        with self._looking():
            self._at_work[item] = _AtWork(owned)
            self._ever_at_work.add(item)
        try:
            yield
        finally:
            with self._lock:
                self._at_work.pop(item, None)

    def changes_of(self, item: str) -> tuple[CheckoutChange, ...]:
        """The changes attributed to an item since its work began."""
        if self.walled:
            return ()
        with self._looking():
            at_work = self._at_work.get(item)
            return tuple(at_work.changes) if at_work else ()

    def report(self, name: str) -> None:
        """Record a change that was found by other means, once. Nothing shows when it was made, so
        it may be the doing of every item that was ever active."""
        with self._looking():
            if name not in self._reported:
                self._record(name, self._ever_at_work)

    def all_changes(self) -> tuple[CheckoutChange, ...]:
        """Every change so far, whatever its origin."""
        with self._looking():
            return tuple(self._changes)

    def installed(self) -> tuple[str, ...]:
        """The paths of the Python modules that were installed so far and do not run by
        themselves. Within walls nothing can be installed."""
        if self.walled:
            return ()
        names = (change.name for change in self.all_changes())
        found = dict.fromkeys(name for name in names if name.startswith(INSTALLED))
        return tuple(name.removeprefix(INSTALLED) for name in found)

    @contextlib.contextmanager
    def own_changes(self) -> Iterator[None]:
        """Changes during the block are Tidegate's own; all other users of the guard wait."""
        with self._looking():
            try:
                yield
            finally:
                self._looked_at = time.monotonic()
                self._seen = self._look()

    @contextlib.contextmanager
    def _looking(self) -> Iterator[None]:
        """Holds the lock, after a look that began after this call."""
        asked_at = time.monotonic()
        with self._lock:
            if self._looked_at < asked_at:
                began, now = time.monotonic(), self._look()
                before, self._seen, self._looked_at = self._seen, now, began
                for name in before.differences(now):
                    if not self._is_ours(name):
                        named = name if name in before.parts else _new_part(name)
                        self._record(named, self._at_work)
            yield

    def _record(self, name: str, active: Iterable[str]) -> None:
        suspects = tuple(sorted(active))
        change = CheckoutChange(name, suspects, self._blamed(name, suspects))
        self._changes.append(change)
        for item in change.blamed:
            if item in self._at_work:
                self._at_work[item].changes.append(change)
        self._reported.add(name)

    def _blamed(self, name: str, suspects: tuple[str, ...]) -> tuple[str, ...]:
        """The items that a change is attributed to.

        A change that can execute code is attributed to all active items. Another change is
        attributed to the only active item; among several, to the owner of the file. A part that
        changed before is attributed to no item again, because the user may be editing it. Nor is a
        tag, because editors fetch tags in the background, nor a new Python module, because the work
        that imports it is found by its text, nor a setting of a checker in the home, because tests
        run with the settings as they were. Nor is an entry of the journal among several active
        items, because the run puts it back.
        """
        if can_execute_code(name):
            return suspects
        if name in self._reported or name.startswith((TAG, INSTALLED, SETTING)):
            return ()
        if len(suspects) == 1:
            return suspects
        if not name.startswith(FILE):
            return ()
        path = name.removeprefix(FILE)
        return tuple(item for item in suspects if covers(self._at_work[item].owned, path))


def _new_part(name: str) -> str:
    """The name of a part that was not there before."""
    path = name.removeprefix(AROUND)
    is_quiet = name.startswith(AROUND) and is_module(path) and not runs_by_itself(path)
    return INSTALLED + path if is_quiet else name


def is_own_write(top: Path, name: str, own: Iterable[Path]) -> bool:
    """True for a file of the checkout at `top` that Tidegate itself writes during a wave. `name` is
    the name of its part. The file is in or at a path of `own`, or is the target of standard output
    or error."""
    if not name.startswith(FILE):
        return False
    path = top / name.removeprefix(FILE)
    real = Path(os.path.realpath(path))
    if any(real.is_relative_to(os.path.realpath(one)) for one in own):
        return True
    with contextlib.suppress(OSError):
        there = path.stat()
        for stream in _STREAMS:
            with contextlib.suppress(OSError):
                if os.path.samestat(there, os.fstat(stream)):
                    return True
    return False


def names_of(changes: Iterable[CheckoutChange]) -> str:
    """The names of the changed parts, in order, each once."""
    names = list(dict.fromkeys(change.name for change in changes))
    rest = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def attribution(changes: Iterable[CheckoutChange]) -> str:
    """The reason to keep an item's work back for these changes; "" for no changes."""
    found = list(changes)
    if not found:
        return ""
    blamed = {item for change in found for item in change.blamed}
    alone = "only this item was" if len(blamed) == 1 else "this item was"
    places = {_place(change) for change in found}
    what = places.pop() if len(places) == 1 else _CHECKOUT
    what = "the user's own checkout" if what == _CHECKOUT else what
    return f"{what} changed while {alone} at work: {names_of(found)}"


def warning(changes: Iterable[CheckoutChange]) -> str | None:
    """The report's warning about changes that stop nothing; None without changes."""
    found = list(changes)
    if not found:
        return None
    suspects = sorted({item for change in found for item in change.suspects})
    at_work = f" (at work: {', '.join(suspects)})" if suspects else ""
    of_place = dict[str, list[CheckoutChange]]()
    for change in found:
        where = _place(change) if change.name.startswith(STATE) else _CHECKOUT
        of_place.setdefault(where, []).append(change)
    return "; ".join(
        f"changed in {where} meanwhile{at_work}: {names_of(parts)}"
        for where, parts in of_place.items()
    )


def _place(change: CheckoutChange) -> str:
    starts = (where for start, where in _ELSEWHERE.items() if change.name.startswith(start))
    return next(starts, _CHECKOUT)
