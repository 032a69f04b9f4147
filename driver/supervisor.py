"""The program that stands between Tidegate and one process tree, and leaves nothing of it behind.

`driver.process` starts one per run, with `python -I -S`. It owns starting the leader, adopting
orphans, and ending the tree; it does not own time limits or output, which go past it into files.

stdin: twelve digits, then that many bytes of order (`Order`). After it the byte `e` ends the tree
gently, `k` at once, and end-of-file (the orchestrator died) within half a second.
stdout: lines `started PID` or `could_not_start ERRNO`; `ending 1` when it was not the leader's own
end; `exit CODE` (negative for a signal), `survivors N`, `left N` (could not be ended).
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the enums of `signal` cost 4 of 10 ms
import errno
import os
import select
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
HEADER_DIGITS = 12
# A helper that notices the end of its parent (a resource tracker, the other side of a pipe) gets
# this long to leave by itself before it counts as left running.
SETTLE_S = 0.3
ORPHANED_GRACE_S = 0.5
KILL_LIMIT_S = 2.0
POLL_S = 0.05

ENDED_BY_ORDER = "order"
ENDED_AT_ONCE = "at_once"
ENDED_AS_ORPHAN = "orphaned"
ENDED_BY_SIGNAL = "signal"


class Order:
    """What to run: fields joined by NUL, which no argument and no variable can hold."""

    def __init__(self, fields: list[bytes]) -> None:
        self.first_signal = int(fields[0])
        self.grace_s = float(fields[1])
        self.streams = [int(fd) for fd in fields[2:5]]
        count = int(fields[5])
        self.argv = fields[6 : 6 + count]
        self.env = dict(field.split(b"=", 1) for field in fields[6 + count :])


class Inbox:
    """Everything that can wake the supervisor: its orders, and signals sent to it."""

    def __init__(self) -> None:
        self._signals, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self._sources = [self._signals, 0]

    def wait(self, timeout_s: float | None) -> str:
        """Why the tree has to end, or "" for news of children and for no news at all."""
        ready = select.select(self._sources, [], [], timeout_s)[0]
        asked = self._order() if 0 in ready else ""
        told = set(os.read(self._signals, 512)) if self._signals in ready else set()
        return asked or (ENDED_BY_SIGNAL if told - {signal.SIGCHLD} else "")

    def _order(self) -> str:
        given = os.read(0, 64)
        if not given:
            self._sources.remove(0)
            return ENDED_AS_ORPHAN
        return ENDED_AT_ONCE if b"k" in given else ENDED_BY_ORDER


class Tree:
    """The leader and all that descends from it.

    When `adopting`, orphans become our children, so "no child left" is "no descendant left".
    """

    def __init__(self, leader: int, adopting: bool) -> None:
        self.leader = leader
        self.adopting = adopting
        self.exit_code: int | None = None

    def gone(self) -> bool:
        """Collect the dead, and say whether nothing is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return self.adopting or not self.members()
            if pid == 0:
                return False
            if pid == self.leader:
                self.exit_code = os.waitstatus_to_exitcode(status)

    def members(self) -> list[int]:
        """The living, as far as this system lets us see them."""
        if self.adopting:
            return descendants(os.getpid())
        return listed_members(process_list(), os.getpid(), self.leader)

    def signal_once(self, number: int) -> None:
        """Signal the leader's group, and each member outside it, so that nobody hears it twice."""
        outside = [pid for pid in self.members() if group_of(pid) != self.leader]
        if self.exit_code is None:
            send_group(self.leader, number)
        for pid in outside:
            send(pid, number)

    def kill(self, inbox: Inbox) -> tuple[int, int]:
        """Kill until nothing is left: how many besides the leader, and how many would not die."""
        killed: set[int] = set()
        deadline = time.monotonic() + KILL_LIMIT_S
        while not self.gone():
            if time.monotonic() > deadline:
                return len(killed - {self.leader}), len(self.members())
            stopped = self._stop_all(deadline)
            killed |= {pid for pid in stopped if not is_zombie(pid)}
            for pid in stopped:
                send(pid, signal.SIGKILL)
            inbox.wait(POLL_S)
        return len(killed - {self.leader}), 0

    def _stop_all(self, deadline: float) -> set[int]:
        # A fork bomb outruns one sweep of kills; what is stopped cannot fork.
        stopped: set[int] = set()
        while (new := set(self.members()) - stopped) and time.monotonic() < deadline:
            for pid in new:
                send(pid, signal.SIGSTOP)
            stopped |= new
        return stopped


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, zombies too; needs Linux's /proc."""
    found = children(pid)
    for child in found:  # grows while it is walked
        found += children(child)
    return found


def children(pid: int) -> list[int]:
    """The direct children of a process, whichever of its threads started them."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - pathlib costs start-up time
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as listing:  # noqa: PTH123
                found += map(int, listing.read().split())
    except OSError:
        return found  # it ended while we looked
    return found


def is_zombie(pid: int) -> bool:
    """True for a process that is dead and only waits to be collected, or is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123
            return stat.read().rpartition(b") ")[2][:1] in (b"Z", b"X")
    except OSError:
        return os.path.isdir("/proc/self")  # noqa: PTH112 - elsewhere `ps` left zombies out already


