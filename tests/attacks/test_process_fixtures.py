"""Two hundred ways to outlive one's run: by how a process gets away, what it does then, and how its
leader ends. Nothing of any may live two seconds later, whoever ran it and however that one ended.

The default run takes a sample. All of them, as tests, as agents, and below an orchestrator that is
killed: `python -m pytest -m sweep -s tests/attacks/test_process_fixtures.py`.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from driver.backend_api.driver import CommandLimits, WorkerRequest
from driver.backends.command import CommandDriver
from tests.support.interpreter import ALONE, PYTHON
from tests.support.processes import MARKER, Marked, eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S, AT_ONCE, EVERY = 60.0, 8, 9
# A busy machine may need longer than the first limit to start a fixture: it is given the next one.
LIMITS_S = (1.0, 8.0, 64.0)

WAYS = ("child", "double_fork", "setsid", "daemon", "nohup", "own_group", "exec_chain",
        "sessions_in_a_loop", "closed", "from_a_thread")  # fmt: skip
DEEDS = ("sleeps", "deaf", "busy", "stopped", "holds_output", "renamed", "no_environment",
         "guards", "spawns_at_exit", "bomb")  # fmt: skip
ENDS = ("leaves", "stays")
ALL = tuple(itertools.product(WAYS, DEEDS, ENDS))

# argv: way, deed, end, a folder for its files, the marker. Everything in it gives up after 300 s,
# which is longer than any limit and wait of these tests.
FIXTURE = r"""
import os, signal, sys, threading, time
way, deed, end, folder, marker = sys.argv[1:6]
ME = [sys.executable, '-I', '-S', '-c', open('/proc/self/cmdline').read().split('\0')[4]]
LIMIT = time.monotonic() + 300

def up():
    open(folder + '/up', 'a').close()

def wait():
    up()
    while time.monotonic() < LIMIT:
        time.sleep(0.05)
    os._exit(0)

def forked(run):
    if os.fork() == 0:
        run()
        os._exit(0)

def deaf():
    for number in range(1, 32):
        if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN)

def guards():
    def guard():
        other = os.getppid()
        while time.monotonic() < LIMIT:
            if os.getppid() != other:
                other = os.getppid()
                forked(guard)
            time.sleep(0.01)
    forked(guard)
    wait()

def spawns_at_exit():
    def again(*_):
        forked(lambda: (signal.signal(signal.SIGTERM, signal.SIG_IGN), os.setsid(), wait()))
        os._exit(0)
    signal.signal(signal.SIGTERM, again)
    signal.signal(signal.SIGHUP, again)
    wait()

def bomb():
    def room():
        with open(folder + '/count', 'ab') as count:
            count.write(b'x')
            count.flush()
            return os.fstat(count.fileno()).st_size <= 24
    while time.monotonic() < LIMIT:
        if room() and os.fork() == 0:
            os.setsid()
            continue
        up()
        time.sleep(0.01)

def busy():
    up()
    while time.monotonic() < LIMIT:
        pass

def holds_output():
    while time.monotonic() < LIMIT:
        try:
            os.write(1, b'.')
        except OSError:
            pass
        up()
        time.sleep(0.01)

def stopped():
    up()
    os.kill(os.getpid(), signal.SIGSTOP)
    wait()

def other_program(name, environment):
    up()
    text = f'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); sleep 0.1; done # {marker}'
    os.execve('/bin/sh', [name, '-c', text], environment)

def act():
    {'sleeps': wait, 'deaf': lambda: (deaf(), wait()), 'busy': busy, 'stopped': stopped,
     'holds_output': holds_output,
     'renamed': lambda: other_program('[kworker/0:1]', dict(os.environ)),
     'no_environment': lambda: other_program('sh', {}), 'guards': guards,
     'spawns_at_exit': spawns_at_exit, 'bomb': bomb}[deed]()

def in_session():
    os.setsid()
    act()

def sessions():
    for _ in range(5):
        if os.fork():
            os._exit(0)
        os.setsid()
        time.sleep(0.01)
    act()

def closed():
    os.closerange(0, 64)
    in_session()

def grouped():
    os.setpgid(0, 0)
    act()

def nohup():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.dup2(os.open('/dev/null', os.O_RDWR), 1)
    act()

def chain():
    left = int(os.environ.get('LINKS', 4))
    if left:
        os.environ['LINKS'] = str(left - 1)
        os.execv(sys.executable, [*ME, 'exec_chain', deed, 'link', folder, marker])
    in_session()

if end == 'link':
    chain()
elif way == 'from_a_thread':
    thread = threading.Thread(target=lambda: forked(in_session))
    thread.start()
    thread.join()
else:
    forked({'child': act, 'double_fork': lambda: forked(act), 'setsid': in_session,
            'daemon': lambda: (os.setsid(), forked(in_session)), 'nohup': nohup,
            'own_group': grouped, 'exec_chain': chain, 'sessions_in_a_loop': sessions,
            'closed': closed}[way])
while not os.path.exists(folder + '/up') and time.monotonic() < LIMIT:
    time.sleep(0.005)
if end == 'stays':
    deaf()
    wait()
os._exit(0)
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """One fixture, and where it lays its files."""

    way: str
    deed: str
    end: str
    folder: Path

    def argv(self, marker: str) -> tuple[str, ...]:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "up").unlink(missing_ok=True)
        facts = (self.way, self.deed, self.end, str(self.folder), marker)
        return (*ALONE, "-c", FIXTURE, *facts)

    @property
    def was_up(self) -> bool:
        return (self.folder / "up").exists()


