"""The program that starts supervisors: its fork takes a fifth of the time of a new Python.

`supervised` starts one fork server per owner, with `python -I -S`. It reports how each supervisor
ended, because only the parent of a process knows that. It does not read orders: the orchestrator
sends them straight to the supervisor.

stdin is a socket: one byte for each run, which carries the run's own socket and its three streams;
end-of-file after the last run. The fork server writes to the run's socket, of which it keeps a copy
until the end: `could_not_start ERRNO`, and last `reaped CODE`, the exit status of the supervisor.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` itself costs time and memory
import _socket
import gc
import os
import select
import sys
import time
from _collections_abc import Callable  # as the public module does

if not __package__:  # run as a file, isolated: import from the checkout, after what Python has
    sys.path.append(os.path.abspath(__file__ + "/../../.."))  # noqa: PTH100

from driver.execution import supervisor
from driver.execution.process_table import children, descendants, send, stop_all

GIVEN = 4  # the run's socket and its three streams
FD_SIZE = 4
STOP_LIMIT_S = 1.0


class Supervisors:
    """The running supervisors, each with this program's copy of its socket."""

    def __init__(self, adopt: Callable[[], bool]) -> None:
        self._adopt = adopt
        adopt()  # become the parent of the orphans of a killed supervisor
        self._requests = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, 0)
        self._signals = supervisor.wake_on(signal.SIGCHLD, signal.SIGCONT)
        # Nothing is written here: supervisors read end-of-file from `life` when this program ends.
        self._life, self._alive = (end.detach() for end in _socket.socketpair())
        self._channels: dict[int, int] = {}

    def serve(self) -> None:
        """Start supervisors on request, until stdin is closed and all supervisors have ended."""
        sources = [self._signals, 0]
        while 0 in sources or self._channels:
            ready = select.select(sources, [], [])[0]
            if self._signals in ready:
                os.read(self._signals, 512)
                self._collect()
            if 0 in ready and not self._take():
                sources.remove(0)

    def _take(self) -> bool:
        """Start one run; False at the end of the requests."""
        room, on_exec = _socket.CMSG_SPACE(GIVEN * FD_SIZE), getattr(_socket, "MSG_CMSG_CLOEXEC", 0)
        try:
            request, attached, _, _ = self._requests.recvmsg(1, room, on_exec)
        except ConnectionResetError:
            return False
        fds = [
            fd for _, kind, data in attached if kind == _socket.SCM_RIGHTS for fd in fds_in(data)
        ]
        for fd in fds:
            os.set_inheritable(fd, False)
        if len(fds) == GIVEN:
            self._start(fds[0], fds[1:])
            fds = fds[1:]
        for fd in fds:  # too few, because no more can be opened: the run ends without a report
            os.close(fd)
        return bool(request)

    def _start(self, channel: int, streams: list[int]) -> None:
        try:
            pid = os.fork()
        except OSError as problem:
            report(channel, f"could_not_start {problem.errno}\nreaped 0\n")
            os.close(channel)
            return
        if pid == 0:
            self._become_supervisor(channel, streams)
        self._channels[pid] = channel

    def _become_supervisor(self, channel: int, streams: list[int]) -> None:
        wake = signal.set_wakeup_fd(-1)
        for standard in (0, 1, 2):  # Python prints its last error to 2
            os.dup2(channel, standard, inheritable=False)
        for fd in (channel, wake, self._signals, self._alive, *self._channels.values()):
            os.close(fd)
        os.setsid()
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        supervisor.main(streams, self._life, self._adopt)
        os._exit(0)  # nothing to clean up, and the orchestrator waits for this end

    def _collect(self) -> None:
        """Collect dead children, report the end of each supervisor, and kill its orphans."""
        try:
            while (dead := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                channel = self._channels.pop(dead[0], None)
                if channel is not None:
                    report(channel, f"reaped {os.waitstatus_to_exitcode(dead[1])}\n")
                    os.close(channel)
        except ChildProcessError:
            return
        for pid in stop_all(self._orphans, time.monotonic() + STOP_LIMIT_S):
            send(pid, signal.SIGKILL)

    def _orphans(self) -> list[int]:
        orphans = [pid for pid in children(os.getpid()) if pid not in self._channels]
        return orphans + [below for pid in orphans for below in descendants(pid)]


def fds_in(data: bytes) -> list[int]:
    """The file descriptors in a message's ancillary data."""
    starts = range(0, len(data) - FD_SIZE + 1, FD_SIZE)
    return [int.from_bytes(data[at : at + FD_SIZE], sys.byteorder) for at in starts]


def report(channel: int, text: str) -> None:
    """Write to the orchestrator, which may have ended."""
    try:
        os.write(channel, text.encode())
    except ConnectionError:
        return


if __name__ == "__main__":
    gc.disable()  # a collection in a fork would copy every page
    supervisor.hide_memory()
    supervisor.load_walls()
    Supervisors(supervisor.way_to_adopt()).serve()
    os._exit(0)
