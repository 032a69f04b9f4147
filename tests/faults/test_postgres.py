"""A server that is away, has tables of others, is restarted, or cut off in a commit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.diagnostics.places import check_database
from state_store import coordination
from state_store.database.errors import StoreBusyError
from state_store.database.spend import Purpose, Reserved, Total
from state_store.database.store import EventStore
from state_store.documents.errors import CannotRunError, ExitCode
from state_store.sql.addresses import Address, keep_rows
from state_store.sql.connection import writing
from tests.support.cutting_proxy import AFTER, BEFORE, CuttingProxy, cutting
from tests.support.interpreter import PYTHON
from tests.support.postgres import LOCKED, Server
from tests.support.programs import ROOT
from tools.budget.budget import Budget
from tools.budget.ceilings import Limits
from tools.budget.charges import Used

APPENDS = 25


def opened(address: Address, folder: Path, patience_s: float = 30.0) -> EventStore:
    from state_store.postgres.store import PostgresStore  # noqa: PLC0415 - only with its driver

    return PostgresStore(folder / "tracker_events.db", address, patience_s=patience_s)


@pytest.fixture
def address(postgres: Server) -> Address:
    return Address(postgres.url, postgres.new_schema())


@pytest.fixture
def store(address: Address, tmp_path: Path) -> Iterator[EventStore]:
    with opened(address, tmp_path) as found:
        yield found


def refused(address: Address, folder: Path) -> str:
    with pytest.raises(CannotRunError) as error:
        opened(address, folder)
    assert error.value.exit_code == ExitCode.CANNOT_RUN_HERE
    assert "secret" not in str(error.value)
    return str(error.value)


def test_a_schema_may_have_the_name_of_a_word_of_sql(postgres: Server, tmp_path: Path) -> None:
    with opened(Address(postgres.url, "order"), tmp_path) as store:
        assert store.append("x", "noted", {}, "test") == 1
        assert [event["version"] for event in store.read("x")] == [1]


def test_processes_that_ended_days_ago_leave_no_rows(
    postgres: Server, store: EventStore, address: Address, tmp_path: Path
) -> None:
    rows = f"{address.schema}.commits"
    for folder, age_s in (("days ago", 90_000), ("today", 0)):
        with opened(address, tmp_path / folder) as other:
            other.append("x", "noted", {}, "test")
        postgres.ask(f"UPDATE {rows} SET at = at - {age_s}")
    store.append("x", "noted", {}, "test")
    ages = postgres.ask(f"SELECT extract(epoch FROM now()) - at < 3600 FROM {rows}")
    assert ages == [(True,), (True,)]


# Refusals: one sentence each, and nothing is made


def test_without_the_driver_the_remedy_is_one_command(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from state_store.sql.addresses import Address, keep_rows\n"
        "from state_store.place import open_store\n"
        "from state_store.documents.errors import CannotRunError\n"
        f"keep_rows({str(tmp_path)!r}, Address('postgresql://x/y'))\n"
        f"try: open_store({str(tmp_path / 'tracker_events.db')!r})\n"
        "except CannotRunError as error: print(error)\n"
    )
    done = subprocess.run(
        [*PYTHON, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "pip install 'tidegate[postgres]'" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_away_is_named(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with tempfile.TemporaryDirectory(dir="/tmp") as empty:
        why = refused(Address(f"postgresql://me:secret@/x?host={empty}"), tmp_path)
    assert "cannot be reached" in why


def test_a_wrong_password_a_missing_database_and_a_url_that_is_none(
    postgres: Server, tmp_path: Path
) -> None:
    postgres.ask(f"CREATE USER {LOCKED} PASSWORD 'right'")
    where = f"?host={postgres.folder}"
    wrong = refused(Address(f"postgresql://{LOCKED}:secret@/postgres{where}"), tmp_path)
    assert f"check the password of user {LOCKED}" in wrong
    none = refused(Address(f"postgresql://{postgres.user}@/nowhere{where}"), tmp_path)
    assert "is missing" in none
    assert "no address" in refused(Address("postgresql://me:secret@[::/x"), tmp_path)


def test_a_user_without_the_right_to_make_tables_makes_none(
    postgres: Server, tmp_path: Path
) -> None:
    postgres.ask("CREATE USER guest")
    url = f"postgresql:///postgres?host={postgres.folder}&user=guest"
    schema = postgres.new_schema()
    assert "does not let user" in refused(Address(url, schema), tmp_path)
    assert postgres.ask(f"SELECT to_regnamespace('{schema}')") == [(None,)]


def test_tables_of_others_and_of_a_newer_version_are_left_alone(
    postgres: Server, tmp_path: Path
) -> None:
    foreign, newer = postgres.new_schema(), postgres.new_schema()
    postgres.ask(f"CREATE SCHEMA {foreign}", f"CREATE TABLE {foreign}.events(id int)")
    assert "tables of another program" in refused(Address(postgres.url, foreign), tmp_path)
    opened(Address(postgres.url, newer), tmp_path).close()
    postgres.ask(f"INSERT INTO {newer}.migrations VALUES(99, 0)")
    assert "newer tidegate" in refused(Address(postgres.url, newer), tmp_path)


def test_many_that_open_a_new_schema_at_once_make_it_once(address: Address, tmp_path: Path) -> None:
    versions: list[int] = []

    def write() -> None:
        with opened(address, tmp_path) as mine:
            versions.append(mine.append("s", "t", {}))

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(versions) == list(range(1, 9))


# Lost connections


def test_a_transaction_whose_connection_ends_changes_nothing(
    store: EventStore, postgres: Server
) -> None:
    store.append("s", "t", 1)

    def write() -> None:
        with store.transaction() as transaction:
            transaction.append("s", "t", 2)
            end_all(postgres)
            transaction.append("s", "t", 3)

    with pytest.raises(StoreBusyError, match="nothing was recorded"):
        write()
    assert [event["payload"] for event in store.read("s")] == [1]
    assert store.append("s", "t", 4) == 2


def test_an_append_goes_on_after_its_connections_were_ended(
    store: EventStore, postgres: Server
) -> None:
    for number in range(APPENDS):
        if number % 5 == 0:
            end_all(postgres)
        assert store.append("s", "t", number) == number + 1
        assert len(store.read("s")) == number + 1
    assert store.verify() == ()


def end_all(postgres: Server) -> None:
    postgres.ask(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE application_name LIKE 'tidegate%'"
    )


@pytest.fixture
def proxy(postgres: Server) -> Iterator[CuttingProxy]:
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,
        cutting(postgres.folder, Path(folder)) as between,
    ):
        yield between


@pytest.mark.parametrize("how", [BEFORE, AFTER])
def test_a_commit_that_is_cut_off_is_asked_for_and_never_guessed(
    postgres: Server, proxy: CuttingProxy, address: Address, tmp_path: Path, how: str
) -> None:
    url = postgres.url.replace(str(postgres.folder), str(proxy.folder))
    with opened(Address(url, address.schema), tmp_path) as store:
        for number in range(8):
            proxy.armed = how if number % 2 else ""
            assert store.append("s", "t", number) == number + 1
        proxy.armed = how
        took = coordination.acquire(store, "r", "me") if how == AFTER else None
        proxy.armed = ""
        assert proxy.cuts == 4 + (how == AFTER)
        assert [event["payload"] for event in store.read("s")] == list(range(8))
        assert store.verify() == ()
    if took is not None:
        with opened(address, tmp_path) as direct:
            coordination.check(direct, took)


@pytest.mark.parametrize("how", [BEFORE, AFTER])
@pytest.mark.parametrize("at", [b"", b"INSERT INTO leases"], ids=["commit", "renewal"])
def test_a_lease_that_is_cut_off_is_acquired_renewed_and_given_back_once(
    postgres: Server, proxy: CuttingProxy, address: Address, tmp_path: Path, how: str, at: bytes
) -> None:
    url = postgres.url.replace(str(postgres.folder), str(proxy.folder))
    with opened(Address(url, address.schema), tmp_path) as store:
        proxy.at = at
        leases = []
        for name in "abc":
            proxy.armed = how
            leases.append(coordination.acquire(store, name, "me"))
        first, second, third = (lease for lease in leases if lease)
        proxy.armed = how
        assert coordination.extend(store, first).token == first.token
        proxy.armed = how
        coordination.extend_all(store, [first, second])
        proxy.armed = how
        assert coordination.renew(store, "a", "me")
        proxy.armed = how
        coordination.give_back(store, first)
        proxy.armed = how
        coordination.give_back_all(store, [first, second])
        proxy.armed = how
        assert coordination.release(store, "c", "me")
        assert proxy.cuts == 9
        kinds = [(e["type"], e["payload"]["resource"]) for e in store.read(coordination.STREAM)]
        claimed = [(coordination.REQUESTED, name) for name in "abc"]
        assert kinds == claimed + [(coordination.RELEASED, name) for name in "abc"]
        assert third.token > second.token > first.token
        assert store.verify() == ()


@pytest.mark.parametrize("how", [BEFORE, AFTER])
@pytest.mark.parametrize("at", [b"", b"INSERT INTO spend"], ids=["commit", "reservation"])
def test_a_reservation_that_is_cut_off_is_made_and_charged_once(
    postgres: Server, proxy: CuttingProxy, address: Address, tmp_path: Path, how: str, at: bytes
) -> None:
    url = postgres.url.replace(str(postgres.folder), str(proxy.folder))
    with opened(Address(url, address.schema), tmp_path) as store:
        budget = Budget(store, Limits(), "me")
        proxy.at = at
        for number in range(3):
            proxy.armed = how
            held = budget.reserve(Purpose("w", "i", number, "build", "claude", "m"))
            assert isinstance(held, Reserved)
            proxy.at, proxy.armed = b"", how
            budget.settle(held, Used(tokens=1000))
            proxy.at = at
        assert proxy.cuts == 6
        total = store.read_spend(lambda book: book.of_wave("w"), Total())
        assert (total.dispatches, total.open, total.tokens) == (3, 0, 3000)


def test_writers_go_on_when_the_server_is_restarted(
    store: EventStore, postgres: Server, address: Address, tmp_path: Path
) -> None:
    errors: list[BaseException] = []

    def write(name: str, mine: EventStore) -> None:
        try:
            with mine:
                for number in range(APPENDS):
                    mine.append(name, "t", number)
        except BaseException as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    ready = [(f"s{n}", opened(address, tmp_path)) for n in range(3)]
    threads = [threading.Thread(target=write, args=one) for one in ready]
    for thread in threads:
        thread.start()
    for mode in ("immediate", "fast"):
        postgres.stop(mode)
        postgres.start()
    for thread in threads:
        thread.join(120)
    assert errors == []
    written = {f"s{n}": [e["payload"] for e in store.read(f"s{n}")] for n in range(3)}
    assert written == {f"s{n}": list(range(APPENDS)) for n in range(3)}
    assert store.verify() == ()


def test_a_reader_waits_for_a_server_that_is_restarted(store: EventStore, postgres: Server) -> None:
    store.append("s", "t", 1)
    postgres.stop("fast")
    again = threading.Thread(target=postgres.start)
    again.start()
    try:
        assert [event["payload"] for event in store.read("s")] == [1]
    finally:
        again.join(120)


def test_a_program_that_begins_tries_once_more_if_its_connection_is_cut(
    postgres: Server, proxy: CuttingProxy, address: Address, tmp_path: Path
) -> None:
    proxy.at, proxy.armed = b"to_regclass", BEFORE
    url = postgres.url.replace(str(postgres.folder), str(proxy.folder))
    with opened(Address(url, address.schema), tmp_path) as store:
        assert store.append("s", "t", 1) == 1
    assert proxy.cuts == 1


HOLD = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from state_store.sql.addresses import Address, keep_rows
from state_store.postgres.store import PostgresStore
with PostgresStore(Path({folder!r}) / "x.db", Address({url!r}, {schema!r})).transaction() as open_:
    open_.append("s", "t", "mine")
    print("open", flush=True)
    sys.stdin.readline()
"""


