"""Trees that try to outlive their run, or to lie about it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from driver.execution.processes import Command, Ending, Finished, Processes
from tests.support.beside import beside_on
from tests.support.interpreter import PYTHON
from tests.support.processes import Marked, eventually, marked_in, patient

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

on_marked = beside_on(marked_in)
ROOT = Path(__file__).resolve().parents[2]

DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], 'w').write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1]): time.sleep(0.005)
time.sleep(float(sys.argv[2]))
"""


def run(command: Command) -> Finished:
    return Processes().run(command)


def daemon(marked: Marked, then_sleep: float, **options: object) -> Command:
    return marked.python(DAEMON, str(marked.folder / "daemon"), str(then_sleep), **options)


@on_marked
def test_a_time_out_ends_a_daemon_in_a_session_of_its_own(marked: Marked) -> None:
    done = run(daemon(marked, 600, timeout_s=patient(1.0)))
    assert (marked.folder / "daemon").exists()
    assert done.ending is Ending.TIMED_OUT
    assert marked.alive() == []


@pytest.mark.more
@on_marked
def test_a_daemon_left_by_a_green_run_is_ended_and_counted(marked: Marked) -> None:
    done = run(daemon(marked, 0))
    assert (done.ending, done.exit_code, done.survivors) == (Ending.EXITED, 0, 1)
    daemon_pid = (marked.folder / "daemon").read_text()
    [named] = done.survivors_named
    assert named.startswith(f"{sys.executable} -I -S -c")
    assert named.endswith(f" ({daemon_pid})")
    assert marked.alive() == []


@pytest.mark.more
@on_marked
def test_who_ignores_the_first_signal_is_killed_after_the_grace(marked: Marked) -> None:
    deaf = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & while :; do sleep 1; done"
    done = run(marked.shell(deaf, timeout_s=patient(0.3), grace_s=0.3))
    assert done.ending is Ending.TIMED_OUT
    assert done.duration_s < 20
    assert done.survivors >= 1
    assert marked.alive() == []


@pytest.mark.more
@on_marked
def test_the_first_signal_also_reaches_those_in_another_session(marked: Marked) -> None:
    tidy = "trap 'echo tidied; exit' TERM; echo up; while :; do sleep 0.02; done"
    outer = f'setsid sh -c "{tidy}" & wait; sleep 60'
    done = run(marked.shell(outer, timeout_s=patient(0.5)))
    assert done.stdout == "up\ntidied\n"
    assert done.survivors == 0


@pytest.mark.more
@on_marked
def test_a_child_that_holds_the_output_open_delays_nobody(marked: Marked) -> None:
    done = run(marked.shell("sleep 600 & echo done", grace_s=60))
    assert (done.exit_code, done.stdout, done.survivors) == (0, "done\n", 1)
    assert done.duration_s < 20


@pytest.mark.more
@on_marked
def test_a_helper_that_leaves_by_itself_is_no_survivor(marked: Marked) -> None:
    done = run(marked.shell("sleep 0.1 & exit 0"))
    assert (done.exit_code, done.survivors) == (0, 0)


@pytest.mark.more
@on_marked
def test_a_zombie_neither_delays_nor_counts(marked: Marked) -> None:
    text = (
        "import os\nif os.fork() == 0: os._exit(0)\nos.waitid(os.P_ALL, 0, os.WEXITED|os.WNOWAIT)"
    )
    done = run(marked.python(text, grace_s=60))
    assert (done.ending, done.exit_code, done.survivors) == (Ending.EXITED, 0, 0)
    assert done.duration_s < 20


BOMB = """
import os, sys, time
end = time.monotonic() + 120
def room():
    try:
        fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
        os.write(fd, b'x')
        return os.fstat(fd).st_size <= 60
    finally:
        os.close(fd)
while time.monotonic() < end:
    if room() and os.fork() == 0:
        os.setsid()
        continue
    time.sleep(0.001)
"""


@pytest.mark.more
@on_marked
def test_a_fork_bomb_is_ended_to_the_last_process(marked: Marked) -> None:
    count = marked.folder / "count"
    count.write_bytes(b"")
    done = run(marked.python(BOMB, str(count), timeout_s=patient(1.0), grace_s=0.0))
    assert count.stat().st_size > 60
    assert done.ending is Ending.TIMED_OUT
    assert "could not be ended" not in done.reason
    assert marked.alive() == []


OWNER = """
import signal, sys
from pathlib import Path
from driver.execution.processes import Command, Processes
processes = Processes()
signal.signal(signal.SIGTERM, lambda *_: processes.cancel())
env = dict(item.split('=', 1) for item in sys.argv[2:])
command = Command(sys.argv[1], Path.cwd(), env, None)
print(processes.run(command).ending.value, flush=True)
"""
DEAF_TREE = "trap '' TERM; setsid sleep 600 & touch up; while :; do sleep 1; done"


