"""The canary runs beside the proof, where a test cannot tell and a slot for tests is idle."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from driver.domain.results import RunKind, TestRun
from driver.run_state.test_turns import Alone
from driver.terminal.progress import Progress
from driver.verification.alone import beside_proof, room_needed
from driver.walls.roles import RoleSettings, System
from driver.walls.wall import Level, Means, Network, Role
from driver.walls.wave_walls import Walls
from tests.support.processes import eventually
from tests.support.walls import needs
from tests.support.waves import Agent, Scene, ScriptedDriver, Step, built, item

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="walls are made by Linux")
TEST = """import subprocess
import unittest

from made import VALUE


class TestValue(unittest.TestCase):
    def test_value(self):
        ended = subprocess.run(["sleep", "{nap}"]).returncode
        self.assertNotEqual(ended, -15, "address already in use")
        self.assertEqual(VALUE, 1)
"""
COMMAND = [sys.executable, "-m", "unittest", "tests.test_made"]


class Enclosed(ScriptedDriver):
    """A backend whose agents, were they programs, would run inside."""

    encloses = True


class _Said(io.StringIO):
    """The lines of a wave; `base` is set once the test on the base is over."""

    def __init__(self) -> None:
        super().__init__()
        self.base = threading.Event()

    def write(self, text: str) -> int:
        if "test on the base" in text:
            self.base.set()
        return super().write(text)


class Played:
    """A wave of one item in the background. Its test sleeps until the sleep is ended."""

    def __init__(self, folder: Path, *values: int, slots: int = 2) -> None:
        needs(Level.BWRAP)
        self._nap = f"300.{os.getpid()}"
        text = TEST.format(nap=self._nap)
        files = {"tests/__init__.py": "", "tests/test_made.py": text}
        config = f"[limits]\nmax_parallel_tests = {slots}\n"
        scene = Scene(folder, files, config=config, environ={"TIDEGATE_SANDBOX_LEVEL": Level.BWRAP})
        said = _Said()

        def step(value: int) -> Step:
            def work(agent: Agent) -> None:
                assert said.base.wait(60.0)  # or the proof would be run again, alone
                agent.write({"made.py": f"VALUE = {value}\n"})

            return work

        driver = Enclosed({"a": [*map(step, values)]}, environ=scene.environ)
        self.report: dict[str, Any] = {}

        def play() -> None:
            items = [item("a", "made.py", COMMAND)]
            self.report |= scene.run(driver, items, progress=Progress(said))

        self._thread = threading.Thread(target=play)
        self._thread.start()

    def naps(self) -> dict[int, bool]:
        """The sleeps of tests, each with True if it is that of the canary."""
        told = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True)
        lines = (line.strip().partition(" ") for line in told.stdout.splitlines())
        found = dict[int, bool]()
        for pid, _, args in lines:
            if args == f"sleep {self._nap}":
                with suppress(OSError):
                    files = [*Path(f"/proc/{pid}/cwd/tests").glob("*.py")]
                    tests = sum(path.read_text().count("def test_") for path in files)
                    found[int(pid)] = tests > 1
        return found

    def wake(self, *, canary: bool, by: signal.Signals = signal.SIGKILL) -> None:
        """End the sleep of the canary, or of the proof, once there is one. After a SIGTERM the test
        is red, as if another had its port."""

        def ended() -> bool:
            chosen = [pid for pid, is_canary in self.naps().items() if is_canary is canary]
            for pid in chosen:
                os.kill(pid, by)
            return bool(chosen)

        assert eventually(ended)

    def end(self) -> Mapping[str, Any]:
        """Wait for the end; returns the item's record."""
        self._thread.join()
        return built(self.report)["a"]


def test_proof_and_canary_take_place_at_once(tmp_path: Path) -> None:
    wave = Played(tmp_path, 1)
    assert eventually(lambda: sorted(wave.naps().values()) == [False, True])
    wave.wake(canary=True)
    wave.wake(canary=False)
    record = wave.end()
    assert record["verdict"] == "verified", record
    assert record["attempts"][-1]["evidence"]["canary"] == "red"
    kinds = [one["purpose"] for one in record["attempts"][-1]["evidence"]["receipts"]]
    assert kinds.count("canary") == 1


def test_a_red_proof_ends_its_canary(tmp_path: Path) -> None:
    wave = Played(tmp_path, 0, 1)
    assert eventually(lambda: sorted(wave.naps().values()) == [False, True])
    first = {*wave.naps()}
    wave.wake(canary=False)
    # The repaired work has a proof and a canary of its own, and nobody woke the first canary.
    assert eventually(lambda: not first & {*wave.naps()} and len(wave.naps()) == 2)
    wave.wake(canary=False)
    wave.wake(canary=True)
    record = wave.end()
    assert [one["verdict"] for one in record["attempts"]] == ["failed", "verified"]


def test_a_proof_that_is_repeated_alone_ends_its_canary(tmp_path: Path) -> None:
    wave = Played(tmp_path, 1)
    assert eventually(lambda: sorted(wave.naps().values()) == [False, True])
    first = {*wave.naps()}
    wave.wake(canary=False, by=signal.SIGTERM)
    assert eventually(lambda: not first & {*wave.naps()} and [*wave.naps().values()] == [False])
    wave.wake(canary=False)
    wave.wake(canary=True)
    record = wave.end()
    assert record["verdict"] == "verified", record
    assert record["attempts"][-1]["evidence"]["canary"] == "red"


@pytest.mark.parametrize(
    ("kind", "expected"), [(RunKind.TIMED_OUT, Alone.COMMAND), (RunKind.RED, Alone.NO)]
)
def test_a_proof_that_took_too_long_beside_its_canary_is_repeated(
    kind: RunKind, expected: Alone
) -> None:
    test = (".", "test")
    beside = frozenset({beside_proof(test)})
    run = TestRun(kind, "test", None, "", 1.0, beside=beside)
    assert room_needed(run, test) is expected


def test_with_one_slot_the_canary_follows_the_proof(tmp_path: Path) -> None:
    wave = Played(tmp_path, 1, slots=1)
    assert eventually(wave.naps)
    assert [*wave.naps().values()] == [False]
    wave.wake(canary=False)
    wave.wake(canary=True)
    assert wave.end()["verdict"] == "verified"


OWN = System(())


@pytest.mark.parametrize(
    ("level", "has_homes", "given", "expected"),
    [
        (Level.BWRAP, True, RoleSettings(), True),
        (Level.CONTAINER, True, RoleSettings(), True),
        (Level.BWRAP, True, RoleSettings(network=Network.NONE), True),
        (Level.BWRAP, False, RoleSettings(), False),  # one home for all
        (Level.BWRAP, True, RoleSettings(network=Network.HOST), False),  # one set of ports
        (Level.BWRAP, True, RoleSettings(writable=(Path("/shared"),)), False),
        (Level.BWRAP, True, RoleSettings(unix_sockets=True), False),
        (Level.LANDLOCK, True, RoleSettings(), False),  # tests see each other's processes
        (Level.LIMITS, True, RoleSettings(), False),
        (Level.NONE, True, RoleSettings(), False),
    ],
)
def test_tests_are_apart_only_where_they_share_nothing(
    level: Level, has_homes: bool, given: RoleSettings, expected: bool
) -> None:
    walls = Walls(Means(level, namespaces=True), OWN, {Role.TEST: given}, has_homes=has_homes)
    assert walls.part_tests is expected
