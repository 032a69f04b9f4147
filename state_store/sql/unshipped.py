"""The rows about work that is not shipped, which other machines with the same rows can go on with.

Only a store that machines share has them. A journal entry is what its item's journal file has.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from state_store.sql.connection import Connection

T = TypeVar("T")
MOST_OF_OUTPUT = 64 * 1024
_PATCHES = "step-%.patch"


class Place(NamedTuple):
    """The place of an item's work: the tree `tree` of the commit `commit` at `ref` on the remote,
    which changes `base`. Without a `ref` the store has the patch. `size` is that of the patch."""

    base: str = ""
    tree: str = ""
    ref: str = ""
    commit: str = ""
    size: int = 0


class Unshipped(NamedTuple):
    """An item's work. `folder` is the name of the state folder that had it last, and `path` is the
    place of its files on `host`."""

    slug: str
    wave: str
    host: str
    folder: str
    path: str
    entry: Mapping[str, Any]
    place: Place = Place()


class Output(NamedTuple):
    """A file of an item in the state folder of one machine: `path` on `host`. `body` is the packed
    content, or the end of it; None if nothing of it is kept."""

    wave: str
    slug: str
    name: str
    host: str
    path: str
    size: int
    body: str | None


def packed(content: bytes) -> str:
    """The content as the store keeps it."""
    return base64.b64encode(zlib.compress(content)).decode("ascii")


def unpacked(body: str, most: int) -> bytes:
    """The content of a packed text; empty if it is damaged or has more than `most` bytes."""
    try:
        opened = zlib.decompressobj()
        content = opened.decompress(base64.b64decode(body, validate=True), max(most, 1))  # 0: any
    except (ValueError, zlib.error):
        return b""
    return content if opened.eof else b""


_ENTRY = "slug, wave, host, folder, path, entry"
_PLACE = "base, tree, ref, commit_id, size"
_OLD = (
    "o.at < ? AND NOT (o.name LIKE ? AND EXISTS "
    "(SELECT 1 FROM unshipped AS u WHERE u.slug = o.slug AND u.wave = o.wave))"
)


class UnshippedBook:
    """The rows, within one transaction or for reading only."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, one: Unshipped, now: float) -> None:
        """Write the entry of an item. The place of its work stays."""
        row = (*one[:5], json.dumps(one.entry), now)
        self._connection.execute(
            f"INSERT INTO unshipped({_ENTRY}, at) VALUES(?,?,?,?,?,?,?) "
            "ON CONFLICT(slug) DO UPDATE SET wave = excluded.wave, host = excluded.host, "
            "folder = excluded.folder, path = excluded.path, "
            "entry = excluded.entry, at = excluded.at",
            row,
        )

    def put_place(self, slug: str, place: Place) -> None:
        """The item's work is at `place` now."""
        self._connection.execute(
            "UPDATE unshipped SET base = ?, tree = ?, ref = ?, commit_id = ?, size = ? "
            "WHERE slug = ?",
            (*place, slug),
        )

    def drop(self, slug: str) -> None:
        """The item is shipped."""
        self._connection.execute(
            "DELETE FROM outputs WHERE wave = (SELECT wave FROM unshipped WHERE slug = ?) "
            "AND slug = ? AND name LIKE ?",
            (slug, slug, _PATCHES),
        )
        self._connection.execute("DELETE FROM unshipped WHERE slug = ?", (slug,))

    def older(self, before: float) -> list[Unshipped]:
        """The rows that were last written before a time."""
        query = f"SELECT {_ENTRY}, {_PLACE} FROM unshipped WHERE at < ? ORDER BY slug"
        return [_of_row(row) for row in self._connection.execute(query, (before,)).fetchall()]

    def refs(self) -> set[str]:
        """The refs at which work is."""
        query = "SELECT ref FROM unshipped WHERE ref <> ''"
        return {row[0] for row in self._connection.execute(query).fetchall()}

    def drop_older(self, slug: str, before: float) -> None:
        """Remove an item's row, if it is still as old."""
        if self._connection.execute(
            "SELECT 1 FROM unshipped WHERE slug = ? AND at < ?", (slug, before)
        ).fetchone():
            self.drop(slug)

    def count_of_old_outputs(self, before: float) -> int:
        """The number of outputs from before a time, without the patches of unshipped work."""
        query = f"SELECT COUNT(*) FROM outputs AS o WHERE {_OLD}"
        found: int = self._connection.execute(query, (before, _PATCHES)).fetchone()[0]
        return found

    def drop_old_outputs(self, before: float, most: int) -> int:
        """Remove some of them, and return their number."""
        gone = self._connection.execute(
            "DELETE FROM outputs WHERE (wave, slug, name) IN "
            f"(SELECT wave, slug, name FROM outputs AS o WHERE {_OLD} LIMIT ?) RETURNING 1",
            (before, _PATCHES, most),
        )
        return len(gone.fetchall())

    def drop_patches(self, wave: str, slug: str) -> None:
        """The item's work of a wave is somewhere else now, or later work is."""
        self._connection.execute(
            "DELETE FROM outputs WHERE wave = ? AND slug = ? AND name LIKE ?",
            (wave, slug, _PATCHES),
        )

    def of(self, slugs: Collection[str]) -> dict[str, Unshipped]:
        """The rows of items by slug."""
        marks = ", ".join("?" * len(slugs))
        query = f"SELECT {_ENTRY}, {_PLACE} FROM unshipped WHERE slug IN ({marks})"
        found = self._connection.execute(query, tuple(slugs)).fetchall() if slugs else ()
        return {row[0]: _of_row(row) for row in found}

    def put_output(self, one: Output, now: float) -> None:
        """Keep a file of an item, in place of an earlier one of its name."""
        self._connection.execute(
            "INSERT INTO outputs(wave, slug, name, host, path, size, body, at) "
            "VALUES(?,?,?,?,?,?,?,?) ON CONFLICT(wave, slug, name) DO UPDATE SET "
            "host = excluded.host, path = excluded.path, size = excluded.size, "
            "body = excluded.body, at = excluded.at",
            (*one, now),
        )

    def output(self, wave: str, slug: str, name: str) -> str | None:
        """The packed content of an item's file; None if it is not there."""
        query = "SELECT body FROM outputs WHERE wave = ? AND slug = ? AND name = ?"
        row = self._connection.execute(query, (wave, slug, name)).fetchone()
        return row[0] if row else None

    def printed(self, wave: str, slug: str) -> list[Output]:
        """The outputs of an item's agents and tests, the oldest first."""
        query = (
            "SELECT wave, slug, name, host, path, size, body FROM outputs "
            "WHERE wave = ? AND slug = ? AND name NOT LIKE ? ORDER BY at, name"
        )
        found = self._connection.execute(query, (wave, slug, _PATCHES)).fetchall()
        return [Output(*row) for row in found]


def _of_row(row: Sequence[Any]) -> Unshipped:
    """An item's work, with its entry decoded; a damaged one is empty, and so about no item."""
    slug, wave, host, folder, path, text, *place = row
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        entry = {}
    entry = entry if isinstance(entry, dict) else {}
    return Unshipped(slug, wave, host, folder, path, entry, Place(*place))


class NoneUnshipped:
    """The part of a store that no other machine shares."""

    def read_unshipped(self, look: Callable[[UnshippedBook], T]) -> T | None:
        """None, because no other machine would go on with it."""
        del look
        return None
