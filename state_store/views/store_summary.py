"""Reads the newest rows of a database by indexed queries, without opening the store.

For a look that must be quick on a store of any size. It writes nothing and folds no long stream. A
database of the original project, or of an older version, has fewer rows to show.
"""

from __future__ import annotations

import json
import os
import sqlite3

from state_store.documents.errors import TidegateError
from state_store.sql.addresses import address_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Self

    from state_store.sql.addresses import HaltRow
    from state_store.sql.connection import Archives, Connection

_BLOCK, _BLOCKS = 5000, 4  # events that are searched for the newest waves, from the end
_MICRO = 1_000_000
_ARCHIVES_SINCE = 5  # as in `schema`, which is not imported here
_SHOWN = "('wave_started', 'wave_finished', 'item_settled', 'item_shipped')"


class StoreSummary:
    """An open database, for reading. Raises one of `Error` if it cannot be read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._address = address_of(os.path.split(path)[0])
        self._is_file = self._has_archives = self._address is None
        if self._is_file:
            quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
            opened = sqlite3.connect(f"file:{quoted}?mode=ro", uri=True)
            self._connection: Connection = opened
            self._close: Callable[..., object] = lambda *_: opened.close()
            return
        from pathlib import Path  # noqa: PLC0415 - only with a url

        from state_store.place import reading  # noqa: PLC0415 - only with a url

        place = reading(Path(path))
        self._connection, version = place.__enter__()
        self._has_archives = version >= _ARCHIVES_SINCE
        self._close = place.__exit__  # which translates the server's errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._close(*error)

    def items(self) -> list[dict[str, Any]]:
        """The tracker's items as the store keeps them."""
        if self._rows("SELECT 1 FROM item_blocks LIMIT 1"):
            from state_store.database.kept_items import every  # noqa: PLC0415 - by need

            return [kept.item for _, kept in every(self._connection, "tracker")]
        query = "SELECT json FROM items WHERE stream = 'tracker' ORDER BY position"
        return [json.loads(row[0]) for row in self._rows(query)]

    def halt_row(self) -> HaltRow | None:
        """The halt of all machines that share the rows, if it is set."""
        if self._address is None:
            return None
        from state_store.postgres.halts import row  # noqa: PLC0415 - only with a url

        return row(self._connection, self._address.schema)

    def newest_waves(self, most: int) -> list[str]:
        """The ids of the waves that began last, the newest first."""
        found: dict[str, int] = {}  # the event of its start, which may be archived
        newest = self._rows("SELECT MAX(id) FROM events")
        last = newest[0][0] if newest else 0
        for block in range(_BLOCKS):
            end = (last or 0) - block * _BLOCK
            if len(found) >= most or end <= 0:
                break
            rows = self._rows(
                "SELECT stream, MAX(id) FROM events WHERE id <= ? AND id > ?"
                " AND type = 'wave_started' GROUP BY stream",
                (end, end - _BLOCK),
            )
            found = {row[0].partition(":")[2]: row[1] for row in rows} | found
        query = (
            "SELECT stream, first_id FROM archived WHERE first = 1 AND stream >= 'wave:'"
            " AND stream < 'wave;' ORDER BY first_id DESC LIMIT ?"
        )
        archived = self._rows(query, (most,)) if self._has_archives else ()
        found = {row[0].partition(":")[2]: row[1] for row in archived} | found
        return sorted(found, key=lambda name: -found[name])[:most]

    def waves_that_begin(self, begin: str) -> list[str]:
        """The ids of the waves that begin so, however old they are, or only the one with this id.
        None begin with ""."""
        rows = self._rows(
            "SELECT DISTINCT stream FROM events WHERE stream >= ? AND stream < ?",
            (f"wave:{begin}", f"wave:{begin}\U0010ffff"),
        )
        found = [row[0].partition(":")[2] for row in rows if begin]
        return [begin] if begin in found else found

    def wave(self, wave_id: str) -> dict[str, Any]:
        """Start, end, items by verdict, and use of a wave."""
        found: dict[str, Any] = {"wave_id": wave_id, "started": None, "finished": None}
        found |= {"aborted": False, "abort_reason": None, "items": [], "shipped": []}
        verdicts: dict[str, str] = {}
        query = "SELECT type, ts, payload, version FROM events WHERE stream = ? AND type IN "
        rows = self._rows(f"{query}{_SHOWN} ORDER BY version", (f"wave:{wave_id}",))
        for kind, at, text, _ in (*self._archived(f"wave:{wave_id}", rows), *rows):
            payload = json.loads(text)
            if kind == "wave_started":
                items = payload.get("items")
                found |= {"started": found["started"] or at, "finished": None}
                found["items"] = list(items) if isinstance(items, list) else []
            elif kind == "wave_finished":
                reason = payload.get("abort_reason")
                aborted = bool(payload.get("aborted", reason is not None))
                found |= {"finished": at, "aborted": aborted, "abort_reason": reason}
            elif kind == "item_shipped":
                found["shipped"].append(payload.get("slug"))
            else:
                verdicts[str(payload.get("slug"))] = str(payload.get("verdict"))
        refused = {slug: word for slug, word in verdicts.items() if slug not in found["shipped"]}
        return {**found, "not_shipped": refused, **self._use("wave", wave_id)}

    def _archived(self, stream: str, rows: list[Any]) -> list[Any]:
        """The rows like these that were archived; the newest of a stream may be in both places."""
        query = "SELECT 1 FROM archived WHERE stream = ? LIMIT 1"
        if not (self._has_archives and self._rows(query, (stream,))):
            return []
        from pathlib import Path  # noqa: PLC0415 - by need

        from state_store.archives.chain import PAYLOAD, TS, TYPE, VERSION  # noqa: PLC0415 - by need
        from state_store.archives.files import FileArchives  # noqa: PLC0415 - by need
        from state_store.archives.reading import rows_or_warning  # noqa: PLC0415 - by need
        from state_store.archives.segments import segments_after  # noqa: PLC0415 - by need

        found = segments_after(self._connection, [stream], 0, by_id=False)
        archives: Archives = FileArchives(Path(self._path).parent)
        if not self._is_file:
            from state_store.postgres.archives import TableArchives  # noqa: PLC0415 - by need

            archives = TableArchives(lambda: self._connection)
        past = [row for segment in found for row in rows_or_warning(segment, archives)]
        there = {version for _, _, _, version in rows}
        shown = (row for row in past if row[TYPE] in _SHOWN and row[VERSION] not in there)
        return [(row[TYPE], row[TS], row[PAYLOAD], row[VERSION]) for row in shown]

    def day(self, day: str) -> dict[str, Any]:
        """The use of a UTC day, YYYY-MM-DD."""
        return {"day": day, **self._use("day", day)}

    def _use(self, column: str, value: str) -> dict[str, Any]:
        """Charges and open reservations. A row without a known amount makes a sum a lower bound."""
        query = f"""SELECT SUM(CASE WHEN settled IS NULL THEN 0 ELSE tokens END),
            SUM(CASE WHEN settled IS NULL THEN 0 ELSE usd END),
            SUM(CASE WHEN settled IS NULL THEN reserved_tokens ELSE 0 END),
            SUM(CASE WHEN settled IS NULL THEN reserved_usd ELSE 0 END),
            COUNT(*), COUNT(CASE WHEN settled IS NULL THEN 1 END),
            COUNT(CASE WHEN NOT metered THEN 1 END), COUNT(CASE WHEN NOT priced THEN 1 END)
            FROM spend WHERE {column} = ?"""
        rows = self._rows(query, (value,))
        tokens, usd, held, held_usd, count, running, unmetered, unpriced = (
            (one or 0 for one in rows[0]) if rows else (0,) * 8
        )
        return {
            "tokens": tokens,
            "cost_usd": round(usd / _MICRO, 6),
            "reserved_tokens": held,
            "reserved_usd": round(held_usd / _MICRO, 6),
            "dispatches": count,
            "dispatches_running": running,
            "unmetered": unmetered,
            "unpriced": unpriced,
        }

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        """All rows; none if the database has no such table."""
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise


Error = (sqlite3.Error, TidegateError)


def wave_named(path: str, asked: str) -> str:
    """The wave of this id, or the only one whose id begins so, as in branch names. Raises
    InputError."""
    from state_store.documents.errors import InputError  # noqa: PLC0415 - only a mistake needs it

    with StoreSummary(path) as summary:
        found = summary.waves_that_begin(asked)
    if len(found) != 1:
        why = "several waves begin with" if found else "there is no wave"
        raise InputError(f"{why} {asked}; `tidegate state waves` lists them")
    return found[0]
