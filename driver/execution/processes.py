"""Runs other programs, directly or through `supervised` and the fork server.

`capture` is for short trusted helpers such as git. `Processes.run` is for agents and tests: it ends
the whole tree on time-out, on cancel and with this process, and never blocks on its output.
`supervisor` handles the processes below the leader. Does not judge results.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from driver.execution.command import (
    Command,
    Ending,
    Finished,
    Running,
    child_environment,
    could_not_run_reason,
    unusable,
)
from driver.execution.process_table import send_group
from driver.execution.process_tree import ProcessTree, why_not_started
from driver.execution.streams import Streams, open_streams
from driver.execution.supervised import ForkServer, Supervised
from state_store.documents.failpoints import failpoint
from state_store.values.lazy_dataclass import dataclass, replace

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
DRAIN_S = 1.0
_KILL_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Captured:
    """The result of a trusted helper program, with the whole of both streams as bytes."""

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
    """Run a trusted program such as git and return its output.

    Raises FileNotFoundError if the program is missing. For agents and tests use `Processes.run`,
    which can end a whole tree.
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
            try:
                out, err = child.communicate(timeout=DRAIN_S)
            except subprocess.TimeoutExpired as late:
                # A helper of the helper, such as git's file watcher, may hold the pipes open.
                out, err = late.output or b"", late.stderr or b""
            return Captured(tuple(argv), child.wait(), out, err, timed_out=True)
    return Captured(tuple(argv), child.returncode, out, err)


def shell_argv(command: str) -> tuple[str, ...]:
    """The arguments that run a string in a shell with `pipefail`.

    If no shell has `pipefail`, `sh` runs the string; on Windows `cmd.exe` does.
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
    """The running process trees of one owner.

    Thread safe. `cancel` and `running` are safe in a signal handler: they take only re-entrant
    locks, one per tree, and no thread waits while it holds a lock. `supervised=False` is for
    systems without POSIX process control: trees are ended, but survivors are not found.
    """

    def __init__(self, *, supervised: bool = not ON_WINDOWS) -> None:
        self._fork_server = ForkServer() if supervised else None
        self._trees: dict[int, ProcessTree] = {}
        self._cancelled = False

    def run(self, command: Command, *, name: str = "") -> Finished:
        """Run a command to its end and return its result. Does not raise if the command fails."""
        began = time.monotonic()
        if self._cancelled:
            return _without_exit(Ending.CANCELLED, "cancelled before it was started")
        if wrong := unusable(command):
            return _without_exit(Ending.COULD_NOT_START, wrong)
        if command.wall and self._fork_server is None:
            return _without_exit(Ending.COULD_NOT_START, "this system has no walls")
        if isinstance(command.argv, str) and not ON_WINDOWS:
            command = replace(command, argv=shell_argv(command.argv))
        try:
            failpoint("process.before_start")
            with open_streams(command) as streams:
                if self._fork_server is None:
                    tree: ProcessTree = _Unsupervised(command, streams, name)
                else:
                    tree = Supervised(command, streams, name, self._fork_server)
                self._follow(tree)
                finished = replace(tree.finished(), duration_s=time.monotonic() - began)
            failpoint("process.after_finish")
            return finished
        except OSError as problem:
            return _without_exit(Ending.COULD_NOT_START, why_not_started(command, problem))

    def with_same_fork_server(self) -> Processes:
        """Processes of another owner, which the same fork server starts."""
        others = Processes(supervised=False)
        others._fork_server = self._fork_server
        return others

    def make_ready(self) -> None:
        """Start the fork server early, so that the next run starts sooner."""
        if self._fork_server is not None and not self._cancelled:
            self._fork_server.make_ready()

    def cancel(self) -> None:
        """End every running tree and start no more. A second call kills at once."""
        self._cancelled = True
        for tree in tuple(self._trees.values()):
            tree.end()

    def running(self) -> tuple[Running, ...]:
        """The running trees, oldest first."""
        seen = [tree.seen() for tree in tuple(self._trees.values())]
        return tuple(running for running in seen if running is not None)

    def _follow(self, tree: ProcessTree) -> None:
        self._trees[id(tree)] = tree
        try:
            if self._cancelled:  # since the check above
                tree.end()
            tree.follow()
        finally:
            del self._trees[id(tree)]
            tree.close()


class _Unsupervised(ProcessTree):
    """A tree without supervisor, for Windows: its leader is a child of this process."""

    def __init__(self, command: Command, streams: Streams, name: str) -> None:
        super().__init__(command, streams, name)
        argv = command.argv
        if isinstance(argv, str):
            argv = f'cmd.exe /d /s /c "{argv}"'
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
        del order  # Windows can only kill
        if self._child.returncode is None:
            self.facts["ending"] = 1
            _end_tree(self._child.pid)

    def _release(self) -> None:
        if self._child.poll() is None:
            _end_tree(self._child.pid)
        self._child.wait()


def _end_tree(pid: int) -> None:
    if ON_WINDOWS:
        argv = ["taskkill", "/T", "/F", "/PID", str(pid)]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(argv, capture_output=True, check=False, timeout=_KILL_LIMIT_S)
    else:
        _kill_group(pid)


def _kill_group(leader: int) -> None:
    if ON_WINDOWS:
        _end_tree(leader)
    else:
        send_group(leader, signal.SIGKILL)


def _without_exit(ending: Ending, reason: str) -> Finished:
    return Finished(ending, None, "", "", 0.0, reason=reason)
