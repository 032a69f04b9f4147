"""The promises of `state_store.database.interface`, kept by every kind of store.

`test_event_store.py` has what only SQLite's file can show, `test_postgres.py` what only a server
can.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from state_store import coordination
from state_store.coordination import LeaseLostError
from state_store.database.store import ConcurrencyConflict, EventStore
from state_store.documents.errors import CannotRunError
from tests.support.manual_clock import ManualClock
from tests.support.stores import Stores


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, stores: Stores, clock: ManualClock) -> Iterator[EventStore]:
    with stores.open(tmp_path / "state" / "tracker_events.db", clock=clock) as opened:
        yield opened


def together(*works: Any) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


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


def test_many_new_items_of_which_two_are_one_are_kept_like_few(store: EventStore) -> None:
    made = [("item_created", {"id": f"T-{n % 1100}", "n": n}) for n in range(1200)]
    store.append_many("tracker", made)
    assert [item["n"] for item in store.items()] == list(range(1100))
    assert store.verify() == ()


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


def test_a_closed_store_opens_again_when_used(store: EventStore) -> None:
    store.append("s", "t", {})
    store.close()
    assert len(store.read("s")) == 1
    assert store.append("s", "t", {}) == 2


def test_the_newest_snapshot_is_read(store: EventStore) -> None:
    assert store.read_snapshot("s") is None
    store.save_snapshot("s", 1, {"b": 1, "a": 2})
    store.save_snapshot("s", 4, {"b": 2, "a": [1]})
    snapshot = store.read_snapshot("s")
    assert snapshot is not None
    assert snapshot[:2] == (4, {"b": 2, "a": [1]})


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