def test_nobody_waits_for_a_stopped_writer_for_ever(
    store: EventStore, address: Address, tmp_path: Path
) -> None:
    parts = {"root": str(ROOT), "folder": str(tmp_path), "url": address.url}
    code = HOLD.format(**parts, schema=address.schema)
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin
    assert child.stdout
    with child:
        try:
            assert child.stdout.readline() == "open\n"
            os.kill(child.pid, signal.SIGSTOP)
            with (
                opened(address, tmp_path, patience_s=0.2) as hasty,
                pytest.raises(StoreBusyError, match="may have been stopped"),
            ):
                hasty.append("s", "t", "theirs")
            assert store.read("s") == []  # a reader does not wait
        finally:
            os.kill(child.pid, signal.SIGCONT)
            child.kill()
    assert store.append("s", "t", "theirs") == 1


# What only one server for many can show


def test_a_lease_ends_by_the_servers_clock(store: EventStore) -> None:
    before = store.clock.now()
    lease = coordination.acquire(store, "r", "me", ttl=50.0)
    assert lease is not None
    assert 0 <= lease.expires_at - 50.0 - before.wall_s < 30
    assert coordination.current_holder(store, "r") == "me"


def test_a_token_is_never_given_twice_even_if_the_row_is_lost(store: EventStore) -> None:
    first = coordination.acquire(store, "r", "me")
    with writing(store._database) as connection:
        connection.execute("DELETE FROM leases")
    second = coordination.acquire(store, "r", "me")
    assert first is not None
    assert second is not None
    assert second.token > first.token


