"""A run that is dead is cleared up after; one that may live is left alone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from driver.execution.process_identity import RUN_VARIABLE, end_marked, identity
from driver.execution.process_marks import new_key, new_mark
from driver.filesystem.temporary import scratch_folder
from driver.run_state.ended_runs import FILE_NAME
from driver.run_state.run_registry import clear_up, noted, run_mark, waves_alive
from tests.support.interpreter import PYTHON


def note(state: Path, **facts: Any) -> Path:
    """A run's note as it would lie there."""
    record = state / "runs" / "w1" / "run.json"
    record.parent.mkdir(parents=True)
    folder = state / "clones"
    folder.mkdir()
    known = {
        "wave_id": "w1",
        "folders": [str(folder)],
        "host": socket.gethostname(),
    }
    record.write_text(json.dumps(known | facts), encoding="utf-8")
    return record


def cleared(state: Path) -> tuple[str, ...]:
    return tuple(clear_up(state, dict(os.environ)))


@pytest.mark.parametrize(
    "facts",
    [
        {"pid": 2**22 + 1, "started": 1, "boot": "b"},
        {"pid": os.getpid(), "started": 1, "boot": "b"},
        {"pid": None},
        {},
    ],
    ids=["no such process", "the number is another's", "no number", "nothing known"],
)
def test_a_dead_run_loses_its_clones_and_its_note(tmp_path: Path, facts: dict[str, Any]) -> None:
    record = note(tmp_path, **facts)
    assert cleared(tmp_path) == ("wave w1 ended without saying so",)
    assert not record.exists()
    assert not (tmp_path / "clones").exists()


def test_a_run_that_lives_is_left_alone(tmp_path: Path) -> None:
    run_dir = tmp_path / "runs" / "w1"
    run_dir.mkdir(parents=True)
    with noted(run_dir, "w1", [tmp_path / "clones"]):
        assert cleared(tmp_path) == ()
        assert (run_dir / "run.json").exists()
    assert not (run_dir / "run.json").exists()


def with_ended_runs(state: Path) -> Path:
    """A state folder that remembers its ended runs, w1 among them; the file that says so."""
    for number in range(150):
        (state / "runs" / f"w{number}").mkdir(parents=True)
    assert cleared(state) == ()
    assert json.loads((state / FILE_NAME).read_bytes().partition(b"\n")[2])[1] == "w1"
    return state / FILE_NAME


def test_an_ended_run_that_begins_again_and_dies_is_cleared_up(tmp_path: Path) -> None:
    known = with_ended_runs(tmp_path)
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        "from driver.run_state.run_registry import noted\n"
        "with noted(Path(sys.argv[1]), 'w1', []):\n    os._exit(9)"
    )
    died = subprocess.run([*PYTHON, "-c", code, str(tmp_path / "runs" / "w1")], check=False)
    assert died.returncode == 9
    assert not known.exists()
    assert cleared(tmp_path) == ("wave w1 ended without saying so",)


def test_a_new_run_beside_many_that_ended_is_found(tmp_path: Path) -> None:
    known = with_ended_runs(tmp_path)
    run_dir = tmp_path / "runs" / "new"
    run_dir.mkdir()
    with noted(run_dir, "new", []):
        assert known.exists()
        assert waves_alive(tmp_path) == {"new"}
    (run_dir / "run.json").write_text('{"wave_id": "new"}')
    assert cleared(tmp_path) == ("wave new ended without saying so",)


@pytest.mark.parametrize("damage", [b"", b"x", b'["w1"]', b"\n[]"])
def test_a_damaged_list_of_ended_runs_hides_none(tmp_path: Path, damage: bytes) -> None:
    known = with_ended_runs(tmp_path)
    known.write_bytes(damage)
    (tmp_path / "runs" / "w1" / "run.json").write_text('{"wave_id": "w1"}')
    assert cleared(tmp_path) == ("wave w1 ended without saying so",)


def test_a_run_that_is_noted_while_the_list_is_written_is_not_in_it(tmp_path: Path) -> None:
    for number in range(150):
        (tmp_path / "runs" / f"w{number}").mkdir(parents=True)
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from driver.run_state.ended_runs import FILE_NAME, remember\n"
        "state, record = Path(sys.argv[1]), Path(sys.argv[1], 'runs', 'w1', 'run.json')\n"
        "def begin(event, args):\n"
        "    if event == 'os.rename' and str(args[1]).endswith(FILE_NAME):\n"
        "        record.write_text('{}')\n"
        "sys.addaudithook(begin)\n"
        "remember(state, 'run.json')\n"
    )
    subprocess.run([*PYTHON, "-c", code, str(tmp_path)], check=True)
    assert not (tmp_path / FILE_NAME).exists()
    assert cleared(tmp_path) == ("wave w1 ended without saying so",)


