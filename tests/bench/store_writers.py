"""Writers for the store's benchmark, run as a program by each of its processes.

`python store_writers.py SUBJECT DATABASE THREADS SECONDS`: says `ready`, starts when a line comes
in, and prints the latencies of all appends in seconds, a JSON list per thread.
"""

from __future__ import annotations

import fcntl
import json
import os
import queue
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

if not __package__:  # run as a file: import from the checkout, not from this folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from state_store.database.store import EventStore

Append = Callable[[], None]
PAYLOAD = {"id": "item-1", "status": "in_progress", "note": "x" * 60}
TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS events(id INTEGER PRIMARY KEY, ts REAL, actor TEXT, stream TEXT,
    type TEXT, payload TEXT, version INTEGER, UNIQUE(stream, version));
"""
INSERT = """
INSERT INTO events(ts, actor, stream, type, payload, version)
SELECT ?, 'bench', 's', 't', ?, COALESCE(MAX(version), 0) + 1 FROM events WHERE stream = 's'
"""


def connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def insert(connection: sqlite3.Connection) -> None:
    connection.execute(INSERT, (time.time(), json.dumps(PAYLOAD)))


def one_transaction(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    insert(connection)
    connection.execute("COMMIT")


def row_per_transaction(path: str) -> Callable[[], Append]:
    """Plain SQLite: a connection per thread, a transaction per row."""

    def for_thread() -> Append:
        connection = connect(path)
        return lambda: one_transaction(connection)

    return for_thread


def queued_row_per_transaction(path: str) -> Callable[[], Append]:
    """The same behind a lock that the kernel queues, so that nobody starves."""

    def for_thread() -> Append:
        connection, lock = connect(path), os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT)

        def append() -> None:
            fcntl.flock(lock, fcntl.LOCK_EX)
            one_transaction(connection)
            fcntl.flock(lock, fcntl.LOCK_UN)

        return append

    return for_thread


def connection_per_append(path: str) -> Callable[[], Append]:
    """The design of the source."""

    def append() -> None:
        with closing(connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            one_transaction(connection)

    return lambda: append


def bare_group_commit(path: str) -> Callable[[], Append]:
    """A writer thread that commits whatever has come in meanwhile; nothing else."""
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def write() -> None:
        connection = connect(path)
        while True:
            batch = [waiting.get()]
            while not waiting.empty():
                batch.append(waiting.get())
            connection.execute("BEGIN IMMEDIATE")
            for _ in batch:
                insert(connection)
            connection.execute("COMMIT")
            for done in batch:
                done.release()

    threading.Thread(target=write, daemon=True).start()

    def append() -> None:
        done = threading.Lock()
        done.acquire()
        waiting.put(done)
        done.acquire()

    return lambda: append


def tidegate(path: str) -> Callable[[], Append]:
    """What is measured."""
    store = EventStore(path)

    def append() -> None:
        store.append("s", "t", PAYLOAD)

    return lambda: append


SUBJECTS = {
    "tidegate": tidegate,
    "row per transaction": row_per_transaction,
    "the same, queued": queued_row_per_transaction,
    "bare group commit": bare_group_commit,
    "connection per append": connection_per_append,
}


def write_for(append: Append, seconds: float, latencies: list[float]) -> None:
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        append()
        latencies.append(time.perf_counter() - started)


def main(subject: str, path: str, threads: int, seconds: float) -> None:
    for_thread = SUBJECTS[subject](path)
    latencies: list[list[float]] = [[] for _ in range(threads)]
    appends = [for_thread() for _ in latencies]
    workers = [
        threading.Thread(target=write_for, args=(append, seconds, mine))
        for append, mine in zip(appends, latencies, strict=True)
    ]
    print("ready", flush=True)
    sys.stdin.readline()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(json.dumps(latencies), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
