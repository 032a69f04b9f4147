"""Notes the phases of a wave that no other event shows: set-ups, waiting, the common test.

A note becomes an event only once its phase has lasted a while. So a quick wave writes none, and
nobody waits for a write. What people see rests on the notes; no verdict does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from state_store.values.lazy_dataclass import dataclass
from state_store.views.item_progress import PROVIDER, ROOM

WRITTEN_AFTER_S = 1.0
_WAVE = ""  # in place of an item's slug


@dataclass(frozen=True, slots=True)
class _Note:
    phase: str
    since: float
    why: str = ""
    verdict: str | None = None
    written: bool = False

    def event(self, slug: str) -> dict[str, Any]:
        facts = {"phase": self.phase or None, "since": round(self.since, 3)}
        facts |= {"why": self.why} if self.why else {}
        facts |= {"verdict": self.verdict} if self.verdict else {}
        return {"slug": slug, **facts} if slug else facts


class PhaseNotes:
    """The notes of a wave. Thread safe. `changed` is set whenever an item or the wave goes on."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.changed = threading.Event()
        self._clock = clock
        self._lock = threading.Lock()
        self._notes: dict[str, _Note] = {}
        self._is_closed = False

    def enter(self, slug: str, phase: str, why: str = "") -> None:
        """The item is in this phase from now on, until an event shows another one."""
        self._put(slug, _Note(phase, self._clock(), why))

    def passed(self, slug: str) -> None:
        """An event shows where the item stands, so its note is of no use."""
        with self._lock:
            self._notes.pop(slug, None)
        self.changed.set()

    def ended(self, slug: str, verdict: str) -> None:
        """The item ends here with a verdict that no other event has."""
        self._put(slug, _Note("", self._clock(), verdict=verdict))

    def enter_wave(self, phase: str, why: str = "") -> None:
        """The whole wave is in this phase until `leave_wave`."""
        self._put(_WAVE, _Note(phase, self._clock(), why))

    def leave_wave(self) -> None:
        """The whole wave is in no phase of its own any more."""
        with self._lock:
            before = self._notes.pop(_WAVE, None)
            if before is not None and before.written:
                self._notes[_WAVE] = _Note("", self._clock())
        self.changed.set()

    @contextmanager
    def during(self, phase: str, why: str = "") -> Iterator[None]:
        """The whole wave is in this phase until the block ends."""
        self.enter_wave(phase, why)
        try:
            yield
        finally:
            self.leave_wave()

    def provider(self, is_closed: bool, why: str) -> None:
        """A backend's provider takes no calls for a while, or takes them again."""
        if is_closed:
            self.enter_wave(PROVIDER, why)
        else:
            self.leave_wave()

    def room(self, slug: str, phase: str | None) -> None:
        """The item waits for room below a ceiling, or goes on with its `phase`."""
        self.enter(slug, phase or ROOM)

    def due(self) -> list[dict[str, Any]]:
        """The payloads of the notes that are to be written now. They count as written."""
        latest = self._clock() - WRITTEN_AFTER_S
        with self._lock:
            found = {
                slug: note
                for slug, note in self._notes.items()
                if not note.written and (note.since <= latest or not note.phase)
            }
            for slug, note in found.items():
                kept = _Note(note.phase, note.since, note.why, note.verdict, written=True)
                self._notes[slug] = kept
        return [note.event(slug) for slug, note in found.items()]

    def close(self) -> None:
        """The wave is over: nothing more is written."""
        with self._lock:
            self._notes.clear()
            self._is_closed = True

    def _put(self, slug: str, note: _Note) -> None:
        with self._lock:
            if not self._is_closed:
                self._notes[slug] = note
        self.changed.set()
