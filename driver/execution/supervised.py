"""Supervised process trees, and the fork server that starts the supervisors of one owner.

This is the orchestrator's side of `fork_server` and `supervisor`: it sends orders and receives
facts. It believes a supervisor's facts only after the fork server saw the supervisor end by itself.
"""

from __future__ import annotations

import math
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path

from driver.execution import fork_server, process_table, supervisor
from driver.execution.command import Command
from driver.execution.process_tree import STUCK_AFTER_S, ProcessTree
from driver.execution.streams import Streams
from driver.terminal.safe_text import safe_line

# Generous, because many forks may wait for few processors. A stopped fork server is continued.
START_LIMIT_S = 30.0
LEAVE_S = 1.0  # for a fork server to end by itself
_FACT = re.compile(
    rb"(supervisor|started|could_not_enter|could_not_start|ending|exit|survivors|left|reaped)"
    rb" (-?\d{1,10})"
)
_SURVIVOR = re.compile(rb"survivor (\d{1,10}) (-|(?:[0-9a-f]{2})+)")


class ForkServer:
    """The process that starts the supervisors of one owner. It is started at its first use.

    Thread safe. The fork server ends with this object, with the interpreter, and if the
    orchestrator is killed. If another process ends it, the next run starts a new fork server.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # never taken by a signal handler
        self._requests: socket.socket | None = None
        self._wake = _nothing
        self._leave = _nothing

    def supervise(self, streams: Streams) -> socket.socket:
        """Start a supervisor; returns the socket for its order. Raises OSError."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._give((theirs.fileno(), *streams.fds()))
        except BaseException:
            ours.close()
            raise
        return ours

    def make_ready(self) -> None:
        """Start the fork server before its first use."""
        with self._lock, suppress(OSError):  # the run that needs it reports the error
            if self._requests is None:
                self._start()

    def wake(self) -> None:
        """Continue the fork server, in case another process stopped it."""
        self._wake()

    def last_words(self) -> str:
        """The last line that a failed fork server printed, or ""."""
        printed = b""
        if self._requests is not None:
            with suppress(OSError):
                printed = self._requests.recv(65_536, socket.MSG_DONTWAIT)
        return printed.decode("utf-8", "replace").strip().rpartition("\n")[2]

    def _give(self, fds: tuple[int, ...]) -> None:
        with self._lock:
            if self._requests is None or not _sent(self._requests, fds):
                self._start()
                assert self._requests
                _sent(self._requests, fds)  # if the new fork server has ended too, the run is lost

    def _start(self) -> None:
        self._requests = None
        self._leave()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                child = _program(theirs.fileno())
            except BaseException:
                ours.close()
                raise
        ours.settimeout(START_LIMIT_S)
        self._wake = lambda: child.send_signal(signal.SIGCONT)
        self._leave = weakref.finalize(self, _leave, ours, child)
        self._requests = ours


def _program(requests: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", fork_server.__file__],
        cwd="/",
        env=_server_environment(),
        stdin=requests,
        stdout=requests,
        stderr=requests,
        start_new_session=True,
    )


def _sent(requests: socket.socket, fds: tuple[int, ...]) -> bool:
    with suppress(ConnectionError, TimeoutError):  # the fork server has ended, or is stuck
        socket.send_fds(requests, [b"r"], fds)
        return True
    return False


def _nothing() -> None:
    """Does nothing: wakes and ends a fork server that was not started."""


def _leave(requests: socket.socket, child: subprocess.Popen[bytes]) -> None:
    requests.close()
    with suppress(subprocess.TimeoutExpired):
        child.wait(LEAVE_S)
    child.kill()
    child.wait()


@cache
def _server_environment() -> dict[str, str]:
    # A relocated Python finds its library by these. No other variable, as the tree can read /proc.
    library = Path(sys.base_exec_prefix, "lib")
    found = any(library.glob("libpython3*.so*"))
    return {"LD_LIBRARY_PATH": str(library)} if found else {}