def start_owner(marked: Marked, tree: str) -> subprocess.Popen[str]:
    variables = [f"{name}={value}" for name, value in marked.env.items()]
    owner = subprocess.Popen(
        [*PYTHON, "-c", OWNER, tree, *variables],
        cwd=marked.folder,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert eventually((marked.folder / "up").exists)
    return owner


@pytest.mark.more
@on_marked
def test_no_descendant_outlives_an_orchestrator_that_was_killed(marked: Marked) -> None:
    with start_owner(marked, DEAF_TREE) as owner:
        assert len(marked.alive()) >= 2
        owner.kill()
        owner.wait()
        assert eventually(lambda: not marked.alive(), within_s=2)


@pytest.mark.more
@on_marked
def test_sigterm_through_cancel_ends_the_tree_and_says_so(marked: Marked) -> None:
    with start_owner(marked, "setsid sleep 600 & touch up; sleep 600") as owner:
        owner.terminate()
        said, _ = owner.communicate(timeout=60)
    assert said == "cancelled\n"
    assert marked.alive() == []


@pytest.mark.more
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@on_marked
def test_a_signal_to_the_supervisor_ends_the_tree_and_is_never_green(
    marked: Marked, number: signal.Signals
) -> None:
    done = run(marked.shell(f"kill -{int(number)} $PPID; sleep 60"))
    assert (done.ending, done.exit_code) == (Ending.LOST, None)
    assert marked.alive() == []


@pytest.mark.more
@on_marked
def test_a_killed_supervisor_is_a_lost_run_and_its_tree_is_ended(marked: Marked) -> None:
    done = run(marked.shell("setsid sleep 600 & kill -KILL $PPID; sleep 600"))
    assert (done.ending, done.exit_code) == (Ending.LOST, None)
    assert done.reason
    assert eventually(lambda: not marked.alive())


@pytest.mark.more
@on_marked
def test_an_exit_code_forged_before_killing_the_supervisor_does_not_count(marked: Marked) -> None:
    forge = "echo 'exit 0' > /proc/$PPID/fd/1; kill -KILL $PPID; sleep 600"
    done = run(marked.shell(forge))
    assert (done.ending, done.exit_code) == (Ending.LOST, None)


@pytest.mark.more
@on_marked
def test_an_exit_code_forged_in_passing_is_replaced_by_the_true_one(marked: Marked) -> None:
    done = run(marked.shell("printf 'exit 0\\nleft x\\n' > /proc/$PPID/fd/1; exit 7"))
    assert (done.ending, done.exit_code) == (Ending.EXITED, 7)


@pytest.mark.more
@on_marked
def test_a_stopped_supervisor_cannot_hold_up_a_time_out(marked: Marked) -> None:
    stop = "setsid sleep 600 & kill -STOP $PPID; sleep 600"
    done = run(marked.shell(stop, timeout_s=patient(0.3), grace_s=0))
    assert done.ending is Ending.TIMED_OUT
    assert done.duration_s < 20
    assert eventually(lambda: not marked.alive())


@pytest.mark.more
@on_marked
def test_a_cancel_ends_sixteen_trees_at_once(marked: Marked) -> None:
    processes = Processes()
    tree = marked.shell("setsid sleep 600 & wait")
    with ThreadPoolExecutor(16) as pool:
        work = [pool.submit(processes.run, tree) for _ in range(16)]
        assert eventually(lambda: len(processes.running()) == 16, within_s=10)
        began = time.monotonic()
        processes.cancel()
        assert {job.result().ending for job in work} == {Ending.CANCELLED}
    assert time.monotonic() - began < 20
    assert marked.alive() == []


PORTABLE = """
import os
from driver.execution import supervisor
streams = [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
nursery, _other_end = os.pipe()
supervisor.main(streams, nursery, lambda: False)
"""


@pytest.mark.more
@on_marked
def test_without_adoption_group_and_descendants_are_ended(marked: Marked) -> None:
    if not Path("/bin/ps").exists():
        pytest.skip("needs ps")
    tree = b"setsid sleep 600 & (sleep 600 &) ; touch up; sleep 600"
    argv = [b"sh", b"-c", tree]
    env = [os.fsencode(f"{name}={value}") for name, value in marked.env.items()]
    numbers = [b"15", b"0.2", os.fsencode(marked.folder), b"0", b"%d" % len(argv)]
    body = b"\0".join([*numbers, *argv, *env])
    with subprocess.Popen(
        [*PYTHON, "-c", PORTABLE],
        cwd="/",
        env={"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as portable:
        assert portable.stdin is not None
        portable.stdin.write(b"%012d" % len(body) + body)
        portable.stdin.flush()
        assert eventually((marked.folder / "up").exists)
        said, _ = portable.communicate(timeout=60)  # closes stdin: the orchestrator is gone
    assert b"ending 1\nexit -15\n" in said
    assert eventually(lambda: not marked.alive())
