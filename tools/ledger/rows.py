"""Reads the rows of the ledger and its archives, also rows of other programs.

A missing ledger is empty. A ledger with an invalid line is refused.
"""

from __future__ import annotations

from ast import literal_eval
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from state_store.database.spend import LedgerUse, Use
from state_store.documents.errors import InputError
from state_store.documents.files import MissingFileError, read_text
from state_store.values.lazy_dataclass import dataclass

LEDGER = Path("ledger") / "OUTCOMES-LEDGER.md"
ARCHIVES = "archives"
COLUMNS = (
    *("ISO ts", "agent_type", "model", "duration_sec", "tokens_in", "tokens_out"),
    *("verdict", "phase", "wave"),
)
HEADER = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"
PHASE_CHARACTERS = 15
STAMP = "%Y-%m-%dT%H:%M:%SZ"
DISPATCH = "dispatch"
_REMEDY = "; put it right, or move the file away: what our own runs used is in the store as well"
NONE = ("", "-")
_UNKNOWN = (*NONE, "none", "null", "n/a", "?")


@dataclass(frozen=True, slots=True)
class Row:
    """A row. `stamp` is its time as written, `at` the same in UTC. None tokens are unknown. `phase`
    and `wave` are "" if the row has none."""

    stamp: str
    at: datetime
    agent_type: str
    model: str
    seconds: float
    tokens_in: int | None
    tokens_out: int | None
    verdict: str
    phase: str
    wave: str

    @property
    def tokens(self) -> int:
        """The tokens that count."""
        return (self.tokens_in or 0) + (self.tokens_out or 0)


def line_of(cells: Sequence[Any]) -> str:
    """The line of a row with these cells."""
    return f"| {' | '.join(str(cell) for cell in cells)} |\n"


def use_line(use: Use) -> str:
    """The line of a settled use. Unknown tokens are `-`, with the charge in another column."""
    purpose, charge = use.purpose, use.charge
    known = charge.tokens_in is not None and charge.tokens_out is not None
    entered = charge.tokens_in if known else charge.tokens
    left = charge.tokens_out if known else 0 if charge.metered else "-"
    cells = (
        *(use.stamp, DISPATCH, charge.model or "-", round(charge.seconds), entered, left),
        *(charge.verdict, purpose.phase[:PHASE_CHARACTERS], purpose.wave),
    )
    plain = [
        "".join(" " if c in "|\r\n" or not c.isprintable() else c for c in str(cell)).strip()
        for cell in cells
    ]
    return line_of([cell or "-" for cell in plain])


def rows_in(path: Path) -> list[Row]:
    """The rows of a file. Raises InputError for an invalid row."""
    try:
        lines = read_text(path).splitlines()
    except MissingFileError:
        return []
    except InputError as error:
        raise InputError(f"{error}{_REMEDY}") from error
    found = []
    for number, line in enumerate(lines, 1):
        if is_row(line):
            try:
                found.append(_row(cells_of(line)))
            except (ValueError, IndexError) as error:
                raise InputError(f"{path} line {number} is no row of a ledger{_REMEDY}") from error
    return found


def all_rows(state_dir: Path, since: datetime | None = None) -> list[Row]:
    """The rows of the ledger and its archives in the order of writing. Skips archives that were
    closed before `since`."""
    ledger = state_dir / LEDGER
    live = rows_in(ledger)  # first, so that rows moved meanwhile are seen twice, not never
    archived = [rows_in(path) for path in archives(state_dir, since)]
    if archived and live[: len(archived[-1])] == archived[-1]:
        live = live[len(archived[-1]) :]  # the writer died before it removed these rows here
    elif archived:
        moved = set(archived[-1])
        live = [row for row in live if row not in moved] if live and live[0] in moved else live
    found = [row for rows in (*archived, live) for row in rows]
    return [row for row in found if since is None or row.at >= since]


def archives(state_dir: Path, since: datetime | None = None) -> list[Path]:
    """The archives, the oldest first. Their names have the time of closing."""
    folder = (state_dir / LEDGER).parent / ARCHIVES
    oldest = "" if since is None else f"FLEET-LEDGER-{since.astimezone(UTC):%Y%m%d}"
    return sorted(path for path in folder.glob("FLEET-LEDGER-*.md") if path.name >= oldest)


def signature(state_dir: Path) -> tuple[int, ...]:
    """Stat data of the ledger, which changes at each write; () if there is no ledger."""
    try:
        found = (state_dir / LEDGER).stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def not_in_store(rows: Iterable[Row], known: Container[str]) -> list[LedgerUse]:
    """The rows that are not in the store, neither by stamp (our dispatches) nor by key (imported
    rows of other programs)."""
    found, seen = list[LedgerUse](), Counter[str]()
    for row in rows:
        key = f"{row.stamp}#{seen[row.stamp]}"  # several programs may write in one second
        seen[row.stamp] += 1
        if row.stamp not in known and key not in known:
            found.append(LedgerUse(key, row.at.timestamp(), row.wave, row.tokens))
    return found


