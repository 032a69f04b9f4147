"""How fast the store is, beside SQLite itself with the same durability in the same run.

`python -m pytest -m bench -s tests/bench/bench_store.py`
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from state_store import coordination
from state_store.archives.chain import row_hash
from state_store.database.event_rows import encode
from state_store.database.schema import INSERT_EVENT
from state_store.database.store import EventStore
from tests.bench.store_writers import SUBJECTS, TABLES, connect, one_transaction

pytestmark = pytest.mark.bench
WRITERS = Path(__file__).with_name("store_writers.py")
SECONDS = 0.6
ROUNDS = 5
LOADS = [(1, 1), (4, 1), (16, 1), (1, 8), (1, 32)]


def measured(subject: str, folder: Path, processes: int, threads: int) -> list[list[float]]:
    """The latencies of each writer."""
    path = folder / "bench.db"
    if subject != "tidegate":
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(TABLES)
    else:
        EventStore(path).close()
    command = [sys.executable, str(WRITERS), subject, str(path), str(threads), str(SECONDS)]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    for child in children:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin
        child.stdin.write("\n")
        child.stdin.flush()
    said = [json.loads(child.communicate()[0]) for child in children]
    return [writer for process in said for writer in process]


def rate(writers: list[list[float]]) -> float:
    return sum(map(len, writers)) / SECONDS


def described(writers: list[list[float]]) -> str:
    every = sorted(latency for writer in writers for latency in writer)
    counts = [len(writer) for writer in writers]
    return (
        f"{rate(writers):8,.0f} ev/s  p99 {every[int(len(every) * 0.99)] * 1e3:7.1f} ms  "
        f"worst {every[-1] * 1e3:7.1f} ms  slowest/mean {min(counts) / statistics.mean(counts):.2f}"
    )


@pytest.mark.parametrize(("processes", "threads"), LOADS)
def test_append(tmp_path: Path, processes: int, threads: int) -> None:
    print(f"\n{processes} process(es) x {threads} thread(s), {ROUNDS} interleaved rounds")
    subjects = [name for name in SUBJECTS if threads > 1 or name != "bare group commit"]
    rounds: dict[str, list[list[list[float]]]] = {name: [] for name in subjects}
    for number in range(ROUNDS):
        for name in subjects:
            folder = tmp_path / f"{number}{name}"
            folder.mkdir()
            rounds[name].append(measured(name, folder, processes, threads))
    middle = {name: sorted(found, key=rate)[ROUNDS // 2] for name, found in rounds.items()}
    for name, writers in middle.items():
        pairs = zip(rounds["tidegate"], rounds[name], strict=True)  # side by side: the disk varies
        share = statistics.median(rate(ours) / rate(theirs) for ours, theirs in pairs)
        print(f"  {name:22} {described(writers)}  tidegate is {share:.2f} x")


def test_append_in_turns(tmp_path: Path) -> None:
    """One writer of each kind, twenty appends each in turn: what else the disk does hits all."""
    names = ("tidegate", "row per transaction", "the same, queued")
    took: dict[str, list[float]] = {name: [] for name in names}
    appends = {}
    for name in names:
        (tmp_path / name).mkdir()
        path = tmp_path / name / "bench.db"
        if name != "tidegate":
            with closing(sqlite3.connect(path)) as connection:
                connection.executescript(TABLES)
        appends[name] = SUBJECTS[name](str(path))()
    for _ in range(200):
        for name, append in appends.items():
            write_for_times(append, 20, took[name])
    ours = statistics.median(took["tidegate"])
    for name, found in took.items():
        middle = statistics.median(found)
        print(f"\n  {name:22} {middle * 1e6:6.0f} us, tidegate is {middle / ours:.2f} x", end="")


def write_for_times(append: Callable[[], None], times: int, latencies: list[float]) -> None:
    for _ in range(times):
        started = time.perf_counter()
        append()
        latencies.append(time.perf_counter() - started)


def middle_time(work: Callable[[], object], times: int = 101) -> float:
    """The median duration in milliseconds."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return statistics.median(found) * 1e3


