"""The ledger as a file: its rows, its archives, and what only it knows of spending. Reads only.

A ledger that is not there is empty; one with a line that is no row cannot be believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from state_store.database.spend import Use
from state_store.documents.errors import InputError
from state_store.documents.files import MissingFileError, read_text

LEDGER = Path("ledger") / "OUTCOMES-LEDGER.md"
ARCHIVES = "archives"
COLUMNS = (
    *("timestamp", "agent_type", "model", "duration_sec", "tokens_in", "tokens_out"),
    *("verdict", "phase", "wave"),
)
HEADER = f"# Outcomes ledger\n\n| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"
PHASE_CHARACTERS = 15
DISPATCH = "dispatch"
_REMEDY = "; put it right, or move the file away: what our own runs used is in the store as well"
_UNKNOWN = ("", "-", "none", "null", "n/a", "?")


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `stamp` is its time as it is written; tokens of None are unknown."""

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
        """What counts."""
        return (self.tokens_in or 0) + (self.tokens_out or 0)


def line_of(cells: Sequence[Any]) -> str:
    """A row as it is written."""
    return f"| {' | '.join(str(cell) for cell in cells)} |\n"


def use_line(use: Use) -> str:
    """A settled use as a row: tokens that nobody knows are `-`, and what is charged stands in."""
    purpose, charge = use.purpose, use.charge
    known = charge.tokens_in is not None and charge.tokens_out is not None
    entered = charge.tokens_in if known else charge.tokens
    left = charge.tokens_out if known else 0 if charge.metered else "-"
    cells = (use.stamp, DISPATCH, charge.model or "-", round(charge.seconds), entered, left)
    phase = purpose.phase[:PHASE_CHARACTERS]
    return line_of([_cell(c) for c in (*cells, charge.verdict, phase, purpose.wave)])


def rows_in(path: Path) -> list[Row]:
    """The rows of one file. Raises InputError for one that cannot be read to its last row."""
    try:
        lines = read_text(path).splitlines()
    except MissingFileError:
        return []
    except InputError as error:
        raise InputError(f"{error}{_REMEDY}") from error
    return list(_parsed(path, lines))


def all_rows(state_dir: Path, since: datetime | None = None) -> list[Row]:
    """The rows of the ledger and its archives in the order they were written; archives that were
    closed before `since` are not looked at."""
    ledger = state_dir / LEDGER
    live = rows_in(ledger)  # first: what is moved away meanwhile is then seen twice, not never
    archived = [rows_in(path) for path in archives(state_dir, since)]
    if archived and live[: len(archived[-1])] == archived[-1]:
        live = live[len(archived[-1]) :]  # whoever moved these died before taking them out here
    elif archived:
        moved = set(archived[-1])
        live = [row for row in live if row not in moved] if live and live[0] in moved else live
    found = [row for rows in (*archived, live) for row in rows]
    return [row for row in found if since is None or row.at >= since]


def archives(state_dir: Path, since: datetime | None = None) -> list[Path]:
    """The archives, the oldest first; their names tell when they were closed."""
    folder = (state_dir / LEDGER).parent / ARCHIVES
    oldest = "" if since is None else f"FLEET-LEDGER-{since.astimezone(UTC):%Y%m%d}"
    return sorted(path for path in folder.glob("FLEET-LEDGER-*.md") if path.name >= oldest)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Rows of today, to be compared with what a store knows of."""

    rows: tuple[Row, ...] = ()
    seen: tuple[Any, ...] = ()

    def looked(self, state_dir: Path) -> Elsewhere:
        """The rows as they are now; read again only where the ledger has changed."""
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        seen = (today, *_signature(state_dir / LEDGER))
        if seen == self.seen:
            return self
        return Elsewhere(tuple(all_rows(state_dir, today)), seen)

    def tokens(self, known: Iterable[str], wave: str | None = None) -> int:
        """Tokens of the rows that `known` stamps are not of, and of `wave` where one is named."""
        ours = set(known)
        rows = (row for row in self.rows if row.stamp not in ours)
        return sum(row.tokens for row in rows if wave is None or row.wave == wave)


NOTHING_ELSEWHERE = Elsewhere()


def _signature(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _parsed(path: Path, lines: Iterable[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.lstrip().startswith("|") and any(letter.isdigit() for letter in cells[0]):
            try:
                yield _row(cells)
            except (ValueError, IndexError) as error:
                raise InputError(f"{path} line {number} is no row of a ledger{_REMEDY}") from error


def _row(cells: Sequence[str]) -> Row:
    at = datetime.fromisoformat(cells[0])
    more = [*cells[6:9], "", "", ""]
    return Row(
        cells[0],
        at if at.tzinfo else at.replace(tzinfo=UTC),
        cells[1],
        cells[2],
        _seconds(cells[3]),
        _tokens(cells[4]),
        _tokens(cells[5]),
        *more[:3],
    )


def _tokens(cell: str) -> int | None:
    count = None if cell.lower() in _UNKNOWN else int(cell)
    if count is not None and count < 0:
        raise ValueError(cell)
    return count


def _seconds(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return 0.0


def _cell(value: Any) -> str:
    text = "".join(" " if c in "|\r\n" or not c.isprintable() else c for c in str(value))
    return text.strip() or "-"


KINDS = ("verdict", "phase", "model", "wave")


def as_dict(row: Row) -> dict[str, Any]:
    """A row by column; what nobody knows is 0 here, as programs of the source expect it."""
    return {
        "timestamp": row.stamp,
        "agent_type": row.agent_type,
        "model": row.model,
        "duration_sec": row.seconds,
        "tokens_in": row.tokens_in or 0,
        "tokens_out": row.tokens_out or 0,
        "verdict": row.verdict,
        "phase": row.phase,
        "wave": wave_of(row.wave),
    }


def wave_of(cell: str) -> int | str | None:
    """A wave's number, or its name where it has one, None where there is none."""
    if cell in ("", "-"):
        return None
    return int(cell) if cell.isdecimal() else cell


def summed(rows: Sequence[Row]) -> dict[str, Any]:
    """All rows, and by verdict, phase, model and wave; `unmetered` are those of unknown use."""
    found: dict[str, Any] = {
        "rows": len(rows),
        "tokens_in": sum(row.tokens_in or 0 for row in rows),
        "tokens_out": sum(row.tokens_out or 0 for row in rows),
        "tokens": sum(row.tokens for row in rows),
        "unmetered": sum(row.tokens_out is None for row in rows),
    }
    return found | {f"by_{kind}": _by(kind, rows) for kind in KINDS}


def as_text(found: dict[str, Any]) -> str:
    """What `summed` gives, for people."""
    lines = [f"{_rows(found)}, {found['tokens']} tokens, {found['unmetered']} unmetered"]
    for kind in KINDS:
        for name, sums in found[f"by_{kind}"].items():
            lines.append(f"{kind} {name}: {_rows(sums)}, {sums['tokens']} tokens")
    return "\n".join(lines)


def _rows(sums: dict[str, Any]) -> str:
    return "1 row" if sums["rows"] == 1 else f"{sums['rows']} rows"


def _by(kind: str, rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    sums: dict[str, dict[str, int]] = {}
    for row in rows:
        one = sums.setdefault(getattr(row, kind) or "-", {"rows": 0, "tokens": 0})
        one["rows"] += 1
        one["tokens"] += row.tokens
    return dict(sorted(sums.items()))