def process_list() -> list[tuple[int, int, int]]:
    """Process, parent and group of all that live, from `ps`; for systems without Linux's /proc."""
    reading, writing = os.pipe()
    argv = ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="]
    to_pipe = [(os.POSIX_SPAWN_DUP2, writing, 1)]
    ps = os.posix_spawn("/bin/ps", argv, {"LC_ALL": "C"}, file_actions=to_pipe)
    os.close(writing)
    with open(reading, "rb") as listing:  # noqa: PTH123
        rows = [line.split() for line in listing]
    os.waitpid(ps, 0)
    living = [row for row in rows if len(row) == 4 and not row[3].startswith(b"Z")]
    found = [(int(pid), int(parent), int(group)) for pid, parent, group, _ in living]
    return [row for row in found if row[0] != ps]


def listed_members(rows: list[tuple[int, int, int]], root: int, group: int) -> list[int]:
    """Those below `root`, those of the process group, and all that is below them."""
    found = {pid for pid, parent, its_group in rows if its_group == group or parent == root}
    while new := {pid for pid, parent, _ in rows if parent in found} - found:
        found |= new
    return sorted(found)


def group_of(pid: int) -> int | None:
    """The process group, or None when the process is gone or not ours to ask about."""
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def send(pid: int, number: int) -> None:
    """Signal a process that may be gone, or may have become another user's."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def send_group(group: int, number: int) -> None:
    """Signal a process group that may be gone."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def adopt_orphans() -> bool:
    """Become the parent of every orphan below us; False where the system cannot."""
    if sys.platform != "linux" or not os.path.exists(  # noqa: PTH110
        f"/proc/self/task/{os.getpid()}/children"
    ):
        return False
    try:
        import ctypes  # noqa: PLC0415 - a third of the start-up time, and missing in some builds
    except ImportError:
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def read_order() -> Order | None:
    """The order from stdin and not one byte more; None when nobody is there to give one."""
    header = read_exactly(HEADER_DIGITS)
    body = read_exactly(int(header)) if header else b""
    return Order(body.split(b"\0")) if body else None


def read_exactly(size: int) -> bytes:
    """`size` bytes of stdin, or b"" when it ended before."""
    got = b""
    while len(got) < size:
        chunk = os.read(0, size - len(got))
        if not chunk:
            return b""
        got += chunk
    return got


def candidates(program: bytes, search_path: bytes) -> list[bytes]:
    """Where a program may be, as execvp would look for it."""
    if b"/" in program:
        return [program]
    return [(folder or b".") + b"/" + program for folder in search_path.split(b":")]


def start(order: Order) -> int:
    """Start the leader in a session of its own, holding its three streams only; OSError if not."""
    for fd in order.streams:
        os.set_inheritable(fd, False)
    denied: OSError | None = None
    for program in candidates(order.argv[0], order.env.get(b"PATH", os.fsencode(os.defpath))):
        try:
            return os.posix_spawn(
                program,
                order.argv,
                order.env,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate(order.streams)],
                setsid=True,
                setsigmask=(),
                setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as problem:
            denied = problem
    raise denied or FileNotFoundError(errno.ENOENT, "not found")


def tell(fact: str, value: int) -> None:
    """One line to the orchestrator, who may be gone."""
    try:
        os.write(1, f"{fact} {value}\n".encode())
    except BrokenPipeError:
        return


def until_asked(tree: Tree, inbox: Inbox) -> str:
    """Wait for the leader's own end ("") or for a reason to end it."""
    asked = ""
    while not tree.gone() and tree.exit_code is None and not asked:
        asked = inbox.wait(None)
    return asked if tree.exit_code is None else ""


def linger(tree: Tree, inbox: Inbox, grace_s: float) -> None:
    """Let the tree end by itself, for `grace_s` seconds at most."""
    deadline = time.monotonic() + grace_s
    while not tree.gone() and (left := deadline - time.monotonic()) > 0:
        asked = inbox.wait(left if tree.adopting else min(left, POLL_S))
        if asked == ENDED_AT_ONCE:
            return
        if asked == ENDED_AS_ORPHAN:
            deadline = min(deadline, time.monotonic() + ORPHANED_GRACE_S)


def grace_for(asked: str, order: Order) -> float:
    """How long the tree may take after the first signal."""
    limits = {ENDED_AT_ONCE: 0.0, ENDED_AS_ORPHAN: ORPHANED_GRACE_S}
    return min(order.grace_s, limits.get(asked, order.grace_s))


def supervise(order: Order, adopting: bool) -> None:
    """Run the order to its end and tell how it went."""
    inbox = Inbox()
    try:
        tree = Tree(start(order), adopting)
    except OSError as problem:
        tell("could_not_start", problem.errno or errno.EINVAL)
        return
    for fd in order.streams:
        os.close(fd)
    tell("started", tree.leader)
    asked = until_asked(tree, inbox)
    if asked:
        tell("ending", 1)
        tree.signal_once(order.first_signal)
    linger(tree, inbox, grace_for(asked, order) if asked else SETTLE_S)
    survivors, left = tree.kill(inbox)
    if tree.exit_code is not None:
        tell("exit", tree.exit_code)
    tell("survivors", survivors)
    tell("left", left)


if __name__ == "__main__":
    given = read_order()
    if given is not None:
        supervise(given, adopting="--without-adoption" not in sys.argv and adopt_orphans())
    os._exit(0)  # nothing to clean up, and the orchestrator is waiting for our end
