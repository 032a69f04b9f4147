"""`tidegate state copy`: a whole store goes from one database to another, and back."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver import tidegate
from state_store.api import StateAPI
from state_store.coordination import acquire, give_back
from state_store.database.interface import Store
from state_store.database.item_blocks import packed
from state_store.database.publications import Publication, PublishedCommit
from state_store.database.schema import prepare
from state_store.database.spend import Purpose
from state_store.database.store import EventStore
from state_store.postgres.store import PostgresStore, name_of_folder
from state_store.sql.addresses import Address, keep_rows
from state_store.sql.tables import EVENTS, LEFT_OUT, OTHERS
from state_store.tracker.ingest import sync_tracker
from state_store.views.archiving import archive
from tests.support.archives import old_parts
from tests.support.interpreter import PYTHON
from tests.support.postgres import Server
from tests.support.programs import ROOT, Ran, call
from tools import halt

DATABASE = "tracker_events.db"


@pytest.fixture
def address(postgres: Server) -> Address:
    return Address(postgres.url, postgres.new_schema())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with something in each table."""
    monkeypatch.chdir(tmp_path)
    found = tmp_path / "state"
    found.mkdir()
    filled(found)
    return found


def filled(folder: Path, waves: int = 3) -> None:
    items = [{"id": f"T-{number}", "slug": f"t{number}", "status": "todo"} for number in range(9)]
    (folder / "tracker.json").write_text(json.dumps({"version": 1, "items": items}))
    with StateAPI(folder / DATABASE) as api:
        sync_tracker(api, folder / "tracker.json", "test")
        api.append("tracker", "item_created", {"id": "T-x", "slug": "x", "status": "todo"})
        api.append("tracker", "item_updated", {"id": "T-x", "status": "done"})
        api.append("tracker", "items_imported", packed(["B-1"], ["id"], b'[{"id":"B-1"}]'))
        lease = acquire(api.store, "/repo#x", "me")
        assert lease is not None
        give_back(api.store, lease)
        for number in range(waves):
            api.append(f"wave:{number}", "wave_started", {"wave_id": str(number), "t": "\0\u20ac"})
        with api.store.transaction() as transaction:
            purpose = Purpose("w", "a", 1, "build", "claude", "")
            transaction.spend.reserve(purpose, "me", 1000, 5, 1.5, 61.25)
        api.store.save_snapshot("orchestrator_status", 1, {"phase": "idle"})
        put_publication(api.store)


def put_publication(store: Store) -> None:
    with store.transaction() as transaction:
        one = Publication("tip", "/repo", "w", "wave/w", None, (PublishedCommit("a", "c1"),))
        transaction.publications.announce(one, 2.5)


def state_copy(*words: str | Path) -> Ran:
    return call(tidegate.main, "state", "copy", *words)


def rows(connection: Any) -> dict[str, list[Any]]:
    """All that a copy has to keep, in a form that both kinds of databases have."""
    found = {}
    for table in (EVENTS, *OTHERS):
        asked = f"SELECT {table.columns} FROM {table.name} ORDER BY {table.key}"
        found[table.name] = [
            tuple(int(one) if isinstance(one, bool) else one for one in row)
            for row in connection.execute(asked).fetchall()
        ]
    return found


def in_file(folder: Path) -> dict[str, list[Any]]:
    with EventStore(folder / DATABASE) as store:
        return rows(store.connections.reader())


def on_server(address: Address, folder: Path) -> dict[str, list[Any]]:
    with PostgresStore(folder / DATABASE, address) as store:
        return rows(store.connections.reader())


def test_a_store_goes_to_a_server_and_back_whole(
    folder: Path, address: Address, tmp_path: Path
) -> None:
    before = in_file(folder)
    assert all(before.values()), "an example for each table"
    done = state_copy(folder, address.url, "--to-schema", address.schema, "--json")
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert answer["rows"]["events"] == len(before["events"])
    assert address.url not in done.out
    assert in_file(folder) == before, "the source is as it was"
    there = on_server(address, folder)
    own = name_of_folder(folder)
    assert any(own in row[2] for row in there["snapshots"])
    assert {**there, "snapshots": without(own, there)} == {**before}
    with PostgresStore(folder / DATABASE, address) as store:
        assert store.verify() == ()
        again = acquire(store, "/repo#x", "other")
        assert again is not None
        assert again.token > before["leases"][0][1], "tokens rise on"
        give_back(store, again)
        put = store.append("tracker", "item_updated", {"id": "T-x", "status": "todo"})
        assert put > 2
        store.save_snapshot("new", 1, {})
        with store.transaction() as transaction:
            transaction.spend.reserve(Purpose("w", "b", 1, "build", "c", ""), "me", 1, 1, 1.0, 2.0)
    back = tmp_path / "back"
    back.mkdir()
    (back / "folder.id").write_text(own.removesuffix("/"))
    done = state_copy(address.url, back, "--from-schema", address.schema)
    assert done.code == 0, done.err
    there = on_server(address, folder)
    assert in_file(back) == {**there, "snapshots": without(own, there)}
    with EventStore(back / DATABASE) as store:
        assert store.verify() == ()
        store.append("tracker", "item_updated", {"id": "T-x", "status": "done"})
    assert sorted(path.name for path in back.iterdir()) == [
        "folder.id",
        DATABASE,
        f"{DATABASE}.lock",
    ]