def trials(folder: Path, step: int = 1) -> list[Trial]:
    chosen = ALL[:: step if step > 1 else 1]
    return [Trial(*facts, folder / "-".join(facts)) for facts in chosen]


def alive(marked: Marked) -> set[int]:
    """What lives by its environment or, where that was wiped, by its arguments."""
    return {*marked.alive(), *_by_arguments(marked.marker)} - {os.getpid()}


def _by_arguments(marker: str) -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (entry / "cmdline").read_bytes():
                yield int(entry.name)
        except OSError:
            continue


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[Marked]:
    found = Marked(tmp_path)
    yield found
    for pid in alive(found):
        os.kill(pid, 9)


def seen(trial: Trial, survivors: Sequence[str]) -> bool:
    """Whether it was seen to leave something. Who stops in a group of its own is hung up on by the
    kernel once nobody is left to wake it."""
    return bool(survivors) or (trial.way, trial.deed) == ("own_group", "stopped")


Run = Callable[[CommandDriver, Trial, Marked], bool]


def as_test(driver: CommandDriver, trial: Trial, marked: Marked) -> bool:
    """Returns True if it was seen to leave something, or to stay until its time was up."""
    for limit_s in LIMITS_S:
        limits = CommandLimits(limit_s, marked.env, None)
        argv = list(trial.argv(marked.marker))
        result = driver.run_bounded(argv, str(marked.folder), limits)
        was_seen = result.timed_out if trial.end == "stays" else seen(trial, result.survivors)
        if trial.was_up and was_seen:
            return True
    return False


def as_agent(driver: CommandDriver, trial: Trial, marked: Marked) -> bool:
    """The same of an agent, whose time limit is the driver's."""
    for limit_s in LIMITS_S:
        argv = trial.argv(marked.marker)
        own = CommandDriver(argv, environ=marked.env, env=[MARKER], timeout_s=limit_s)
        request = WorkerRequest("", workdir=str(marked.folder), scratch=trial.folder / "scratch")
        result = own.dispatch_worker(request)
        was_seen = not result.ok if trial.end == "stays" else seen(trial, result.survivors)
        if trial.was_up and was_seen:
            return True
    return False


def run_all(marked: Marked, chosen: Sequence[Trial], run: Run) -> list[Trial]:
    """Run them, a few at once; those that were not seen."""
    driver = CommandDriver(("true",), environ=marked.env)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        seen = list(pool.map(lambda trial: run(driver, trial, marked), chosen))
    return [trial for trial, told in zip(chosen, seen, strict=True) if not told]


def check(marked: Marked, chosen: Sequence[Trial], run: Run) -> None:
    unseen = run_all(marked, chosen, run)
    gone = eventually(lambda: not alive(marked), within_s=WITHIN_S)
    print(  # noqa: T201
        f"\nmeasure=process_fixtures side={run.__name__} tried={len(chosen)} "
        f"unseen={len(unseen)} alive={len(alive(marked))} target=0"
    )
    assert [trial for trial in chosen if not trial.was_up] == []
    assert gone, [Path(f"/proc/{pid}/cmdline").read_bytes()[-120:] for pid in alive(marked)]
    assert unseen == []


@pytest.mark.parametrize("run", [as_test, as_agent])
def test_nothing_outlives_its_run(marked: Marked, run: Run) -> None:
    check(marked, trials(marked.folder, EVERY * 2 + 1), run)


@pytest.mark.sweep
@pytest.mark.parametrize("run", [as_test, as_agent])
def test_nothing_outlives_its_run_sweep(marked: Marked, run: Run) -> None:
    assert len(ALL) >= 200
    check(marked, trials(marked.folder), run)


OWNER = """
import json, sys, threading
from pathlib import Path
from driver.execution.processes import Command, Processes
given = json.load(sys.stdin)
processes = Processes()
for argv in given['argvs']:
    command = Command(tuple(argv), Path(given['folder']), given['env'], None)
    threading.Thread(target=processes.run, args=(command,), daemon=True).start()
print('started', flush=True)
threading.Event().wait()
"""


def kill_owner_of(marked: Marked, chosen: Sequence[Trial]) -> None:
    """Start them below an orchestrator of their own, and kill it when all are under way."""
    argvs = [trial.argv(marked.marker) for trial in chosen]
    given = {"argvs": argvs, "folder": str(marked.folder), "env": marked.env}
    with subprocess.Popen(
        [*PYTHON, "-c", OWNER],
        env={"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as owner:
        assert owner.stdin is not None
        owner.stdin.write(json.dumps(given).encode())
        owner.stdin.close()
        assert eventually(lambda: all(trial.was_up for trial in chosen), within_s=60)
        owner.kill()
        owner.wait()
    assert eventually(lambda: not alive(marked), within_s=WITHIN_S), len(alive(marked))


def test_nothing_outlives_a_killed_orchestrator(marked: Marked) -> None:
    kill_owner_of(marked, trials(marked.folder, EVERY * 3 + 1))


@pytest.mark.sweep
def test_nothing_outlives_a_killed_orchestrator_sweep(marked: Marked) -> None:
    chosen = trials(marked.folder)
    for start in range(0, len(chosen), AT_ONCE):
        kill_owner_of(marked, chosen[start : start + AT_ONCE])
    print(f"\nmeasure=process_fixtures side=killed tried={len(chosen)} alive=0 target=0")  # noqa: T201
