"""A proxy before a server's socket that cuts connections in the middle of a commit."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NAME = ".s.PGSQL.5432"
COMMIT = re.compile(rb"COMMIT[;\0]")
PREPARED = re.compile(rb"(_pg3_\d+)\0SELECT append_event")
BEFORE, AFTER = "before the server has it", "after the server has done it"


class CuttingProxy:
    """Passes everything on, until it is armed: then the next commit ends its connection."""

    def __init__(self, server: Path, folder: Path) -> None:
        self.folder, self._server = folder, server / NAME
        self.armed = ""
        self.at = b""  # a text of the message where it cuts, if not the next commit
        self.cuts = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / NAME))
        self._listener.listen(64)
        self._open: list[socket.socket] = []

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
                self._open += [client, server]
                cut = threading.Event()
                for work in ((self._requests, client, server), (self._answers, server, client)):
                    threading.Thread(target=work[0], args=(*work[1:], cut), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        commits = [COMMIT, re.compile(rb"SELECT append_event")]  # each of them as a message has it
        with suppress(OSError):
            while data := client.recv(1 << 16):
                commits += [re.compile(rb"\0" + name + rb"\0") for name in PREPARED.findall(data)]
                is_due = self.at in data if self.at else any(c.search(data) for c in commits)
                if self.armed and is_due:
                    how, self.armed = self.armed, ""
                    self.cuts += 1
                    if how == BEFORE:
                        break
                    cut.set()
                server.sendall(data)
        end(client, server)

    def _answers(self, server: socket.socket, client: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if cut.is_set():
                    break
                client.sendall(data)
        end(client, server)

    def close(self) -> None:
        end(self._listener, *self._open)


def end(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@contextmanager
def cutting(server: Path, folder: Path) -> Iterator[CuttingProxy]:
    """A proxy with a socket in `folder`, which must have a short name."""
    os.chmod(folder, 0o755)  # noqa: PTH101
    proxy = CuttingProxy(server, folder)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(10)