def without(own: str, there: dict[str, list[Any]]) -> list[Any]:
    """The rows of snapshots as the state folder itself names them."""
    return [(*row[:2], row[2].replace(own, ""), *row[3:]) for row in there["snapshots"]]


def test_the_tracker_file_and_the_copied_store_are_merged_with_their_old_base(
    folder: Path, address: Address
) -> None:
    assert state_copy(folder, address.url, "--to-schema", address.schema).code == 0
    tracker = folder / "tracker.json"
    held = json.loads(tracker.read_text())
    held["items"][0]["status"] = "done"
    tracker.write_text(json.dumps(held))
    keep_rows(folder, address)
    with StateAPI(folder / DATABASE) as api:
        api.append("tracker", "item_updated", {"id": "T-1", "status": "blocked"})
        report = sync_tracker(api, tracker, "test")
        assert report.conflicts == ()
        found = {item["id"]: item.get("status") for item in api.store.items()}
    assert (found["T-0"], found["T-1"]) == ("done", "blocked")
    keep_rows(folder, None)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_table_of_a_store_is_copied_or_left_out_for_a_reason(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if kind == "sqlite":
        prepare(tmp_path / DATABASE)
        asked = "SELECT name FROM sqlite_schema WHERE type = 'table'"
        with EventStore(tmp_path / DATABASE) as store:
            found = {name for (name,) in store.connections.reader().execute(asked)}
            columns = {
                table.name: {
                    row[1]
                    for row in store.connections.reader().execute(
                        f"PRAGMA table_info({table.name})"
                    )
                }
                for table in (EVENTS, *OTHERS)
            }
    else:
        server = request.getfixturevalue("postgres")
        address = Address(server.url, server.new_schema())
        PostgresStore(tmp_path / DATABASE, address).close()
        where = f"table_schema = '{address.schema}'"
        of = "SELECT table_name, column_name FROM information_schema.columns WHERE"
        pairs = server.ask(f"{of} {where}")
        found = {name for name, _ in pairs}
        copied = {table.name for table in (EVENTS, *OTHERS)}
        columns = {name: {c for n, c in pairs if n == name} for name in copied}
    names = {table.name for table in (EVENTS, *OTHERS)}
    assert found <= names | set(LEFT_OUT)
    assert names <= found
    for table in (EVENTS, *OTHERS):
        others = {name.partition(".")[2] for name in LEFT_OUT if name.startswith(f"{table.name}.")}
        assert columns[table.name] - others == set(table.columns.split(", "))


def test_another_store_is_never_written_over(folder: Path, address: Address) -> None:
    with PostgresStore(folder / DATABASE, address) as store:
        store.append("tracker", "item_created", {"id": "mine", "slug": "mine"})
    done = state_copy(folder, address.url, "--to-schema", address.schema)
    assert done.code == 2
    assert "has rows of another store already" in done.err
    other = folder.parent / "other"
    other.mkdir()
    filled(other)
    before = in_file(other)
    assert state_copy(folder, other).code == 2
    assert in_file(other) == before
    assert "FROM and TO are the same store" in state_copy(folder, folder).err


def test_a_copy_that_ended_may_be_asked_for_again(folder: Path, address: Address) -> None:
    for word in ("is copied to", "was copied before to"):
        done = state_copy(folder, address.url, "--to-schema", address.schema)
        assert (done.code, word in done.out) == (0, True), done


def test_a_folder_may_have_a_dot_in_its_name_and_a_file_any_name(folder: Path) -> None:
    assert state_copy(folder, "shop.v2").code == 0
    assert Path("shop.v2", DATABASE).is_file()
    assert state_copy(Path("shop.v2", DATABASE), "kept.db").code == 0
    assert Path("kept.db").is_file()


def test_it_waits_for_no_run(folder: Path, address: Address) -> None:
    with EventStore(folder / DATABASE) as store:
        lease = acquire(store, "/repo#a", "another run", 60)
        assert lease is not None
        done = state_copy(folder, address.url, "--to-schema", address.schema)
        assert done.code == 3
        assert "another run works on /repo#a" in done.err
        give_back(store, lease)
    assert state_copy(folder, address.url, "--to-schema", address.schema).code == 0


def test_a_password_is_not_taken_from_the_command_line(folder: Path) -> None:
    for url in ("postgresql://me:hidden1@host/db", "postgresql://host/db?password=hidden1"):
        done = state_copy(folder, url)
        assert done.code == 2
        assert "hidden1" not in done.out + done.err
        assert "TIDEGATE_STATE_URL" in done.err


@pytest.mark.parametrize("scheme", ["postgressql", "postgresq", "Postgresql", "mysql"])
def test_a_misspelt_address_is_no_folder(folder: Path, scheme: str) -> None:
    url = f"{scheme}://me:hidden1@host/db"
    for words in (("state", url), (url, "state")):
        done = state_copy(*words)
        assert (done.code, done.out) == (2, "")
        assert "begins with postgresql://" in done.err
        assert "hidden1" not in done.err
    assert not list(folder.glob(f"{scheme}*"))


def test_the_url_of_the_settings_is_used_by_its_word(
    folder: Path, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "neither is set" in state_copy(folder, "url").err
    monkeypatch.setenv("TIDEGATE_STATE_URL", address.url)
    assert state_copy(folder, "url", "--to-schema", address.schema).code == 0
    assert len(on_server(address, folder)["events"]) == len(in_file(folder)["events"])
    keep_rows(folder, None)


def test_damage_of_the_source_stops_the_copy(folder: Path, address: Address) -> None:
    with sqlite3.connect(folder / DATABASE) as damaged:
        damaged.execute("DROP TRIGGER events_never_change")
        damaged.execute("UPDATE events SET payload = '{}' WHERE id = 3")
    damaged.close()
    done = state_copy(folder, address.url, "--to-schema", address.schema)
    assert done.code == 4
    assert "is not sound" in done.err
    with pytest.raises(Exception, match="being filled"):
        PostgresStore(folder / DATABASE, address)


def test_a_halt_goes_with_the_store(folder: Path, address: Address, tmp_path: Path) -> None:
    keep_rows(folder, address)
    PostgresStore(folder / DATABASE, address).close()
    halt.halt("enough", folder)
    keep_rows(folder, None)
    back = tmp_path / "back"
    assert state_copy(address.url, back, "--from-schema", address.schema).code == 0
    assert (halt.get_halt_info(back) or {})["reason"] == "enough"


def test_a_halt_file_halts_all_machines_of_the_new_store(folder: Path, address: Address) -> None:
    halt.halt("enough", folder)
    assert state_copy(folder, address.url, "--to-schema", address.schema).code == 0
    with PostgresStore(folder / DATABASE, address) as store:
        row = store.halt_row()
    assert row is not None
    assert row.reason == "enough"


def test_a_table_that_is_gone_is_named(folder: Path, address: Address) -> None:
    with sqlite3.connect(folder / DATABASE) as damaged:
        damaged.execute("DROP TABLE leases")
    damaged.close()
    done = state_copy(folder, address.url, "--to-schema", address.schema)
    assert (done.code, "its table leases is missing" in done.err) == (4, True)


def test_events_of_archives_are_rows_again(folder: Path, address: Address) -> None:
    with EventStore(folder / DATABASE) as store:
        for number in range(20):
            text = "".join(random.Random(number).choices("abcdef", k=9000))
            store.append_many("wave:old", [("note", {"text": text})] * 2)
            store.append("wave:other", "note", {"text": text})
        before = in_file(folder)["events"]
        assert list(archive(store, old_parts(store, time.time() + 60, ())))
    assert len(in_file(folder)["events"]) < len(before)
    done = state_copy(folder, address.url, "--to-schema", address.schema)
    assert done.code == 0, done.err
    there = on_server(address, folder)["events"]
    assert there[: len(before)] == before
    next((folder / "archive").iterdir()).unlink()
    done = state_copy(folder, folder.parent / "third")
    assert done.code == 4
    assert "is not whole" in done.err
    assert not (folder.parent / "third").exists()


KILLS = (
    *("copy.before_commit@1", "copy.after_commit@1", "copy.before_commit@2"),
    *("copy.after_commit@2", "copy.before_finish", "copy.after_finish"),
)


@pytest.mark.parametrize("to", ["file", "server"])
def test_a_copy_that_was_killed_at_any_point_is_gone_on_with(
    to: str, folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    before = in_file(folder)
    for number, point in enumerate(KILLS):
        if to == "file":
            words = [str(folder), str(tmp_path / f"to-{number}")]
        else:
            server = request.getfixturevalue("postgres")
            words = [str(folder), server.url, "--to-schema", f"{server.new_schema()}"]
        killed = program(*words, fail=f"{point}=kill")
        assert killed.returncode == -9, (point, killed.stderr)
        done = state_copy(*words)
        assert done.code == 0, (point, done.err)
        if to == "file":
            assert in_file(Path(words[1])) == before, point
            left = {path.name for path in Path(words[1]).iterdir()}
            assert left <= {DATABASE, f"{DATABASE}.lock"}, point
        else:
            address = Address(words[1], words[3])
            found = on_server(address, folder)
            own = name_of_folder(folder)
            assert {**found, "snapshots": without(own, found)} == before, point
    assert in_file(folder) == before


def program(*words: str, fail: str) -> subprocess.CompletedProcess[str]:
    start = [*PYTHON, str(ROOT / "driver" / "tidegate.py"), "state", "copy", *words]
    found = importlib.util.find_spec("psycopg")
    packages = str(Path(found.origin).parents[1]) if found and found.origin else ""
    environ = {**os.environ, "TIDEGATE_FAIL": fail, "PYTHONPATH": packages}
    return subprocess.run(start, env=environ, capture_output=True, text=True, check=False)


@pytest.fixture(autouse=True)
def forgotten(folder: Path) -> Iterator[None]:
    yield
    keep_rows(folder, None)
