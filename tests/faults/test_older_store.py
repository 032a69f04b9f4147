"""A database from before reservations were kept: read as it is, and made ours by a write."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from state_store.database.schema import VERSION
from state_store.database.spend import Purpose, Total
from state_store.database.store import EventStore


def older(path: Path) -> None:
    with EventStore(path) as store:
        store.append("tracker", "item_created", {"id": "1"})
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE spend")
        connection.execute("DROP TABLE item_blocks")
        connection.execute("PRAGMA user_version = 1")
    connection.close()


def version(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()


def of_wave(store: EventStore) -> Total:
    return store.read_spend(lambda book: book.of_wave("w"), Total())


def test_an_older_database_is_read_without_a_change(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    older(path)
    with EventStore(path) as store:
        assert of_wave(store) == Total()
        assert store.items() == [{"id": "1"}]
        assert store.verify() == ()
    assert version(path) == 1


def test_the_first_write_makes_it_ours_for_all_who_have_it_open(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    older(path)
    purpose = Purpose("w", "i", 1, "build", "b", "m")
    with EventStore(path) as reader, EventStore(path) as writer:
        assert of_wave(reader) == Total()
        with writer.transaction() as transaction:
            transaction.spend.reserve(purpose, "h", 5, 0, transaction.now.wall_s, 1e12)
        assert of_wave(writer) == of_wave(reader) == Total(reserved_tokens=5, dispatches=1, open=1)
        reader.append("tracker", "item_created", {"id": "2"})
        assert reader.verify() == ()
    assert version(path) == VERSION
