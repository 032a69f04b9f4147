"""Who changed the user's checkout while a wave runs, as far as that can be known, and what follows.

Looks are taken when an item's work begins and ends, so between two looks the same items are at
work, and what changed between them was done by one of them, or by the user. `checkout_watch` looks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from driver.checkout_guard.fingerprint import (
    AROUND,
    FILE,
    TAG,
    CheckoutFingerprint,
    can_execute_code,
)
from driver.domain.ownership import OwnedPath, covers

# What is not an item, but runs what items wrote: their tests on one tree.
TOGETHER = "tests of all items together"
_MAX_NAMED = 10


@dataclass(frozen=True, slots=True)
class CheckoutChange:
    """A change in the user's checkout: of which part, and who was at work when it was made.

    `blamed` are those of the suspects that it is held against.
    """

    name: str
    suspects: tuple[str, ...]
    blamed: tuple[str, ...]

    @property
    def grave(self) -> bool:
        """Whether it can have a program run later, or change what git shows."""
        return can_execute_code(self.name)


@dataclass(slots=True)
class _AtWork:
    owned: tuple[OwnedPath, ...]
    strays: list[CheckoutChange] = field(default_factory=list)


class CheckoutGuard:
    """Watches one checkout; `is_ours` says of a part's name whether Tidegate itself writes it.

    Safe to use from many threads: who asks while another one looks shares the next look.
    """

    def __init__(
        self, look: Callable[[], CheckoutFingerprint], is_ours: Callable[[str], bool]
    ) -> None:
        self._look = look
        self._is_ours = is_ours
        self._lock = threading.Lock()
        self._looked_at = time.monotonic()
        self._seen = look()
        self._at_work: dict[str, _AtWork] = {}
        self._told: set[str] = set()
        self._strays: list[CheckoutChange] = []

    @contextmanager
    def at_work(self, who: str, owned: tuple[OwnedPath, ...] = ()) -> Iterator[None]:
        """Somebody is at work while the block runs. Raises GitError, as all of these do."""
        with self._looking():
            self._at_work[who] = _AtWork(owned)
        try:
            yield
        finally:
            with self._lock:
                self._at_work.pop(who, None)

    def strays(self, who: str) -> tuple[CheckoutChange, ...]:
        """What is held against somebody since the work began."""
        with self._looking():
            at_work = self._at_work.get(who)
            return tuple(at_work.strays) if at_work else ()

    def report(self, name: str) -> None:
        """Something that is watched elsewhere has changed."""
        with self._looking():
            if name not in self._told:
                self._note(name)

    def all_strays(self) -> tuple[CheckoutChange, ...]:
        """Every change so far, whoever made it."""
        with self._looking():
            return tuple(self._strays)

    @contextmanager
    def by_us(self) -> Iterator[None]:
        """What changes while the block runs is Tidegate's own doing; all others wait."""
        with self._looking():
            try:
                yield
            finally:
                self._looked_at = time.monotonic()
                self._seen = self._look()

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """With the lock held, after a look that began after this was asked for."""
        asked_at = time.monotonic()
        with self._lock:
            if self._looked_at < asked_at:
                self._look_now()
            yield

    def _look_now(self) -> None:
        began = time.monotonic()
        now = self._look()
        changed = [name for name in self._seen.differences(now) if not self._is_ours(name)]
        self._seen, self._looked_at = now, began
        for name in changed:
            self._note(name)

    def _note(self, name: str) -> None:
        stray = CheckoutChange(name, tuple(sorted(self._at_work)), self._blamed(name))
        self._strays.append(stray)
        for who in stray.blamed:
            self._at_work[who].strays.append(stray)
        self._told.add(name)

    def _blamed(self, name: str) -> tuple[str, ...]:
        """One who was alone at work; of many, whose file it is; for what is grave, all of them.

        What was told before is not held against anybody again: the user may be at work on it. Tags
        come with what editors fetch in the background.
        """
        suspects = tuple(sorted(self._at_work))
        if can_execute_code(name):
            return suspects
        if name in self._told or name.startswith(TAG):
            return ()
        if len(suspects) == 1:
            return suspects
        path = name.removeprefix(FILE)
        return tuple(
            who
            for who in suspects
            if name.startswith(FILE) and covers(self._at_work[who].owned, path)
        )


def told(strays: Iterable[CheckoutChange]) -> str:
    """The names of what changed, in order, each once."""
    names = list(dict.fromkeys(stray.name for stray in strays))
    rest = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def attribution(strays: Iterable[CheckoutChange]) -> str:
    """Why an item's work is refused; "" when nothing is held against it."""
    found = list(strays)
    if not found:
        return ""
    others = {who for stray in found for who in stray.blamed}
    alone = (
        "while only this item was at work" if len(others) == 1 else "while this item was at work"
    )
    beyond = all(stray.name.startswith(AROUND) for stray in found)
    what = "what all tests run with" if beyond else "the user's own checkout"
    return f"{what} changed {alone}: {told(found)}"


def warning(strays: Iterable[CheckoutChange]) -> str | None:
    """What people are told of changes that stop nothing; None when there were none."""
    found = list(strays)
    if not found:
        return None
    suspects = sorted({who for stray in found for who in stray.suspects})
    at_work = f" (at work: {', '.join(suspects)})" if suspects else ""
    return f"changed in your checkout meanwhile{at_work}: {told(found)}"
