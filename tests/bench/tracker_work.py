"""One piece of work on a tracker in a process of its own, for the tracker's benchmark.

`python tracker_work.py WORK TRACKER STATE_DIR` prints milliseconds of processor and of wall time,
without the start of the program, and the most memory that it had in MiB.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

if not __package__:  # run as a file: import from the checkout, not from this folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])

Work = Callable[[Path, Path], object]


def parse() -> Work:
    return lambda tracker, _: json.loads(tracker.read_bytes())


def digest() -> Work:
    return lambda tracker, _: hashlib.sha256(tracker.read_bytes()).hexdigest()


# What follows imports in the function: the two above must not pay for it in memory.


def intake() -> Work:
    """The tracker read, parsed or recognized, chosen from and checked."""
    from driver.backlog.index_reader import TrackerReader
    from driver.backlog.item_filter import ItemFilter
    from driver.scheduler.context import Cycle
    from driver.scheduler.intake import taken
    from driver.workspace.repository_info import RepositoryInfo

    def work(tracker: Path, state: Path) -> None:
        reader = TrackerReader()
        asked: Any = SimpleNamespace(
            tracker=tracker, max_items=5, item_filter=ItemFilter(), repo=tracker.parent,
            options=None, state_dir=state, repositories=RepositoryInfo({}), environ={},
            tracker_index=lambda: reader.read(tracker, state),
        )  # fmt: skip
        assert len(taken(cast("Cycle", asked), {}).selected) == 5

    return work


def keep() -> Work:
    """What a cycle does at its end that took nothing."""
    from driver.backlog.index_reader import TrackerReader
    from state_store.write_api import STATE_DB_FILENAME

    def work(tracker: Path, state: Path) -> None:
        (state / STATE_DB_FILENAME).touch()  # an index is kept beside a store only
        reader = TrackerReader()
        reader.read(tracker, state)
        reader.keep(tracker, state)

    return work


def imports() -> Work:
    """What the modules of an intake take of memory."""
    intake()
    return lambda _, __: None


def sync() -> Work:
    from state_store.api import StateAPI
    from state_store.tracker.ingest import sync_tracker

    def work(tracker: Path, state: Path) -> None:
        with StateAPI(state / "tracker_events.db") as api:
            sync_tracker(api, tracker)

    return work


def rewrite() -> Work:
    """The tracker's bytes replaced by themselves: the least that a change of one item can cost."""
    from state_store.documents.files import read_bytes, write_bytes_atomic

    def work(tracker: Path, _: Path) -> None:
        write_bytes_atomic(tracker, read_bytes(tracker, 2**27))

    return work


def change() -> Work:
    """A status set in the store, and brought into the file that a run has read and synced."""
    from driver.backlog.index_reader import TrackerReader
    from state_store.api import StateAPI
    from state_store.tracker.base import digest_of
    from state_store.tracker.ingest import sync_tracker

    def work(tracker: Path, state: Path) -> None:
        with StateAPI(state / "tracker_events.db") as api:
            reader = TrackerReader()
            reader.read(tracker, state)
            sync_tracker(api, tracker)  # what `rewrite` did has no effect
            reader.keep(tracker, state)
            reader.forget()
            status = {"todo": "claimed", "claimed": "todo"}[
                (api.store.item("T-70000") or {})["status"]
            ]
            time.sleep(2.1)  # as after a wave: the file's times tell a change
            digest_of(tracker)  # as before a wave ships: was an item withdrawn?
            begin()
            api.append("tracker", "item_updated", {"id": "T-70000", "status": status})
            assert sync_tracker(api, tracker).exported == 1

    return work


WORKS: dict[str, Callable[[], Work]] = {
    work.__name__: work for work in (parse, digest, intake, keep, imports, sync, rewrite, change)
}


_begun: list[float] = []


def begin() -> None:
    """What was done until now is not measured."""
    _begun[:] = time.process_time(), time.perf_counter()


def main(name: str, tracker: str, state: str) -> None:
    work = WORKS[name]()
    begin()
    work(Path(tracker), Path(state))
    cpu, wall = time.process_time() - _begun[0], time.perf_counter() - _begun[1]
    print(cpu * 1e3, wall * 1e3, peak_mib())


def peak_mib() -> float:
    """The most memory so far. What `getrusage` says on Linux is never less than what the process
    that started this one had."""
    status = Path("/proc/self/status")
    if status.exists():
        [peak] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(peak.split()[1]) / 2**10
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    main(*sys.argv[1:])
