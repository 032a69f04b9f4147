"""The ledger moves its older rows away while others write: no row is lost, torn, or there twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.ledger.rows import LEDGER, archives, rows_in
from tools.ledger.writer import MOST_ROWS, ensure_header

REPO = Path(__file__).resolve().parents[2]
PROCESSES, THREADS, ROWS = 3, 3, 40
WRITER = """
import sys, threading
from pathlib import Path
from tools.ledger.writer import append_line, rotate
state, process, threads, rows = Path(sys.argv[1]), *map(int, sys.argv[2:])
def write(thread):
    for row in range(rows):
        stamp = f"2026-01-01T00:00:00.{process}{thread}{row:03}Z"
        append_line(state, (stamp, "worker", "m", 1, 1, 1, "ok", "build", process))
        if row % 10 == 0:
            rotate(state)
writers = [threading.Thread(target=write, args=(n,)) for n in range(threads)]
[writer.start() for writer in writers]
[writer.join() for writer in writers]
"""


def test_no_row_is_lost_torn_or_doubled_while_the_ledger_is_moved_away(tmp_path: Path) -> None:
    ensure_header(tmp_path)
    counts = [str(THREADS), str(ROWS)]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(n), *counts], cwd=REPO)
        for n in range(PROCESSES)
    ]
    assert [writer.wait(120) for writer in writers] == [0] * PROCESSES
    moved = archives(tmp_path)
    found = [row.stamp for path in (*moved, tmp_path / LEDGER) for row in rows_in(path)]
    assert sorted(found) == sorted(
        f"2026-01-01T00:00:00.{process}{thread}{row:03}Z"
        for process in range(PROCESSES)
        for thread in range(THREADS)
        for row in range(ROWS)
    )
    assert moved
    assert len(list(rows_in(tmp_path / LEDGER))) <= MOST_ROWS
