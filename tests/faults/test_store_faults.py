"""Damage, full disks, kills: the database never comes back silently poorer than it was."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from state_store import coordination
from state_store.database.store import DamagedStoreError, EventStore, StoreBusyError
from state_store.documents.errors import CannotRunError
from tests.support.interpreter import PYTHON

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX processes")


def child(code: str, *arguments: str | Path, fail: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PYTHON, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "TIDEGATE_FAIL": fail},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ran(code: str, *arguments: str | Path, fail: str = "") -> tuple[int, str, str]:
    started = child(code, *arguments, fail=fail)
    out, err = started.communicate(timeout=60)
    return started.returncode, out, err


APPEND = """
import sys
from state_store.database.store import EventStore
store = EventStore(sys.argv[1])
for number in range(int(sys.argv[2])):
    print(store.append("s", "t", {"number": number}), flush=True)
"""
APPEND_AND_DIE = (
    APPEND + "import json, os; print(json.dumps(store.heads()), flush=True)\nos._exit(9)\n"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tracker_events.db"


@pytest.fixture
def closed(path: Path) -> Path:
    """A database with ten events and an item, all of it in the one file."""
    with EventStore(path) as store:
        store.append_many("s", [("t", {"number": f"number-{n}"}) for n in range(10)])
        store.append("tracker", "item_created", {"id": "a"})
    return path


def flip(path: Path, at: int, bit: int = 1) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= bit
    path.write_bytes(raw)


# The file


@pytest.mark.parametrize("bit", [0x01, 0x80])
def test_a_flipped_bit_in_a_row_is_found(
    closed: Path, capsys: pytest.CaptureFixture[str], bit: int
) -> None:
    flip(closed, closed.read_bytes().index(b"number-4") + 3, bit)
    with EventStore(closed) as store:
        named = store.verify()
        assert ("link", "s", 5) in [(it.kind, it.stream, it.version) for it in named]
        assert len(store.read("s")) == 10  # the text is JSON still; only the link tells
    assert capsys.readouterr().err == ""


def test_a_payload_that_is_no_json_is_left_out_and_named(
    closed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(closed, closed.read_bytes().index(b'{"number":"number-4'), 0x20)
    with EventStore(closed) as store:
        assert [event["version"] for event in store.read("s")] == [1, 2, 3, 4, 6, 7, 8, 9, 10]
        assert {(it.kind, it.version) for it in store.verify()} == {("link", 5), ("payload", 5)}
    assert "WARNING: event 5 of stream s" in capsys.readouterr().err


def test_a_row_taken_out_leaves_a_gap(closed: Path) -> None:
    with closing(sqlite3.connect(closed)) as other:
        other.execute("DROP TRIGGER events_never_go")
        other.execute("DELETE FROM events WHERE stream = 's' AND version = 3")
        other.commit()
    with EventStore(closed) as store:
        assert ("gap", 4) in {(it.kind, it.version) for it in store.verify()}


def test_a_row_that_was_changed_and_chained_anew_is_found_by_an_anchor(closed: Path) -> None:
    with EventStore(closed) as store:
        anchor = json.loads(json.dumps(store.heads()))
        assert store.check_anchor(anchor) == ()
    with closing(sqlite3.connect(closed)) as other:
        other.execute("DROP TRIGGER events_never_change")
        other.execute("UPDATE events SET hash = x'00' WHERE stream = 's' AND version = 10")
        other.commit()
    with EventStore(closed) as store:
        assert [(it.kind, it.version) for it in store.check_anchor(anchor)] == [("anchor", 10)]


def cut_to(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database at all\n" * 400)


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)


def overwrite_pages(path: Path) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[:100] + b"\xff" * (len(raw) - 100))


@pytest.mark.parametrize(
    "damage", [cut_to(0), cut_to(1), cut_to(60), garbage, half, overwrite_pages]
)
def test_a_damaged_database_is_named_and_left_as_it_is(
    closed: Path, damage: Callable[[Path], None]
) -> None:
    damage(closed)
    before = closed.read_bytes()
    with pytest.raises(DamagedStoreError) as damaged:
        EventStore(closed)
    assert str(closed) in str(damaged.value)
    assert damaged.value.exit_code == 4
    assert closed.read_bytes() == before


def test_a_truncated_end_is_found(closed: Path) -> None:
    with EventStore(closed) as store:
        store.append_many("s", [("t", "x" * 500)] * 100)
    os.truncate(closed, closed.stat().st_size - 4096)
    with pytest.raises(DamagedStoreError):
        EventStore(closed)


def test_an_empty_file_that_was_never_a_database_becomes_one(path: Path) -> None:
    path.touch()
    with EventStore(path) as store:
        assert store.append("s", "t", {}) == 1


def test_an_empty_file_beside_a_journal_is_damage(path: Path) -> None:
    path.touch()
    (path.parent / "journal").mkdir()
    with pytest.raises(DamagedStoreError):
        EventStore(path)


@posix
@pytest.mark.parametrize("put_back", [False, True])
def test_nothing_is_acknowledged_into_a_file_that_is_gone(path: Path, put_back: bool) -> None:
    """SQLite itself goes on writing into a file without a name."""
    with EventStore(path) as store:
        store.append("s", "t", {})
        for file in (path, *path.parent.glob(f"{path.name}-*")):
            file.unlink()
        if put_back:
            with EventStore(path) as other:
                other.append("s", "t", {"by": "another"})
        with pytest.raises(CannotRunError, match="removed or replaced while it was in use"):
            store.append("s", "t", {})
    assert path.exists() is put_back


def test_a_missing_database_is_made_with_its_folders(tmp_path: Path) -> None:
    with EventStore(tmp_path / "a" / "b" / "x.db") as store:
        assert store.read_all() == []


def test_a_file_of_another_program_is_not_touched(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE songs(name)")
    before = path.read_bytes()
    with pytest.raises(CannotRunError, match="another program"):
        EventStore(path)
    assert path.read_bytes() == before


def test_a_newer_database_is_not_touched(closed: Path) -> None:
    with closing(sqlite3.connect(closed)) as other:
        other.execute("PRAGMA user_version = 99")
    with pytest.raises(CannotRunError, match="newer"):
        EventStore(closed)


def test_a_folder_in_its_place_is_one_sentence(path: Path) -> None:
    path.mkdir()
    with pytest.raises(CannotRunError, match=str(path)):
        EventStore(path)


def test_without_shared_memory_a_rollback_journal_does(closed: Path) -> None:
    with closing(sqlite3.connect(closed)) as other:
        assert other.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    with EventStore(closed) as store:
        assert store.append("s", "t", {}) == 11
        lease = coordination.acquire(store, "item", "me")
        with store.transaction(lease=lease) as transaction:
            transaction.append("s", "t", {})
        assert store.verify() == ()


def test_a_database_held_by_another_program_is_one_sentence(closed: Path) -> None:
    with (
        EventStore(closed, busy_timeout_s=0.01) as store,
        closing(sqlite3.connect(closed)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusyError, match="another program"):
            store.append("s", "t", {})
        other.execute("ROLLBACK")
        assert store.append("s", "t", {}) == 11


# Commits that are not in the file yet


def flip_in_wal(path: Path) -> None:
    wal = wal_of(path)
    flip(wal, 32 + 3 * (4096 + 24) + 500)


def delete_wal(path: Path) -> None:
    wal_of(path).unlink()


def cut_wal(path: Path) -> None:
    os.truncate(wal_of(path), wal_of(path).stat().st_size - 5000)


def delete_database(path: Path) -> None:
    path.unlink()


def wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("damage", [flip_in_wal, delete_wal, cut_wal])
def test_lost_commits_are_named_by_an_anchor(path: Path, damage: Callable[[Path], None]) -> None:
    _, out, _ = ran(APPEND_AND_DIE, path, "10")
    anchor = json.loads(out.splitlines()[-1])
    damage(path)
    with EventStore(path) as store:
        assert len(store.read("s")) < 10
        assert [(it.kind, it.version) for it in store.check_anchor(anchor)] == [("anchor", 10)]


def test_commits_without_their_database_are_damage(path: Path) -> None:
    ran(APPEND_AND_DIE, path, "10")
    path.unlink()
    with pytest.raises(DamagedStoreError, match="has commits"):
        EventStore(path)


def test_commits_beside_an_emptied_database_are_damage(path: Path) -> None:
    ran(APPEND_AND_DIE, path, "10")
    os.truncate(path, 0)
    with pytest.raises(DamagedStoreError):
        EventStore(path)


# Kills


@pytest.mark.more
@posix
def test_what_was_acknowledged_survives_a_kill(path: Path) -> None:
    acknowledged = 0
    for after in (1, 7, 23, 40):
        started = child(APPEND, path, "100000")
        assert started.stdout
        for _ in range(after):
            acknowledged = int(started.stdout.readline())
        started.kill()
        rest = started.stdout.read().splitlines()  # `communicate` passes over what was read ahead
        started.communicate()
        acknowledged = int(rest[-1]) if rest else acknowledged
        with EventStore(path) as store:
            assert len(store.read("s")) in (acknowledged, acknowledged + 1)
            assert store.verify() == ()


@pytest.mark.more
@pytest.mark.parametrize(
    ("point", "kept"), [("store.before_commit@3", 2), ("store.after_commit@3", 3)]
)
@posix
def test_a_kill_around_a_commit_leaves_it_whole_or_absent(
    path: Path, point: str, kept: int
) -> None:
    code, out, _ = ran(APPEND, path, "5", fail=f"{point}=kill")
    assert code == -signal.SIGKILL
    assert out.split() == ["1", "2"]
    with EventStore(path) as store:
        assert len(store.read("s")) == kept
        assert store.append("s", "t", {}) == kept + 1
        assert store.verify() == ()


HOLD = """
import sys
from state_store.database.store import EventStore
with EventStore(sys.argv[1]).transaction() as transaction:
    transaction.append("s", "t", {})
    print("open", flush=True)
    sys.stdin.readline()
