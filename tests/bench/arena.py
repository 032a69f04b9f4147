"""A repository, agents that only sleep, and the two ways to run them: bare and by the engine."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from statistics import median
from typing import Any

from driver.backend_api.driver import AgentDriver
from driver.backends.command import CommandDriver
from driver.run_state.plan import WaveOptions
from driver.terminal.progress import Progress
from driver.wave_loop import run_wave
from tools.settings import load as settings

FILES = 100
_TIME_OF_DAY = re.compile(r"\A\d\d:\d\d:\d\d ")
IDENTITY = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
AGENT = """
case "$TIDEGATE_PHASE/$TIDEGATE_ITEM" in
    build/*-fails) value=0 ;;
    *) value=1 ;;
esac
sleep "$1"
printf 'VALUE = %s\\n' "$value" > "pkg/$TIDEGATE_ITEM.py"
"""


@dataclass(frozen=True)
class Job:
    """One item: an agent writes one file, a test imports it."""

    slug: str

    @property
    def file(self) -> str:
        return f"pkg/{self.slug}.py"

    @property
    def test(self) -> list[str]:
        code = f"import importlib as i; assert i.import_module('pkg.{self.slug}').VALUE == 1"
        return [sys.executable, "-c", code]


@dataclass(frozen=True)
class UnittestJob(Job):
    """An item whose test is a module of unittest, so that it gets a canary test."""

    @property
    def test(self) -> list[str]:
        return [sys.executable, "-m", "unittest", f"tests.test_{self.slug}"]

    @property
    def text(self) -> str:
        return (
            f"import unittest\nfrom pkg.{self.slug} import VALUE\n\n\n"
            "class TestValue(unittest.TestCase):\n"
            "    def test_value(self):\n        self.assertEqual(VALUE, 1)\n"
        )


@dataclass(frozen=True)
class Arena:
    """A repository with a remote, and how long its agents sleep."""

    folder: Path
    sleep_s: float

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def agent(self) -> list[str]:
        return ["sh", str(self.folder / "agent.sh"), str(self.sleep_s)]


def jobs(count: int, *, failing: int = 0) -> list[Job]:
    """The first `failing` of them are red once."""
    return [Job(f"m{n:03}" + ("-fails" if n < failing else "")) for n in range(count)]


def an_arena(folder: Path, sleep_s: float, tests: Sequence[UnittestJob] = ()) -> Arena:
    """A package of FILES modules, committed and pushed to a bare repository beside it."""
    arena = Arena(folder, sleep_s)
    (arena.repo / "pkg").mkdir(parents=True)
    (folder / "agent.sh").write_text(AGENT)
    for name in ("__init__", *(f"old{n:03}" for n in range(FILES))):
        (arena.repo / "pkg" / f"{name}.py").write_text("".join(f"N{n} = {n}\n" for n in range(40)))
    for job in tests:
        (arena.repo / "tests").mkdir(exist_ok=True)
        (arena.repo / "tests" / "__init__.py").touch()
        (arena.repo / "tests" / f"test_{job.slug}.py").write_text(job.text)
        (arena.repo / job.file).write_text("VALUE = 0\n")
    remote = folder / "remote.git"
    for command in (
        ("init", "-q", "-b", "main", "."),
        ("add", "-A"),
        (*IDENTITY, "commit", "-q", "-m", "base"),
        ("clone", "-q", "--bare", ".", str(remote)),
        ("remote", "add", "origin", str(remote)),
    ):
        subprocess.run(["git", *command], cwd=arena.repo, check=True)
    return arena


def bare(arena: Arena, work: list[Job], workers: int, place: Path) -> float:
    """Seconds of a thread pool with no engine around it: the same clones, agents and tests."""
    place.mkdir()
    began = time.monotonic()
    with ThreadPoolExecutor(workers) as pool:
        green = list(pool.map(lambda job: _bare_item(arena, job, place / job.slug), work))
    took = time.monotonic() - began
    assert all(green)
    return took


def cloned(arena: Arena, clone: Path, *, checkout: bool = True) -> None:
    """A clone that borrows the repository's objects, as the engine's do."""
    source = ("git", "clone", "-q", "--shared", "--no-checkout", arena.repo, clone)
    subprocess.run(source, check=True)
    if checkout:
        subprocess.run(("git", "checkout", "-q", "HEAD"), cwd=clone, check=True)


def agent_environment(job: Job, phase: str) -> dict[str, str]:
    return {**os.environ, "TIDEGATE_ITEM": job.slug, "TIDEGATE_PHASE": phase}


def test_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def _bare_item(arena: Arena, job: Job, clone: Path) -> bool:
    cloned(arena, clone)
    return any(_bare_round(arena, job, clone, phase) for phase in ("build", "repair"))


def _bare_round(arena: Arena, job: Job, clone: Path, phase: str) -> bool:
    subprocess.run(arena.agent, cwd=clone, env=agent_environment(job, phase), check=True)
    tested = subprocess.run(
        job.test, cwd=clone, env=test_environment(), check=False, capture_output=True
    )
    return tested.returncode == 0


@dataclass
class Clock(StringIO):
    """A progress stream that notes when each line came."""

    began: float = field(default_factory=time.monotonic)
    lines: list[tuple[float, str]] = field(default_factory=list)

    def write(self, text: str) -> int:
        said = _TIME_OF_DAY.sub("", text.removeprefix("tidegate: ").strip())
        self.lines.append((time.monotonic() - self.began, said))
        return len(text)

    def when(self, said: str) -> float | None:
        """Seconds until the last line that starts like this; None when there was none."""
        return next((at for at, line in reversed(self.lines) if line.startswith(said)), None)


@dataclass(frozen=True)
class Ran:
    """One wave: seconds, the seconds after which each item was verified, and its report."""

    seconds: float
    verified: dict[str, float]
    report: dict[str, Any]


def engine(arena: Arena, work: Sequence[Job], workers: int, place: Path) -> Ran:
    """A whole wave, shipped and pushed, with a state folder."""
    place.mkdir()
    (place / "tidegate.toml").write_text('[review]\nmode = "off"\n[workspace]\nroot = "places"\n')
    chosen = settings.load(
        project=arena.repo,
        config=place / "tidegate.toml",
        flags={"limits.max_workers": workers, "state_dir": str(place / "state")},
    )
    clock = Clock()
    driver: AgentDriver = CommandDriver(arena.agent, tier=1, environ=chosen.environ)
    result = run_wave(
        driver,
        _manifest(place.name, work),
        state_dir=place / "state",
        git={"expectTopLevel": str(arena.repo), "mode": "branch"},
        options=WaveOptions(settings=chosen, repo=arena.repo, progress=Progress(clock)),
    )
    took = time.monotonic() - clock.began
    assert result["exit_code"] == 0, (result["error"], result["abort_reason"])
    ends = {job.slug: clock.when(f"{job.slug}: verified") for job in work}
    return Ran(took, {slug: at for slug, at in ends.items() if at is not None}, result)


def _manifest(round_name: str, work: Sequence[Job]) -> dict[str, object]:
    # What a round has shipped must not be what the next one is asked for: that would be kept back.
    items = [
        {
            "slug": job.slug,
            "prompt": f"Write {job.file} ({round_name}).",
            "ownsFiles": [job.file],
            "testCmd": job.test,
        }
        for job in work
    ]
    return {"items": items}


def cpu_s(run: Callable[[int], float]) -> tuple[Callable[[int], float], list[float]]:
    """`run`, and a list that gets the processor seconds of each call, its programs included."""
    used: list[float] = []

    def counted(number: int) -> float:
        before = sum(os.times()[:4])
        took = run(number)
        gc.collect()  # of a wave that is over the last program is ended, and only then counted
        used.append(sum(os.times()[:4]) - before)
        return took

    return counted, used


def load() -> str:
    """How busy the machine is."""
    one, five, _ = os.getloadavg()
    return f"load {one:.1f} and {five:.1f} on {os.cpu_count()} processors"


def interleaved(count: int, *ways: Callable[[int], float]) -> list[float]:
    """The median of each way's numbers, measured one after the other in every round."""
    return [median(column) for column in rounds(count, *ways)]


def rounds(count: int, *ways: Callable[[int], float]) -> list[list[float]]:
    """Each way's numbers, measured one after the other in every round."""
    numbers = [[way(number) for way in ways] for number in range(count)]
    return [list(column) for column in zip(*numbers, strict=True)]
