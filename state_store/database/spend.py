"""The spend table: reservations before dispatches, and charges after them.

`tools/budget` decides what may be spent. Money is in whole micro-USD. A use belongs to the wave and
the UTC day of its reservation. An open row counts with its reservation, a settled row with its
charge.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from state_store.sql.connection import Connection
from state_store.values.lazy_dataclass import dataclass, fields

_LEARNT_FROM = 200  # newest uses of a kind, which predict the next use
_IMPORTED = "ledger"  # the holder of rows that another program wrote into the ledger


@dataclass(frozen=True, slots=True)
class Purpose:
    """The purpose of a dispatch: the wave and item it serves, and its kind of use."""

    wave: str
    item: str
    number: int
    phase: str
    backend: str
    model: str


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reservation. `stamp` is its time in ISO 8601, and unique."""

    id: int
    stamp: str
    purpose: Purpose
    tokens: int
    usd: int


@dataclass(frozen=True, slots=True)
class Charge:
    """The charge of a settled use. `tokens` and `usd` count. `tokens_in` and `tokens_out` are None
    if unknown. `metered` and `priced` are true if the charge is the real use."""

    tokens: int
    usd: int
    tokens_in: int | None
    tokens_out: int | None
    metered: bool
    priced: bool
    seconds: float
    verdict: str
    model: str


@dataclass(frozen=True, slots=True)
class Total:
    """The sums of a wave or a day: charges, reservations, and the number of uses.

    `open` is the number of unsettled dispatches, `seconds` the time of the settled dispatches.
    """

    tokens: int = 0
    usd: int = 0
    reserved_tokens: int = 0
    reserved_usd: int = 0
    dispatches: int = 0
    open: int = 0
    seconds: float = 0.0
    unmetered: int = 0
    unpriced: int = 0


@dataclass(frozen=True, slots=True)
class Use:
    """A settled use, for the ledger."""

    id: int
    stamp: str
    purpose: Purpose
    charge: Charge


@dataclass(frozen=True, slots=True)
class LedgerUse:
    """A use that another program wrote into the ledger. `key` is unique among such rows, `at` is in
    seconds since the epoch."""

    key: str
    at: float
    wave: str
    tokens: int


@dataclass(frozen=True, slots=True)
class OpenUse:
    """An unsettled reservation. Its holder has ended by `until` (wall clock)."""

    reserved: Reserved
    holder: str
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Overrun:
    """A use that exceeded its reservation. `kind` is backend, model and phase, `settled` a time of
    the wall clock."""

    kind: tuple[str, str, str]
    settled: float
    tokens: int
    usd: int


