"""The present state of a wave for the page, and what has changed since a version of it.

One thread looks; the threads of the clients wait for it. A slow client misses states in between and
gets the newest one, so nothing piles up for it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from driver.live.agent_output import NO_SIGN, OutputWatch, Sign
from driver.live.board import board, row
from driver.run_state.run_registry import waves_alive
from driver.terminal.safe_text import safe_line
from state_store.database.errors import StoreBusyError
from state_store.database.interface import Store
from state_store.documents.journal import stored_slug
from state_store.sql.addresses import address_of
from state_store.views.item_progress import ItemProgress
from state_store.views.store_summary import StoreSummary
from state_store.views.wave_progress import WaveProgress, catch_up, read_progress
from tools import halt

MOST_LINES = 200
_WAVES_EVERY_S = 3.0
_MOST_OF_A_FAULT = 300
Json = dict[str, Any]


class Feed:
    """Follows the wave `asked`, or the newest one of the state folder."""

    def __init__(
        self,
        store: Store,
        state_dir: Path,
        asked: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store, self.state_dir = store, state_dir
        self.progress: WaveProgress | None = None
        self._asked, self._clock = asked, clock
        self._changed = threading.Condition()
        self._version = 0
        self._items: dict[str, tuple[int, Json]] = {}
        self._wave: tuple[int, Json] = (0, {})
        self._lines: deque[tuple[int, str]] = deque(maxlen=MOST_LINES)
        self._output = OutputWatch(state_dir)
        self._looked_at = float("-inf")
        self._is_alive = True
        self._fault = ""
        self._file = _identity(store.path)

    def look(self) -> None:
        """Take in what is new. A store that is busy has nothing new; any other fault is a note on
        the page, and the next look tries again."""
        try:
            if _identity(self.store.path) != self._file:
                self._go_over()
            self._choose()
            if self.progress is not None:
                catch_up(self.store, self.progress)
            self._fault = ""
        except StoreBusyError:
            pass
        except Exception as error:  # noqa: BLE001 - a page that stands still would tell lies
            self._fault = safe_line(f"this page stands still: {error}")[:_MOST_OF_A_FAULT]
        if self.progress is not None:
            self._publish(self.progress)

    def wait(self, version: int, timeout_s: float) -> bool:
        """Wait for something newer than `version`; False if there was nothing in this time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._version > version, timeout_s)

    def since(self, version: int) -> tuple[int, Json]:
        """The present version, and what is newer than `version`: the wave, its items, lines."""
        with self._changed:
            at, wave = self._wave
            message: Json = {"now": self._clock(), "version": self._version}
            if wave and at > version:
                message["wave"] = wave
            message["items"] = [one for at, one in self._items.values() if at > version]
            message["lines"] = [line for at, line in self._lines if at > version]
            return self._version, message

    def item(self, index: int) -> ItemProgress | None:
        """The item with this number on the page."""
        items = list(self.progress.items.values()) if self.progress else []
        return items[index] if 0 <= index < len(items) else None

    @property
    def run_dir(self) -> Path:
        """The folder with the outputs of the wave."""
        wave_id = self.progress.wave_id if self.progress else ""
        return self.state_dir / "runs" / stored_slug(wave_id)

    def _go_over(self) -> None:
        """The database was replaced, as by a rebuild: read the new one from its beginning."""
        file = _identity(self.store.path)
        self.store.close()  # a later use opens the file that has this name then
        self._file, self.progress, self._looked_at = file, None, float("-inf")

    def _choose(self) -> None:
        """Go over to the newest wave. Asked for now and then only."""
        now = time.monotonic()
        if now - self._looked_at < _WAVES_EVERY_S:
            return
        self._looked_at = now
        wave_id = self._asked
        if wave_id is None:
            with StoreSummary(str(self.store.path)) as summary:
                wave_id = next(iter(summary.newest_waves(1)), None)
        if wave_id is None:
            return
        self._is_alive = wave_id in waves_alive(self.state_dir)
        if self.progress is None or self.progress.wave_id != wave_id:
            self.progress = read_progress(self.store, wave_id)
            self._output = OutputWatch(self.run_dir)
            with self._changed:
                self._items.clear()
                self._lines.clear()

    def _publish(self, progress: WaveProgress) -> None:
        version = self._version + 1
        now, found = self._clock(), {}
        for index, item in enumerate(tuple(progress.items.values())):
            facts = _item(item, index, self._output.sign(item), now)
            known = self._items.get(item.slug)
            if known is None or known[1] != facts:
                found[item.slug] = (version, facts)
        info = halt.info_with(self.state_dir, self.store.halt_row)
        halted = safe_line(halt.describe(info)) if info else ""
        wave = _wave(progress, now, is_alive=self._is_alive, halted=halted)
        wave["notes"] += [self._fault] if self._fault else []
        if not found and wave == self._wave[1]:
            return
        with self._changed:
            for slug, (_, facts) in found.items():
                before = self._items.get(slug)
                if before is not None and before[1]["phase"] != facts["phase"]:
                    self._lines.append((version, _line(facts, now)))
            self._items |= found
            if wave != self._wave[1]:
                self._wave = (version, wave)
            self._version = version
            self._changed.notify_all()


def _identity(path: Path) -> tuple[int, int]:
    """The file with this name now; a reader of another one would see nothing new."""
    if address_of(path.parent) is not None:
        return 0, 0
    seen = path.stat()
    return seen.st_dev, seen.st_ino


def _item(item: ItemProgress, index: int, sign: Sign, now: float) -> Json:
    shown = row(item, now, sign)
    spans = [asdict(span) for span in item.spans]
    return {
        "index": index,
        "name": shown.name,
        "tone": shown.tone,
        "phase": shown.phase,
        "state": item.state,
        "spans": [{**span, "phase": safe_line(span["phase"])} for span in spans],
        "tokens": item.tokens,
        "cost": round(item.cost_usd, 6),
        "unknown": bool(item.unmetered or item.unpriced),
        "repairs": item.repairs,
        "agent": safe_line(" ".join(filter(None, (item.backend, item.model)))),
        "sign": sign.at if sign is not NO_SIGN else None,
        "last": shown.last,
        "reason": safe_line(item.reason or ""),
        "commit": item.commit,
        "branch": safe_line(str(item.branch or "")),
    }


def _wave(progress: WaveProgress, now: float, *, is_alive: bool, halted: str) -> Json:
    found = board(progress, now)
    facts = progress.to_json()
    gone = progress.finished is None and not is_alive
    notes = ["its process has ended without saying so"] if gone else []
    notes += [f"halted: {halted}"] if halted else []
    span = progress.span
    return {
        **{key: facts[key] for key in ("wave_id", "started", "finished", "ceilings", "queued")},
        **{key: facts[key] for key in ("tokens", "cost_usd", "lower_bound", "counts")},
        "awaits_bill": progress.awaits_bill,
        "unmetered": progress.is_unmetered,
        "items": len(progress.items),
        "shipped": sum(item.shipped for item in progress.items.values()),
        "running": progress.finished is None and is_alive,
        "halted": bool(halted),
        "notes": notes + (list(found.notes) if progress.finished is not None else []),
        "phase": [safe_line(span.phase), safe_line(span.why), span.started] if span else None,
    }


def _line(facts: Json, now: float) -> str:
    """The line for an item whose phase changed; it has a reason only if the phase is bad news."""
    reason = f": {facts['reason']}" if facts["reason"] and facts["tone"] == "bad" else ""
    at = time.strftime("%H:%M:%S", time.localtime(now))
    return f"{at} {facts['name']}: {facts['phase']}{reason}"
