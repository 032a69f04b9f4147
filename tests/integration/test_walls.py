"""Walls of this machine: what holds, and what a command sees inside.

A level that this machine does not have is skipped. `python -m driver.walls.matrix` prints the same.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from driver.domain.wall_hints import about_walls
from driver.execution.command import Command, Ending, Finished
from driver.execution.processes import Processes
from driver.filesystem.temporary import scratch_folder
from driver.walls.choice import Asked, walls_here
from driver.walls.escape import OF_LIMITS, attempted
from driver.walls.inside import run_inside
from driver.walls.system import system_aliases, system_paths
from driver.walls.wall import Level, Limits, Means, Network, Wall
from state_store.values.lazy_dataclass import replace
from tests.support.processes import eventually, patient
from tests.support.walls import CLOSED, NAMES, means_of, place, python, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="walls are made by Linux")

ROOT = Path(__file__).resolve().parents[2]
# Landlock has no rule for the mode of a file; a mount of its own has.
KNOWN = {"landlock": {"change_mode"}}


# Escapes


@pytest.mark.parametrize("name", CLOSED)
def test_nothing_escapes(name: str) -> None:
    held = attempted(means_of(name), Network.LOOPBACK, Processes())
    assert held.problem == ""
    assert set(held.escaped) - OF_LIMITS == KNOWN.get(name, set())


@pytest.mark.parametrize("name", CLOSED)
def test_only_the_network_is_open_to_an_agent(name: str) -> None:
    held = attempted(means_of(name), Network.HOST, Processes())
    assert held.problem == ""
    assert set(held.escaped) - OF_LIMITS == {
        "connect_loopback",
        "connect_abroad",
        *KNOWN.get(name, ()),
    }


def test_the_attempts_succeed_without_a_wall() -> None:
    """An attempt that fails everywhere would show nothing."""
    held = attempted(means_of("none"), Network.LOOPBACK, Processes())
    needs_root, needs_a_keyring, needs_namespaces = "mount", "kernel_keyring", "new_user_namespace"
    of_the_machine = {needs_root, needs_a_keyring, needs_namespaces, "setuid_program"}
    of_the_machine |= {"kernel_settings"}
    of_the_machine |= {"trace_outside"}  # a system may allow it for descendants only
    assert set(held.blocked) <= of_the_machine


# A command inside


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_command_has_its_exit_code_and_its_streams(name: str, tmp_path: Path) -> None:
    done = run(tmp_path, means_of(name), "echo out; echo err > /dev/stderr; exit 7")
    assert (done.exit_code, done.stdout, done.stderr) == (7, "out\n", "err\n")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_a_command_has_the_environment_that_it_was_given(name: str, tmp_path: Path) -> None:
    done = run(tmp_path, means_of(name), ("env",))
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert names - {"PWD"} == {"PATH", "HOME", "TMPDIR"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_a_missing_program_is_no_result(name: str, tmp_path: Path) -> None:
    done = run(tmp_path, means_of(name), ("no-such-program",))
    assert done.ending is Ending.COULD_NOT_START
    assert "no-such-program" in done.reason


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES[1:])
def test_a_program_that_may_not_be_run_is_told_as_one(name: str, tmp_path: Path) -> None:
    program = place(tmp_path, "work") / "program"
    program.write_text("#!/bin/sh\n", encoding="ascii")
    done = run(tmp_path, means_of(name), ("./program",))
    assert done.ending is Ending.COULD_NOT_START
    assert "it is not executable" in done.reason


@pytest.mark.parametrize("name", NAMES)
def test_a_command_may_end_in_its_own_way_at_a_time_out(name: str, tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 3' TERM; sleep 60 & wait"
    done = run(tmp_path, means_of(name), script, timeout_s=patient(1.5))
    assert done.ending is Ending.TIMED_OUT
    assert done.stdout == "bye\n"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_processes_left_running_are_ended_and_counted(name: str, tmp_path: Path) -> None:
    done = run(tmp_path, means_of(name), "setsid sleep 600 > /dev/null 2>&1 &")
    assert done.survivors == 1
    assert [one.partition(" (")[0] for one in done.survivors_named] == ["sleep 600"]


TRACES = """
import ctypes, os, signal
libc, child = ctypes.CDLL(None, use_errno=True), os.fork()
if child == 0:
    if libc.ptrace(0, 0, 0, 0) == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
