"""The only door to other programs.

`capture` is for short trusted helpers such as git. `Processes.run` is for agents and tests: it
ends the whole tree on time-out, cancel or our own death, and never blocks on what the tree prints.
What happens below the leader is the business of `driver/supervisor.py`. Nothing here judges.
"""

from __future__ import annotations

import math
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from driver import supervisor
from driver.command import (
    Command,
    Ending,
    Finished,
    Running,
    child_environment,
    could_not_run_reason,
    unusable,
    why_not,
)
from driver.run_streams import Streams, kept_text, open_streams, write_all

__all__ = [
    "Captured",
    "Command",
    "Ending",
    "Finished",
    "Processes",
    "Running",
    "capture",
    "child_environment",
    "could_not_run_reason",
    "shell_argv",
]

ON_WINDOWS = os.name == "nt"
# A supervisor needs at most its own kill limit after the grace; past this it is stuck.
STUCK_AFTER_S = 3.0
POLL_S = 1.0  # how late a waiting thread may notice that its supervisor is stuck
DRAIN_S = 1.0
_FACT = re.compile(rb"(started|could_not_start|ending|exit|survivors|left) (-?\d{1,10})")


@dataclass(frozen=True, slots=True)
class Captured:
    """How a short, trusted helper program ended; both streams whole, as bytes."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """True for exit code 0."""
        return self.exit_code == 0 and not self.timed_out


def capture(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    stdin: bytes = b"",
) -> Captured:
    """Run a trusted program such as git and return what it printed.

    Raises FileNotFoundError when the program is missing. Agents and tests never come this way:
    they go through `Processes.run`, which can end a whole tree.
    """
    with subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        try:
            out, err = child.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _kill_group(child.pid)
            out, err = _drained(child)
            return Captured(tuple(argv), child.wait(), out, err, timed_out=True)
    return Captured(tuple(argv), child.returncode, out, err)


def _drained(child: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    # A helper of the helper, such as git's file watcher, may hold the pipes open for ever.
    try:
        return child.communicate(timeout=DRAIN_S)
    except subprocess.TimeoutExpired as late:
        return late.output or b"", late.stderr or b""


def shell_argv(command: str) -> tuple[str, ...]:
    """The arguments that run a string in a shell where a pipe is as red as its reddest part.

    Where no shell knows `pipefail` a plain `sh` runs it, and `cmd.exe` does on Windows.
    """
    return (*_shell(), command)


@cache
def _shell() -> tuple[str, ...]:
    if ON_WINDOWS:
        return ("cmd.exe", "/d", "/s", "/c")
    fixed = next((path for path in ("/bin/bash", "/usr/bin/bash") if Path(path).exists()), None)
    if bash := fixed or shutil.which("bash"):
        return (bash, "-o", "pipefail", "-c")
    strict = ("/bin/sh", "-o", "pipefail", "-c")
    known = capture((*strict, ":"), cwd=Path("/"), env={}, timeout_s=10).ok
    return strict if known else ("/bin/sh", "-c")


class Processes:
    """The running trees of one owner.

    Thread safe, and safe to use from a signal handler: the only locks are re-entrant, one per
    tree, and nobody waits for anything while holding one. `supervised=False` is for systems
    without POSIX process control: trees are ended, but survivors are neither found nor counted.
    """

    def __init__(self, *, supervised: bool = not ON_WINDOWS) -> None:
        self._kind: type[_Tree] = _Supervised if supervised else _Unsupervised
        self._trees: dict[int, _Tree] = {}
        self._cancelled = False

    def run(self, command: Command, *, name: str = "") -> Finished:
        """Run a command to its end and return how that went; raises nothing for its faults."""
        began = time.monotonic()
        if self._cancelled:
            return _without_exit(Ending.CANCELLED, "cancelled before it was started")
        if wrong := unusable(command):
            return _without_exit(Ending.COULD_NOT_START, wrong)
        try:
            with open_streams(command) as streams:
                tree = self._kind(command, streams, name)
                self._follow(tree)
                return replace(tree.finished(), duration_s=time.monotonic() - began)
        except OSError as problem:
            return _without_exit(Ending.COULD_NOT_START, _why_not(command, problem))

    def cancel(self) -> None:
        """End every running tree and start no further one; called again, without any grace."""
        self._cancelled = True
        for tree in tuple(self._trees.values()):
            tree.end()

    def running(self) -> tuple[Running, ...]:
        """What runs at this moment, oldest first."""
        seen = [tree.seen() for tree in tuple(self._trees.values())]
        return tuple(running for running in seen if running is not None)

    def _follow(self, tree: _Tree) -> None:
        self._trees[id(tree)] = tree
        try:
            if self._cancelled:  # since we looked above
                tree.end()
            tree.follow()
        finally:
            del self._trees[id(tree)]
            tree.close()


class _Tree(ABC):
    """One running command: its time limit, its end, and what became known of it."""

    def __init__(self, command: Command, streams: Streams, name: str) -> None:
        self.command = command
        self.started = time.monotonic()
        self.facts: dict[str, int] = {}
        self._streams = streams
        self._name = name
        self._lock = threading.RLock()
        self._open = True
        self._asked = False
        self._timed_out = False
        self._said = ""
        limit = command.timeout_s
        self._limit_at = math.inf if limit is None else self.started + limit
        self._give_up_at = math.inf

    @abstractmethod
    def _wait(self, timeout_s: float) -> bool:
        """Wait for news; True once it is over."""

    @abstractmethod
    def _ask(self, order: bytes) -> None:
        """Have the tree ended, gently (`e`) or at once (`k`); returns at once."""

    @abstractmethod
    def _release(self) -> None:
        """Make sure that nothing runs any more, and give back what this tree held."""

    def follow(self) -> None:
        """Wait for the end, and bring it about when the time limit has passed."""
        while (now := time.monotonic()) < self._give_up_at:
            if now >= self._limit_at:
                self._limit_at = math.inf
                self._timed_out = True
                self.end()
            if self._wait(min(self._limit_at - now, self._give_up_at - now, POLL_S)):
                break

    def end(self) -> None:
        """Ask for the end; asked again, for the end at once. Safe in a signal handler."""
        with self._lock:
            if not self._open:
                return
            self._ask(b"k" if self._asked else b"e")
            self._asked = True
            limit = time.monotonic() + self.command.grace_s + STUCK_AFTER_S
            self._give_up_at = min(self._give_up_at, limit)

    def close(self) -> None:
        """Let go of the tree, which ends it if it still runs."""
        with self._lock:
            self._open = False
        self._release()

    def seen(self) -> Running | None:
        """This tree for `Processes.running`, None when it has no leader (any more)."""
        with self._lock:
            if not self._open or "started" not in self.facts:
                return None
            printed = self._streams.last_written()
        age = max(0.0, time.time() - printed)  # a wall clock may step back
        return Running(self._name, self.facts["started"], self.started, age)

    def finished(self) -> Finished:
        """What is to be said about the run, without its duration."""
        ending, reason = self._ending()
        streams, keep = self._streams, self.command.keep_bytes
        return Finished(
            ending=ending,
            exit_code=self.facts["exit"] if ending is Ending.EXITED else None,
            stdout=kept_text(streams.stdout, keep, streams.stdout_file),
            stderr=kept_text(streams.stderr, keep, streams.stderr_file),
            duration_s=0.0,
            survivors=self.facts.get("survivors", 0),
            reason=reason,
            stdout_file=streams.stdout_file,
            stderr_file=streams.stderr_file,
        )

    def _ending(self) -> tuple[Ending, str]:
        left = self.facts.get("left", 0)
        also = f"; {left} of its processes could not be ended" if left else ""
        if "could_not_start" in self.facts:
            problem = OSError(self.facts["could_not_start"], "")
            return Ending.COULD_NOT_START, _why_not(self.command, problem)
        if "exit" in self.facts and "ending" not in self.facts:
            return Ending.EXITED, also.removeprefix("; ")
        if self._timed_out:
            return Ending.TIMED_OUT, f"ended at its limit of {self.command.timeout_s:g} s{also}"
        if self._asked:
            return Ending.CANCELLED, f"cancelled{also}"
        if "ending" in self.facts:
            return Ending.LOST, "its supervisor was told to end it by a signal from elsewhere"
        return (
            Ending.LOST,
            f"its supervisor ended unexpectedly{': ' * bool(self._said)}{self._said}",
        )


class _Supervised(_Tree):
    """A tree below a supervisor, whose stdin and stdout are the control and status pipes."""

    def __init__(self, command: Command, streams: Streams, name: str) -> None:
        super().__init__(command, streams, name)
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", _supervisor_program()],
            cwd=command.cwd,
            env=_supervisor_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            pass_fds=streams.fds(),
            start_new_session=True,
        )
        assert self._child.stdin
        assert self._child.stdout
        self._control = self._child.stdin
        self._status = self._child.stdout.fileno()
        self._unread = b""
        self._poll = select.poll()
        self._poll.register(self._status, select.POLLIN)
        with suppress(BrokenPipeError):  # a supervisor that is gone shows as a run that is lost
            write_all(self._control.fileno(), _order(command, streams.fds()))

    def _wait(self, timeout_s: float) -> bool:
        if not self._poll.poll(max(0, math.ceil(timeout_s * 1000))):
            return False
        told = os.read(self._status, 65_536)
        *lines, self._unread = (self._unread + told).split(b"\n")
        for line in lines:
            if known := _FACT.fullmatch(line):
                self.facts[known[1].decode()] = int(known[2])
            else:  # the last words of a supervisor that failed
                self._said = line.decode("utf-8", "replace").strip()
        return not told

    def _ask(self, order: bytes) -> None:
        with suppress(BrokenPipeError):
            os.write(self._control.fileno(), order)

    def _release(self) -> None:
        # What a supervisor told counts only if it came to its own end: whoever it supervised may
        # be able to write to its pipe and to kill it.
        self._control.close()
        patience = min(self._give_up_at - time.monotonic(), self.command.grace_s + STUCK_AFTER_S)
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(max(0.0, patience))
        if self._child.poll() != 0:
            self._abandon()
        with self._child:  # closes the status pipe too
            pass

    def _abandon(self) -> None:
        self.facts.pop("exit", None)
        leader = self.facts.get("started", 0)
        # Who kills the supervisor may do so before we know its leader, so look for writers too.
        roots = [self._child.pid, leader, *self._streams.writers()]
        found = {pid for root in roots for pid in (root, *supervisor.descendants(root))}
        if leader > 1:
            supervisor.send_group(leader, signal.SIGKILL)
        for pid in found - {0, 1, leader, self._child.pid, os.getpid()}:
            supervisor.send(pid, signal.SIGKILL)
        self._child.kill()


class _Unsupervised(_Tree):
    """A tree that is our own child: all that is possible on Windows."""

    def __init__(self, command: Command, streams: Streams, name: str) -> None:
        super().__init__(command, streams, name)
        argv = command.argv
        if isinstance(argv, str):
            argv = f'cmd.exe /d /s /c "{argv}"' if ON_WINDOWS else shell_argv(argv)
        self._child = subprocess.Popen(
            argv,
            cwd=command.cwd,
            env=dict(command.env),
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            start_new_session=not ON_WINDOWS,
        )
        self.facts["started"] = self._child.pid

    def _wait(self, timeout_s: float) -> bool:
        with suppress(subprocess.TimeoutExpired):
            self.facts["exit"] = self._child.wait(max(0.0, timeout_s))
        return "exit" in self.facts

    def _ask(self, order: bytes) -> None:
        del order  # there is no gentle way here
        if self._child.returncode is None:
            self.facts["ending"] = 1
            _end_tree(self._child.pid)

    def _release(self) -> None:
        if self._child.poll() is None:
            _end_tree(self._child.pid)
        self._child.wait()


def _end_tree(pid: int) -> None:
    if ON_WINDOWS:
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(pid)], capture_output=True, check=False)
    else:
        _kill_group(pid)


def _kill_group(leader: int) -> None:
    if ON_WINDOWS:
        _end_tree(leader)
    else:
        supervisor.send_group(leader, signal.SIGKILL)


@cache
def _supervisor_program() -> str:
    # Python does not cache the program it is given, so each run would compile it: 2 ms of 11.
    cached = supervisor.__spec__.cached
    source = supervisor.__file__
    return cached if cached and is_compiled_from(Path(cached), Path(source)) else source


def is_compiled_from(cached: Path, source: Path) -> bool:
    """Python's own test of a compiled file, which it leaves out for a program: age and size."""
    seen = source.stat()
    expected = struct.pack("<III", 0, int(seen.st_mtime) & 0xFFFFFFFF, seen.st_size & 0xFFFFFFFF)
    try:
        with cached.open("rb") as compiled:
            return compiled.read(16)[4:] == expected
    except OSError:
        return False


@cache
def _supervisor_environment() -> dict[str, str]:
    # Empty, for the tree can read it in /proc. A relocated Python finds its own library only so.
    library = Path(sys.base_exec_prefix, "lib")
    found = any(library.glob("libpython3*.so*"))
    return {"LD_LIBRARY_PATH": str(library)} if found else {}


def _order(command: Command, fds: tuple[int, int, int]) -> bytes:
    argv = _argv(command)
    numbers = (int(command.first_signal), command.grace_s, *fds, len(argv))
    texts = (*argv, *(f"{name}={value}" for name, value in command.env.items()))
    body = b"\0".join(os.fsencode(str(field)) for field in (*numbers, *texts))
    return b"%0*d" % (supervisor.HEADER_DIGITS, len(body)) + body


def _argv(command: Command) -> tuple[str, ...]:
    return shell_argv(command.argv) if isinstance(command.argv, str) else command.argv


def _without_exit(ending: Ending, reason: str) -> Finished:
    return Finished(ending, None, "", "", 0.0, reason=reason)


def _why_not(command: Command, problem: OSError) -> str:
    program = _argv(command)[0]
    if not command.cwd.is_dir():
        return f"cannot start {program}: the folder {command.cwd} does not exist"
    return why_not(program, problem)