"""


@posix
def test_a_writer_killed_in_its_transaction_holds_nobody_up(path: Path) -> None:
    started = child(HOLD, path)
    assert started.stdout
    assert started.stdout.readline() == "open\n"
    started.kill()
    started.communicate()
    with EventStore(path) as store:
        assert store.append("s", "t", {}) == 1


# The disk


@posix
def test_a_failed_commit_changes_nothing_and_the_next_one_works(path: Path) -> None:
    code = APPEND.replace(
        "    print(store.append",
        "    try: store.append('full', 't', 1)\n"
        "    except Exception as error: print(type(error).__name__, error.exit_code.value)\n"
        "    print(store.append",
    )
    status, out, err = ran(code, path, "1", fail="store.before_commit@1=ENOSPC")
    assert (status, out.splitlines(), err) == (0, ["CannotRunError 4", "1"], "")
    with EventStore(path) as store:
        assert [event["stream"] for event in store.read_all()] == ["s"]


FULL = """
import resource, sys
from state_store.documents.errors import CannotRunError
from state_store.database.store import EventStore
store = EventStore(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    while True:
        done = store.append("s", "t", "x" * 3000)
except CannotRunError as error:
    print(done, error, flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(store.append("s", "t", "again"), len(store.verify()), flush=True)
"""


@posix
def test_a_full_disk_is_one_sentence_and_loses_nothing(path: Path) -> None:
    status, out, err = ran(FULL, path)
    assert (status, err) == (0, "")
    said, again = out.splitlines()
    done = int(said.split()[0])
    assert str(path) in said
    assert done > 5
    assert again == f"{done + 1} 0"
    with EventStore(path) as store:
        assert len(store.read("s")) == done + 1


# A folder that may not be written


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Where an ordinary user may look; pytest's own folders are for one user only."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def as_ordinary_user(work: Callable[[], str]) -> str:
    """What `work` says in a process without privileges."""
    here, there = multiprocessing.get_context("fork").Pipe(duplex=False)

    def run() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65_534)
            os.setuid(65_534)
        there.send(work())

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    assert here.poll(60)
    said: str = here.recv()
    process.join(60)
    return said


@posix
def test_a_read_only_folder_can_be_looked_at_and_not_written(open_folder: Path) -> None:
    path = open_folder / "a.db"
    with EventStore(path) as store:
        store.append("tracker", "item_created", {"id": "a"})
        coordination.try_claim(store, "item", "me")
    for leftover in (open_folder / "a.db-wal", open_folder / "a.db-shm"):
        leftover.unlink(missing_ok=True)
    path.chmod(0o444)
    open_folder.chmod(0o555)

    def look_and_write() -> str:
        with EventStore(path) as store:
            seen = f"{store.items()} {coordination.current_holder(store, 'item')}"
            try:
                store.append("s", "t", {})
            except CannotRunError as error:
                return f"{seen} {error}"
        return "written"

    said = as_ordinary_user(look_and_write)
    assert said.startswith(f"[{{'id': 'a'}}] me {path}")


@posix
def test_a_database_cannot_be_made_in_a_read_only_folder(open_folder: Path) -> None:
    open_folder.chmod(0o555)

    def make() -> str:
        try:
            EventStore(open_folder / "a.db")
        except CannotRunError as error:
            return str(error)
        return "made"

    assert str(open_folder / "a.db") in as_ordinary_user(make)


WRITES_AND_LEAVES = """
import sys
from state_store.database.store import EventStore
with EventStore(sys.argv[1]) as store:
    store.append("s", "t", "another")
"""


@pytest.mark.more
def test_a_second_store_of_a_process_does_not_lose_the_locks_of_the_first(path: Path) -> None:
    """Closing a file takes away all POSIX locks of the process on it. Another process that leaves
    would think itself the last one then, and delete the log that is still written to."""
    with EventStore(path) as first:
        first.append("s", "t", "one")
        EventStore(path).close()
        command = [*PYTHON, "-c", WRITES_AND_LEAVES, str(path)]
        subprocess.run(command, cwd=ROOT, check=True, timeout=30)
        assert path.with_name(f"{path.name}-wal").exists()
        assert first.append("s", "t", "two") == 3
        assert [event["payload"] for event in first.read("s")] == ["one", "another", "two"]
    with EventStore(path) as store:
        assert [event["payload"] for event in store.read("s")] == ["one", "another", "two"]
        assert store.verify() == ()
