"""Writes the ledger: a row for each settled use. Older rows move into archives.

All writers hold one lock and replace the whole file, so a row is written once or not at all.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from state_store.database.errors import disk_errors
from state_store.database.interface import Store
from state_store.database.spend import Use
from state_store.documents.files import MissingFileError, make_folder, read_text, write_text_atomic
from state_store.documents.locks import locked
from tools.ledger.rows import (
    ARCHIVES,
    HEADER,
    LEDGER,
    NONE,
    archives,
    is_row,
    line_of,
    rows_in,
    use_line,
)

MOST_ROWS = 200


class LedgerWriter:
    """Copies settled uses from the store of a run to the ledger.

    It remembers written rows, and marks them in the store only at the end. After a crash the
    unmarked rows are compared with the file.
    """

    def __init__(self, state_dir: Path, store: Store) -> None:
        self._state_dir = state_dir
        self._store = store
        self._written: set[int] = set()
        self._guard = threading.Lock()
        self._writing = threading.Lock()
        self._requests = 0

    def update(self) -> None:
        """Write settled uses. If another thread is writing, leave them to that thread.

        Raises CannotRunError and InputError; the next call tries again.
        """
        with self._guard:
            self._requests += 1
        if not self._writing.acquire(blocking=False):
            return
        try:
            while True:
                requests = self._requests
                uses = self._store.read_spend(lambda book: book.unledgered(), list[Use]())
                new = [use for use in uses if use.id not in self._written]
                if new:
                    write_uses(self._state_dir, new)
                    self._written |= {use.id for use in new}
                with self._guard:
                    if self._requests == requests:
                        return
        finally:
            self._writing.release()

    def close(self) -> None:
        """Write the remaining uses, and mark all of them in the store."""
        self.update()
        written = sorted(self._written)
        if written:
            self._store.joined(lambda transaction: transaction.spend.mark_ledgered(written))


def write_uses(state_dir: Path, uses: Sequence[Use]) -> None:
    """Add the `uses` that are missing in the ledger."""
    ledger = state_dir / LEDGER
    with _locked(ledger):
        newest = archives(state_dir)[-1:]
        there = {row.stamp for path in (*newest, ledger) for row in rows_in(path)}
        _add(state_dir, [use_line(use) for use in uses if use.stamp not in there])


def append_line(state_dir: Path, cells: Sequence[object], *, once: bool = False) -> bool:
    """Add a row. With `once`, returns False if a row has the same time, phase and wave."""
    ledger = state_dir / LEDGER
    with _locked(ledger):
        stamp, *named = (str(cells[n]) for n in (0, 7, 8))
        mark = (stamp, *("" if cell in NONE else cell for cell in named))
        if once and any((r.stamp, r.phase, r.wave) == mark for r in rows_in(ledger)):
            return False
        _add(state_dir, [line_of(cells)])
    return True


def ensure_header(state_dir: Path) -> None:
    """Create an empty ledger with a header, if there is none."""
    ledger = state_dir / LEDGER
    if not ledger.exists():
        with _locked(ledger):
            if not ledger.exists():
                write_text_atomic(ledger, HEADER)


def rotate(state_dir: Path) -> Path | None:
    """Move the older half of a long ledger into an archive; returns the archive or None."""
    with _locked(state_dir / LEDGER):
        return _rotate(state_dir)


def _add(state_dir: Path, lines: Sequence[str]) -> None:
    if not lines:
        return
    ledger = state_dir / LEDGER
    text = _text(ledger) or HEADER
    if not text.endswith("\n"):
        text += "\n"
    write_text_atomic(ledger, text + "".join(lines))
    _rotate(state_dir)


def _rotate(state_dir: Path) -> Path | None:
    ledger = state_dir / LEDGER
    lines = _text(ledger).splitlines(keepends=True)
    where = [at for at, line in enumerate(lines) if is_row(line)]
    if len(where) <= MOST_ROWS:
        return None
    rows = [lines[at] for at in where]
    newest = archives(state_dir)[-1:]
    moved = [line for path in newest for line in _text(path).splitlines(True) if is_row(line)]
    if moved and rows[: len(moved)] == moved:
        archive = newest[0]  # its writer died before it removed these rows from the ledger
    else:
        moved = rows[: len(rows) // 2]
        folder = ledger.parent / ARCHIVES
        make_folder(folder)
        archive = folder / f"FLEET-LEDGER-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.md"
        write_text_atomic(archive, HEADER + "".join(moved))
    gone = set(where[: len(moved)])
    write_text_atomic(ledger, "".join(line for at, line in enumerate(lines) if at not in gone))
    return archive


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except MissingFileError:
        return ""


def _locked(ledger: Path) -> AbstractContextManager[None]:
    with disk_errors(ledger):
        make_folder(ledger.parent)
    return locked(ledger)
