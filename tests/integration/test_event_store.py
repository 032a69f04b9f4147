"""Streams, versions, kept items, transactions and leases on a real database, from many sides."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from state_store import coordination
from state_store.database.kept_items import Fold
from state_store.database.store import EventStore
from state_store.documents.errors import CannotRunError
from state_store.documents.group_commit import GroupCommit
from tests.support.interpreter import PYTHON
from tests.support.manual_clock import ManualClock

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[EventStore]:
    with EventStore(tmp_path / "state" / "tracker_events.db", clock=clock) as opened:
        yield opened


def together(*works: Any) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


# Streams and versions


def test_events_are_never_changed_or_deleted(store: EventStore) -> None:
    store.append("s", "t", {})
    with closing(sqlite3.connect(store.path)) as other:
        for statement in ("UPDATE events SET payload = '1'", "DELETE FROM events"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                other.execute(statement)


def test_commits_are_flushed_to_the_disk(store: EventStore) -> None:
    with closing(sqlite3.connect(store.path)) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    with store.transaction() as transaction:
        level = transaction._connection.execute("PRAGMA synchronous").fetchone()
    assert level[0] >= 2


# Kept items


def test_rebuilt_items_equal_the_kept_ones(store: EventStore) -> None:
    store.append_many(
        "tracker", [("item_created", {"id": f"{n % 700}", "n": n}) for n in range(2000)]
    )
    kept = store.items()
    with closing(sqlite3.connect(store.path)) as other:
        other.execute("UPDATE items SET json = '{}' WHERE id = '5'")
        other.execute("DELETE FROM items WHERE id = '6'")
        other.commit()
    assert {problem.kind for problem in store.verify()} == {"items"}
    assert len(store.verify()) == 2
    assert store.rebuild_items() == 700
    assert store.items() == kept
    assert store.verify() == ()


@pytest.mark.more
def test_a_replay_of_any_history_gives_the_kept_items(store: EventStore) -> None:
    draw = random.Random(7)
    kinds = ["item_created", "item_updated", "item_updated", "item_fields_removed", "item_archived"]
    values = [1, True, 1.0, "1", "x", None, [], {"id": 5}, "\u00e9"]
    history: list[tuple[str, Any]] = []
    for _ in range(3000):
        payload: dict[str, Any] = {draw.choice("pqrs"): draw.choice(values) for _ in range(2)}
        payload |= {"fields": ["p"]} if draw.random() < 0.2 else {}
        name = draw.choice([7, "7", "a", "b", "c", "", " ", True, ["a"], None])
        history.append((draw.choice(kinds), {"id": name} | payload))
    store.append_many("tracker", [*history, ("item_updated", [1]), ("item_updated", {"p": 1})])
    kept = json.dumps(store.items())  # as text: 1 == True
    assert store.verify() == ()
    with closing(sqlite3.connect(store.path)) as other:
        other.execute("DELETE FROM items")
        other.commit()
    assert store.rebuild_items() == 4
    assert json.dumps(store.items()) == kept
    assert store.verify() == ()


def test_a_replay_of_plain_events_gives_the_kept_items(store: EventStore) -> None:
    draw = random.Random(7)
    kinds = ["item_created", "item_updated", "item_updated", "item_fields_removed", "item_archived"]
    ids = [7, *["a", "b", "7"] * 300]
    history = [(draw.choice(kinds), {"id": n, draw.choice("pq"): [n]}) for n in ids]
    history += [("item_updated", {"id": "7", "p": 1}), ("item_created", {"id": " "})]
    store.append_many("tracker", [("item_created", {"id": 7}), *history])
    kept = json.dumps(store.items())
    with closing(sqlite3.connect(store.path)) as other:
        other.execute("DELETE FROM items")
        other.commit()
    assert store.rebuild_items() == 3
    assert json.dumps(store.items()) == kept
    assert '"id": "7"' in kept


@pytest.mark.more
@pytest.mark.parametrize("before", [[], [("item_created", {"id": "T-0"})], [("note", 1)]])
def test_many_new_items_are_kept_like_few(
    store: EventStore, tmp_path: Path, before: list[tuple[str, Any]]
) -> None:
    made: list[tuple[str, Any]] = [("item_created", {"id": n, "t": "\u00e9"}) for n in range(1200)]
    store.append("other", "x", {})
    store.append_many("tracker", before)
    assert store.append_many("tracker", made) == len(before) + 1200
    with EventStore(tmp_path / "few.db", clock=store.clock) as few:
        few.append("other", "x", {})
        for kind, payload in (*before, *made):
            few.append("tracker", kind, payload)
        assert few.heads() == store.heads()
        assert few.items() == store.items()
    assert store.verify() == ()


def test_a_rebuild_writes_what_is_not_so_already_and_nothing_else(store: EventStore) -> None:
    ids = [f"{n}" for n in range(6)]
    store.append_many("tracker", [("item_created", {"id": name}) for name in ids])
    store.append("tracker", "item_updated", {"id": "5", "p": 1})
    kept = store.items()
    with closing(sqlite3.connect(store.path)) as other:
        for change in (
            "UPDATE items SET id = 'gone' WHERE id = '0'",
            "UPDATE items SET json = CAST(x'ff' AS TEXT) WHERE id = '1'",
            "UPDATE items SET id = CAST(x'ff' AS TEXT) WHERE id = '2'",
            "UPDATE items SET version = 99 WHERE id = '3'",
            "CREATE TABLE written(id)",
            "CREATE TRIGGER watch AFTER INSERT ON items "
            "BEGIN INSERT INTO written VALUES(new.id); END",
        ):
            other.execute(change)
        other.commit()
        assert store.rebuild_items() == 6
        written = other.execute("SELECT id FROM written ORDER BY id").fetchall()
    assert written == [("0",), ("1",), ("2",), ("3",)]
    assert store.items() == kept


def test_a_rebuild_names_the_stream_of_an_update_that_it_cannot_read(
    store: EventStore, capsys: pytest.CaptureFixture[str]
) -> None:
    store.append("tracker", "item_created", {"id": "a", "p": 1})
    store.append("tracker", "item_updated", {"id": "a", "p": 2})
    with closing(sqlite3.connect(store.path)) as other:
        other.execute("DROP TRIGGER events_never_change")
        other.execute("UPDATE events SET payload = '{' WHERE version = 2")
        other.commit()
    assert store.rebuild_items() == 1
    assert "event 2 of stream tracker is left out" in capsys.readouterr().err


def test_a_fold_can_be_handed_in(tmp_path: Path) -> None:
    def count(item: dict[str, Any] | None, event: Any) -> dict[str, Any]:
        return {"id": event["payload"]["id"], "seen": (item["seen"] if item else 0) + 1}

    with EventStore(tmp_path / "a.db", folds={"visits": Fold(count)}) as store:
        store.append_many("visits", [("visited", {"id": "x"})] * 3)
        assert store.items("visits") == [{"id": "x", "seen": 3}]
        assert store.verify() == ()


# Transactions


# Many writers


def test_threads_share_commits() -> None:
    """Jobs that come while a commit is on its way are in the next one together."""
    commits: list[int] = []
    first_is_open, go_on = threading.Event(), threading.Event()

    class Session(list[int]):
        def __enter__(self) -> Session:
            if not commits and not first_is_open.is_set():
                first_is_open.set()
            return self

        def __exit__(self, *_: object) -> None:
            if not commits:
                go_on.wait(60)
            commits.append(len(self))

    group: GroupCommit[Session] = GroupCommit(Session)

    def job(session: Session) -> int:
        session.append(1)
        return len(session)

    threads = [threading.Thread(target=group.submit, args=(job,)) for _ in range(9)]
    threads[0].start()
    assert first_is_open.wait(60)
    for thread in threads[1:]:
        thread.start()
    deadline = time.monotonic() + 60
    while len(group._waiting) < 8 and time.monotonic() < deadline:
        time.sleep(0.001)
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert commits == [1, 8]


def test_when_a_commit_fails_everyone_in_it_is_told_and_the_next_goes_on() -> None:
    class Session:
        fails = True

        def __enter__(self) -> Session:
            return self

        def __exit__(self, *_: object) -> None:
            if Session.fails:
                raise CannotRunError("the disk is full")

    group: GroupCommit[Session] = GroupCommit(Session)
    told: list[str] = []

    def write() -> None:
        try:
            group.submit(lambda _: 1)
        except CannotRunError as error:
            told.append(str(error))

    together(*[write] * 12)
    assert told == ["the disk is full"] * 12
    Session.fails = False
    assert group.submit(lambda _: 7) == 7


WRITER = """
import sys
from state_store.database.store import EventStore
with EventStore(sys.argv[1]) as store:
    sys.stdin.readline()
    print([store.append("s", "t", {"who": sys.argv[2]}) for _ in range(int(sys.argv[3]))])
