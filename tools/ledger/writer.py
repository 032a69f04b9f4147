"""Writing the ledger: one row for each settled use, and old rows moved into archives.

All writers hold one lock and replace the file whole, so a row is there or not, and once.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from state_store.database.errors import disk_errors
from state_store.database.spend import Use
from state_store.database.store import EventStore
from state_store.documents.files import MissingFileError, make_folder, read_text, write_text_atomic
from state_store.documents.locks import locked
from tools.ledger.rows import ARCHIVES, HEADER, LEDGER, archives, line_of, rows_in, use_line

MOST_ROWS = 200


class LedgerWriter:
    """Keeps the ledger of a state folder level with its store; one for each run.

    What is written is remembered here and noted in the store only at the end: after a crash the
    rows that are not noted are compared with the file.
    """

    def __init__(self, state_dir: Path, store: EventStore) -> None:
        self._ledger = state_dir / LEDGER
        self._state_dir = state_dir
        self._store = store
        self._told: set[int] = set()
        self._guard = threading.Lock()
        self._writing = threading.Lock()
        self._wanted = 0

    def tell(self) -> None:
        """Write down what was settled. A thread that finds another at it leaves it to that one.

        Raises CannotRunError and InputError; the next call tries again.
        """
        with self._guard:
            self._wanted += 1
        if not self._writing.acquire(blocking=False):
            return
        try:
            while True:
                wanted = self._wanted
                self._tell()
                with self._guard:
                    if self._wanted == wanted:
                        return
        finally:
            self._writing.release()

    def close(self) -> None:
        """Write down all of it, and note in the store that it is."""
        self.tell()
        told = sorted(self._told)
        if told:
            self._store.joined(lambda transaction: transaction.spend.tell(told))

    def _tell(self) -> None:
        uses = self._store.read_spend(lambda book: book.untold(), list[Use]())
        new = [use for use in uses if use.id not in self._told]
        if new:
            write_uses(self._state_dir, new)
            self._told |= {use.id for use in new}


def write_uses(state_dir: Path, uses: Sequence[Use]) -> None:
    """Add those of `uses` that the ledger does not have."""
    ledger = state_dir / LEDGER
    with _locked(ledger):
        newest = archives(state_dir)[-1:]
        there = {row.stamp for path in (*newest, ledger) for row in rows_in(path)}
        _add(state_dir, [use_line(use) for use in uses if use.stamp not in there])


def append_line(state_dir: Path, cells: Sequence[object], *, once: bool = False) -> bool:
    """Add a row; with `once` only where none has its time, phase and wave, else False."""
    ledger = state_dir / LEDGER
    with _locked(ledger):
        mark = tuple(str(cells[n]) for n in (0, 7, 8))
        if once and any((r.stamp, r.phase, r.wave) == mark for r in rows_in(ledger)):
            return False
        _add(state_dir, [line_of(cells)])
    return True


def ensure_header(state_dir: Path) -> None:
    """Make the ledger where there is none."""
    ledger = state_dir / LEDGER
    if not ledger.exists():
        with _locked(ledger):
            if not ledger.exists():
                write_text_atomic(ledger, HEADER)


def rotate(state_dir: Path) -> Path | None:
    """Move the older half of a long ledger into an archive and name it; None when it is short."""
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
    where = [at for at, line in enumerate(lines) if _is_row(line)]
    if len(where) <= MOST_ROWS:
        return None
    moved = [lines[at] for at in where]
    archive = _unfinished(state_dir, moved)
    if archive is None:
        moved = moved[: len(moved) // 2]
        archive = _new_archive(ledger.parent / ARCHIVES)
        write_text_atomic(archive, HEADER + "".join(moved))
    else:
        moved = [line for line in _text(archive).splitlines(keepends=True) if _is_row(line)]
    gone = set(where[: len(moved)])
    kept = [line for at, line in enumerate(lines) if at not in gone]
    write_text_atomic(ledger, "".join(kept))
    return archive


def _unfinished(state_dir: Path, rows: Sequence[str]) -> Path | None:
    """The archive that holds the first rows of the ledger, because its writer died then."""
    for path in archives(state_dir)[-1:]:
        held = [line for line in _text(path).splitlines(keepends=True) if _is_row(line)]
        if held and list(rows[: len(held)]) == held:
            return path
    return None


def _new_archive(folder: Path) -> Path:
    make_folder(folder)
    return folder / f"FLEET-LEDGER-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.md"


def _is_row(line: str) -> bool:
    cells = line.strip().strip("|").split("|")
    return line.lstrip().startswith("|") and any(letter.isdigit() for letter in cells[0])


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except MissingFileError:
        return ""


def _locked(ledger: Path) -> AbstractContextManager[None]:
    with disk_errors(ledger):
        make_folder(ledger.parent)
    return locked(ledger)