def test_a_run_of_another_machine_is_never_taken_for_dead(tmp_path: Path) -> None:
    record = note(tmp_path, host="another-machine", pid=2**22 + 1)
    assert cleared(tmp_path) == ()
    assert record.exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="marks are read from /proc")
def test_processes_of_a_dead_run_are_ended_and_no_others(tmp_path: Path) -> None:
    mark = {**os.environ, RUN_VARIABLE: f"w-{tmp_path.name}"}
    sleep = [*PYTHON, "-c", "import time; time.sleep(60)"]
    marked, other = subprocess.Popen(sleep, env=mark), subprocess.Popen(sleep)
    try:
        assert end_marked(RUN_VARIABLE, f"w-{tmp_path.name}") == (marked.pid,)
        assert marked.wait(60) == -9
        assert other.poll() is None
    finally:
        for child in (marked, other):
            child.kill()
            child.wait()


def test_a_process_is_told_apart_from_a_later_one_with_its_number() -> None:
    me = identity(os.getpid())
    assert me is not None
    assert me == identity(os.getpid())
    assert identity(2**22 + 1) is None


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="marks are read from /proc")
def test_a_wave_of_the_same_name_in_another_state_folder_is_left_alone(tmp_path: Path) -> None:
    mine, theirs = (tmp_path / name / "runs" / "w1" for name in ("mine", "theirs"))
    sleep = [*PYTHON, "-c", "import time; time.sleep(60)"]
    child = subprocess.Popen(sleep, env={**os.environ, RUN_VARIABLE: run_mark(theirs, "w1")})
    try:
        assert end_marked(RUN_VARIABLE, run_mark(mine, "w1")) == ()
        assert child.poll() is None
        assert end_marked(RUN_VARIABLE, run_mark(theirs, "w1")) == (child.pid,)
    finally:
        child.kill()
        child.wait()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="marks are read from /proc")
def test_tests_and_agents_that_a_dead_run_left_are_ended(tmp_path: Path) -> None:
    key, sleep = new_key(), [*PYTHON, "-c", "import time; time.sleep(60)"]
    record = note(tmp_path, pid=2**22 + 1, key=key)
    marks = (new_mark(key), {RUN_VARIABLE: run_mark(record.parent, "w1")}, new_mark(new_key()))
    test, agent, other = (subprocess.Popen(sleep, env={**os.environ, **one}) for one in marks)
    try:
        told = cleared(tmp_path)
        assert {f"ended process {one.pid} of wave w1" for one in (test, agent)} == {*told[1:]}
        assert (test.wait(60), agent.wait(60), other.poll()) == (-9, -9, None)
    finally:
        for child in (test, agent, other):
            child.kill()
            child.wait()


SCRATCH = """
import sys
from driver.filesystem.temporary import scratch_folder
with scratch_folder() as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="nothing tells whose it is")
def test_temporary_folders_of_killed_processes_are_removed_and_no_others(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    others = ["tg-00000000-1-a", "tg-mine"]  # of another machine, and of another program
    for name in others:
        (tmp_path / name).mkdir()
    argv, pipes = [*PYTHON, "-c", SCRATCH], {"stdin": -1, "stdout": -1}
    with subprocess.Popen(argv, env=environ, text=True, **pipes) as running:  # type: ignore[call-overload]
        assert running.stdout is not None
        folder = Path(running.stdout.readline().strip())
        assert [*clear_up(tmp_path, environ)] == []
        assert folder.parent == tmp_path
        assert folder.is_dir()
        running.kill()
    assert [*clear_up(tmp_path, environ)] == []
    assert sorted(one.name for one in tmp_path.iterdir()) == others
    assert len(folder.name) <= 30  # what is left of a hundred bytes is for the sockets of tests


def test_a_temporary_folder_goes_however_deep_a_command_left_it() -> None:
    here = Path.cwd()
    with scratch_folder() as folder:
        try:
            os.chdir(folder)
            for _ in range(1500):
                Path("d").mkdir()
                os.chdir("d")
        finally:
            os.chdir(here)
    assert not folder.exists()