print(os.WIFSTOPPED(os.waitpid(child, 0)[1]))
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CLOSED)
def test_a_debugger_and_leak_checks_work_inside(name: str, tmp_path: Path) -> None:
    done = run(tmp_path, means_of(name), python(TRACES))
    assert (done.stdout, done.stderr) == ("True\n", "")


SLOWS = """
import os
outside = int({outside})
os.setpriority(os.PRIO_PROCESS, 0, 19)
for change in (
    lambda: os.setpriority(os.PRIO_PROCESS, outside, 19),
    lambda: os.setpriority(os.PRIO_USER, 0, 19),
    lambda: os.sched_setscheduler(outside, os.SCHED_IDLE, os.sched_param(0)),
    lambda: os.sched_setaffinity(outside, {{min(os.sched_getaffinity(0))}}),
):
    try:
        change()
    except OSError:
        pass
print(os.getpriority(os.PRIO_PROCESS, 0))
"""


@pytest.mark.parametrize("name", CLOSED)
def test_no_process_outside_is_slowed_down(name: str, tmp_path: Path) -> None:
    means = means_of(name)
    with subprocess.Popen(["sleep", "60"]) as outside:

        def schedule() -> tuple[int, int, set[int]]:
            pid = outside.pid
            priority = os.getpriority(os.PRIO_PROCESS, pid)
            return priority, os.sched_getscheduler(pid), os.sched_getaffinity(pid)

        before = schedule()
        done = run(tmp_path, means, python(SLOWS.format(outside=outside.pid)))
        after = schedule()
        outside.kill()
    assert after == before
    assert (done.stderr, done.stdout) == ("", "19\n")


def test_without_namespaces_a_write_to_tmp_fails_and_the_setting_is_named() -> None:
    with scratch_folder("/tmp") as folder:
        done = run(folder, means_of("landlock"), "touch $TMPDIR/x && touch /tmp/x-$$")
    assert done.exit_code
    assert '`writable = ["/tmp"]` in [sandbox.test]' in about_walls("landlock-7", done.stderr)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CLOSED[:2])
@pytest.mark.parametrize("around", ["/tmp", "/dev/shm", "/var/tmp"])
def test_the_usual_temporary_folders_are_private(name: str, around: str) -> None:
    """Also if the places of a command lie in one of them."""
    if not os.access(around, os.W_OK):
        pytest.skip(f"this user may not write in {around}")
    with scratch_folder(around) as folder:
        places = (around, "/tmp", "/var/tmp")
        own = " ".join(f"{one}/own-{folder.name}" for one in places)
        script = f"touch {own} here ../../{folder.name}/work/two && ls {folder} && cat {own}"
        (folder / "secret").write_text("of the user", encoding="ascii")
        done = run(folder, means_of(name), script)
        assert (done.stdout, done.stderr) == ("work\n", "")
        assert {path.name for path in (folder / "work").iterdir()} == {"here", "two"}
        assert not any(Path(one, f"own-{folder.name}").exists() for one in places)


@pytest.mark.parametrize("name", CLOSED)
def test_a_readable_place_that_is_gone_is_no_failure(name: str) -> None:
    with scratch_folder("/tmp") as folder:
        work = place(folder, "work")
        readable = (*system_paths(), folder / "gone")
        wall = Wall(readable=readable, writable=(work,), aliases=system_aliases())
        command = Command("ls", work, {"PATH": os.defpath}, 60.0)
        done = run_inside(Processes(), command, wall, means_of(name))
    assert (done.exit_code, done.reason) == (0, "")


@pytest.mark.parametrize("name", NAMES[:2])
def test_two_runs_may_listen_on_the_same_port(name: str, tmp_path: Path) -> None:
    means = means_of(name)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(
            tmp_path,
            means,
            python(
                "import socket\n"
                f"server = socket.create_server(('127.0.0.1', {port}))\n"
                f"socket.create_connection(('localhost', {port})).close()\n"
            ),
        )
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize("name", NAMES[:2])
def test_each_run_has_shared_memory_of_its_own(name: str) -> None:
    means = means_of(name)
    with scratch_folder() as folder:
        done = run(folder, means, python("import multiprocessing; multiprocessing.Lock()"))
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize("name", NAMES[:2])
def test_each_run_has_terminals_of_its_own(name: str, tmp_path: Path) -> None:
    program = python(
        "import os\n"
        "ours, theirs = os.openpty()\n"
        "os.write(theirs, b'typed')\n"
        "print(os.read(ours, 9), sorted(os.listdir('/dev/pts')))\n"
    )
    done = run(tmp_path, means_of(name), program)
    assert (done.stdout, done.stderr) == ("b'typed' ['0', 'ptmx']\n", "")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CLOSED)