def test_state_folders_agree_with_their_own_tracker_files(address: Address, tmp_path: Path) -> None:
    with opened(address, tmp_path / "a") as one, opened(address, tmp_path / "b") as other:
        assert one.folder != other.folder
        with opened(address, tmp_path / "a") as again:
            assert again.folder == one.folder


def test_a_subscriber_is_woken_by_another_machine(
    store: EventStore, address: Address, tmp_path: Path
) -> None:
    store.wait(5.0)  # listens from now on
    woken = threading.Event()

    def wait() -> None:
        store.wait(60.0)
        woken.set()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    with opened(address, tmp_path) as other:
        for number in range(200):
            other.append("s", "t", number)
            if woken.wait(0.05):
                break
    thread.join(60)
    assert woken.is_set()


def test_the_doctor_tells_about_the_server(
    postgres: Server, address: Address, tmp_path: Path
) -> None:
    keep_rows(tmp_path, address)
    assert "round trip" in check_database(tmp_path).detail
    opened(address, tmp_path).close()
    assert check_database(tmp_path).ok
    postgres.ask("CREATE USER onlooker")
    url = f"postgresql:///postgres?host={postgres.folder}&user=onlooker"
    keep_rows(tmp_path, Address(url, postgres.new_schema()))
    found = check_database(tmp_path)
    assert (found.ok, "may not write" in found.detail) == (False, True)
    keep_rows(tmp_path, Address(f"postgresql:///x?host={tmp_path}"))
    assert "cannot be reached" in check_database(tmp_path).detail


