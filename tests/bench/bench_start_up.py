"""How fast the command starts, beside `import argparse` in the same run.

`python -m pytest -m bench -s tests/bench/bench_start_up.py`

Each line is user and system time of a child, the median of interleaved rounds, and its ratio to
`python -c "import argparse"`. The goal is at most 1.6 for each word, also with a store of a million
events. TIDEGATE_BENCH_EVENTS sets another number of events. Modules are compiled by the first,
uncounted round, as they are after an installation.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from state_store.archives.chain import START, row_hash
from state_store.database.event_rows import encode
from state_store.database.schema import INSERT_EVENT
from state_store.database.store import EventStore
from tests.bench.arena import IDENTITY, load
from tests.support.programs import LOOP, ROOT, SCHEDULER, git

pytestmark = [pytest.mark.bench, pytest.mark.skipif(os.name == "nt", reason="needs resource")]
EVENTS = int(os.environ.get("TIDEGATE_BENCH_EVENTS", "1000000"))
ITEMS_A_WAVE, EVENTS_AN_ITEM = 20, 12
ROUNDS = 15
WORDS = (("--help",), ("version",), ("completion", "bash"), ("status",), ("status", "--json"))


def test_every_word_starts_at_once(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    settings = '[backend]\nname = "command"\ncommand = ["true"]\n'
    (tmp_path / "tidegate.toml").write_text(f"[limits]\nmax_wave_tokens = 3_000_000\n{settings}")
    git(tmp_path, *IDENTITY, "commit", "-q", "--allow-empty", "-m", "base")
    _work_for_five(tmp_path)
    filled(tmp_path / "state", EVENTS)
    module = [sys.executable, "-m", "driver"]
    commands = {
        "import argparse": [sys.executable, "-c", "import argparse"],
        **{" ".join(words): [*module, *words] for words in WORDS},
        "a dry run of five": [sys.executable, str(LOOP), "--manifest", "five.json", "--dry-run"],
        "nothing to do": [sys.executable, str(SCHEDULER), "--execute", "--state-dir", "none"],
    }
    cpu: dict[str, list[float]] = {name: [] for name in commands}
    wall: dict[str, list[float]] = {name: [] for name in commands}
    for command in commands.values():
        run(command, tmp_path)
    for _ in range(ROUNDS):
        for name, command in commands.items():
            used, took = run(command, tmp_path)
            cpu[name].append(used)
            wall[name].append(took)
    base = statistics.median(cpu["import argparse"])
    print(
        f"\n{EVENTS:,} events; median of {ROUNDS} rounds: processor time, ratio, wall time (goals:"
        f" --help 1.4 x, a dry run 250 ms, nothing to do 300 ms); {load()}"
    )
    for name in commands:
        used = statistics.median(cpu[name])
        took = statistics.median(wall[name])
        print(f"{name:<18} {used * 1000:6.1f} ms  {used / base:4.2f}  {took * 1000:6.1f} ms")


def _work_for_five(folder: Path) -> None:
    test = ["true"]
    items = [
        {"slug": f"s{n}", "prompt": "Do it.", "ownsFiles": [f"{n}.txt"], "testCmd": test}
        for n in range(5)
    ]
    (folder / "five.json").write_text(json.dumps({"items": items}))
    (folder / "none").mkdir()
    (folder / "none" / "tracker.json").write_text('{"version": 1, "items": []}')


def run(command: list[str], folder: Path) -> tuple[float, float]:
    """The processor time and the wall time of a child."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took


def filled(state: Path, events: int) -> None:
    """A store of many past waves, as a run would have left it."""
    EventStore(state / "tracker_events.db").close()
    heads: dict[str, tuple[int, bytes]] = {}

    def row(number: int, stream: str, kind: str, payload: object) -> tuple[Any, ...]:
        version, link = heads.get(stream, (0, START))
        columns = (1.7e9 + number, "wave", stream, kind, encode(payload), version + 1)
        heads[stream] = (version + 1, row_hash(link, columns))
        return (*columns, heads[stream][1])

    def every() -> Iterator[tuple[Any, ...]]:
        number = wave = 0
        while number < events:
            wave += 1
            stream, slugs = f"wave:w{wave:08}", [f"item-{at}" for at in range(ITEMS_A_WAVE)]
            yield row(number, stream, "wave_started", {"wave_id": stream[5:], "items": slugs})
            for slug in slugs:
                for step in range(EVENTS_AN_ITEM):
                    number += 1
                    text = {"slug": slug, "number": step, "output": "x" * 200}
                    yield row(number, stream, "phase_finished", text)
                agent = {"agent_id": f"{stream}/{slug}", "item": slug, "tokens": 1000}
                yield row(number, "agent_traces", "agent_completed", agent)
                yield row(number, stream, "item_shipped", {"slug": slug, "commit": "c"})
                number += 2
            yield row(number, stream, "wave_finished", {"aborted": False, "abort_reason": None})

    with sqlite3.connect(state / "tracker_events.db") as connection:
        connection.executemany(INSERT_EVENT, every())
    connection.close()
    items = [{"id": f"T-{at}", "slug": f"s-{at}", "status": "done"} for at in range(2000)]
    (state / "tracker.json").write_text(json.dumps({"version": 1, "items": items}))
