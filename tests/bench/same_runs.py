"""A bare pool that runs each test as often, and on the same trees, as the engine did.

What the engine ran is read from its own report. Trees are shown in kept checkouts, more of them
than cores, so that none is idle; the line of commits is made in one import and pushed: all of it
plain git, with nothing watched, written down or asked twice.
"""

from __future__ import annotations

import os
import queue
import subprocess
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver.domain.prompts import command_text
from driver.domain.results import BASELINE, INTEGRATION
from tests.bench.arena import IDENTITY, Arena, Job, agent_environment, cloned, test_environment

TREES_A_CORE = 2


@dataclass(frozen=True)
class Ask:
    """One run of a job's test on a tree; red is fine on the base only."""

    job: Job
    purpose: str
    tree: str


def asked(result: Mapping[str, Any], work: Sequence[Job]) -> list[Ask]:
    """Every test run that the report of a wave has a receipt for, each once."""
    by_command = {command_text(tuple(job.test)): job for job in work}
    attempts = [attempt for item in result["built"] for attempt in item["attempts"]]
    receipts = [one for a in attempts for one in a["evidence"]["receipts"] if not one["cached"]]
    for shipment in result["shipped_repos"]:
        receipts += shipment["integration"]["receipts"]
    return [Ask(by_command[one["command"]], one["purpose"], one["tree"]) for one in receipts]


class BareRuns:
    """One round: `place` is a new folder for it, `asks` are the runs to make."""

    def __init__(self, arena: Arena, asks: Sequence[Ask], place: Path) -> None:
        self._arena, self._place = arena, place
        self._beside: dict[Job, list[Ask]] = defaultdict(list)
        self._after: dict[Job, list[Ask]] = defaultdict(list)
        self._together = [ask for ask in asks if ask.purpose == INTEGRATION]
        for ask in asks:
            if ask.purpose != INTEGRATION:
                kind = self._beside if ask.purpose == BASELINE else self._after
                kind[ask.job].append(ask)
        self._git_dir = place / "all" / ".git"
        self._free: queue.SimpleQueue[Path] = queue.SimpleQueue()

    def seconds(self, work: Sequence[Job], workers: int) -> float:
        """Clones, agents and tests, then the tests of the line, then the push."""
        self._place.mkdir()
        began = time.monotonic()
        cloned(self._arena, self._place / "all", checkout=False)
        trees = TREES_A_CORE * (os.cpu_count() or 2)
        for number in range(trees):
            self._free.put(self._place / f"tree-{number}")
        with ThreadPoolExecutor(trees) as tests, ThreadPoolExecutor(workers) as items:
            self._tests = tests
            assert all(items.map(self._item, work))
            self._import(work)
            assert all(tests.map(self._green, self._together))
        self._git("push", "-q", "origin", f"line:{self._place.name}")
        return time.monotonic() - began

    def _item(self, job: Job) -> bool:
        clone = self._place / job.slug
        cloned(self._arena, clone)
        beside = [self._tests.submit(self._green, ask) for ask in self._beside[job]]
        subprocess.run(
            self._arena.agent, cwd=clone, env=agent_environment(job, "build"), check=True
        )
        env = {**os.environ, "GIT_OBJECT_DIRECTORY": str(self._git_dir / "objects")}
        for command in (("add", "-A"), (*IDENTITY, "commit", "-q", "-m", job.slug)):
            subprocess.run(["git", *command], cwd=clone, env=env, check=True)
        after = [self._tests.submit(self._green, ask) for ask in self._after[job]]
        return all([not one.result() for one in beside] + [one.result() for one in after])

    def _import(self, work: Sequence[Job]) -> None:
        """The jobs' files as one commit each, in order."""
        stream = b""
        for job in work:
            content = (self._place / job.slug / job.file).read_bytes()
            start = b"from refs/heads/main^0\n" if not stream else b""
            stream += (
                b"commit refs/heads/line\ncommitter b <b@localhost> 0 +0000\ndata 0\n%s" % start
            )
            stream += b"M 100644 inline %s\ndata %d\n%s\n" % (
                job.file.encode(),
                len(content),
                content,
            )
        self._git("fast-import", "--quiet", stdin=stream)

    def _green(self, ask: Ask) -> bool:
        """Show the tree in a checkout that is free, and run the test there."""
        top = self._free.get()
        top.mkdir(exist_ok=True)
        index = {"GIT_INDEX_FILE": f"{top}.index"}
        self._git(f"--work-tree={top}", "read-tree", "--reset", "-u", ask.tree, env=index)
        done = subprocess.run(
            ask.job.test, cwd=top, env=test_environment(), check=False, capture_output=True
        )
        self._free.put(top)
        return done.returncode == 0

    def _git(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> None:
        argv = ["git", f"--git-dir={self._git_dir}", *args]
        subprocess.run(argv, input=stdin, env={**os.environ, **(env or {})}, check=True)
