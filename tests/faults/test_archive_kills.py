"""A process that archives old events is killed at each of its points: no event is ever gone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from state_store.archives.segments import archives_in
from state_store.database.store import EventStore
from state_store.views.archiving import remove_spare, unnoted
from tests.support.interpreter import PYTHON
from tests.support.programs import ROOT

ARCHIVING = """
import sys, time
from state_store.database.store import EventStore
from state_store.views.archiving import archive
from tests.support.archives import old_parts
with EventStore(sys.argv[1]) as store:
    list(archive(store, old_parts(store, time.time() + 60, ())))
    store.connections.compact(whole=True)
"""
POINTS = ("file.write", "store.before_commit", "file.before_replace", "file.after_replace")
KILLED = -9


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "tracker_events.db"
    with EventStore(path) as store:
        for number in range(8):
            told = [("told", {"n": n, "text": "x" * 5_000}) for n in range(3)]
            store.append_many(f"wave:w{number}", told)
    return path


def archiving(database: Path, fail: str = "") -> int:
    command = [*PYTHON, "-c", ARCHIVING, str(database)]
    environ = {**os.environ, "TIDEGATE_FAIL": fail}
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode


def recorded(store: EventStore) -> list[dict[str, Any]]:
    return [event for event in store.read_all() if event["stream"] != "archives"]


def points(filled: Path, folder: Path) -> Iterator[str]:
    database = Path(shutil.copy(filled, folder))
    assert archiving(database, f"*=trace:{folder / 'trace'}") == 0
    yield from (folder / "trace").read_text().split()


def test_no_event_is_gone_wherever_it_is_killed(filled: Path, tmp_path: Path) -> None:
    met = list(points(filled, tmp_path))
    assert set(met) >= set(POINTS)
    with EventStore(filled) as store:
        before = store.read_all()
    for number in range(1, len(met) + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        database = Path(shutil.copy(filled, folder))
        assert archiving(database, f"#{number}=kill") == KILLED
        with EventStore(database) as store:
            assert recorded(store) == before, met[number - 1]
            assert store.verify() == ()
            for path in unnoted(store):
                assert remove_spare(store, path)
        assert archiving(database) == 0
        with EventStore(database) as store:
            assert recorded(store) == before
            assert store.verify() == ()
            assert len(archives_in(folder)) == 1


def test_a_full_disk_leaves_all_as_it_was(filled: Path, tmp_path: Path) -> None:
    for point in ("file.write", "file.before_replace", "store.before_commit"):
        folder = tmp_path / point
        folder.mkdir()
        database = Path(shutil.copy(filled, folder))
        assert archiving(database, f"{point}=ENOSPC") == 1
        with EventStore(database) as store, EventStore(filled) as whole:
            assert recorded(store) == whole.read_all()
            assert store.verify() == ()