def test_the_network_of_none_has_no_address(name: str, tmp_path: Path) -> None:
    program = python("import socket; socket.socket()")
    done = run(tmp_path, means_of(name), program, network=Network.NONE)
    assert "PermissionError" in done.stderr


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES[:4])
def test_a_file_ends_at_its_limit(name: str, tmp_path: Path) -> None:
    script = "head -c 100000 /dev/zero > file; wc -c < file"
    done = run(tmp_path, means_of(name), script, limits=Limits(file_size=10_000))
    assert done.stdout.strip() == "10000"


@pytest.mark.parametrize("name", ["limits"])
def test_a_signal_is_told_as_one(name: str, tmp_path: Path) -> None:
    assert run(tmp_path, means_of(name), "kill -9 $$").exit_code == -signal.SIGKILL


KILLED = """
import sys
from pathlib import Path
from tests.support.walls import means_of, run
script = "trap '' TERM; setsid sleep 600 & sleep 600"
run(Path(sys.argv[1]), means_of(sys.argv[2]), script)
"""


@pytest.mark.parametrize("name", CLOSED)
def test_nothing_inside_outlives_a_killed_orchestrator(name: str, tmp_path: Path) -> None:
    means_of(name)
    work = place(tmp_path, "work")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path), name],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(place(tmp_path, "scratch"))},
    ) as running:
        assert eventually(lambda: len(running_in(work)) >= 2)
        running.kill()
    assert eventually(lambda: not running_in(work))


def running_in(folder: Path) -> list[str]:
    """The processes whose current folder is `folder`, inside of a wall or not."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and (process / "cwd").readlink() == folder:
                found.append(process.name)
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("killed", ["supervisor", "fork server"])
def test_nothing_inside_outlives_a_killed_helper(name: str, killed: str, tmp_path: Path) -> None:
    means, work, ended = means_of(name), place(tmp_path, "work"), list[Finished]()
    script = "trap '' TERM; setsid sleep 600 & sleep 600"
    running = threading.Thread(
        target=lambda: ended.append(run(tmp_path, means, script)), daemon=True
    )
    running.start()
    try:
        assert eventually(lambda: len(running_in(work)) >= 2)
        supervisor = helper_above(int(running_in(work)[-1]))
        os.kill(supervisor if killed == "supervisor" else parent_of(supervisor), signal.SIGKILL)
        assert eventually(lambda: not running_in(work))
    finally:
        running.join(60)
    assert ended[0].ending in (Ending.LOST, Ending.EXITED)


def helper_above(pid: int) -> int:
    """The supervisor of a command, whose own parent is our fork server. Another user than root
    cannot read the folder in which it works."""
    while parent_of(parent_of(pid)) != os.getpid():
        pid = parent_of(pid)
    return pid


def parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return int(stat.rpartition(")")[2].split()[1])


def test_an_ordinary_user_cannot_read_the_memory_of_its_supervisor() -> None:
    """The parent of a command is its supervisor, whose variables are those of the orchestrator."""
    told = by_an_ordinary_user(READS_ABOVE, {"SECRET": "of the orchestrator"})
    assert "of the orchestrator" not in told
    assert told.count("Permission denied") == 2


@pytest.mark.more
def test_nothing_escapes_from_a_user_who_runs_much_else() -> None:
    """The kernel counts a user's processes in each namespace of users, which starts at none."""
    told = by_an_ordinary_user(ESCAPES_BESIDE_MUCH, {"TMPDIR": "/tmp"})
    found = {name: set(escaped) for name, escaped in json.loads(told).items()}
    assert found == {name: KNOWN.get(name, set()) for name in found}


LOOKS_AROUND = """
import os
from driver.walls.system import system_here
try:
    system_here(dict(os.environ))
    print("looked")
except OSError as error:
    print(error)
"""


