"""The only way out of a machine of the tests: to the database and to the remote, over TCP.

A program in the machine's own namespaces. It listens on the loopback, and passes bytes on to the
server's Unix socket and to a git daemon for each connection. It holds some of them back for a
moment. `cut KIND BYTES` on stdin ends the connection of that kind that passes so many bytes later,
in the middle of what it was sending.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress

SLOW_ONE_IN = 40
SLOW_S = 0.05
BOOT_ID = "/proc/sys/kernel/random/boot_id"
_MS_BIND = 4096


class Gateway:
    """The listeners of one machine, by kind."""

    def __init__(self, server: str, remotes: str, seed: str) -> None:
        self._server, self._remotes = server, remotes
        self._draw = random.Random(seed)
        self._lock = threading.Lock()
        self._left: dict[str, list[int]] = {"database": [], "remote": []}
        self.cuts = 0

    def listen(self, kind: str) -> int:
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        threading.Thread(target=self._accept, args=(kind, listener), daemon=True).start()
        return int(listener.getsockname()[1])

    def cut(self, kind: str, after: int) -> None:
        with self._lock:
            self._left[kind].append(after)

    def _accept(self, kind: str, listener: socket.socket) -> None:
        while True:
            client, _ = listener.accept()
            try:
                behind = self._database() if kind == "database" else self._remote()
            except OSError:  # the server is away
                client.close()
                continue
            for way in ((client, behind), (behind, client)):
                threading.Thread(target=self._pass, args=(kind, *way), daemon=True).start()

    def _database(self) -> socket.socket:
        behind = socket.socket(socket.AF_UNIX)
        try:
            behind.connect(self._server)
        except OSError:
            behind.close()
            raise
        return behind

    def _remote(self) -> socket.socket:
        mine, its = socket.socketpair()
        daemon = ["git", "daemon", "--inetd", "--export-all", "--enable=receive-pack"]
        words = [*daemon, f"--base-path={self._remotes}", self._remotes]
        with its:
            end = its.fileno()
            served = subprocess.Popen(words, stdin=end, stdout=end, stderr=subprocess.DEVNULL)
        threading.Thread(target=served.wait, daemon=True).start()
        return mine

    def _pass(self, kind: str, come: socket.socket, go: socket.socket) -> None:
        with suppress(OSError):
            while data := come.recv(1 << 16):
                pause_s, kept = self._drawn(kind, len(data))
                if pause_s:
                    time.sleep(pause_s)
                go.sendall(data[:kept])
                if kept < len(data):
                    break
        for one in (come, go):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        go.close()

    def _drawn(self, kind: str, size: int) -> tuple[float, int]:
        """The time to hold these bytes back, and the number of them to pass on."""
        with self._lock:
            is_slow = self._draw.randrange(SLOW_ONE_IN) == 0
            pause_s = self._draw.uniform(0, SLOW_S) if is_slow else 0.0
            left = [after - size for after in self._left[kind]]
            due = [after + size for after in left if after < 0]
            self._left[kind] = [after for after in left if after >= 0]
            self.cuts += bool(due)
            return pause_s, min(due, default=size)


def settle(name: str, boot_id: str) -> None:
    """Give the namespaces that this process was started in a loopback, a host name and a boot."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        up = struct.pack("16sh14x", b"lo", 1)
        fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS
    socket.sethostname(name)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(boot_id.encode(), BOOT_ID.encode(), None, _MS_BIND, None):
        raise OSError(ctypes.get_errno(), "the boot's id cannot be replaced")


def main(words: list[str]) -> None:
    server, remotes, seed, name, boot_id = words
    if name:
        settle(name, boot_id)
    gateway = Gateway(server, remotes, seed)
    sys.stdout.write(f"{gateway.listen('database')} {gateway.listen('remote')}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        _, kind, after = line.split()
        gateway.cut(kind, int(after))
    sys.stdout.write(f"{gateway.cuts}\n")
    sys.stdout.flush()
    os._exit(0)  # its connections are of no use any more


if __name__ == "__main__":
    main(sys.argv[1:])