_PURPOSE = tuple(field.name for field in fields(Purpose))
_CHARGE = tuple(field.name for field in fields(Charge))
INSERT_USE = (
    f"INSERT INTO spend(stamp, day, {', '.join(_PURPOSE)}, holder, since, until, "
    "reserved_tokens, reserved_usd) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_TOTAL = """SELECT
    COALESCE(SUM(CASE WHEN settled IS NULL THEN 0 ELSE tokens END), 0),
    COALESCE(SUM(CASE WHEN settled IS NULL THEN 0 ELSE usd END), 0),
    COALESCE(SUM(CASE WHEN settled IS NULL THEN reserved_tokens ELSE 0 END), 0),
    COALESCE(SUM(CASE WHEN settled IS NULL THEN reserved_usd ELSE 0 END), 0),
    COUNT(CASE WHEN holder <> 'ledger' THEN 1 END), COUNT(CASE WHEN settled IS NULL THEN 1 END),
    COALESCE(SUM(seconds), 0.0), COUNT(CASE WHEN NOT metered THEN 1 END),
    COUNT(CASE WHEN NOT priced THEN 1 END)
    FROM spend WHERE {} = ?"""
_OPENED = f"id, stamp, {', '.join(_PURPOSE)}, reserved_tokens, reserved_usd"
_SETTLED = f"id, stamp, {', '.join(_PURPOSE)}, {', '.join(_CHARGE[:-1])}, used_model"


class SpendBook:
    """Access to the spend table, in a transaction or for reading only."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def reserve(
        self, purpose: Purpose, holder: str, tokens: int, usd: int, now: float, until: float
    ) -> Reserved:
        """Open a row with a unique stamp."""
        moment = datetime.fromtimestamp(now, UTC)
        taken = "SELECT 1 FROM spend WHERE stamp = ?"
        while self._connection.execute(taken, (_text(moment),)).fetchone():
            moment += timedelta(microseconds=1)
        stamp = _text(moment)
        row = (stamp, day_of(stamp), *_values(purpose), holder, now, until, tokens, usd)
        written = self._connection.execute(INSERT_USE, row)
        return Reserved(written.lastrowid or 0, stamp, purpose, tokens, usd)

    def settle(self, reserved: Reserved, charge: Charge, now: float) -> bool:
        """Settle an open row; False, without a change, if there is no such open row."""
        return self._one_row(
            "UPDATE spend SET settled = ?, tokens = ?, usd = ?, tokens_in = ?, tokens_out = ?, "
            "metered = ?, priced = ?, seconds = ?, verdict = ?, used_model = ? "
            "WHERE id = ? AND stamp = ? AND settled IS NULL",
            (now, *_values(charge), reserved.id, reserved.stamp),
        )

    def cancel(self, reserved: Reserved) -> bool:
        """Delete an open row whose dispatch did not start."""
        return self._one_row(
            "DELETE FROM spend WHERE id = ? AND stamp = ? AND settled IS NULL",
            (reserved.id, reserved.stamp),
        )

    def of_wave(self, wave: str) -> Total:
        """The total of a wave, on all days."""
        return Total(*self._connection.execute(_TOTAL.format("wave"), (wave,)).fetchone())

    def of_day(self, day: str) -> Total:
        """The total of a UTC day, YYYY-MM-DD."""
        return Total(*self._connection.execute(_TOTAL.format("day"), (day,)).fetchone())

    def measured(self, backend: str, model: str, phase: str) -> list[tuple[int, int | None]]:
        """Tokens and micro-USD (None: unknown) of the newest known uses of a kind."""
        rows = self._connection.execute(
            "SELECT tokens, CASE WHEN priced THEN usd END FROM spend WHERE backend = ? AND "
            f"model = ? AND phase = ? AND metered AND tokens > 0 ORDER BY id DESC "
            f"LIMIT {_LEARNT_FROM}",
            (backend, model, phase),
        )
        return rows.fetchall()

    def open_holders(self) -> list[tuple[str, float]]:
        """The holders of unsettled reservations, each with the earliest end of one of them."""
        query = "SELECT holder, MIN(until) FROM spend WHERE settled IS NULL GROUP BY holder"
        return [(holder, until) for holder, until in self._connection.execute(query).fetchall()]

    def open_uses(self, holder: str | None = None) -> list[OpenUse]:
        """All unsettled reservations, or those of a holder."""
        whose = "" if holder is None else " AND holder = ?"
        rows = self._connection.execute(
            f"SELECT {_OPENED}, holder, since, until FROM spend WHERE settled IS NULL{whose} "
            "ORDER BY id",
            () if holder is None else (holder,),
        ).fetchall()
        return [
            OpenUse(Reserved(row[0], row[1], Purpose(*row[2:8]), row[8], row[9]), *row[10:])
            for row in rows
        ]

    def overruns(self) -> list[Overrun]:
        """The newest uses that exceeded their reservation."""
        rows = self._connection.execute(
            "SELECT backend, model, phase, settled, tokens, usd FROM "
            f"(SELECT * FROM spend WHERE holder <> ? ORDER BY id DESC LIMIT {_LEARNT_FROM}) n "
            "WHERE settled IS NOT NULL AND (tokens > reserved_tokens OR usd > reserved_usd)",
            (_IMPORTED,),
        )
        return [Overrun((row[0], row[1], row[2]), *row[3:]) for row in rows]

    def unledgered(self) -> list[Use]:
        """Settled uses that may be missing in the ledger, the oldest first."""
        rows = self._connection.execute(
            f"SELECT {_SETTLED} FROM spend WHERE settled IS NOT NULL AND NOT told ORDER BY id"
        ).fetchall()
        return [Use(row[0], row[1], Purpose(*row[2:8]), _charge(*row[8:])) for row in rows]

    def mark_ledgered(self, ids: Iterable[int]) -> int:
        """Mark settled uses as written to the ledger; returns the number of new marks."""
        mark = "UPDATE spend SET told = TRUE WHERE id = ? AND settled IS NOT NULL AND NOT told"
        return sum(self._connection.execute(mark, (row_id,)).rowcount for row_id in ids)

    def tokens_since(self, since: float, wave: str | None = None) -> dict[str, int]:
        """Tokens by stamp (imported uses: by key) of the settled uses since `since` (wall clock).
        `wave` None means all waves."""
        found = self._connection.execute(
            "SELECT stamp, tokens FROM spend WHERE settled IS NOT NULL AND day >= ? AND since >= ? "
            "AND (CAST(? AS TEXT) IS NULL OR wave = ?)",
            (utc_day(since), since, wave, wave),
        )
        return dict(found.fetchall())

    def import_uses(self, uses: Iterable[LedgerUse], day: str) -> int:
        """Charge uses of other programs to `day`, each key once; returns the number of new uses.
        They are settled and already in the ledger."""
        return sum(
            self._connection.execute(
                "INSERT INTO spend(stamp, day, wave, item, number, phase, backend, "
                "model, holder, since, until, reserved_tokens, reserved_usd, settled, tokens, usd, "
                "metered, priced, seconds, verdict, used_model, told) "
                "VALUES(?, ?, ?, '', 0, '', '', '', ?, ?, ?, 0, 0, ?, ?, 0, "
                "TRUE, TRUE, 0.0, '', '', TRUE) ON CONFLICT(stamp) DO NOTHING",
                (use.key, day, use.wave, _IMPORTED, use.at, use.at, use.at, use.tokens),
            ).rowcount
            for use in uses
        )

    def _one_row(self, statement: str, values: tuple[object, ...]) -> bool:
        return self._connection.execute(statement, values).rowcount == 1


def day_of(stamp: str) -> str:
    """The UTC day of a stamp."""
    return stamp[:10]


def utc_day(wall_s: float) -> str:
    """The UTC day of a time in seconds since the epoch."""
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d")


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _charge(
    tokens: int, usd: int, into: int | None, out: int | None, metered: int, priced: int, *rest: Any
) -> Charge:
    """The charge in a row, with numbers converted to booleans."""
    return Charge(tokens, usd, into, out, bool(metered), bool(priced), *rest)


def _values(record: Purpose | Charge) -> tuple[object, ...]:
    return tuple(getattr(record, field.name) for field in fields(record))
