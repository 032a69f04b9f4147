"""Old events in archives beside the database: reads find them, and faults of a file are told."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from state_store.api import StateAPI
from state_store.archives.segments import archive_path, archives_in
from state_store.database.interface import Store
from state_store.database.schema import VERSION
from state_store.database.store import EventStore
from state_store.documents.errors import CannotRunError
from state_store.views.anchors import Anchor, lost
from state_store.views.archiving import (
    Part,
    archive,
    has_free_pages,
    remove_spare,
    unnoted,
)
from state_store.views.rebuild import examine, rebuild
from state_store.views.reconcile import reconcile_stores
from state_store.views.store_summary import StoreSummary
from tests.support.archives import old_parts
from tests.support.interpreter import PYTHON
from tests.support.programs import ROOT

WAVES = 12
Events = list[dict[str, Any]]
ARCHIVING = """
import sys, time
from state_store.database.store import EventStore
from state_store.views.archiving import archive
from tests.support.archives import old_parts
with EventStore(sys.argv[1]) as store:
    for done in archive(store, old_parts(store, time.time() + 60, ())):
        print(done.events)
"""


def later() -> float:
    return time.time() + 60


def wave(store: Store, number: int) -> None:
    stream, name = f"wave:w{number}", f"item-{number}"
    judged = {"slug": name, "number": 1, "verdict": "verified", "reason": None}
    events: list[tuple[str, Any]] = [
        ("wave_started", {"wave_id": f"w{number}", "items": [name]}),
        ("attempt_started", {"slug": name, "number": 1, "phase": "build"}),
        ("attempt_judged", judged | {"evidence": {"receipts": ["all passed"] * 700}}),
        ("item_settled", {"slug": name, "verdict": "verified", "reason": None}),
        ("item_shipped", {"slug": name, "commit": f"{number:040x}"}),
        ("wave_finished", {"aborted": False, "abort_reason": None}),
    ]
    traced = {"agent_id": f"w{number}/{name}/1", "wave": f"w{number}", "item": name}
    for kind, payload in events:
        store.append(stream, kind, payload)
        if kind == "attempt_started":
            store.append("agent_traces", "agent_dispatched", traced)


def filled(path: Path) -> Path:
    with EventStore(path) as store:
        store.append("tracker", "item_created", {"id": "1", "status": "todo"})
        for number in range(WAVES):
            wave(store, number)
    return path


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("filled") / "tracker_events.db")


@pytest.fixture
def database(filled_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(filled_once, tmp_path))


def archived(database: Path) -> Events:
    """All events before everything old is archived."""
    with EventStore(database) as store:
        before = store.read_all()
        assert list(archive(store, old_parts(store, later(), ())))
    return before


def recorded(store: Store) -> Events:
    return [event for event in store.read_all() if event["stream"] != "archives"]


def test_all_reads_give_what_they_gave_before(database: Path) -> None:
    def seen(api: StateAPI) -> list[object]:
        store = api.store
        streams = [name for name in store.heads() if name != "archives"]
        with StoreSummary(str(database)) as summary:
            shown = [
                summary.newest_waves(5),
                [summary.wave(name) for name in summary.newest_waves(99)],
                summary.waves_that_begin("w1"),
            ]
        return [
            recorded(store),
            [store.read(name, after) for name in streams for after in (0, 2, 5)],
            list(store.scan_several(("wave:w3", "agent_traces"), 20)),
            [store.links(name) for name in streams],
            [store.head(name) for name in streams],
            [api.project(name) for name in streams if name.startswith("wave:")],
            *shown,
        ]

    with StateAPI(database) as api:
        before = seen(api)
        with EventStore(database) as store:
            assert list(archive(store, old_parts(store, later(), ())))
        with closing(sqlite3.connect(database)) as connection:
            count = "SELECT COUNT(*) FROM events WHERE stream LIKE 'wave:%'"
            assert connection.execute(count).fetchone() == (WAVES,)
        assert seen(api) == before
        assert api.store.verify() == ()


def test_the_file_becomes_smaller(database: Path) -> None:
    size = database.stat().st_size
    with EventStore(database) as store:
        assert list(archive(store, old_parts(store, later(), ())))
        assert store.connections.compact(whole=False) > 10
        assert store.verify() == ()
    assert database.stat().st_size < size / 2


def test_a_file_of_an_earlier_version_is_written_anew_only_if_asked(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("VACUUM")
    size = database.stat().st_size
    with EventStore(database) as store:
        assert list(archive(store, old_parts(store, later(), ())))
        assert store.connections.compact(whole=False) == 0
        assert store.connections.compact(whole=True) > 10
        assert not has_free_pages(store)
        store.append("tracker", "item_created", {"id": "2"})
        assert store.verify() == ()
    assert database.stat().st_size < size / 2


def test_young_and_running_waves_stay(database: Path) -> None:
    with EventStore(database) as store:
        assert old_parts(store, time.time() - 60, ()) == []
        kept = [part.stream for part in old_parts(store, later(), ("w3", "w5"))]
    assert len(kept) == WAVES - 2
    assert {"wave:w3", "wave:w5"}.isdisjoint(kept)


def test_little_is_left_for_later(tmp_path: Path) -> None:
    with EventStore(tmp_path / "tracker_events.db") as store:
        wave(store, 1)
        assert old_parts(store, later(), ()) == []


def test_the_beginning_of_a_long_stream_is_archived_in_parts(tmp_path: Path) -> None:
    text = "x" * 700
    with EventStore(tmp_path / "tracker_events.db") as store:
        for _ in range(2):
            store.append_many("agent_traces", [("told", {"n": n, "t": text}) for n in range(3_100)])
            before, parts = store.read("agent_traces"), old_parts(store, later(), ())
            assert {part.stream for part in parts} == {"agent_traces"}
            assert list(archive(store, parts))
            assert store.read("agent_traces") == before
            assert store.verify() == ()
        assert _rows_of(store, "agent_traces") == 3_000
        assert len(archives_in(tmp_path)) > 1
        version = store.append("agent_traces", "told", {})
        assert store.read("agent_traces", version - 1)[0]["version"] == 6_201


def _rows_of(store: EventStore, stream: str) -> int:
    query = "SELECT COUNT(*) FROM events WHERE stream = ?"
    return int(store.connections.reader().execute(query, (stream,)).fetchone()[0])


def test_an_archived_wave_can_go_on_and_be_archived_again(database: Path) -> None:
    archived(database)
    with EventStore(database) as store:
        asked = {"repo": "r", "text": "y" * 70_000}
        assert store.append("wave:w3", "pull_request", asked) == 7
        before = recorded(store)
        assert store.verify() == ()
        assert [part.first for part in old_parts(store, later(), ())] == [7]
        assert list(archive(store, old_parts(store, later(), ())))
        assert recorded(store) == before
        assert store.verify() == ()


def test_a_writer_that_was_away_meanwhile_appends_at_the_end(database: Path) -> None:
    with EventStore(database) as away, EventStore(database) as other:
        away.append("wave:w3", "pull_request", {"n": 1})
        for number in (2, 3):
            other.append("wave:w3", "pull_request", {"n": number})
        assert list(archive(other, old_parts(other, later(), ())))
        assert away.append("wave:w3", "pull_request", {"n": 4}) == 10
        assert [event["version"] for event in other.read("wave:w3")] == [*range(1, 11)]
        assert other.verify() == ()


@pytest.mark.parametrize("streams", [("wave:w0",), ("wave:w0", "agent_traces")])
def test_a_reader_under_way_misses_nothing(tmp_path: Path, streams: tuple[str, ...]) -> None:
    with EventStore(tmp_path / "tracker_events.db") as store, EventStore(store.path) as other:
        for number in range(4):
            store.append_many("wave:w0", [("told", {"t": "x" * 100})] * 300)
            store.append_many("agent_traces", [("told", {"n": number})] * 900)
        before = list(store.scan_several(streams))
        reader = store.scan("wave:w0") if len(streams) == 1 else store.scan_several(streams)
        seen = [next(reader)]
        assert list(archive(other, old_parts(other, later(), ())))
        assert [*seen, *reader] == before


def test_who_is_later_archives_nothing_twice(database: Path) -> None:
    with EventStore(database) as one, EventStore(database) as two:
        parts = old_parts(two, later(), ())
        assert len(list(archive(one, parts))) == 1
        assert list(archive(two, parts)) == []
        assert two.verify() == ()
    assert [path.name for path in archives_in(database.parent).values()] == ["1.jsonl.gz"]
    assert not list((database.parent / "archive").glob(".*"))


def test_two_at_once_and_a_run_beside_them(database: Path) -> None:
    with EventStore(database) as store:
        before = store.read_all()
        command = [*PYTHON, "-c", ARCHIVING, str(database)]
        both = [
            subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)
        ]
        added = 0
        # Fewer than the claims that always stay.
        while added < 1_000 and any(child.poll() is None for child in both):
            added = store.append("claims", "told", {"n": added})
        told = [child.communicate()[0].split() for child in both]
        assert sorted(told) == [[], [str(6 * WAVES)]]
        assert [event for event in recorded(store) if event["stream"] != "claims"] == before
        assert len(store.read("claims")) == added
        assert store.verify() == ()


def test_anchors_of_archived_events_hold(database: Path) -> None:
    with EventStore(database) as store:
        links = store.links("wave:w3")
        anchors = [Anchor("wave:w3", version, links[version][:16]) for version in links]
        assert list(archive(store, old_parts(store, later(), ())))
        wrong = [Anchor("wave:w3", 2, "0" * 16), Anchor("wave:w3", 7, "0" * 16)]
        assert set(lost(store, [*anchors, *wrong])) == set(wrong)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)


def longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def exchanged(path: Path) -> None:
    """Another archive, sound by itself, in its place."""
    folder = path.parent / "other"
    folder.mkdir()
    with EventStore(folder / "tracker_events.db") as store:
        for number in range(WAVES):
            wave(store, number)
    archived(folder / "tracker_events.db")
    shutil.copy(archive_path(folder, 1), path)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("fault", [Path.unlink, cut, flipped, longer, exchanged, a_folder])
def test_a_faulty_archive_is_told_and_stops_no_reader(
    database: Path, fault: Callable[[Path], None], capfd: pytest.CaptureFixture[str]
) -> None:
    (database.parent / fault.__name__).mkdir()  # a process warns of a file once
    database = Path(shutil.copy(database, database.parent / fault.__name__))
    before = archived(database)
    path = archive_path(database.parent, 1)
    fault(path)
    [sentence] = examine(database, ()).sentences
    assert str(path) in sentence
    assert "put back a copy of it" in sentence
    with StateAPI(database) as api, StoreSummary(str(database)) as summary:
        for number in range(WAVES):
            api.project(f"wave:w{number}")
            summary.wave(f"w{number}")
        assert len(recorded(api.store)) >= len(before) - 5 * WAVES
        api.append("wave:w3", "pull_request", {})
    assert fault is longer or f"WARNING: the archive {path}" in capfd.readouterr().err


def test_a_lost_archive_is_given_up_and_all_else_stays(database: Path) -> None:
    archived(database)
    archive_path(database.parent, 1).unlink()
    health = examine(database, ())
    assert not health.is_whole
    done = rebuild(database, health, None, ())
    assert done.set_aside is None
    assert examine(database, ()).is_whole
    with EventStore(database) as store:
        assert store.items() == [{"id": "1", "status": "todo"}]
        wave(store, 99)
        for number in range(20, 20 + WAVES):
            wave(store, number)
        [done_again] = archive(store, old_parts(store, later(), ()))
        assert Path(done_again.path).name == "2.jsonl.gz"  # the lost one may come back
    assert examine(database, ()).is_whole


def test_a_new_database_takes_the_archives_in(database: Path) -> None:
    before = archived(database)
    for path in database.parent.glob("tracker_events.db*"):
        path.rename(path.with_name(f"old-{path.name}"))
    (database.parent / "journal").mkdir()
    (database.parent / "tracker_events.db.lock").touch()
    health = examine(database, ())
    assert health.missing
    rebuild(database, health, None, ())
    assert examine(database, ()).is_whole
    with EventStore(database) as store:
        waves = [event for event in before if event["stream"].startswith("wave:")]
        assert [e for e in store.read_all() if e["stream"].startswith("wave:")] == waves
        wave(store, 99)
        assert store.verify() == ()


def test_a_new_database_does_without_a_damaged_archive(database: Path) -> None:
    archived(database)
    cut(archive_path(database.parent, 1))
    for path in database.parent.glob("tracker_events.db*"):
        path.unlink()
    (database.parent / "journal").mkdir()
    (database.parent / "tracker_events.db.lock").touch()
    rebuild(database, examine(database, ()), None, ())
    assert examine(database, ()).is_whole
    with EventStore(database) as store:
        assert store.read("rebuilds")[0]["payload"]["archives"] == [1]


def test_an_older_copy_of_the_database_makes_an_archive_spare(
    database: Path, filled_once: Path
) -> None:
    archived(database)
    with EventStore(database) as store:
        assert unnoted(store) == []
    for path in database.parent.glob("tracker_events.db*"):
        path.unlink()
    shutil.copy(filled_once, database)
    with EventStore(database) as store:
        [path] = unnoted(store)
        assert examine(database, ()).is_whole
        assert remove_spare(store, path)
        assert not path.exists()


def test_an_archive_with_other_events_is_never_spare(database: Path) -> None:
    archived(database)
    for path in database.parent.glob("tracker_events.db*"):
        path.unlink()
    with EventStore(database) as store:
        [path] = unnoted(store)
        assert not remove_spare(store, path)
        assert path.exists()
        wave(store, 3)
        for number in range(50, 50 + WAVES):
            wave(store, number)
        [done] = archive(store, old_parts(store, later(), ()))
        assert Path(done.path).name == "2.jsonl.gz"


def test_a_damaged_stream_stays_in_the_database(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DROP TRIGGER events_never_change")
        connection.execute(
            "UPDATE events SET payload = '{}' WHERE stream = 'wave:w3' AND version = 2"
        )
    with EventStore(database) as store:
        [done] = archive(store, old_parts(store, later(), ()))
        assert done.streams == WAVES - 1
        assert _rows_of(store, "wave:w3") == 6
        assert [problem.stream for problem in store.verify()] == ["wave:w3"]


def test_nothing_else_deletes_an_event(database: Path) -> None:
    archived(database)
    with closing(sqlite3.connect(database)) as connection:
        for where in ("stream = 'tracker'", "stream = 'wave:w3'", "stream = 'archives'"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(f"DELETE FROM events WHERE {where}")
        for change in ("DELETE FROM archived", "UPDATE archived SET archive = 2"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(change)


def test_a_database_of_the_earlier_version_is_archived_too(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        for trigger in ("archived_never_changes", "archived_never_goes"):
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute("DROP TABLE archived")
        connection.execute("DROP TRIGGER events_never_go")
        connection.execute(
            "CREATE TRIGGER events_never_go BEFORE DELETE ON events "
            "BEGIN SELECT RAISE(ABORT, 'events are append-only'); END"
        )
        connection.execute(f"PRAGMA user_version = {VERSION - 1}")
    with EventStore(database) as store:
        before = store.read_all()
        parts = old_parts(store, later(), ())
        assert store.verify() == ()
        assert list(archive(store, parts))
        assert recorded(store) == before
        assert store.verify() == ()


def test_a_newer_database_is_refused(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(CannotRunError, match="newer"):
        EventStore(database)


def test_stores_that_were_used_apart_are_merged_from_archives(
    database: Path, filled_once: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Path(shutil.copy(filled_once, tmp_path / "other"))
    with StateAPI(other) as theirs:
        wave(theirs.store, 77)
    archived(database)
    archived(other)
    with StateAPI(database) as mine, StateAPI(other) as theirs:
        reconcile_stores(mine, theirs)
        told = [event["type"] for event in mine.get("wave:w77")]
        assert told == [event["type"] for event in theirs.get("wave:w77")]
        assert len(mine.get("wave:w3")) == 6
        assert mine.store.verify() == ()
    archive_path(tmp_path, 1).unlink()
    with (
        StateAPI(database) as mine,
        StateAPI(other) as theirs,
        pytest.raises(CannotRunError, match="is missing"),
    ):
        reconcile_stores(mine, theirs)


def test_an_event_of_another_program_stays_as_it_is(database: Path) -> None:
    with EventStore(database) as store, closing(sqlite3.connect(database)) as connection:
        parts = [Part("wave:w3", 1, 7, 99_999)]
        store.append("wave:w3", "pull_request", {"n": 1})
        with connection:
            connection.execute("DROP TRIGGER events_never_change")
            connection.execute(
                "UPDATE events SET payload = '{' || char(10) || '}' "
                "WHERE stream = 'wave:w3' AND version = 7"
            )
        assert list(archive(store, parts)) == []
