"""Old events of a store on a server: archives are rows of its schema, which every machine reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from driver.maintenance.findings import Scope
from driver.maintenance.reclaim import reclaim
from driver.preparation.kept_places import Limits
from state_store.database.store import EventStore
from state_store.moving.copying import copy
from state_store.moving.sqlite_ends import FileTarget
from state_store.sql.addresses import keep_rows
from state_store.sql.connection import writing
from state_store.views.archiving import archive
from state_store.views.store_summary import StoreSummary
from tests.integration.test_archives import WAVES, later, recorded, wave
from tests.support.archives import old_parts
from tests.support.postgres import Server
from tests.support.stores import Stores


@pytest.fixture
def stores(postgres: Server) -> Stores:
    return Stores(postgres)


@pytest.fixture
def path(tmp_path: Path, stores: Stores) -> Iterator[Path]:
    stores.settle(tmp_path)
    yield tmp_path / "tracker_events.db"
    keep_rows(tmp_path, None)  # a later test may get the same folder


@pytest.fixture
def store(stores: Stores, path: Path) -> Iterator[EventStore]:
    with stores.open(path) as opened:
        opened.append("tracker", "item_created", {"id": "1", "status": "todo"})
        for number in range(WAVES):
            wave(opened, number)
        yield opened


def seen(store: EventStore) -> list[object]:
    streams = [name for name in store.heads() if name != "archives"]
    with StoreSummary(str(store.path)) as summary:
        shown = [summary.newest_waves(5), *map(summary.wave, summary.newest_waves(99))]
    return [
        recorded(store),
        [store.read(name, after) for name in streams for after in (0, 2, 5)],
        list(store.scan_several(("wave:w3", "agent_traces"), 20)),
        [store.links(name) for name in streams],
        [store.head(name) for name in streams],
        shown,
    ]


def rows(store: EventStore, asked: str) -> int:
    with store.connections.translated:
        found: int = store.connections.reader().execute(asked).fetchone()[0]
    return found


WAVE_ROWS = "SELECT COUNT(*) FROM events WHERE stream LIKE 'wave:%'"


def test_all_reads_give_what_they_gave_before(store: EventStore, stores: Stores) -> None:
    before, anchor = seen(store), store.heads()
    size = rows(store, "SELECT SUM(LENGTH(payload)) FROM events")
    [done] = archive(store, old_parts(store, later(), ()))
    assert done.streams == WAVES
    assert rows(store, WAVE_ROWS) == WAVES
    assert rows(store, "SELECT SUM(LENGTH(body)) FROM archives") < size / 10
    assert seen(store) == before
    assert (store.verify(), store.check_anchor(anchor)) == ((), ())
    with stores.open(store.path) as other:  # another machine
        assert recorded(other) == before[0]
        assert other.append("wave:w3", "t", {}) == 7
        assert [event["version"] for event in other.read("wave:w3")] == [1, 2, 3, 4, 5, 6, 7]
    assert old_parts(store, later(), ()) == []


def test_events_without_an_archive_and_archives_stay(store: EventStore) -> None:
    assert list(archive(store, old_parts(store, later(), ())))
    for statement in (
        "DELETE FROM events WHERE stream = 'tracker'",
        "DELETE FROM events WHERE stream = 'wave:w3'",  # the newest of an archived stream
        "UPDATE events SET payload = '1'",
        "UPDATE archived SET size = 1",
        "DELETE FROM archived",
        "DELETE FROM archives",
    ):
        with (
            pytest.raises(Exception, match="append-only"),
            writing(store.connections) as connection,
        ):
            connection.execute(statement)
    assert store.verify() == ()


def test_of_several_that_archive_at_once_one_does_it(store: EventStore, stores: Stores) -> None:
    parts, before, events = old_parts(store, later(), ()), recorded(store), list[int]()

    def work() -> None:
        with stores.open(store.path) as mine:
            events.extend(done.events for done in archive(mine, parts))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert events == [6 * WAVES]
    assert recorded(store) == before
    assert store.verify() == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE archives SET body = substring(body FROM 1 FOR 100)", "is cut off"),
        ("UPDATE archives SET body = overlay(body PLACING 'x' FROM 50)", "cannot be read"),
        ("UPDATE archives SET body = body || 'more'", "was changed after it was written"),
        ("DELETE FROM archives", "is missing"),
    ],
)
def test_a_damaged_archive_is_found(store: EventStore, change: str, why: str) -> None:
    assert list(archive(store, old_parts(store, later(), ())))
    with writing(store.connections) as connection:
        connection.execute("ALTER TABLE archives DISABLE TRIGGER archives_never_change")
        connection.execute(change)
    [problem] = store.verify()
    assert (problem.kind, problem.version) == ("archive", 1)
    assert why in problem.why


def test_gc_archives_and_a_second_one_finds_nothing(store: EventStore, path: Path) -> None:
    scope = Scope(path.parent, None, None, {}, 0.0, Limits())
    planned = [step for step in reclaim(replace(scope, dry=True)) if step.kind == "past events"]
    assert [step.why for step in planned] == [f"{WAVES} waves are old"]
    assert rows(store, WAVE_ROWS) == 6 * WAVES
    told = list(reclaim(scope))
    assert [step.done for step in told if step.kind == "past events"] == ["told", "removed"]
    assert rows(store, WAVE_ROWS) == WAVES
    assert [step for step in reclaim(scope) if step.kind == "past events"] == []


def test_a_copy_into_a_file_has_the_archived_events(
    store: EventStore, stores: Stores, tmp_path: Path
) -> None:
    from state_store.postgres.ends import ServerSource  # noqa: PLC0415 - only with its driver

    assert list(archive(store, old_parts(store, later(), ())))
    target = tmp_path / "copy" / "tracker_events.db"
    ends = ServerSource(stores.address(store.path)), FileTarget(target)
    copy(*ends)
    for end in ends:
        end.close()
    with EventStore(target) as file:
        assert recorded(file) == recorded(store)
        assert file.verify() == ()