def test_variables_that_name_the_places_of_another_user_are_no_failure(tmp_path: Path) -> None:
    closed = place(tmp_path, "closed")
    place(closed, "bin")
    closed.chmod(0)
    named = {"PYENV_ROOT": f"{closed}/x", "PATH": f"{closed}/bin:{os.defpath}"}
    assert by_an_ordinary_user(LOOKS_AROUND, named) == "looked\n"
    closed.chmod(0o700)


def by_an_ordinary_user(script: str, environ: dict[str, str]) -> str:
    """The output of a script that imports Tidegate, run without `site`."""
    user = 65534 if os.getuid() == 0 else os.getuid()
    environ = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), **environ}
    for program in (sys.executable, "/usr/bin/python3"):
        with suppress(OSError):  # a Python in the home of root
            asked = (program, "-S", "-B", "-c", script)
            told = subprocess.run(
                asked, cwd="/", user=user, env=environ, capture_output=True, text=True, check=False
            )
            if told.returncode == 0:
                return told.stdout
    pytest.skip("an ordinary user has no Python here that can run Tidegate")


ESCAPES_BESIDE_MUCH = """
import json, os, threading
from driver.execution.processes import Processes
from driver.execution.sandbox_probe import kernel_facts
from driver.walls.choice import Asked, candidates
from driver.walls.escape import attempted
from driver.walls.wall import Level, Network
over = threading.Event()
beside = [threading.Thread(target=over.wait) for _ in range(120)]
for one in beside:
    one.start()
found = {}
for means in candidates(Asked(), kernel_facts(), os.environ, ()):
    if means.level in (Level.BWRAP, Level.LANDLOCK):
        held = attempted(means, Network.LOOPBACK, Processes())
        if not held.problem:
            own = " with namespaces" if means.namespaces else ""
            found[f"{means.level}{own}"] = list(held.escaped)
print(json.dumps(found))
over.set()
"""
READS_ABOVE = """
from pathlib import Path
from driver.execution.command import Command
from driver.execution.processes import Processes
script = "cat /proc/$PPID/environ; cat /proc/$PPID/mem | head -c 9"
print(Processes().run(Command(script, Path("/"), {"PATH": "/usr/bin:/bin"}, 20)).stderr)
"""


# A wall that cannot be made


def test_a_wrapper_that_fails_is_no_result(tmp_path: Path) -> None:
    broken = replace(means_of("bwrap"), program="/bin/false")
    done = run(tmp_path, broken, "exit 0")
    assert done.ending is Ending.COULD_NOT_START
    assert done.exit_code is None


def test_a_wrapper_that_only_pretends_is_no_result(tmp_path: Path) -> None:
    broken = replace(means_of("bwrap"), program="/bin/true")
    done = run(tmp_path, broken, "exit 0")
    assert done.ending is Ending.COULD_NOT_START


def test_rules_that_the_kernel_does_not_know_are_no_result(tmp_path: Path) -> None:
    means = means_of("landlock")
    wall = Wall(groups=(tmp_path / "no" / "cgroup.procs",))
    command = Command(("true",), tmp_path, {"PATH": os.defpath}, 60.0)
    done = run_inside(Processes(), command, wall, means)
    assert done.ending is Ending.COULD_NOT_START
    assert "cgroup.procs" in done.reason


def test_without_a_supervisor_no_command_runs_outside_of_its_wall(tmp_path: Path) -> None:
    command = Command(("touch", "made"), tmp_path, {"PATH": os.defpath}, 60.0)
    processes = Processes(supervised=False)
    done = run_inside(processes, command, Wall(), Means(Level.LIMITS))
    assert done.ending is Ending.COULD_NOT_START
    assert not (tmp_path / "made").exists()


# The choice


@pytest.mark.more
def test_the_choice_is_made_by_escapes_and_kept_until_the_next_boot(tmp_path: Path) -> None:
    file = tmp_path / "walls.json"
    made = walls_here(Asked(), file, os.environ, (), Processes())
    if not made.means.level.at_least(Level.LANDLOCK):
        pytest.skip("this machine has no walls")
    cannot_test = Processes()
    cannot_test.cancel()
    assert walls_here(Asked(), file, os.environ, (), cannot_test) == made


def test_a_level_whose_test_cannot_run_is_passed_over_until_next_time(tmp_path: Path) -> None:
    file = tmp_path / "walls.json"
    cannot_test = Processes()
    cannot_test.cancel()
    assert walls_here(Asked(), file, os.environ, (), cannot_test).means.level is Level.LIMITS
    assert not file.exists()
