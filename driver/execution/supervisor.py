"""Supervises one process tree, and leaves nothing of it behind.

The fork server forks a process for each run, which calls `main`. The supervisor starts the leader,
adopts orphans and ends the tree; time limits are the orchestrator's, and output goes into files.

stdin, a socket: twelve digits, then that many bytes of order (`Order`). After it the byte `e` ends
the tree gently, `k` at once, and end-of-file (the orchestrator died) within half a second.
stdout, the same socket: lines `supervisor PID`, `started PID` or `could_not_enter ERRNO` (the
folder) or `could_not_start ERRNO`; `ending 1` when it was not the leader's own end; `exit CODE`
(negative for a signal), `survivor PID HEX` (its command line) for each of the first, `survivors N`,
`left N` (could not be ended).
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` itself costs time and memory
import _socket  # the same holds for `socket`
import errno
import os
import select
import sys
import time
from _collections_abc import Callable  # so does the public module

from driver.execution.process_table import (
    descendants,
    group_of,
    is_zombie,
    listed_members,
    name_of,
    process_list,
    send,
    send_group,
    stop_all,
)

PR_SET_CHILD_SUBREAPER = 36
HEADER_DIGITS = 12
# A helper that notices the end of its parent (a resource tracker, the other side of a pipe) gets
# this long to end by itself before it counts as left running.
SETTLE_S = 0.5
ORPHANED_GRACE_S = 0.5
KILL_LIMIT_S = 2.0
MAX_NAMED = 20
POLL_S = 0.05

ENDED_BY_ORDER = "order"
ENDED_AT_ONCE = "at_once"
ENDED_AS_ORPHAN = "orphaned"
ENDED_BY_SIGNAL = "signal"


class Order:
    """A command to run: fields joined by NUL, which no argument and no variable can hold."""

    def __init__(self, fields: list[bytes]) -> None:
        self.first_signal = int(fields[0])
        self.grace_s = float(fields[1])
        self.cwd = fields[2]
        count = int(fields[3])
        self.argv = fields[4 : 4 + count]
        self.env = dict(field.split(b"=", 1) for field in fields[4 + count :])


class Inbox:
    """All that can wake the supervisor: its orders, signals, and the end of the fork server."""

    def __init__(self, fork_server: int) -> None:
        self._fork_server = fork_server
        self._signals = wake_on(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        self._sources = [self._signals, 0, fork_server]

    def wait(self, timeout_s: float | None) -> str:
        """The reason why the tree has to end; "" for a signal of a child and for none."""
        ready = select.select(self._sources, [], [], timeout_s)[0]
        asked = self._order() if 0 in ready else ""
        if self._fork_server in ready:
            self._sources.remove(self._fork_server)
            asked = asked or ENDED_AS_ORPHAN
        numbers = set(os.read(self._signals, 512)) if self._signals in ready else set()
        return asked or (ENDED_BY_SIGNAL if numbers - {signal.SIGCHLD} else "")

    def _order(self) -> str:
        """The order that has arrived; end-of-file means that the orchestrator died."""
        given = read(64)
        if not given:
            self._sources.remove(0)
            return ENDED_AS_ORPHAN
        return ENDED_AT_ONCE if b"k" in given else ENDED_BY_ORDER


def wake_on(*numbers: int) -> int:
    """A descriptor on which a byte arrives with each of these signals."""
    # Sockets, because a pipe can be opened by others through /proc, and read empty or held open.
    signals, wake = (end.detach() for end in _socket.socketpair())
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    return signals


class Tree:
    """The leader and all that descends from it.

    When `adopting`, orphans become our children, so "no child left" is "no descendant left".
    """

    def __init__(self, leader: int, adopting: bool) -> None:
        self.leader = leader
        self.adopting = adopting
        self.exit_code: int | None = None

    def gone(self) -> bool:
        """Collect dead children; returns True if nothing is left."""
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
        """The living processes, as far as this system shows them."""
        if self.adopting:
            return descendants(os.getpid())
        return listed_members(process_list(), os.getpid(), self.leader)

    def signal_once(self, number: int) -> None:
        """Signal the leader's group, and each member outside it, so that none gets it twice."""
        outside = [pid for pid in self.members() if group_of(pid) != self.leader]
        if self.exit_code is None:
            send_group(self.leader, number)
        for pid in outside:
            send(pid, number)

    def kill(self, inbox: Inbox) -> tuple[dict[int, bytes], int]:
        """Kill until nothing is left; returns the victims but the leader, and how many remain."""
        killed: dict[int, bytes] = {}
        deadline = time.monotonic() + KILL_LIMIT_S
        while not self.gone():
            if time.monotonic() > deadline:
                return killed, len(self.members())
            stopped = stop_all(self.members, deadline)
            for pid in stopped - killed.keys() - {self.leader}:
                if not is_zombie(pid):
                    killed[pid] = name_of(pid) if len(killed) < MAX_NAMED else b""
            for pid in stopped:
                send(pid, signal.SIGKILL)
            inbox.wait(POLL_S)
        return killed, 0


