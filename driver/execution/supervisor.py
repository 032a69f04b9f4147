"""Supervises one process tree, and ends every process of it.

The fork server forks a process for each run, which calls `main`. The supervisor starts the leader,
adopts orphans and ends the tree. The orchestrator watches the time limits. Output goes into files.

stdin is a socket: twelve digits, then that many bytes of order (`Order`). After the order the byte
`e` ends the tree with grace, `k` at once, and end-of-file (the orchestrator died) within half a
second. stdout is the same socket: lines `supervisor PID`, `started PID` or `could_not_enter ERRNO`
(the folder) or `could_not_start ERRNO`; `ending 1` if the leader did not end by itself; `exit CODE`
(negative for a signal), `survivor PID HEX` (its command line) for the first few, `survivors N`,
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
from _collections_abc import Callable  # as the public module does

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

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
HEADER_DIGITS = 12
# A helper process that ends after its parent (a resource tracker, the other side of a pipe) gets
# this long before it counts as left running.
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
    """A command to run. Its fields are joined by NUL, which no argument or variable can hold."""

    def __init__(self, fields: list[bytes]) -> None:
        self.first_signal = int(fields[0])
        self.grace_s = float(fields[1])
        self.cwd = fields[2]
        rules = 5 + int(fields[3])
        command = rules + int(fields[4])
        self.wall = fields[5:rules]
        self.argv = fields[rules:command]
        self.env = dict(field.split(b"=", 1) for field in fields[command:])


class Inbox:
    """Waits for orders, for signals and for the end of the fork server."""

    def __init__(self, fork_server: int) -> None:
        self._fork_server = fork_server
        self._signals = wake_on(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        self._sources = [self._signals, 0, fork_server]

    def wait(self, timeout_s: float | None) -> str:
        """The reason to end the tree; "" after a child's signal or at the time limit."""
        ready = select.select(self._sources, [], [], timeout_s)[0]
        asked = self._order() if 0 in ready else ""
        if self._fork_server in ready:
            self._sources.remove(self._fork_server)
            asked = asked or ENDED_AS_ORPHAN
        numbers = set(os.read(self._signals, 512)) if self._signals in ready else set()
        return asked or (ENDED_BY_SIGNAL if numbers - {signal.SIGCHLD} else "")

    def _order(self) -> str:
        """The byte that has arrived; end-of-file means that the orchestrator died."""
        given = read(64)
        if not given:
            self._sources.remove(0)
            return ENDED_AS_ORPHAN
        return ENDED_AT_ONCE if b"k" in given else ENDED_BY_ORDER


def wake_on(*numbers: int) -> int:
    """A file descriptor that receives a byte at each of these signals."""
    # Sockets, because other processes can open a pipe through /proc, and read it or hold it open.
    signals, wake = (end.detach() for end in _socket.socketpair())
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    return signals


class Tree:
    """The leader and all its descendants.

    If `adopting`, orphans become children of this process, so no child means no descendant.
    """

    def __init__(self, leader: int, adopting: bool) -> None:
        self.leader = leader
        self.adopting = adopting
        self.exit_code: int | None = None

    def gone(self) -> bool:
        """Collect dead children; True if no process is left."""
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
        """The living processes that this system shows."""
        if self.adopting:
            return descendants(os.getpid())
        return listed_members(process_list(), os.getpid(), self.leader)

    def signal_once(self, number: int) -> None:
        """Signal the leader's group and each member outside it, each process once."""
        outside = [pid for pid in self.members() if group_of(pid) != self.leader]
        if self.exit_code is None:
            send_group(self.leader, number)
        for pid in outside:
            send(pid, number)

    def kill(self, inbox: Inbox) -> tuple[dict[int, bytes], int]:
        """Kill all processes. Returns the victims except the leader, and the number that remain."""
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
    """A function that makes its caller the parent of orphaned descendants; False if it fails."""
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


def hide_memory() -> None:
    """Keep other processes of the same user from the memory, the files and the variables of this
    one. What it starts has that for itself again; a fork of it has not."""
    if sys.platform == "linux":
        try:
            import ctypes  # noqa: PLC0415 - missing in some builds
        except ImportError:
            return
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def read_order() -> Order | None:
    """Read the order from stdin, and no byte after it; None at end-of-file."""
    header = read_exactly(HEADER_DIGITS)
    body = read_exactly(int(header)) if header else b""
    return Order(body.split(b"\0")) if body else None


def read_exactly(size: int) -> bytes:
    """`size` bytes of stdin; b"" if it ends early."""
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
    except ConnectionResetError:  # the orchestrator ended before it read all facts
        return b""


def candidates(program: bytes, search_path: bytes) -> list[bytes]:
    """The paths that execvp would try."""
    if b"/" in program:
        return [program]
    return [(folder or b".") + b"/" + program for folder in search_path.split(b":")]


def start(order: Order, streams: list[int]) -> int:
    """Start the leader in a new session with its three streams. Raises OSError."""
    denied: OSError | None = None
    programs = candidates(order.argv[0], order.env.get(b"PATH", os.fsencode(os.defpath)))
    if order.wall:
        return start_inside(order, streams, programs)
    for program in programs:
        try:
            os.stat(program)  # noqa: PTH116 - much cheaper than a failed start
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


def load_walls() -> None:
    """Import the entry to walls before the forks, so that no run has to."""
    if sys.platform == "linux":
        try:
            import driver.execution.wall_entry  # noqa: F401, PLC0415 - no ctypes in some builds
        except ImportError:
            return


def start_inside(order: Order, streams: list[int], programs: list[bytes]) -> int:
    """Start the leader inside of its wall, as `start` does outside. Raises OSError."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for n, fd in enumerate(streams):
            os.dup2(fd, n)
        from driver.execution import wall_entry  # noqa: PLC0415 - as in `load_walls`

        wall_entry.start(
            [os.fsdecode(word) for word in order.wall], order.argv, order.env, programs
        )
    finally:
        os._exit(126)


def report(fact: str, value: int | str) -> None:
    """Write a fact to the orchestrator, which may have ended."""
    try:
        os.write(1, f"{fact} {value}\n".encode())
    except ConnectionError:
        return


def until_asked(tree: Tree, inbox: Inbox) -> str:
    """Wait until the leader ends by itself (""), or for a reason to end it."""
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
    """Supervise one run. `fork_server` reads end-of-file when the fork server ends."""
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
