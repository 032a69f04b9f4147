"""A shipment that was cut off is finished with its commits: from its row in the store, and from the
journal where the store cannot have the row."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from state_store.database.publications import (
    ANNOUNCED,
    DROPPED,
    MERGED,
    ON_BRANCH,
    OPEN,
    PUSHED,
    SHIPPED,
    Publication,
    PublishedCommit,
)
from state_store.database.store import EventStore
from state_store.documents.journal import FOLDER, SHIPPING, entry_path
from state_store.sql.connection import writing
from state_store.views.publications import known_publications
from state_store.write_api import STATE_DB_FILENAME
from tests.support.interpreter import PYTHON
from tests.support.killing import Yard
from tests.support.stores import Stores

ROOT = Path(__file__).resolve().parents[2]
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
A, B = PublishedCommit("a", "c1"), PublishedCommit("b", "c2")
FIRST = Publication("c2", "/r", "w1", "wave/w1", None, (A, B))


@pytest.fixture
def store(tmp_path: Path, stores: Stores) -> Iterator[EventStore]:
    with stores.open(tmp_path / "a.db") as opened:
        yield opened


def announced(store: EventStore, *rows: Publication) -> None:
    with store.transaction() as transaction:
        for one in rows:
            transaction.publications.announce(one, 1.0)


def states(store: EventStore) -> list[tuple[str, list[str]]]:
    return [(one.state, [item.state for item in one.items]) for one in store.publications()]


def test_a_row_only_moves_forward_and_an_end_is_one_of_its_open_items(store: EventStore) -> None:
    announced(store, FIRST)
    with store.transaction() as transaction:
        book = transaction.publications
        for state in (PUSHED, ON_BRANCH, ANNOUNCED):
            book.advance("c2", state, 2.0)
        book.mark("a", "c1", 2.0)
    assert states(store) == [(PUSHED, [SHIPPED, OPEN])]
    with store.transaction() as transaction:
        transaction.publications.end("c1", DROPPED, 3.0)
        transaction.publications.end("c1", MERGED, 4.0)
    assert states(store) == [(DROPPED, [SHIPPED, DROPPED])]


def test_an_item_is_open_in_one_row_of_its_repository_at_most(store: EventStore) -> None:
    elsewhere = Publication("c4", "/s", "w1", "wave/w1", None, (PublishedCommit("b", "c4"),))
    second = Publication("c3", "/r", "w2", "wave/w2", "main", (PublishedCommit("b", "c3"),))
    announced(store, FIRST, elsewhere, second)
    assert states(store) == [
        (ANNOUNCED, [OPEN, DROPPED]),
        (ANNOUNCED, [OPEN]),
        (ANNOUNCED, [OPEN]),
    ]
    with store.transaction() as transaction:
        transaction.publications.drop("a", 2.0, "/r")
    assert states(store)[0] == (DROPPED, [DROPPED, DROPPED])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("items = '[{'", "row 1 of the publications cannot be read: "),
        ('items = \'[{"slug": "a"}]\'', "row 1 of the publications cannot be read: "),
        ("state = 'pushd'", "row 1 of the publications has an unknown state"),
        ("open = 0", "row 1 of the publications counts 0 open items, but lists 2"),
    ],
)
def test_verify_finds_a_damaged_row(store: EventStore, change: str, why: str) -> None:
    announced(store, FIRST)
    assert store.verify() == ()
    with writing(store._database) as connection:
        connection.execute(f"UPDATE publications SET {change}")
    (found,) = store.verify()
    assert (found.kind, str(found)[: len(why)]) == ("publications", why)


@pytest.fixture
def cut_off(tmp_path: Path) -> Yard:
    """Its first run was killed before it pushed what it had announced."""
    yard = Yard(tmp_path, slugs=("a", "c"))
    assert yard.run("git.before_push=kill").code == -signal.SIGKILL
    [row] = known_publications(yard.state)
    assert row.open_slugs == {"a", "c"}
    return yard


def without_row(yard: Yard) -> None:
    connection = sqlite3.connect(yard.state / STATE_DB_FILENAME)
    with connection:
        connection.execute("DELETE FROM publications")
    connection.close()


def is_finished(yard: Yard, tip: str) -> None:
    again, undone = yard.run_until_done()
    assert (again, undone) == (1, [])
    assert yard.dispatched() == {"a": 1, "c": 1}
    assert yard.wrong(clean_clone=True) == []
    assert tip in yard.remote.git("for-each-ref", "--format=%(objectname)", "refs/heads/wave")
    assert [one.open_slugs for one in known_publications(yard.state)] == [frozenset()]


def tip_of(yard: Yard) -> str:
    entry = json.loads(entry_path(yard.state, "a").read_text())
    assert (entry["phase"], entry["branch"][:5]) == (SHIPPING, "wave/")
    return str(entry["tip"])


@on_linux
def test_the_row_alone_finishes_it(cut_off: Yard) -> None:
    is_finished(cut_off, tip_of(cut_off))


@pytest.mark.more
@on_linux
def test_a_list_of_entries_of_an_earlier_version_finishes_it(cut_off: Yard) -> None:
    tip = tip_of(cut_off)
    entries = [json.loads(entry_path(cut_off.state, slug).read_text()) for slug in ("a", "c")]
    without_row(cut_off)
    for slug in ("a", "c"):
        entry_path(cut_off.state, slug).unlink()
    listed = cut_off.state / FOLDER / "together.shipping-x.json"
    listed.write_text(json.dumps(entries))
    [row] = known_publications(cut_off.state)
    assert (row.tip, sorted(row.open_slugs)) == (tip, ["a", "c"])
    is_finished(cut_off, tip)


@pytest.mark.more
@on_linux
def test_the_journal_finishes_it_when_the_database_is_lost(cut_off: Yard) -> None:
    tip = tip_of(cut_off)
    for path in cut_off.state.glob(f"{STATE_DB_FILENAME}*"):
        if not path.name.endswith(".lock"):
            path.unlink()
    argv = [*PYTHON, str(ROOT / "tools" / "verify_state.py"), "--state-dir", str(cut_off.state)]
    done = subprocess.run(
        [*argv, "--rebuild", "--tracker", str(cut_off.tracker)],
        env={**os.environ, **cut_off.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    is_finished(cut_off, tip)


@pytest.mark.more
@on_linux
def test_an_entry_without_its_row_announces_nothing(cut_off: Yard) -> None:
    """A kill between entry and commit leaves that: nothing was published, all is proven again."""
    without_row(cut_off)
    assert known_publications(cut_off.state) == ()
    again, undone = cut_off.run_until_done()
    assert (again, undone) == (1, [])
    assert cut_off.dispatched() == {"a": 1, "c": 1}
    assert {name: len(there) for name, there in cut_off.commits().items()} == {"A": 1, "C": 1}
