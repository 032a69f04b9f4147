"""Tells the events of a wave in words, and reads the outputs of its items. For `tidegate logs`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.safe_file_access import open_plain, read_growing
from driver.live.outputs import outputs
from driver.terminal.amounts import tokens, usd
from driver.terminal.safe_text import counted, describe_verdict, log_line
from state_store.database import events as names
from state_store.sql.unshipped import MOST_OF_OUTPUT, Output, unpacked

Event = Mapping[str, Any]
_MOST_BYTES = 4_000_000  # of the end of a file


def event_line(event: Event) -> str:
    """The line for an event: its time, its item and what happened; "" for events of no wave."""
    payload = event["payload"]
    words = _WORDS.get(event["type"])
    if words is None or not isinstance(payload, Mapping):
        return ""
    slug = payload.get("slug") or payload.get("item") or ""
    at = time.strftime("%H:%M:%S", time.localtime(event["ts"]))
    return log_line(" ".join(filter(None, (at, f"{slug}:" if slug else "", words(payload)))))


def _begin(payload: Mapping[str, Any]) -> str:
    items = payload.get("items")
    count = counted(len(items) if isinstance(items, list) else 0, "item")
    return f"wave {payload.get('wave_id')} begins: {count}"


def _phase(receipt: Mapping[str, Any]) -> str:
    took = receipt.get("durationMs")
    seconds = f" after {took / 1000:.1f} s" if isinstance(took, int | float) else ""
    return f"phase {receipt.get('phase')}: {receipt.get('status')}{seconds}"


def _bill(payload: Mapping[str, Any]) -> str:
    used, cost = payload.get("tokens"), payload.get("cost_usd")
    count = tokens(used) if isinstance(used, int) else "unknown"
    price = f", {usd(cost)}" if isinstance(cost, int | float) else ""
    return f"{payload.get('phase') or 'agent'} used {count} tokens{price}"


def _with(text: str, why: object) -> str:
    return f"{text}: {why}" if why else text


# The words for each event; one that is not here says nothing that another does not say.
_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    names.WAVE_STARTED: _begin,
    names.WAVE_FINISHED: lambda it: _with("wave ended", it.get("abort_reason")),
    names.ATTEMPT_STARTED: lambda it: (
        f"{it.get('phase') or 'build'} started (attempt {it.get('number')})"
    ),
    names.ATTEMPT_JUDGED: lambda it: describe_verdict(str(it.get("verdict")), it.get("reason")),
    names.ITEM_SETTLED: lambda it: describe_verdict(str(it.get("verdict")), it.get("reason")),
    names.PHASE_ENTERED: lambda it: _with(str(it.get("phase") or "goes on"), it.get("why")),
    names.PHASE_FINISHED: _phase,
    names.REVIEW_STARTED: lambda it: f"review started (round {it.get('round')})",
    names.REVIEW_JUDGED: lambda it: f"review: {it.get('verdict') or 'ended'}",
    names.ITEM_SHIPPING: lambda it: f"ships to {it.get('branch')} as {str(it.get('commit'))[:12]}",
    names.ITEM_SHIPPED: lambda it: f"shipped as {str(it.get('commit'))[:12]}",
    names.PULL_REQUEST: lambda it: f"pull request: {it.get('url') or it.get('error') or 'none'}",
    names.AGENT_BILLED: _bill,
}


def output_files(folder: Path) -> list[Path]:
    """The outputs of an item in the order of their last writing, with the prompts of its agents."""
    found = sorted((seen.st_mtime, name) for name, seen in outputs(folder, "prompt.txt"))
    return [folder / name for _, name in found]


def kept_lines(output: Output, most: int | None) -> Iterator[str]:
    """The last lines of an output of another machine, safe to print, and the place of the rest."""
    end = unpacked(output.body or "", MOST_OF_OUTPUT)
    lines = end.decode("utf-8", "replace").splitlines()
    if len(end) < output.size:
        part = "not in the database" if not end else f"before, {output.size - len(end)} bytes"
        yield log_line(f"[... {part}: {output.path} on {output.host} ...]")
    if most is not None and len(lines) > most:
        yield f"[... {len(lines) - most} lines before; --lines 0 shows all ...]"
        lines = lines[-most:]
    yield from map(log_line, lines)


class FileTail:
    """The lines of a file from its end on. A link or a special file has none."""

    def __init__(self, path: Path, lines: int | None) -> None:
        self._path, self._lines = path, lines
        self._at, self._part = -1, b""

    def more(self, *, last: bool = True) -> Iterator[str]:
        """Yields the new lines, safe to print. An unfinished line waits, unless it is the `last`
        look."""
        data = self._part + self._read()
        whole, _, self._part = (data, b"", b"") if last else data.rpartition(b"\n")
        lines = whole.decode("utf-8", "replace").splitlines()
        if self._lines is not None and len(lines) > self._lines:
            yield f"[... {len(lines) - self._lines} lines before; --lines 0 shows all ...]"
            lines = lines[-self._lines :]
        self._lines = None  # only the first look leaves lines out
        yield from map(log_line, lines)

    def _read(self) -> bytes:
        data = b""
        with (
            suppress(OSError, NotPlainError),
            open_plain(self._path.parent, self._path.name) as file,
        ):
            size = os.fstat(file.fileno()).st_size
            if self._at < 0:
                self._at = max(0, size - _MOST_BYTES)
            data = read_growing(file, self._at, max(0, size - self._at))
            self._at = max(self._at, size)
        return data