def way_to_adopt() -> Callable[[], bool]:
    """A function that makes its caller the parent of every orphan below it; False if it cannot."""
    if sys.platform != "linux" or not os.path.exists(  # noqa: PTH110
        f"/proc/self/task/{os.getpid()}/children"
    ):
        return lambda: False
    try:
        import ctypes  # noqa: PLC0415 - missing in some builds
    except ImportError:
        return lambda: False
    prctl = ctypes.CDLL(None).prctl
    return lambda: bool(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def read_order() -> Order | None:
    """The order from stdin and not one byte more; None at end-of-file."""
    header = read_exactly(HEADER_DIGITS)
    body = read_exactly(int(header)) if header else b""
    return Order(body.split(b"\0")) if body else None


def read_exactly(size: int) -> bytes:
    """`size` bytes of stdin, or b"" when it ended before."""
    got = b""
    while len(got) < size:
        chunk = read(size - len(got))
        if not chunk:
            return b""
        got += chunk
    return got


def read(size: int) -> bytes:
    """Read at most `size` bytes from stdin; b"" at its end."""
    try:
        return os.read(0, size)
    except ConnectionResetError:  # the other side ended before it had read all facts
        return b""


def candidates(program: bytes, search_path: bytes) -> list[bytes]:
    """The paths at which execvp would look for a program."""
    if b"/" in program:
        return [program]
    return [(folder or b".") + b"/" + program for folder in search_path.split(b":")]


def start(order: Order, streams: list[int]) -> int:
    """Start the leader in a session of its own, holding its three streams only; OSError if not."""
    denied: OSError | None = None
    for program in candidates(order.argv[0], order.env.get(b"PATH", os.fsencode(os.defpath))):
        try:
            os.stat(program)  # noqa: PTH116 - much cheaper than a start that fails
            return os.posix_spawn(
                program,
                order.argv,
                order.env,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate(streams)],
                setsid=True,
                setsigmask=(),
                setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as problem:
            denied = problem
    raise denied or FileNotFoundError(errno.ENOENT, "not found")


def report(fact: str, value: int | str) -> None:
    """Write a fact to the orchestrator, which may be gone."""
    try:
        os.write(1, f"{fact} {value}\n".encode())
    except ConnectionError:
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
    """Seconds that the tree may take after the first signal."""
    limits = {ENDED_AT_ONCE: 0.0, ENDED_AS_ORPHAN: ORPHANED_GRACE_S}
    return min(order.grace_s, limits.get(asked, order.grace_s))


def supervise(order: Order, streams: list[int], inbox: Inbox, adopting: bool) -> None:
    """Run the order to its end and report the facts."""
    try:
        tree = Tree(start(order, streams), adopting)
    except OSError as problem:
        report("could_not_start", problem.errno or errno.EINVAL)
        return
    for fd in streams:
        os.close(fd)
    report("started", tree.leader)
    asked = until_asked(tree, inbox)
    if asked:
        report("ending", 1)
        tree.signal_once(order.first_signal)
    linger(tree, inbox, grace_for(asked, order) if asked else SETTLE_S)
    survivors, left = tree.kill(inbox)
    if tree.exit_code is not None:
        report("exit", tree.exit_code)
    for pid, name in sorted(survivors.items())[:MAX_NAMED]:
        report(f"survivor {pid}", name.hex() or "-")
    report("survivors", len(survivors))
    report("left", left)


def main(streams: list[int], fork_server: int, adopt: Callable[[], bool]) -> None:
    """Be the supervisor of one run; `fork_server` is a descriptor that ends with that program."""
    inbox = Inbox(fork_server)
    order = read_order()
    if order is None:
        return
    report("supervisor", os.getpid())
    try:
        os.chdir(order.cwd)
    except OSError as problem:
        report("could_not_enter", problem.errno or errno.EINVAL)
        return
    supervise(order, streams, inbox, adopt())
