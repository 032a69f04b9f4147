"""Whole cycles as a person's cron starts them, and what they cost with all of their programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.bench.arena import Job, an_arena
from tests.support.repos import user_environ

ROOT = Path(__file__).resolve().parents[2]
Item = dict[str, Any]
Spent = tuple[float, float]  # seconds of processor, MiB of the largest program


class Cycles:
    """A repository with a tracker, the command backend and an agent that writes at once."""

    def __init__(self, folder: Path, items: int) -> None:
        self.folder, self.state = folder, folder / "state"
        an_arena(folder, 0)
        agent = folder / "agent.sh"
        agent.write_text('printf "VALUE = 1\\n" > "pkg/$TIDEGATE_ITEM.py"\n')
        (folder / "tidegate.toml").write_text(
            f'[backend]\nname = "command"\ncommand = ["sh", "{agent}"]\ntier = 1\n'
            f'[review]\nmode = "off"\n[workspace]\nroot = "{folder / "places"}"\n'
        )
        _write(self.tracker, _open_items(items))
        self._environ = {**user_environ(folder), "PYTHONPATH": str(ROOT)}

    @property
    def tracker(self) -> Path:
        """The tracker's file."""
        return self.folder / "tracker.json"

    def run(self, *flags: str) -> Spent:
        """One cycle; it must do what it was asked for."""
        names = {"tracker": "tracker.json", "repo": "repo", "config": "tidegate.toml",
                 "state-dir": "state", "output": "report.json"}  # fmt: skip
        given = (word for name, value in names.items() for word in (f"--{name}", value))
        spent = self.spent([sys.executable, "-m", "driver.wave_scheduler", *given, *flags])
        report = json.loads((self.folder / "report.json").read_text())
        assert report["success"], report
        return spent

    def parse(self) -> Spent:
        """A process that only parses the tracker."""
        code = "import json; json.load(open('tracker.json', 'rb'))"
        return self.spent([sys.executable, "-c", code])

    def spent(self, command: Sequence[str]) -> Spent:
        """What a program and all that it waited for cost."""
        with (self.folder / "output.txt").open("wb") as output:
            child = subprocess.Popen(
                command, cwd=self.folder, env=self._environ, stdout=output, stderr=output
            )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0, (self.folder / "output.txt").read_text()
        return used.ru_utime + used.ru_stime, used.ru_maxrss / 2**10


def _write(tracker: Path, items: Iterable[Item]) -> None:
    """Write a tracker item by item: what this process has of memory, its children seem to have."""
    with tracker.open("w") as stream:
        stream.write('{\n  "version": 1,\n  "items": [')
        for number, item in enumerate(items):
            text = json.dumps(item, indent=2).replace("\n", "\n    ")
            stream.write(f"{',' if number else ''}\n    {text}")
        stream.write("\n  ]\n}\n")


def _open_items(count: int) -> Iterator[Item]:
    for number in range(count):
        job = Job(f"m{number:03}")
        created = datetime(2026, 1, 1) + timedelta(seconds=97 * number)
        yield {
            "id": f"T-{number}",
            "slug": job.slug,
            "title": f"the title of item {number}",
            "status": "todo",
            "priority": f"P{number % 3 + 1}",
            "createdAt": f"{created.isoformat()}Z",
            "prompt": "Round once, when the total is printed. " * 4,
            "ownsFiles": [job.file],
            "testCmd": job.test,
        }
