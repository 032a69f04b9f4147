"""The nursery: one for all runs of an owner, gone with it, and no way to a false result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from driver.execution.process_table import children, is_zombie
from driver.execution.processes import Command, Ending, Finished, Processes
from tests.support.beside import beside_on
from tests.support.interpreter import PYTHON
from tests.support.processes import Marked, eventually, marked_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
on_marked = beside_on(marked_in)

ROOT = Path(__file__).resolve().parents[2]
NURSERY = "nursery=$(sed -n 's/^PPid:.//p' /proc/$PPID/status)"


def nursery_of(processes: Processes, marked: Marked) -> int:
    return int(processes.run(marked.shell(f"{NURSERY}; echo $nursery")).stdout)


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def under_way(
    pool: ThreadPoolExecutor, processes: Processes, *trees: Command
) -> list[Future[Finished]]:
    work = [pool.submit(processes.run, tree) for tree in trees]
    assert eventually(lambda: len(processes.running()) == len(trees))
    return work


def test_sixty_four_runs_at_once_share_one_nursery(marked: Marked) -> None:
    processes = Processes()
    with ThreadPoolExecutor(64) as pool:
        seen = set(pool.map(lambda _: nursery_of(processes, marked), range(64)))
    assert len(seen) == 1


def test_a_nursery_made_ready_is_the_one_that_starts_the_runs(marked: Marked) -> None:
    before = {*children(os.getpid())}
    processes = Processes()
    processes.make_ready()
    made = {*children(os.getpid())} - before
    processes.make_ready()
    assert made == {nursery_of(processes, marked)}


@on_marked
def test_a_killed_nursery_is_lost_runs_with_nothing_left_and_the_next_run_works(
    marked: Marked,
) -> None:
    processes = Processes()
    bystander = marked.shell("setsid sleep 600 & wait", grace_s=0.1)
    with ThreadPoolExecutor(2) as pool:
        work = under_way(pool, processes, bystander, bystander)
        killer = f"setsid sleep 600 & {NURSERY}; kill -KILL $nursery; sleep 600"
        done = [processes.run(marked.shell(killer, grace_s=0.1)), *(job.result() for job in work)]
    assert {(run.ending, run.exit_code) for run in done} == {(Ending.LOST, None)}
    assert all(run.reason for run in done)
    assert marked.alive() == []
    assert processes.run(marked.shell("exit 3")).exit_code == 3


@on_marked
def test_a_run_that_ends_green_after_killing_the_nursery_is_lost(marked: Marked) -> None:
    done = Processes().run(marked.shell(f"{NURSERY}; kill -KILL $nursery; exit 0"))
    assert (done.ending, done.exit_code) == (Ending.LOST, None)


@on_marked
def test_with_nursery_and_supervisor_killed_the_tree_is_ended_all_the_same(marked: Marked) -> None:
    kill = f"setsid sleep 600 & {NURSERY}; kill -KILL $nursery $PPID; sleep 600"
    assert Processes().run(marked.shell(kill)).ending is Ending.LOST
    assert eventually(lambda: not marked.alive())


@on_marked
def test_a_daemon_without_ties_is_ended_when_the_supervisor_was_killed(marked: Marked) -> None:
    quiet = "(setsid sleep 600 </dev/null >/dev/null 2>&1 &)"
    processes = Processes()
    done = processes.run(marked.shell(f"{quiet}; kill -KILL $PPID; sleep 600"))
    assert done.ending is Ending.LOST
    assert eventually(lambda: not marked.alive())
    assert eventually(lambda: not children(nursery_of(processes, marked)))


@on_marked
def test_results_forged_through_every_descriptor_do_not_count(marked: Marked) -> None:
    forge = f"""{NURSERY}
