"""The real Claude Code program in a whole wave, offline: its model is a scripted server.

What it promises beyond what every agent of `test_real_agents` does. Skipped where the program is
not installed. No account, key or network is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from driver.backends.claude_code import ClaudeCodeDriver
from tests.support.agent_waves import (
    Place,
    Task,
    Wave,
    assert_tests_pass_in_a_clean_clone,
    end_of,
    make_place,
    start_wave,
    tokens,
    wait_until,
)
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
from tests.support.model_server import ModelServer

CLAUDE = os.environ.get("TIDEGATE_TEST_CLAUDE") or shutil.which("claude")
pytestmark = pytest.mark.skipif(
    CLAUDE is None, reason="no program `claude` on PATH or named in TIDEGATE_TEST_CLAUDE"
)

API_KEY = "the-key-of-this-test"
SUM_RIGHT = "def add(a, b):\n    return a + b\n"
GREET_WRONG = "def greet(name):\n    return 'Goodbye ' + name\n"
GREET_RIGHT = "def greet(name):\n    return 'Hello ' + name\n"
SUM = Task(
    "sums",
    "The function in sums.py is to add its two numbers. Marker: SUMS.",
    "def add(a, b):\n    return None\n",
    "import unittest\n\nfrom sums import add\n\n\n"
    "class Sums(unittest.TestCase):\n"
    "    def test_two_and_two(self):\n        self.assertEqual(add(2, 2), 4)\n",
)
GREETING = Task(
    "greetings",
    "The function in greetings.py is to greet by name. Marker: GREETINGS.",
    "def greet(name):\n    return None\n",
    "import unittest\n\nfrom greetings import greet\n\n\n"
    "class Greetings(unittest.TestCase):\n"
    "    def test_greets(self):\n        self.assertEqual(greet('Ada'), 'Hello Ada')\n",
)
SETTINGS = f'[backend]\nname = "claude"\ncommand = [{json.dumps(CLAUDE)}]\n'


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


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = make_place(tmp_path, [SUM, GREETING], SETTINGS)
    yield made
    made.clean_up()


def start(place: Place, server: ModelServer) -> subprocess.Popen[str]:
    return start_wave(place, {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": API_KEY})


def run_wave(place: Place, server: ModelServer) -> Wave:
    return end_of(start(place, server))


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
    assert wave.tokens["greetings"] == tokens(*both)


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
        scheduler = start(place, server)
        wait_until(lambda: scheduler.poll() is not None or follows(place))
        scheduler.terminate()
        wave = end_of(scheduler)
    assert wave.exit_code == 143, wave.stderr
    assert place.left_running() == {}
    assert place.wave_branches() == []
    assert place.checkout() == before
