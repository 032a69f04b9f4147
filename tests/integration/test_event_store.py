"""Streams, versions, kept items, transactions and leases on a real database, from many sides."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from state_store import coordination
from state_store.coordination import LeaseLostError
from state_store.database.kept_items import Fold
from state_store.database.store import ConcurrencyConflict, EventStore
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


def test_versions_count_from_one_in_each_stream(store: EventStore) -> None:
    assert [store.append("a", "t", {}), store.append("b", "t", {}), store.append("a", "t", {})] == [
        1,
        1,
        2,
    ]
    assert store.append_many("a", [("t", {"n": n}) for n in range(3)]) == 5
    assert store.append_many("a", []) == 5


def test_what_was_appended_is_read_in_order(store: EventStore, clock: ManualClock) -> None:
    payload = {"text": "\u00e9 \ud83d\n\0", "n": [1, 2.5, None, True]}
    store.append("s", "happened", payload, actor="me")
    store.append("other", "t", 5)
    store.append("s", "again", "x")
    first = {"id": 1, "ts": clock.wall_s, "actor": "me", "stream": "s"}
    assert store.read("s")[0] == {**first, "type": "happened", "payload": payload, "version": 1}
    assert [event["version"] for event in store.get("s")] == [1, 2]
    assert [event["payload"] for event in store.read("s", after=1)] == ["x"]
    assert [event["id"] for event in store.read_all(after_id=1)] == [2, 3]
    assert store.read("none") == []


def test_long_streams_are_read_whole(store: EventStore) -> None:
    store.append_many("s", [("t", n) for n in range(2500)])
    assert [event["payload"] for event in store.scan("s", after=500)] == list(range(500, 2500))
    assert len(store.read_all()) == 2500


@pytest.mark.parametrize(("events", "expected"), [(1, 0), (2, 0), (1, 5)])
def test_a_stream_that_moved_on_is_not_written_to(
    store: EventStore, events: int, expected: int
) -> None:
    store.append("s", "t", {}, expected_version=0)
    with pytest.raises(ConcurrencyConflict) as conflict:
        store.append_many("s", [("t", {})] * events, expected_version=expected)
    assert (conflict.value.expected_version, conflict.value.actual_version) == (expected, 1)
    assert len(store.read("s")) == 1
    assert store.append("s", "t", {}, expected_version=1) == 2


@pytest.mark.parametrize("payload", [float("nan"), {"a": float("inf")}, object(), {1, 2}])
def test_what_is_no_json_is_not_written(store: EventStore, payload: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        store.append_many("s", [("t", {}), ("t", payload)])
    assert store.read("s") == []


def test_names_that_cannot_be_stored_are_refused(store: EventStore) -> None:
    with pytest.raises(UnicodeEncodeError):
        store.append("caf\udce9", "t", {})
    with pytest.raises(TypeError):
        store.append("s", 5, {})  # type: ignore[arg-type]
    assert store.read_all() == []


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


def test_items_are_kept_as_the_events_say(store: EventStore) -> None:
    store.append("tracker", "item_created", {"id": "a", "title": "A", "status": "todo"})
    store.append("tracker", "item_updated", {"id": "ghost", "status": "done"})
    store.append("tracker", "item_created", {"id": "b", "title": "B"})
    store.append("tracker", "item_updated", {"id": "a", "status": "done"})
    store.append("tracker", "item_archived", {"id": "b", "completed_at": "now"})
    store.append("tracker", "noise", {"id": "a", "status": "x"})
    store.append("tracker", "item_updated", ["no object"])
    store.append("tracker", "item_updated", {"id": 5})
    expected = [
        {"id": "a", "title": "A", "status": "done"},
        {"id": "b", "title": "B", "status": "archived", "completed_at": "now"},
    ]
    assert store.items() == expected
    assert store.item("b") == expected[1]
    assert store.item("ghost") is None
    assert store.verify() == ()


def test_items_made_again_keep_their_place(store: EventStore) -> None:
    for item_id in ("a", "b", "a"):
        store.append("tracker", "item_created", {"id": item_id})
    assert [item["id"] for item in store.items()] == ["a", "b"]
    assert store.verify() == ()


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


def test_many_new_items_of_which_two_are_one_are_kept_like_few(store: EventStore) -> None:
    made = [("item_created", {"id": f"T-{n % 1100}", "n": n}) for n in range(1200)]
    store.append_many("tracker", made)
    assert [item["n"] for item in store.items()] == list(range(1100))
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


def test_what_a_note_put_in_place_is_flushed_or_the_events_are_kept_out(
    store: EventStore, tmp_path: Path
) -> None:
    events: list[tuple[str, str, dict[str, Any]]] = [("s", "t", {})]
    store.append_held(events, [], note=lambda: tmp_path)
    with pytest.raises(CannotRunError, match="gone"):
        store.append_held(events, [], note=lambda: tmp_path / "gone")
    assert len(store.read("s")) == 1
    store.append_held(events, [])
    assert [event["version"] for event in store.read("s")] == [1, 2]


def test_a_fold_can_be_handed_in(tmp_path: Path) -> None:
    def count(item: dict[str, Any] | None, event: Any) -> dict[str, Any]:
        return {"id": event["payload"]["id"], "seen": (item["seen"] if item else 0) + 1}

    with EventStore(tmp_path / "a.db", folds={"visits": Fold(count)}) as store:
        store.append_many("visits", [("visited", {"id": "x"})] * 3)
        assert store.items("visits") == [{"id": "x", "seen": 3}]
        assert store.verify() == ()


# Transactions


def test_a_transaction_is_all_or_nothing(store: EventStore) -> None:
    with suppress(KeyError), store.transaction() as transaction:
        transaction.append("tracker", "item_created", {"id": "a"})
        assert transaction.item("a") == {"id": "a"}
        assert transaction.version("tracker") == 1
        assert [event["type"] for event in store.read("tracker")] == ["item_created"]
        raise KeyError
    assert store.read_all() == []
    assert store.items() == []
    with store.transaction() as transaction:
        transaction.append("tracker", "item_created", {"id": "a"})
        store.append("other", "t", {})
    assert len(store.read_all()) == 2


def test_others_see_nothing_of_an_open_transaction(store: EventStore) -> None:
    seen: list[object] = []
    with store.transaction() as transaction:
        transaction.append("s", "t", {})
        together(lambda: seen.append(store.read("s")))
    assert seen == [[]]
    assert len(store.read("s")) == 1


def test_a_transaction_in_a_transaction_is_a_mistake(store: EventStore) -> None:
    with store.transaction(), pytest.raises(RuntimeError), store.transaction():
        pass
    assert store.append("s", "t", {}) == 1


def test_an_error_of_the_caller_passes_as_it_is(store: EventStore) -> None:
    with pytest.raises(FileNotFoundError), store.transaction():
        Path("/no/such/file").read_text()


# Many writers


def test_each_of_many_threads_gets_its_own_version(store: EventStore) -> None:
    versions: list[int] = []

    def write() -> None:
        for number in range(40):
            versions.append(store.append(f"s{number % 2}", "t", {"n": number}))

    together(*[write] * 16)
    assert sorted(versions) == sorted(list(range(1, 321)) * 2)
    assert store.verify() == ()


def test_of_many_threads_that_expect_one_version_one_wins(store: EventStore) -> None:
    outcomes: list[object] = []

    def write() -> None:
        try:
            outcomes.append(store.append("s", "t", {}, expected_version=0))
        except ConcurrencyConflict as conflict:
            outcomes.append(conflict.expected_version)

    together(*[write] * 16)
    assert sorted(outcomes, key=str) == [0] * 15 + [1]


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_store_can_be_used_after_a_fork(store: EventStore) -> None:
    store.append("s", "t", "parent")
    child = multiprocessing.get_context("fork").Process(
        target=store.append, args=("s", "t", "child")
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0
    store.append("s", "t", "parent")
    assert [event["payload"] for event in store.read("s")] == ["parent", "child", "parent"]


def test_a_thread_that_ends_leaves_no_connection_open(store: EventStore) -> None:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("needs /proc")
    together(*[lambda: store.read("s")] * 4)
    before = len(list(folder.iterdir()))
    for _ in range(20):
        together(*[lambda: store.read("s")] * 4)
    assert len(list(folder.iterdir())) < before + 8  # SQLite keeps a few for the next one


def test_a_closed_store_opens_again_when_used(store: EventStore) -> None:
    store.append("s", "t", {})
    store.close()
    assert len(store.read("s")) == 1
    assert store.append("s", "t", {}) == 2


# Snapshots


def test_the_newest_snapshot_is_read(store: EventStore) -> None:
    assert store.read_snapshot("s") is None
    store.save_snapshot("s", 1, {"b": 1, "a": 2})
    store.save_snapshot("s", 4, {"b": 2, "a": [1]})
    snapshot = store.read_snapshot("s")
    assert snapshot is not None
    assert snapshot[:2] == (4, {"b": 2, "a": [1]})


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


def test_one_holder_at_a_time(store: EventStore) -> None:
    assert coordination.try_claim(store, "item", "a")
    assert not coordination.try_claim(store, "item", "b")
    assert coordination.try_claim(store, "item", "a")
    assert coordination.current_holder(store, "item") == "a"
    assert not coordination.release(store, "item", "b")
    assert coordination.release(store, "item", "a")
    assert coordination.current_holder(store, "item") is None
    assert coordination.try_claim(store, "item", "b")


def test_the_lease_of_a_dead_holder_ends(store: EventStore, clock: ManualClock) -> None:
    first = coordination.acquire(store, "item", "dead", ttl=10)
    clock.pass_by(10)
    assert coordination.current_holder(store, "item") is None
    second = coordination.acquire(store, "item", "b", ttl=10)
    assert first is not None
    assert second is not None
    assert second.token > first.token
    kinds = [(e["type"], e["payload"]["instance_id"]) for e in store.read("claims")]
    assert kinds == [
        ("claim_requested", "dead"),
        ("claim_released", "dead"),
        ("claim_requested", "b"),
    ]
    assert coordination.fold_claims(store.read("claims")) == {"item": "b"}


def test_a_renewed_lease_outlives_its_first_time(store: EventStore, clock: ManualClock) -> None:
    lease = coordination.acquire(store, "item", "a", ttl=10)
    assert lease is not None
    for _ in range(5):
        clock.pass_by(8)
        assert coordination.renew(store, "item", "a")
        lease = coordination.extend(store, lease)
    assert coordination.current_holder(store, "item") == "a"
    assert not coordination.renew(store, "item", "b")
    assert not coordination.renew(store, "other", "a")


def test_a_wall_clock_that_jumps_neither_ends_nor_prolongs_a_lease(
    store: EventStore, clock: ManualClock
) -> None:
    coordination.try_claim(store, "item", "a", ttl=10)
    clock.jump(86_400)
    assert not coordination.try_claim(store, "item", "b")
    clock.jump(-10 * 86_400)
    clock.pass_by(10)
    assert coordination.try_claim(store, "item", "b")


def test_a_lease_of_an_earlier_boot_ends_by_the_wall_clock(
    store: EventStore, clock: ManualClock
) -> None:
    coordination.try_claim(store, "item", "a", ttl=100)
    clock.reboot(50)
    assert not coordination.try_claim(store, "item", "b")
    clock.pass_by(50)
    assert coordination.try_claim(store, "item", "b")


def test_a_late_holder_changes_nothing(store: EventStore, clock: ManualClock) -> None:
    late = coordination.acquire(store, "item", "late", ttl=10)
    assert late is not None
    clock.pass_by(11)
    newer = coordination.acquire(store, "item", "b", ttl=10)
    assert newer is not None
    with pytest.raises(LeaseLostError) as lost, store.transaction(lease=late) as transaction:
        transaction.append("tracker", "item_created", {"id": "a"})
    assert lost.value.current == newer.token
    for effect in (coordination.check, coordination.extend, coordination.give_back):
        with pytest.raises(LeaseLostError):
            effect(store, late)
    assert store.read("tracker") == []
    coordination.check(store, newer)
    coordination.give_back(store, newer)
    with pytest.raises(LeaseLostError):
        coordination.check(store, newer)


def test_the_same_holder_overtaken_by_itself_needs_the_new_token(
    store: EventStore, clock: ManualClock
) -> None:
    old = coordination.acquire(store, "item", "a", ttl=10)
    clock.pass_by(11)
    new = coordination.acquire(store, "item", "a", ttl=10)
    assert old is not None
    assert new is not None
    with pytest.raises(LeaseLostError), store.transaction(lease=old):
        pass
    with store.transaction(lease=new):
        pass


def test_a_race_for_a_lease_has_one_winner(store: EventStore) -> None:
    for race in range(10):
        won: list[str] = []

        def run(name: str, race: int = race, won: list[str] = won) -> None:
            if coordination.try_claim(store, f"item-{race}", name):
                won.append(name)

        together(*[lambda n=n: run(f"w{n}") for n in range(8)])
        assert won == [coordination.current_holder(store, f"item-{race}")]


def test_leases_work_through_whatever_has_a_store(store: EventStore) -> None:
    class Facade:
        def __init__(self) -> None:
            self.store = store

    assert coordination.try_claim(Facade(), "item", "a")
    assert coordination.current_holder(store, "item") == "a"


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf")])
def test_a_lease_needs_a_time(store: EventStore, ttl: float) -> None:
    assert not coordination.try_claim(store, "item", "a", ttl=ttl)
    with pytest.raises(ValueError, match="positive"):
        coordination.acquire(store, "item", "a", ttl=ttl)


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
