"""The real Claude Code program in a whole wave, offline: its model is a scripted server.

Skipped where the program is not installed. No account, key or network is needed.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from driver.claude_code_driver import ClaudeCodeDriver
from tests.support.model_script import (
    Action,
    Conversation,
    Fault,
    Say,
    Scenario,
    Step,
    TokenUse,
    read_file,
    shell,
    write_file,
)
from tests.support.model_server import Billed, ModelServer

CLAUDE = os.environ.get("TIDEGATE_TEST_CLAUDE") or shutil.which("claude")
pytestmark = pytest.mark.skipif(
    CLAUDE is None, reason="no program `claude` on PATH or named in TIDEGATE_TEST_CLAUDE"
)

ROOT = Path(__file__).resolve().parents[2]
WAVE_TIMEOUT_S = 120
API_KEY = "the-key-of-this-test"
PYTHON = shlex.quote(sys.executable)

SUM_PROMPT = "The function in sums.py is to add its two numbers. Marker: SUMS."
SUM_RIGHT = "def add(a, b):\n    return a + b\n"
GREET_PROMPT = "The function in greetings.py is to greet by name. Marker: GREETINGS."
GREET_WRONG = "def greet(name):\n    return 'Goodbye ' + name\n"
GREET_RIGHT = "def greet(name):\n    return 'Hello ' + name\n"

FILES = {
    ".gitignore": "__pycache__/\n",
    "sums.py": "def add(a, b):\n    return None\n",
    "greetings.py": "def greet(name):\n    return None\n",
    "test_sums.py": (
        "import unittest\n\nfrom sums import add\n\n\n"
        "class Sums(unittest.TestCase):\n"
        "    def test_two_and_two(self):\n        self.assertEqual(add(2, 2), 4)\n"
    ),
    "test_greetings.py": (
        "import unittest\n\nfrom greetings import greet\n\n\n"
        "class Greetings(unittest.TestCase):\n"
        "    def test_greets(self):\n        self.assertEqual(greet('Ada'), 'Hello Ada')\n"
    ),
    "tidegate.toml": (
        "[backend]\n"
        'name = "claude"\n'
        f"command = [{json.dumps(CLAUDE)}]\n"
        'env = ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"]\n'
    ),
}


def item(slug: str, prompt: str) -> dict[str, Any]:
    return {
        "id": f"id-{slug}",
        "slug": slug,
        "title": prompt,
        "status": "todo",
        "priority": "P1",
        "ownsFiles": [f"{slug}.py"],
        "prompt": prompt,
        "testCmd": f"{PYTHON} -m unittest test_{slug}",
    }


def edits(path: str, content: str) -> list[Step]:
    """A session that edits one file; every turn costs something else, so sums cannot coincide."""
    turns: list[Action] = [
        read_file(path),
        write_file(path, content),
        shell("git status"),
        Say("It is done."),
    ]
    return [Step(turn, TokenUse(101 + n, 11 + n, 31 + n, 7 + n)) for n, turn in enumerate(turns)]


SUMS = Conversation("SUMS", edits("sums.py", SUM_RIGHT))
GREETINGS = Conversation("GREETINGS", edits("greetings.py", GREET_RIGHT))


@dataclass(frozen=True)
class Place:
    """A user's machine: a home with nothing in it, a repository, its remote, a state folder."""

    home: Path
    repo: Path
    remote: Path
    state: Path

    @property
    def environment(self) -> dict[str, str]:
        """Not the developer's: no settings of theirs, and no sign that this is a sandbox."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return kept | {"HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}

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


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(*(tmp_path / name for name in ("home", "repo", "remote.git", "state")))
    for folder in (made.home, made.repo, made.state):
        folder.mkdir()
    for name, content in FILES.items():
        (made.repo / name).write_text(content, encoding="utf-8")
    tracker = {"version": 1, "items": [item("sums", SUM_PROMPT), item("greetings", GREET_PROMPT)]}
    (made.state / "tracker.json").write_text(json.dumps(tracker), encoding="utf-8")
    made.git("init", "--quiet", "--bare", str(made.remote), cwd=tmp_path)
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("add", ".")
    made.git("commit", "--quiet", "--message=Two functions to finish")
    made.git("remote", "add", "origin", str(made.remote))
    made.git("push", "--quiet", "--set-upstream", "origin", "main")
    yield made
    for pid in made.left_running():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


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


def start_wave(place: Place, server: ModelServer) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "driver" / "wave_scheduler.py"), "--execute"]
    command += ["--tracker", str(place.state / "tracker.json")]
    command += ["--repo", str(place.repo), "--state-dir", str(place.state)]
    reach = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": API_KEY}
    return subprocess.Popen(
        command,
        cwd=place.home,
        env=place.environment | reach,
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
            scheduler.kill()
            pytest.fail(f"the wave took more than {WAVE_TIMEOUT_S} s")
    return Wave(scheduler.returncode, out, err)


def run_wave(place: Place, server: ModelServer) -> Wave:
    return end_of(start_wave(place, server))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAVE_TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "what the test waits for did not come"
        time.sleep(0.05)


def reported_tokens(wave: Wave) -> dict[str, int]:
    """Tokens by item, all attempts together, as our report has them."""
    return {
        built["slug"]: built["usage"]["inputTokens"] + built["usage"]["outputTokens"]
        for built in wave.report["wave"]["built"]
    }


def tokens(*bills: Billed) -> int:
    """What a provider bills for: cached input is input too."""
    return sum(b.input_tokens + b.cache_read + b.cache_write + b.output_tokens for b in bills)


def assert_tests_pass_in_a_clean_clone(place: Place, branch: str, folder: Path) -> None:
    place.git("clone", "--quiet", "--branch", branch, str(place.remote), str(folder))
    tested = subprocess.run(
        [sys.executable, "-m", "unittest"],
        cwd=folder,
        env=place.environment,
        check=False,
        capture_output=True,
    )
    assert tested.returncode == 0, tested.stderr.decode()


def test_a_wave_of_real_agents_ships_what_they_wrote_and_bills_what_they_used(
    place: Place, tmp_path: Path
) -> None:
    before = place.checkout()
    with ModelServer(Scenario([SUMS, GREETINGS])) as server:
        wave = run_wave(place, server)
    assert wave.exit_code == 0, wave.stderr
    assert wave.shipped == {"sums", "greetings"}
    (branch,) = place.wave_branches()
    assert_tests_pass_in_a_clean_clone(place, branch, tmp_path / "clone")
    assert reported_tokens(wave) == {
        "sums": tokens(server.billed_for("SUMS")),
        "greetings": tokens(server.billed_for("GREETINGS")),
    }
    assert place.left_running() == {}
    assert place.checkout() == before
    assert API_KEY not in wave.stdout + wave.stderr


def test_a_repair_sees_how_the_test_failed_and_its_use_is_added(
    place: Place, tmp_path: Path
) -> None:
    told_why = Conversation("(?s)GREETINGS.*Goodbye Ada", edits("greetings.py", GREET_RIGHT))
    at_first = Conversation("GREETINGS", edits("greetings.py", GREET_WRONG))
    with ModelServer(Scenario([SUMS, told_why, at_first])) as server:
        wave = run_wave(place, server)
    assert wave.exit_code == 0, wave.stderr
    assert_tests_pass_in_a_clean_clone(place, place.wave_branches()[0], tmp_path / "clone")
    both = [server.billed_for(talk.match) for talk in (at_first, told_why)]
    assert [bill.requests for bill in both] == [4, 4]
    assert reported_tokens(wave)["greetings"] == tokens(*both)


def test_an_agent_that_its_provider_refuses_ships_nothing_and_holds_nobody_up(
    place: Place,
) -> None:
    refused = Step(Say(""), fault=Fault(400, times=None, message="the account is closed"))
    before = place.checkout()
    with ModelServer(Scenario([SUMS, Conversation("GREETINGS", [refused])])) as server:
        wave = run_wave(place, server)
    assert wave.exit_code == 1, wave.stderr
    assert wave.shipped == {"sums"}
    assert "the account is closed" in wave.stdout
    assert place.left_running() == {}
    assert place.checkout() == before


def follows(place: Place) -> bool:
    return any(command.startswith("tail -f") for command in place.left_running().values())


@pytest.mark.parametrize("key", ["", "sk-ant-no-real-key"])
def test_it_is_examined_without_a_provider(tmp_path: Path, key: str) -> None:
    assert CLAUDE is not None
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ANTHROPIC_API_KEY": key}
    nowhere = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    program, login = ClaudeCodeDriver(program=CLAUDE, environ={**environ, **nowhere}).examine()
    assert (program.name, program.ok) == ("program", True)
    assert (login.name, login.ok) == ("login", bool(key))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")
def test_a_wave_that_is_terminated_takes_its_agents_and_their_commands_along(
    place: Place,
) -> None:
    endless = Conversation("GREETINGS", [shell("tail -f greetings.py"), Say("It is done.")])
    before = place.checkout()
    with ModelServer(Scenario([SUMS, endless])) as server:
        scheduler = start_wave(place, server)
        wait_until(lambda: scheduler.poll() is not None or follows(place))
        scheduler.terminate()
        wave = end_of(scheduler)
    assert wave.exit_code == 143, wave.stderr
    assert place.left_running() == {}
    assert place.wave_branches() == []
    assert place.checkout() == before
