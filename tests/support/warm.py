"""Our programs in processes of their own that need not load them first.

A server has loaded all of our modules, and forks: what it starts differs from `python -S PROGRAM`
in that it begins with them, which is a third of the processor time of a small wave. A start that
this cannot stand for is made as usual. What `/proc` tells of the command line and the environment
is the server's. How programs start by themselves is the subject of test_start_up.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.interpreter import PYTHON

ROOT = Path(__file__).resolve().parents[2]
_PLACES = (ROOT / "driver", ROOT / "tools")
_SERVER = Path(__file__).with_name("warm_server.py")
_STREAMS = ("p2cread", "c2pwrite", "errwrite")
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_USUAL = {
    **{"executable": None, "preexec_fn": None, "close_fds": True, "pass_fds": (), "shell": False},
    **{"restore_signals": True, "gid": None, "gids": None, "uid": None, "umask": -1},
    "process_group": -1,
}
_NO_MATTER = {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}


class Popen(subprocess.Popen[Any]):
    """As `subprocess.Popen`. The process is no child of this one, and is kept as a zombie until
    its end was seen here, so that its id is nobody else's."""

    _status: socket.socket | None = None

    def _execute_child(self, *given: Any) -> None:
        start = super()._execute_child  # type: ignore[misc]
        asked = inspect.signature(start).bind(*given).arguments
        order = _order(asked)
        if order is None:
            start(*given)
            return
        streams = [asked[name] if asked[name] != -1 else n for n, name in enumerate(_STREAMS)]
        # Packets: the id and the end of a quick program must not be read as one.
        self._status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(_server(os.getpid()), [order], [*streams, theirs.fileno()])
        self._close_pipe_fds(*(asked[name] for name in _PIPES))  # type: ignore[attr-defined]
        self.pid = int(self._status.recv(32))
        self._child_created = True

    def _internal_poll(self, *given: Any, **named: Any) -> int | None:
        if self._status is None:
            return super()._internal_poll(*given, **named)  # type: ignore[misc]
        lock = self._waitpid_lock  # type: ignore[attr-defined]
        if self.returncode is None and lock.acquire(False):
            try:
                if (sts := self._ended(socket.MSG_DONTWAIT)) is not None:
                    self.returncode = os.waitstatus_to_exitcode(sts)
            finally:
                lock.release()
        return self.returncode

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._status is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc]
        sts = self._ended(socket.MSG_DONTWAIT if wait_flags else 0)
        return (0, 0) if sts is None else (self.pid, sts)

    def _ended(self, flags: int) -> int | None:
        """The wait status; None while there is none, or when it was taken already."""
        assert self._status is not None
        try:
            told = self._status.recv(32, flags)
        except OSError:
            return None
        self._status.close()
        return int(told)


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
    if given is not None:
        options.update(stdin=subprocess.PIPE)
    with Popen(argv, **options) as program:
        try:
            out, err = program.communicate(given, timeout=timeout)
        except BaseException:
            program.kill()
            raise
    done = subprocess.CompletedProcess(program.args, program.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _order(asked: Mapping[str, Any]) -> bytes | None:
    """The order for the server; None for what has to be started as usual."""
    argv = asked["args"]
    if sys.platform != "linux" or isinstance(argv, str | bytes | os.PathLike):
        return None
    argv = [os.fspath(word) for word in argv]
    env = dict(os.environ if asked["env"] is None else asked["env"])
    is_usual = all(asked.get(name, usual) == usual for name, usual in _USUAL.items())
    if not (is_usual and _is_ours(argv) and _is_plain(env)):
        return None
    cwd = os.fspath(asked["cwd"] or Path.cwd())
    alone = bool(asked["start_new_session"])
    made = {"argv": argv[len(PYTHON) :], "cwd": cwd, "env": env, "session": alone}
    order = json.dumps(made).encode()
    return order if len(order) < 100_000 and Path(cwd).is_dir() else None


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