"""


def writers(path: Path, processes: int, appends: int) -> list[int]:
    children = [
        subprocess.Popen(
            [*PYTHON, "-c", WRITER, str(path), str(number), str(appends)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    said = []
    for child in children:
        assert child.stdin
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        out, _ = child.communicate(timeout=60)
        assert child.returncode == 0
        said += json.loads(out)
    return said


@pytest.mark.more
@pytest.mark.parametrize(
    ("processes", "appends"),
    [(6, 40), pytest.param(16, 500, marks=pytest.mark.sweep)],
)
def test_many_processes_leave_no_gap_and_no_duplicate(
    tmp_path: Path, processes: int, appends: int
) -> None:
    path = tmp_path / "new" / "a.db"  # made by whoever comes first
    versions = writers(path, processes, appends)
    assert sorted(versions) == list(range(1, processes * appends + 1))
    with EventStore(path) as store:
        assert store.verify() == ()


def test_a_thread_that_ends_leaves_no_connection_open(store: EventStore) -> None:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("needs /proc")
    together(*[lambda: store.read("s")] * 4)
    before = len(list(folder.iterdir()))
    for _ in range(20):
        together(*[lambda: store.read("s")] * 4)
    assert len(list(folder.iterdir())) < before + 8  # SQLite keeps a few for the next one


# Snapshots


@pytest.mark.parametrize("column", ["projection", "checksum"])
def test_a_damaged_snapshot_is_not_used(
    store: EventStore, capsys: pytest.CaptureFixture[str], column: str
) -> None:
    store.save_snapshot("s", 1, {"a": 1})
    with closing(sqlite3.connect(store.path)) as other:
        other.execute(f"UPDATE snapshots SET {column} = 'x'")
        other.commit()
    assert store.read_snapshot("s") is None
    assert "WARNING" in capsys.readouterr().err


# Leases


def test_a_claim_that_cannot_be_asked_for_is_not_won() -> None:
    assert not coordination.try_claim(object(), "item", "a")


# The source's database


def test_a_database_of_the_source_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "tracker_events.db"
    with closing(sqlite3.connect(path)) as old:
        old.executescript(
            "PRAGMA journal_mode = WAL; CREATE TABLE events(id INTEGER PRIMARY KEY AUTOINCREMENT, "
            "ts REAL, actor TEXT, stream TEXT, type TEXT, payload JSON, version INTEGER);"
            "CREATE INDEX idx_stream_version ON events(stream, version);"
            "CREATE TABLE snapshots(id INTEGER PRIMARY KEY, ts REAL, stream TEXT, event_version "
            "INTEGER, projection TEXT, checksum TEXT);"
        )
        for version, kind in enumerate(("item_created", "item_updated"), start=1):
            payload = json.dumps({"id": "a", kind: version})
            old.execute(
                "INSERT INTO events(ts, actor, stream, type, payload, version) "
                "VALUES(1.5, 'm', 'tracker', ?, ?, ?)",
                (kind, payload, version),
            )
        old.commit()
    with EventStore(path) as store:
        assert [event["version"] for event in store.read("tracker")] == [1, 2]
        assert store.items() == [{"id": "a", "item_created": 1, "item_updated": 2}]
        assert store.append("tracker", "item_archived", {"id": "a"}, expected_version=2) == 3
        assert store.verify() == ()
