"""A user's machine for waves of real agent programs, and the wave as its user starts it.

Owns the home, the repository, its remote, and what may be left of a wave. Which program works there
and what its model says is the test's.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.interpreter import IN_SHELL, PYTHON
from tests.support.model_server import Billed
from tests.support.repos import SANDBOX

ROOT = Path(__file__).resolve().parents[2]
WAVE_TIMEOUT_S = 180


@dataclass(frozen=True)
class Task:
    """An item: a module whose one function is to be finished, and its test."""

    slug: str
    prompt: str
    unfinished: str
    test: str

    @property
    def files(self) -> dict[str, str]:
        return {f"{self.slug}.py": self.unfinished, f"test_{self.slug}.py": self.test}

    @property
    def item(self) -> dict[str, Any]:
        return {
            "id": f"id-{self.slug}",
            "slug": self.slug,
            "title": self.prompt,
            "status": "todo",
            "priority": "P1",
            "ownsFiles": [f"{self.slug}.py"],
            "prompt": self.prompt,
            "testCmd": f"{IN_SHELL} -m unittest test_{self.slug}",
        }


def a_number(slug: str) -> Task:
    """A module whose `value` is to return 7; `MARK-SLUG` in its prompt picks a script."""
    return Task(
        slug,
        f"The function value in {slug}.py is to return 7. Marker: {mark(slug)}.",
        "def value():\n    return None\n",
        f"import unittest\n\nfrom {slug} import value\n\n\n"
        "class Value(unittest.TestCase):\n"
        "    def test_it_is_seven(self):\n        self.assertEqual(value(), 7)\n",
    )


NUMBER_DONE = "def value():\n    return 7\n"


def mark(slug: str) -> str:
    return f"MARK-{slug.upper()}"


@dataclass(frozen=True)
class Place:
    """A home with nothing in it, a repository, its remote, a state folder."""

    home: Path
    repo: Path
    remote: Path
    state: Path

    @property
    def environment(self) -> dict[str, str]:
        """Not the developer's: no settings of theirs, and no sign that this is a sandbox."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", SANDBOX) if name in os.environ}
        # gemini leaves a report of every error in the temporary folder.
        own = {"HOME": str(self.home), "TMPDIR": str(self.home / "tmp")}
        return kept | own | {"GIT_CONFIG_NOSYSTEM": "1"}

    def git(self, *words: str, cwd: Path | None = None) -> str:
        who = ["-c", "user.name=User", "-c", "user.email=user@localhost"]
        done = subprocess.run(
            ["git", *who, *words],
            cwd=cwd or self.repo,
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def checkout(self) -> dict[str, Any]:
        """Everything of the user's that a wave must leave as it was."""
        mine = [p for p in self.repo.rglob("*") if p.is_file() and ".git" not in p.parts]
        return {
            **{str(path): path.read_bytes() for path in mine},
            "config": (self.repo / ".git" / "config").read_bytes(),
            "hooks": sorted(path.name for path in (self.repo / ".git" / "hooks").iterdir()),
            "head": self.git("symbolic-ref", "HEAD"),
            "refs": [r for r in self.git("for-each-ref").splitlines() if "/heads/wave/" not in r],
            "index": self.git("ls-files", "--stage"),
            "status": self.git("status", "--porcelain", "--ignored"),
        }

    def left_running(self) -> dict[int, str]:
        """Processes that live in this home, whoever their parent is by now (Linux only)."""
        home = f"HOME={self.home}".encode()
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it ended meanwhile, or is another user's
                if home in (process / "environ").read_bytes().split(b"\0"):
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(process.name)] = command.decode()
        return found

    def wave_branches(self) -> list[str]:
        listed = self.git("for-each-ref", "--format=%(refname:short)", cwd=self.remote)
        return [name for name in listed.splitlines() if name.startswith("wave/")]

    def clean_up(self) -> None:
        for pid in self.left_running():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def make_place(root: Path, tasks: Sequence[Task], settings: str) -> Place:
    """A repository with these tasks to do and `settings` as its tidegate.toml."""
    made = Place(*(root / name for name in ("home", "repo", "remote.git", "state")))
    for folder in (made.home, made.home / "tmp", made.repo, made.state):
        folder.mkdir()
    files = {".gitignore": "__pycache__/\n", "tidegate.toml": settings}
    for task in tasks:
        files |= task.files
    for name, content in files.items():
        (made.repo / name).write_text(content, encoding="utf-8")
    tracker = {"version": 1, "items": [task.item for task in tasks]}
    (made.state / "tracker.json").write_text(json.dumps(tracker), encoding="utf-8")
    made.git("init", "--quiet", "--bare", str(made.remote), cwd=root)
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("add", ".")
    made.git("commit", "--quiet", "--message=Functions to finish")
    made.git("remote", "add", "origin", str(made.remote))
    made.git("push", "--quiet", "--set-upstream", "origin", "main")
    return made


@dataclass(frozen=True)
class Wave:
    """How the scheduler ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def report(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.stdout)
        return document

    @property
    def shipped(self) -> set[str]:
        return {shipped["slug"] for shipped in self.report["items_shipped"]}

    @property
    def tokens(self) -> dict[str, int]:
        """Tokens by item, all attempts together, as our report has them."""
        return {
            built["slug"]: built["usage"]["inputTokens"] + built["usage"]["outputTokens"]
            for built in self.report["wave"]["built"]
        }


def start_wave(place: Place, reach: Mapping[str, str]) -> subprocess.Popen[str]:
    """`reach` is what the user has set for the agent to find its model."""
    command = [*PYTHON, str(ROOT / "driver" / "wave_scheduler.py"), "--execute"]
    command += ["--tracker", str(place.state / "tracker.json")]
    command += ["--repo", str(place.repo), "--state-dir", str(place.state)]
    return subprocess.Popen(
        command,
        cwd=place.home,
        env=place.environment | dict(reach),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end_of(scheduler: subprocess.Popen[str]) -> Wave:
    with scheduler:
        try:
            out, err = scheduler.communicate(timeout=WAVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            scheduler.terminate()
            out, err = scheduler.communicate(timeout=60)
            pytest.fail(f"the wave took more than {WAVE_TIMEOUT_S} s: {err}")
    return Wave(scheduler.returncode, out, err)


def run_wave(place: Place, reach: Mapping[str, str]) -> Wave:
    return end_of(start_wave(place, reach))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAVE_TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "what the test waits for did not come"
        time.sleep(0.05)


def tokens(*bills: Billed) -> int:
    """What a provider bills for: cached input is input too."""
    return sum(b.input_tokens + b.cache_read + b.cache_write + b.output_tokens for b in bills)


def assert_tests_pass_in_a_clean_clone(place: Place, branch: str, folder: Path) -> None:
    place.git("clone", "--quiet", "--branch", branch, str(place.remote), str(folder))
    tested = subprocess.run(
        [*PYTHON, "-m", "unittest"],
        cwd=folder,
        env=place.environment,
        check=False,
        capture_output=True,
    )
    assert tested.returncode == 0, tested.stderr.decode()