def is_row(line: str) -> bool:
    """True for a table line with a digit in its first cell, which excludes the header, and for one
    without a time: its tokens would not count, so it is read as a row, and refused."""
    if not line.lstrip().startswith("|"):
        return False
    first, *others = cells_of(line)
    seen = "".join(others) if first in NONE else first
    return any(letter.isdigit() for letter in seen)


def time_of(stamp: str) -> datetime:
    """A row's time in UTC. Raises ValueError for a stamp that is none."""
    at = datetime.fromisoformat(stamp)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def cells_of(line: str) -> list[str]:
    """The cells of a table line, also empty ones at its ends."""
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in inner.split("|")]


def _row(cells: Sequence[str]) -> Row:
    """Parse cells to a row. Raises ValueError and IndexError."""
    at = time_of(cells[0])
    try:
        seconds = float(cells[3])
    except ValueError:
        seconds = 0.0
    entered, left = (None if c.lower() in _UNKNOWN else int(c) for c in (cells[4], cells[5]))
    if (entered or 0) < 0 or (left or 0) < 0:
        raise ValueError(cells)
    verdict, *named = [*cells[6:9], "", "", ""][:3]
    phase, wave = ("" if cell in NONE else cell for cell in named)
    return Row(cells[0], at, cells[1], cells[2], seconds, entered, left, verdict, phase, wave)


KINDS = ("verdict", "phase", "model", "wave")


def as_dict(row: Row) -> dict[str, Any]:
    """A row by column. Unknown tokens are 0, as the original project's programs expect."""
    return {
        "iso_ts": row.stamp,
        "agent_type": row.agent_type,
        "model": row.model,
        "duration_sec": round(row.seconds),
        "tokens_in": row.tokens_in or 0,
        "tokens_out": row.tokens_out or 0,
        "verdict": row.verdict,
        "phase": row.phase or None,
        "wave": wave_of(row.wave),
    }


def wave_of(cell: str) -> int | str | None:
    """The number or the name of a wave, or None."""
    if cell in NONE:
        return None
    return int(cell) if cell.isdecimal() else cell


def summed(rows: Sequence[Row]) -> dict[str, Any]:
    """Sums of all rows, and by verdict, phase, model, wave, and wave with phase. `unmetered` rows
    have no use. `totals`, `by_wave` and `by_wave_phase` are those of the original project."""

    def by(names: Iterable[str]) -> dict[str, dict[str, int]]:
        groups: dict[str, list[Row]] = {}
        for name, row in zip(names, rows, strict=True):
            groups.setdefault(name or "-", []).append(row)
        return {name: _sums_of(group) for name, group in sorted(groups.items())}

    def ours(sums: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        return {
            name: {**one, "rows": one["entries"], "tokens": one["tokens_in"] + one["tokens_out"]}
            for name, one in sums.items()
        }

    return {
        "rows": len(rows),
        "tokens_in": sum(row.tokens_in or 0 for row in rows),
        "tokens_out": sum(row.tokens_out or 0 for row in rows),
        "tokens": sum(row.tokens for row in rows),
        "unmetered": sum(row.tokens_out is None for row in rows),
        "totals": _sums_of(rows),
        **{f"by_{kind}": ours(by(getattr(row, kind) for row in rows)) for kind in KINDS},
        "by_wave_phase": by(str((wave_of(row.wave), row.phase or None)) for row in rows),
    }


def _sums_of(rows: Sequence[Row]) -> dict[str, int]:
    return {
        "entries": len(rows),
        "tokens_in": sum(row.tokens_in or 0 for row in rows),
        "tokens_out": sum(row.tokens_out or 0 for row in rows),
        "duration": sum(round(row.seconds) for row in rows),
    }


def as_text(sums: dict[str, Any]) -> str:
    """The result of `summed` as lines for people."""

    def described(one: dict[str, int]) -> str:
        entries = "1 entry" if one["entries"] == 1 else f"{one['entries']} entries"
        entered, left = one["tokens_in"], one["tokens_out"]
        return f"{entries}, {entered + left} tokens ({entered} in, {left} out), {one['duration']} s"

    lines = [f"Total: {described(sums['totals'])}, {sums['unmetered']} unmetered"]
    lines += ["", "Wave and phase:"]
    for pair, one in sums["by_wave_phase"].items():
        words = ("-" if part is None else str(part) for part in literal_eval(pair))
        lines.append(f"  {' '.join(words)}: {described(one)}")
    for kind in reversed(KINDS):
        lines += ["", f"{kind.capitalize()}:"]
        lines += [f"  {name}: {described(one)}" for name, one in sums[f"by_{kind}"].items()]
    return "\n".join(lines)
