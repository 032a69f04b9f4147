"""Limits of memory, processes, files, disk and output hold, and are named as what they are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from driver.execution.command import Command, Ending, Finished
from driver.execution.processes import Processes
from driver.walls.breaches import named, size, watch_of, written
from driver.walls.groups import MEMORY, PIDS, Group, group_for
from driver.walls.wall import Limits, Role, Wall
from tests.support.walls import NAMES, means_of, python, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no walls")

MIB = 1 << 20
WITH_LIMITS = NAMES[:4]
USES_MEMORY = f"import time; held = bytearray({400 * MIB}); time.sleep(60)"
SHARES_MEMORY = f"""
import os, time
held = os.urandom({60 * MIB})
for _ in range(4):
    if (pid := os.fork()) == 0:
        time.sleep(1.5)
        os._exit(0)
for _ in range(4):
    os.wait()
"""
FORKS = """
import os, time
for _ in range(60):
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
"""
WRITES = f"""
import pathlib, time
pathlib.Path("large").write_bytes(bytes({60 * MIB}))
time.sleep(60)
"""
PRINTS = f"""
import sys, time
for _ in range(60):
    sys.stdout.write("x" * {MIB})
sys.stdout.flush()
time.sleep(60)
"""


def watched(folder: Path, text: str, limits: Limits, *, work: bool = True) -> Finished:
    """A run outside of walls and groups, whose limits are only watched."""
    watch = watch_of(Wall(writable=(folder,) if work else (), limits=limits), Group())
    environment = {"PATH": os.defpath}
    command = Command(python(text), folder, environment, 40, keep_bytes=1000, watch=watch)
    return Processes().run(command)


WATCHED = {
    "memory": (USES_MEMORY, Limits(memory=100 * MIB), "used more than 100 MiB of memory"),
    "disk": (WRITES, Limits(disk=20 * MIB), "wrote more than 20 MiB to its disk"),
    "output": (PRINTS, Limits(output=20 * MIB), "printed more than 20 MiB"),
}


@pytest.mark.more
@pytest.mark.parametrize("name", WATCHED)
def test_a_run_over_a_watched_limit_is_ended_and_says_so(name: str, tmp_path: Path) -> None:
    text, limits, told = WATCHED[name]
    done = watched(tmp_path, text, limits)
    assert (done.ending, done.exit_code) == (Ending.OVER_LIMIT, None)
    assert done.reason == f"the test {told} (sandbox.test.{name})"
    assert done.duration_s < 30


def test_memory_that_processes_share_counts_once(tmp_path: Path) -> None:
    limits = Limits(memory=150 * MIB, output=MIB, disk=MIB)
    done = watched(tmp_path, SHARES_MEMORY, limits)
    assert (done.ending, done.exit_code) == (Ending.EXITED, 0)


def test_files_of_before_are_not_written_by_the_run(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(bytes(MIB))
    since = (tmp_path / "old").stat().st_ctime + 0.001
    (tmp_path / "new").mkdir()
    while not (tmp_path / "new" / "file").exists() or written([tmp_path], since) == 0:
        (tmp_path / "new" / "file").write_bytes(bytes(2 * MIB))
    assert written([tmp_path], since) == 2 * MIB


IN_GROUPS = {
    MEMORY: (USES_MEMORY, Limits(memory=150 * MIB), "used more than 150 MiB of memory", "memory"),
    PIDS: (FORKS, Limits(processes=20), "needed more than 20 processes at once", "processes"),
}


@pytest.mark.more
@pytest.mark.parametrize("controller", IN_GROUPS)
@pytest.mark.parametrize("name", WITH_LIMITS)
def test_a_group_stops_all_processes_together(name: str, controller: str, tmp_path: Path) -> None:
    text, limits, told, key = IN_GROUPS[controller]
    with group_for(limits) as group:
        if not group.counts(controller):
            pytest.skip(f"this user cannot make a group that counts {controller}")
        folders = [folder for _, folder, _ in group.held]
    assert not any(folder.exists() for folder in folders)
    done = run(tmp_path, means_of(name), python(text), limits=limits)
    assert done.ending is Ending.OVER_LIMIT, done
    assert done.reason == f"the test {told} (sandbox.test.{key})"
    with group_for(limits) as group:
        parents = {folder.parent for _, folder, _ in group.held}
    assert [left for parent in parents for left in parent.glob(f"tidegate-*-{os.getpid()}-*")] == []


@pytest.mark.parametrize("name", WITH_LIMITS)
def test_a_file_over_its_limit_is_named(name: str, tmp_path: Path) -> None:
    limits = Limits(role=Role.SETUP, file_size=10_000)
    done = run(tmp_path, means_of(name), "head -c 100000 /dev/zero > file", limits=limits)
    told = "the set-up wrote a file of more than 9.8 KiB (sandbox.setup.file_size)"
    assert (done.ending, done.reason) == (Ending.OVER_LIMIT, told)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", WITH_LIMITS)
def test_a_run_within_its_limits_is_as_ever(name: str, tmp_path: Path) -> None:
    limits = Limits(memory=2000 * MIB, processes=500, file_size=MIB, disk=None, output=MIB)
    done = run(tmp_path, means_of(name), "echo hello; exit 3", limits=limits)
    assert (done.ending, done.exit_code, done.stdout, done.hint) == (
        Ending.EXITED,
        3,
        "hello\n",
        "",
    )


def test_a_limit_that_only_the_output_tells_of_is_a_hint() -> None:
    limits = Limits(role=Role.AGENT, data=MIB, file_size=MIB)
    done = Finished(Ending.EXITED, 1, "", "OSError: [Errno 27] File too large\nMemoryError\n", 1.0)
    told = "its output tells of a limit that may be ours (sandbox.agent.memory, sandbox.agent."
    assert named(done, limits, Group()).hint == f"{told}file_size)"
    assert named(done, Limits(), Group()).hint == ""
    green = Finished(Ending.EXITED, 0, "", "MemoryError\n", 1.0)
    assert named(green, limits, Group()) == green


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (2 << 30, "2 GiB"), (1536, "1.5 KiB"), (1 << 50, "1024 TiB")],
)
def test_sizes_are_words(count: int, text: str) -> None:
    assert size(count) == text
