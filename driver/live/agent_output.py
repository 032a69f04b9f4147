"""The last sign of life of an item's agent or test: the age and the last line of its output.

The output goes into files of the run folder anyway, so looking at them costs the agent nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from driver.filesystem.safe_file_access import read_plain_end
from driver.live.outputs import outputs
from driver.terminal.safe_text import safe_line
from state_store.documents.journal import stored_slug
from state_store.documents.strict_json import parse_foreign
from state_store.views.item_progress import TEST, ItemProgress

_TAIL_BYTES = 8192
_MOST_SHOWN = 300
_BUILDING = ("build", "repair")
# The keys of an agent's JSON lines that hold words for people, the best first.
_WORDS = ("text", "thinking", "command", "file_path", "query", "message", "summary", "result")
_DEEPEST = 6
# Colours, moves and titles: sequences without words.
_CONTROLS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
# The invisible joiners and variants of signs, such as a family's.
_JOINERS = str.maketrans("", "", "\u200b\u200c\u200d\ufe0e\ufe0f")


class Sign(NamedTuple):
    """The time of the last output, in seconds since the epoch, and its last line, ready to print.
    `at` is None if nothing was printed."""

    at: float | None = None
    line: str = ""


NO_SIGN = Sign()


class OutputWatch:
    """Looks at the output of a wave's items. Reads a file again only after it has changed."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._known: dict[str, tuple[Path, int, int, Sign]] = {}

    def sign(self, item: ItemProgress) -> Sign:
        """The last sign of what the item does now; NO_SIGN if nothing runs."""
        span = item.span
        if span is None:
            return NO_SIGN
        newest, stat = None, None
        for path in output_files(self._run_dir, item):
            with suppress(OSError):
                found = path.stat()
                if stat is None or found.st_mtime_ns >= stat.st_mtime_ns:
                    newest, stat = path, found
        if newest is None or stat is None or stat.st_mtime < span.started - 1:
            return NO_SIGN  # of an earlier phase
        now = (newest, stat.st_mtime_ns, stat.st_size)
        known = self._known.get(item.slug)
        if known is not None and known[:3] == now:
            return known[3]
        tail, _ = read_plain_end(newest.parent, newest.name, _TAIL_BYTES)
        sign = Sign(stat.st_mtime, last_line(tail) if tail else "")
        self._known[item.slug] = (*now, sign)
        return sign


def output_files(run_dir: Path, item: ItemProgress) -> Iterator[Path]:
    """The files that the item's present phase may write, agents' or tests'."""
    span, folder = item.span, run_dir / stored_slug(item.slug)
    if span is not None and span.phase != TEST:
        agent = "agent" if span.phase in _BUILDING else stored_slug(span.phase)
        for end in ("out", "err"):
            yield folder / f"{agent}-{max(1, item.attempt)}" / f"agent.{end}"
        return
    yield from (folder / name for name, _ in outputs(folder, deepest=0))


def last_line(tail: bytes) -> str:
    """The last line with words of an output, safe to print. Of a JSON line only its words."""
    for line in reversed(tail.decode("utf-8", "replace").splitlines()):
        if (shown := readable(line)) is not None:
            return shown
    return ""


def readable(line: str) -> str | None:
    """A line of output as people read it; None for one without words."""
    text = line.strip()
    if text.startswith("{"):
        with suppress(ValueError):
            text = _words_of(parse_foreign(text), _DEEPEST) or ""
    text = _CONTROLS.sub("", text[: 4 * _MOST_SHOWN]).translate(_JOINERS)
    text = safe_line(" ".join(text.split()))[:_MOST_SHOWN]
    return text or None


def _words_of(value: Any, depth: int) -> str | None:
    """The last words for people in a JSON value."""
    if depth == 0:
        return None
    if isinstance(value, list):
        found = (_words_of(one, depth - 1) for one in reversed(value))
        return next(filter(None, found), None)
    if not isinstance(value, dict):
        return None
    for key in _WORDS:
        if isinstance(text := value.get(key), str) and text.strip():
            name = value.get("name")
            return f"{name}: {text}" if isinstance(name, str) else text
    inner = (_words_of(one, depth - 1) for one in value.values() if isinstance(one, dict | list))
    words = next(filter(None, inner), None)
    name = value.get("name")
    return f"{name}: {words}" if words and isinstance(name, str) else words
