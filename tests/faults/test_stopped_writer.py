"""A process stopped in the middle of a write: the others wait for a time, and then say for whom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from state_store.database.store import EventStore, StoreBusyError
from tests.support.interpreter import PYTHON

ROOT = Path(__file__).resolve().parents[2]
APPEND = """
import sys
from state_store.database.store import EventStore
EventStore(sys.argv[1]).append("s", "t", {"by": "the stopped one"})
"""

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no process can be stopped")


@contextmanager
def stopped_in_a_commit(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [*PYTHON, "-c", APPEND, str(path)],
        cwd=ROOT,
        env={**os.environ, "TIDEGATE_FAIL": "store.before_commit=stop"},
    )
    try:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        yield child
    finally:
        child.kill()
        child.wait()


def payloads(store: EventStore) -> list[str]:
    return [event["payload"]["by"] for event in store.read("s")]


def test_a_stopped_writer_is_named_and_holds_nobody_up_for_ever(tmp_path: Path) -> None:
    with (
        EventStore(tmp_path / "a.db", queue_patience_s=0.2) as store,
        stopped_in_a_commit(store.path) as child,
    ):
        for _ in range(2):  # the second time the first wait is still going on
            with pytest.raises(StoreBusyError, match=r"a\.db cannot be written: ") as caught:
                store.append("s", "t", {"by": "me"})
        if sys.platform == "linux":
            assert f"process {child.pid} " in str(caught.value)
        assert payloads(store) == []
        child.send_signal(signal.SIGCONT)
        assert child.wait(30) == 0
        store.append("s", "t", {"by": "me"})
        assert payloads(store) == ["the stopped one", "me"]


def test_a_turn_that_nobody_wants_any_more_is_passed_on(tmp_path: Path) -> None:
    with (
        EventStore(tmp_path / "a.db", queue_patience_s=0.5) as given_up,
        EventStore(tmp_path / "a.db") as other,
        stopped_in_a_commit(given_up.path) as child,
    ):
        with pytest.raises(StoreBusyError):
            given_up.append("s", "t", {"by": "given up"})
        waiting = threading.Thread(target=other.append, args=("s", "t", {"by": "other"}))
        waiting.start()
        child.send_signal(signal.SIGCONT)
        waiting.join(30)
        assert payloads(other) == ["the stopped one", "other"]
        assert given_up.append("s", "t", {"by": "again"}) == 3


@pytest.mark.more
def test_who_is_killed_while_it_waits_keeps_nobody(tmp_path: Path) -> None:
    with EventStore(tmp_path / "a.db") as store, stopped_in_a_commit(store.path) as child:
        waits = subprocess.Popen([*PYTHON, "-c", APPEND, str(store.path)], cwd=ROOT)
        waits.kill()
        waits.wait()
        child.send_signal(signal.SIGCONT)
        assert child.wait(30) == 0
        store.append("s", "t", {"by": "me"})
        assert payloads(store) == ["the stopped one", "me"]