@pytest.mark.parametrize("past", [0, 10_000, 50_000])
def test_claim_and_status_change(tmp_path: Path, past: int) -> None:
    with (
        closing(connect(str(tmp_path / "bare.db"))) as bare,
        EventStore(tmp_path / "a.db") as store,
    ):
        bare.executescript(TABLES)
        _past_claims(store, past)
        store.append("tracker", "item_created", {"id": "a", "status": "todo"})
        status = {"id": "a", "status": "in_progress"}
        free = iter(range(10_000))
        row = middle_time(lambda: one_transaction(bare))
        claim = middle_time(lambda: coordination.try_claim(store, f"new-{next(free)}", "me"))
        change = middle_time(lambda: store.append("tracker", "item_updated", status))
        print(
            f"\nafter {past:,} claims and changes: one row {row:.3f} ms, claim {claim:.3f} ms "
            f"({claim / row:.2f} x), status change {change:.3f} ms ({change / row:.2f} x)"
        )


def _past_claims(store: EventStore, past: int) -> None:
    with store.transaction() as transaction:
        for number in range(past):
            transaction.append("claims", "claim_requested", {"resource": f"r{number}"})
            transaction.append("tracker", "item_updated", {"id": "a", "status": f"{number}"})


EVENTS, ITEMS = 1_000_000, 100_000


@pytest.fixture(scope="module", params=[1000, ITEMS], ids=["a-thousand-live", "round-robin"])
def million(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("million") / "a.db"
    with EventStore(path) as store:
        with closing(connect(str(path))) as connection:
            connection.execute("BEGIN")
            connection.executemany(INSERT_EVENT, _a_million(request.param))
            connection.execute("COMMIT")
        store.rebuild_items()
    return path


def _a_million(live: int) -> Iterator[tuple[object, ...]]:
    """`live` items at once; each has ten events before its place is taken by the next."""
    link, each = b"", EVENTS // ITEMS
    for version in range(1, EVENTS + 1):
        generation, place = divmod(version - 1, live * each)
        step, slot = divmod(place, live)
        item_id = f"item-{generation * live + slot}"
        if step == 0:
            kind, item = "item_created", {"title": f"the title of {item_id}", "status": "todo"}
        else:
            kind, item = "item_updated", {"status": f"state {step}"}
        payload = encode({"id": item_id, **item, "lane": "proposed", "note": "n" * 40})
        row = (1.0, "bench", "tracker", kind, payload, version)
        link = row_hash(link, row)
        yield (*row, link)


CHILD = """
import json, pathlib, re, sqlite3, sys, time
from state_store.database.store import EventStore
path, what = sys.argv[1:]
if what == "bare scan and decode":
    work = lambda: [None for (text,) in sqlite3.connect(path).execute(
        "SELECT payload FROM events ORDER BY id") if json.loads(text) is None]
else:
    store = EventStore(path)
    work = {
        "first item of the view": lambda: store.item("item-77777"),
        "all items of the view": lambda: store.items(),
        "rebuild of the view": lambda: store.rebuild_items(),
        "rebuild from nothing": lambda: store.rebuild_items(),
        "verify": lambda: print(*store.verify()),
    }[what]
if what == "rebuild from nothing":
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM items")
started, used = time.perf_counter(), time.process_time()
kept = work()
took, used = time.perf_counter() - started, time.process_time() - used
status = pathlib.Path('/proc/self/status').read_text()
peak = int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]) / 1024
print(f"  {what:24} {took * 1e3:8.1f} ms, processor {used * 1e3:8.1f} ms, peak {peak:4.0f} MiB")
"""


def test_a_million_events(million: Path) -> None:
    print(f"\n{EVENTS:,} events over {ITEMS:,} items, {million.stat().st_size / 2**20:.0f} MiB")
    for what in (
        "first item of the view",
        "all items of the view",
        "bare scan and decode",
        "rebuild of the view",
        "bare scan and decode",
        "rebuild from nothing",
        "bare scan and decode",
        "rebuild of the view",
        "verify",
    ):
        subprocess.run(
            [sys.executable, "-c", CHILD, str(million), what],
            check=True,
            cwd=Path(__file__).resolve().parents[2],
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