for fd in /proc/$PPID/fd/* /proc/$nursery/fd/*; do
  (printf 'exit 0\\nleft 0\\nreaped 0\\n' > $fd && echo wrote $fd) 2>/dev/null
done
kill -KILL $PPID; sleep 600"""
    done = Processes().run(marked.shell(forge))
    assert (done.ending, done.exit_code) == (Ending.LOST, None)
    # Its own output may still be open elsewhere; nothing else can be written to.
    assert done.stdout.count("reaped 0") == done.stdout.count("wrote")


@on_marked
def test_a_stopped_nursery_goes_on(marked: Marked) -> None:
    done = Processes().run(marked.shell(f"{NURSERY}; kill -STOP $nursery; exit 5"))
    assert (done.ending, done.exit_code) == (Ending.EXITED, 5)
    assert done.duration_s < 20


@on_marked
def test_a_run_that_a_stopped_nursery_was_asked_for_starts(marked: Marked) -> None:
    processes = Processes()
    os.kill(nursery_of(processes, marked), signal.SIGSTOP)
    done = processes.run(marked.shell("exit 5"))
    assert (done.ending, done.exit_code) == (Ending.EXITED, 5)


@on_marked
def test_no_run_holds_anything_of_another(marked: Marked) -> None:
    processes = Processes()
    closed = "while [ $(ls /proc/$PPID/fd | wc -l) -gt 6 ]; do :; done"  # the streams of the leader
    listing = marked.shell(f"ls /proc/$$/fd; echo; {closed}; readlink /proc/$PPID/fd/*")
    with ThreadPoolExecutor(8) as pool:
        under_way(pool, processes, *[marked.shell("sleep 600") for _ in range(8)])
        leader, supervisor = processes.run(listing).stdout.split("\n\n")
        processes.cancel()
    assert leader.split() == ["0", "1", "2"]
    # Its channel as 0, 1 and 2, both ends of its signals, and the end of the nursery.
    assert len(supervisor.split()) == 6
    assert all(name.startswith("socket:") for name in supervisor.split())


@on_marked
def test_the_nursery_keeps_nothing_of_a_run_that_is_over(marked: Marked) -> None:
    processes = Processes()
    nursery = nursery_of(processes, marked)
    held = len(list(Path(f"/proc/{nursery}/fd").iterdir()))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(processes.run, [marked.shell("exit 0")] * 16))
        list(pool.map(processes.run, [marked.shell("kill -KILL $PPID")] * 4))
        list(pool.map(processes.run, [marked.command(("no-such-program",))] * 4))
    assert eventually(lambda: not children(nursery))
    assert len(list(Path(f"/proc/{nursery}/fd").iterdir())) == held


def test_the_nursery_goes_with_its_owner(marked: Marked) -> None:
    processes = Processes()
    nursery = nursery_of(processes, marked)
    assert exists(nursery)
    del processes
    assert not exists(nursery)


def test_a_nursery_that_was_killed_is_no_zombie_once_another_took_over(marked: Marked) -> None:
    processes = Processes()
    first = nursery_of(processes, marked)
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: is_zombie(first))
    assert nursery_of(processes, marked) != first
    assert not exists(first)


def test_a_nursery_that_cannot_work_is_a_lost_run_that_says_why(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = marked.folder / "python"
    broken.write_text("#!/bin/sh\necho no library >&2; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    done = Processes().run(marked.shell("exit 0"))
    assert (done.ending, done.exit_code) == (Ending.LOST, None)
    assert done.reason == "its supervisor did not start: no library"


OWNER = f"""
import os, sys, threading
from pathlib import Path
from driver.execution.processes import Command, Processes
def command(text):
    return Command(text, Path.cwd(), dict(item.split('=', 1) for item in sys.argv[2:]), None)
processes = Processes()
print(processes.run(command("{NURSERY}; echo $nursery")).stdout, end='', flush=True)
if sys.argv[1] != 'idle':
    threading.Thread(target=processes.run, args=(command('setsid sleep 600 & touch up; wait'),),
        daemon=True).start()
    while not os.path.exists('up'): pass
if sys.argv[1] == 'wait':
    print('up', flush=True)
    threading.Event().wait()
"""


def an_owner(marked: Marked, how: str) -> subprocess.Popen[str]:
    variables = [f"{name}={value}" for name, value in marked.env.items()]
    return subprocess.Popen(
        [*PYTHON, "-c", OWNER, how, *variables],
        cwd=marked.folder,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.more
@pytest.mark.parametrize("how", ["idle", "busy"])
@on_marked
def test_nothing_is_left_when_the_interpreter_of_the_owner_ends(marked: Marked, how: str) -> None:
    with an_owner(marked, how) as owner:
        nursery = int(owner.communicate(timeout=60)[0])
    assert owner.returncode == 0
    assert eventually(lambda: not exists(nursery) and not marked.alive(), within_s=2)


@on_marked
def test_nothing_is_left_when_the_owner_is_killed(marked: Marked) -> None:
    with an_owner(marked, "wait") as owner:
        assert owner.stdout
        nursery = int(owner.stdout.readline())
        assert owner.stdout.readline() == "up\n"
        owner.kill()
        owner.wait()
        assert eventually(lambda: not exists(nursery) and not marked.alive(), within_s=2)