class Supervised(ProcessTree):
    """A process tree with a supervisor. One socket carries orders and facts."""

    def __init__(self, command: Command, streams: Streams, name: str, starter: ForkServer) -> None:
        super().__init__(command, streams, name)
        self._starter = starter
        self._give_up_at = self.started + START_LIMIT_S
        self._over = False
        self._unread = b""
        self._channel = starter.supervise(streams)
        self._channel.settimeout(START_LIMIT_S)
        self._poll = select.poll()
        self._poll.register(self._channel, select.POLLIN)
        with suppress(ConnectionError, TimeoutError):  # the run will end as LOST
            self._channel.sendall(_order(command))

    def _wait(self, timeout_s: float) -> bool:
        if not self._poll.poll(max(0, math.ceil(timeout_s * 1000))):
            if "supervisor" not in self.facts or "left" in self.facts:
                self._starter.wake()
            return False
        received = self._read()
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            if known := _FACT.fullmatch(line):
                self._learn(known[1].decode(), int(known[2]))
            elif survivor := _SURVIVOR.fullmatch(line):
                self.survivors.append(_named(int(survivor[1]), survivor[2]))
            else:  # an error message of the supervisor
                self._last_words = line.decode("utf-8", "replace").strip()
        self._over = not received
        if self._over and "supervisor" not in self.facts:
            self._last_words = self._last_words or self._starter.last_words()
        return self._over

    def _read(self) -> bytes:
        try:
            return self._channel.recv(65_536)
        except ConnectionResetError:  # the supervisor ended before it read the whole order
            return b""

    def _learn(self, fact: str, value: int) -> None:
        """Record a fact. The first fact ends the start limit; the last fact sets the end limit."""
        self.facts[fact] = value
        with self._lock:
            if fact == "supervisor" and not self._asked:
                self._give_up_at = math.inf
            if fact == "left":
                self._give_up_at = min(self._give_up_at, time.monotonic() + START_LIMIT_S)

    def _ask(self, order: bytes) -> None:
        with suppress(ConnectionError, BlockingIOError):
            self._channel.send(order, socket.MSG_DONTWAIT)

    def _release(self) -> None:
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
        patience = self.command.grace_s + STUCK_AFTER_S
        limit = min(self._give_up_at, time.monotonic() + patience)
        while not self._over and (left := limit - time.monotonic()) > 0:
            self._wait(left)
        # The facts of a supervisor count only if it ended by itself: its own tree may be able to
        # kill it.
        if self.facts.get("reaped") != 0:
            self._abandon()
        self._channel.close()

    def _abandon(self) -> None:
        self.facts.pop("exit", None)
        leader = self.facts.get("started", 0)
        ended = self._over or "reaped" in self.facts  # its PID may be reused by now
        its_supervisor = 0 if ended else self.facts.get("supervisor", 0)
        # A process may kill the supervisor before the leader is known, so kill the writers too.
        roots = {its_supervisor, leader, *self._streams.writers()} - {0}
        found = {pid for root in roots for pid in (root, *process_table.descendants(root))}
        if leader > 1:
            process_table.send_group(leader, signal.SIGKILL)
        for pid in found - {1, leader, its_supervisor, os.getpid()}:
            process_table.send(pid, signal.SIGKILL)
        if its_supervisor:
            process_table.send(its_supervisor, signal.SIGKILL)


def _named(pid: int, name_in_hex: bytes) -> str:
    """`COMMAND (PID)`, safe to print, because an agent chose the command line."""
    name = b"" if name_in_hex == b"-" else bytes.fromhex(name_in_hex.decode())
    return f"{safe_line(name.decode('utf-8', 'replace')) or 'a process'} ({pid})"


def _order(command: Command) -> bytes:
    """The command as `supervisor.Order` reads it."""
    numbers = (int(command.first_signal), command.grace_s, command.cwd.absolute())
    variables = (f"{name}={value}" for name, value in command.env.items())
    counts = (len(command.wall), len(command.argv))
    fields = (*numbers, *counts, *command.wall, *command.argv, *variables)
    body = b"\0".join(os.fsencode(str(field)) for field in fields)
    return b"%0*d" % (supervisor.HEADER_DIGITS, len(body)) + body