def test_a_damaged_event_is_found(store: EventStore) -> None:
    for number in range(3):
        store.append("s", "t", number)
    with writing(store._database) as connection:
        connection.execute("ALTER TABLE events DISABLE TRIGGER events_never_change")
        connection.execute("UPDATE events SET payload = '7' WHERE version = 2")
    assert [(found.kind, found.version) for found in store.verify()] == [("link", 2)]


def test_events_are_never_changed_or_deleted(store: EventStore) -> None:
    store.append("s", "t", {})
    for statement in ("UPDATE events SET payload = '1'", "DELETE FROM events"):
        with pytest.raises(Exception, match="append-only"), writing(store._database) as connection:
            connection.execute(statement)
    assert len(store.read("s")) == 1


@pytest.mark.parametrize("word", ["run", "status", "logs", "serve", "state", "doctor", "halt"])
def test_without_the_setting_nothing_of_the_driver_is_loaded(word: str, tmp_path: Path) -> None:
    loads = [*PYTHON, "-X", "importtime", str(ROOT / "driver" / "tidegate.py"), word, "--help"]
    done = subprocess.run(loads, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "psycopg" not in done.stderr
    assert "state_store.postgres" not in done.stderr


def test_no_word_of_the_program_loads_the_driver() -> None:
    code = (
        "import sys\n"
        "from importlib import import_module\n"
        "for where, *_ in WORDS.values(): import_module(where.partition(':')[0])\n"
        "foreign = ('psycopg', 'state_store.postgres')\n"
        "print(len(WORDS), *(name for name in sys.modules if name.startswith(foreign)))"
    )
    loads = [*PYTHON, "-c", f"from driver.cli.words import WORDS\n{code}"]
    done = subprocess.run(loads, cwd=ROOT, capture_output=True, text=True, check=True)
    count, *modules = done.stdout.split()
    assert int(count) > 20
    assert modules == []


# Two projects on one server. A pooler in transaction mode gives statements to any session


@pytest.mark.parametrize("where", ["of another project", "of none"])
def test_a_session_without_the_schema_writes_nothing(
    postgres: Server, store: EventStore, address: Address, tmp_path: Path, where: str
) -> None:
    other = postgres.new_schema() if where == "of another project" else "public"
    there = opened(Address(postgres.url, other), tmp_path / "other") if other != "public" else None
    for one in (store, there) if there else (store,):
        for number in range(2):
            one.append("s", "t", number)
    with writing(store._database) as connection:
        connection.execute(f'SET search_path TO "{other}"')
    store.put_halt("mine", "me")
    with pytest.raises(CannotRunError, match="pool_mode = session"):
        store.append("s", "t", 2)
    with pytest.raises(CannotRunError, match="pool_mode = session"):
        coordination.acquire(store, "r", "me")
    assert store.halt_row() is not None
    for table, count in (("events", 2), ("leases", 0), ("halts", 1)):
        assert postgres.ask(f"SELECT COUNT(*) FROM {address.schema}.{table}") == [(count,)]
    if there:
        assert there.halt_row() is None
        assert [event["payload"] for event in there.read("s")] == [0, 1]
        assert not list(there.verify())
        there.close()
