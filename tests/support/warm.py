"""Our programs in processes of their own that need not load them first.

A server has loaded all of our modules, and forks: what it starts differs from `python -S PROGRAM`
in that it begins with them, which is a third of the processor time of a small wave. A start that
this cannot stand for is made as usual. What `/proc` tells of the command line and the environment
is the server's. How programs start by themselves is the subject of test_start_up.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, Self, TypeAlias

from tests.support.interpreter import PYTHON

ROOT = Path(__file__).resolve().parents[2]
_PLACES = (ROOT / "driver", ROOT / "tools")
_SERVER = Path(__file__).with_name("warm_server.py")
_TEXT = ("text", "encoding", "errors")
_KNOWN = {"stdin", "stdout", "stderr", *_TEXT, "cwd", "env", "start_new_session"}
_NO_MATTER = {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}


def start(argv: Sequence[str | Path], **options: Any) -> Program:
    """As `subprocess.Popen`, by keywords."""
    order = _order(argv, options)
    return subprocess.Popen(argv, **options) if order is None else Forked(argv, order, options)


def run(
    argv: Sequence[str | Path],
    *,
    given: str | None = None,
    capture_output: bool = False,
    check: bool = False,
    timeout: float,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """As `subprocess.run`; `given` is what can be read from stdin."""
    if capture_output:
        options.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with nullcontext() if given is None else _holding(given) as stdin:
        if stdin is not None:
            options.update(stdin=stdin)
        done = _ended(start(argv, **options), timeout)
    if check:
        done.check_returncode()
    return done


def _ended(started: Program, timeout: float) -> subprocess.CompletedProcess[Any]:
    with started as program:
        try:
            out, err = program.communicate(timeout=timeout)
        except BaseException:
            program.kill()
            raise
    return subprocess.CompletedProcess(program.args, program.returncode, out, err)


class Forked:
    """What a test may ask of a program, answered as `subprocess.Popen` does. The process is no
    child of this one, and is kept as a zombie until its end was seen here, so that its id is
    nobody else's."""

    def __init__(
        self, argv: Sequence[str | Path], order: bytes, options: Mapping[str, Any]
    ) -> None:
        self.args = argv
        self.returncode: int | Any = None  # as Popen's: who has waited need not ask for None
        self._readers: dict[IO[Any], _Reader] = {}
        with ExitStack() as passed:
            stdin, _ = _ends(0, options.get("stdin"), passed)
            stdout, out = _ends(1, options.get("stdout"), passed)
            stderr, err = _ends(2, options.get("stderr"), passed)
            self.stdout, self.stderr = (_file(one, options) for one in (out, err))
            # Of packets: that the id is heard late, together with the end, makes no third number.
            self._status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            passed.enter_context(theirs)
            socket.send_fds(_server(os.getpid()), [order], [stdin, stdout, stderr, theirs.fileno()])
        self.pid = self._told()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self.stdout, self.stderr):
            if file and file not in self._readers:
                file.close()
        self.wait()

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                status = self._told()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._status.close()
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def communicate(self, *, timeout: float | None = None) -> tuple[Any, Any]:
        """May be called again, after a timeout too."""
        until = None if timeout is None else time.monotonic() + timeout
        files = [file for file in (self.stdout, self.stderr) if file]
        for file in files:
            if file not in self._readers:
                self._readers[file] = _Reader(file)
        for file in files:
            self._readers[file].join(_left(until))
            if self._readers[file].is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(_left(until))
        out, err = (file and self._readers[file].read for file in (self.stdout, self.stderr))
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _told(self) -> int:
        """The next number from the server: the process's id, later its wait status."""
        if not (told := self._status.recv(32)):
            raise RuntimeError("the server of warm programs is gone; its stderr says why")
        return int(told)


Program: TypeAlias = subprocess.Popen[Any] | Forked


class _Reader(threading.Thread):
    """Reads a file to its end, and closes it."""

    def __init__(self, file: IO[Any]) -> None:
        super().__init__(daemon=True)
        self.file, self.read = file, None
        self.start()

    def run(self) -> None:
        with self.file:
            self.read = self.file.read()


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


def _ends(number: int, asked: Any, passed: ExitStack) -> tuple[int, int | None]:
    """The program's end of a standard stream, and ours of a pipe."""
    if asked == subprocess.PIPE:
        ours, theirs = os.pipe()
        passed.callback(os.close, theirs)
        return theirs, ours
    if asked == subprocess.DEVNULL:
        asked = os.open(os.devnull, os.O_RDWR)
        passed.callback(os.close, asked)
    if asked is None:
        return number, None
    return asked if isinstance(asked, int) else asked.fileno(), None


def _file(fd: int | None, options: Mapping[str, Any]) -> IO[Any] | None:
    if fd is None:
        return None
    if not any(options.get(name) for name in _TEXT):
        return open(fd, "rb")  # noqa: PTH123 - a number, no path
    how, errors = options.get("encoding"), options.get("errors")
    return open(fd, encoding=how, errors=errors)  # noqa: PTH123


def _holding(text: str) -> IO[Any]:
    """A file from which this can be read."""
    file = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - the caller's
    file.write(text)
    file.seek(0)
    return file


def _order(argv: Sequence[str | Path], options: Mapping[str, Any]) -> bytes | None:
    """The order for the server; None for what has to be started as usual."""
    words = [os.fspath(word) for word in argv]
    env = dict(os.environ if options.get("env") is None else options["env"])
    if sys.platform != "linux" or not (_is_known(options) and _is_ours(words) and _is_plain(env)):
        return None
    cwd = os.fspath(options.get("cwd") or Path.cwd())
    alone = bool(options.get("start_new_session"))
    made = {"argv": words[len(PYTHON) :], "cwd": cwd, "env": env, "session": alone}
    order = json.dumps(made).encode()
    return order if len(order) < 100_000 and Path(cwd).is_dir() else None


def _is_known(options: Mapping[str, Any]) -> bool:
    asked = (options.get("stdin") != subprocess.PIPE, options.get("stderr") != subprocess.STDOUT)
    return options.keys() <= _KNOWN and all(asked)


def _is_ours(argv: list[str]) -> bool:
    is_python = tuple(argv[: len(PYTHON)]) == PYTHON
    return is_python and len(argv) > len(PYTHON) and Path(argv[len(PYTHON)]).parent in _PLACES


def _is_plain(env: Mapping[str, str]) -> bool:
    """Whether Python starts with this as with an empty environment."""
    sets_python = any(name.startswith("PYTHON") for name in env.keys() - _NO_MATTER)
    return not sets_python and {env.get(name, "C") for name in ("LC_ALL", "LANG")} <= {"C", ""}


@functools.cache
def _server(owner: int) -> socket.socket:
    """The way to the server of this process, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [*PYTHON, str(_SERVER), str(theirs.fileno())],
            env={"PATH": os.environ["PATH"]},
            cwd="/",
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
        )
    atexit.register(_end, owner, ours, server)
    return ours


def _end(owner: int, ours: socket.socket, server: subprocess.Popen[bytes]) -> None:
    if os.getpid() == owner:  # not a fork of it
        ours.close()
        server.wait()
