"""The server of `warm`: loads our modules once, then forks for each order.

An order is `{"argv": [...], "cwd": ..., "env": {...}, "session": false}` with four open files: the
three standard ones, and a socket where the id of the process and then its wait status are told.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("state_store", "tools", "driver")
Order = dict[str, Any]


def load() -> None:
    """All modules, programs too."""
    sys.path[0] = str(ROOT)
    for name in PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(found.name)
    gc.freeze()


def next_program(control: socket.socket) -> tuple[Order, list[int]]:
    """In a new process, what it is to become. The server itself never returns, and reaps all, so
    that whoever waits for it is told their processor time."""
    keepers: set[int] = set()
    while True:
        body, fds, *_ = socket.recv_fds(control, 1 << 20, 4)
        if not body:
            for pid in keepers:
                os.waitpid(pid, 0)
            os._exit(0)
        if (pid := os.fork()) == 0:
            control.close()
            return json.loads(body), fds
        for fd in fds:
            os.close(fd)
        keepers = {one for one in {*keepers, pid} if os.waitpid(one, os.WNOHANG) == (0, 0)}


def keep(pid: int, status: socket.socket) -> None:
    """Tell how the program ends, and leave it a zombie until that was heard."""
    status.send(str(pid).encode())
    end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert end is not None
    code = end.si_status << 8 if end.si_code == os.CLD_EXITED else end.si_status
    status.send(str(code).encode())
    status.recv(1)
    os.waitpid(pid, 0)
    os._exit(0)


def arm() -> None:
    """What two modules have asked of the environment when they were loaded, they ask again."""
    failpoints = importlib.reload(sys.modules["state_store.documents.failpoints"])
    vars(sys.modules["state_store.database.connections"]).update(_IS_ARMED=failpoints.active())


def become(order: Order, streams: list[int]) -> None:
    """This process is the program."""
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if order["session"]:
        os.setsid()
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    if "TIDEGATE_FAIL" in os.environ:
        arm()
    sys.argv = order["argv"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as ended:
        leave(ended.code)
        raise


def leave(code: object) -> None:
    """End as Python does, but for taking down all that was loaded; what is out of the ordinary is
    left to Python."""
    if not isinstance(code, int):
        return
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    load()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order, (*streams, end) = next_program(control)
    status = socket.socket(fileno=end)
    if pid := os.fork():
        for fd in streams:
            os.close(fd)
        keep(pid, status)
    status.close()
    become(order, streams)


if __name__ == "__main__":
    main()
