"""The outside of the escape test: decoys of the user's files, servers, processes and keys."""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from driver.filesystem.temporary import scratch_folder
from driver.walls.attempts import CALLS_OF_KEYRINGS, USER_KEYRING
from driver.walls.enclose import SHARED_MEMORY
from state_store.values.lazy_dataclass import dataclass

_NOWHERE = ("192.0.2.1", 9)  # an address for documentation; no packet is sent
_LONGEST = 80
_UNLINK = 9
_VICTIM = """
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: open(sys.argv[1], "w").close())
os.write(1, b"ready")
os.close(1)
os.read(0, 1)
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """The decoys of one test. `secret` is in a file, an environment and a keyring."""

    secret: str
    folder: Path
    places: dict[str, Path]
    sockets: dict[str, Path]
    servers: dict[str, socket.socket]
    abroad: tuple[str, int]
    abstract: str
    victim: int

    @property
    def inside(self) -> Path:
        """The only writable folder of the wall."""
        return self.folder / "inside"

    @property
    def secret_file(self) -> Path:
        """The decoy of a private key."""
        return self.folder / "home" / ".ssh" / "id_ed25519"

    @property
    def signalled(self) -> Path:
        """The file that the victim makes at a signal."""
        return self.folder / "home" / "signalled"

    def facts(self) -> dict[str, object]:
        """All that the attempts have to know."""
        return {
            "secret_file": str(self.secret_file),
            "places": {name: str(path) for name, path in self.places.items()},
            "inside": str(self.inside),
            "port": self.servers["loopback"].getsockname()[1],
            "abroad": self.abroad,
            "abstract": self.abstract,
            "sockets": {name: str(path) for name, path in self.sockets.items()},
            "victim": self.victim,
            "key": self.folder.name,
        }

    def reached(self, server: str) -> bool:
        """True if a connection or a datagram has arrived."""
        with suppress(BlockingIOError):
            one = self.servers[server]
            if one.type == socket.SOCK_DGRAM:
                one.recv(100)
            else:
                one.accept()[0].close()
            return True
        return False


@contextmanager
def staged() -> Iterator[Stage]:
    """A stage, of which nothing is left at the end."""
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        parent = str(SHARED_MEMORY) if os.access(SHARED_MEMORY, os.W_OK) else None
        shared = stack.enter_context(scratch_folder(parent))
        secret = f"tidegate-secret-{secrets.token_hex(16)}"
        for name in ("home/.ssh", "checkout", "other_item", "state", "inside", "run"):
            (folder / name).mkdir(parents=True)
        folders = {name: folder / name for name in ("home", "checkout", "other_item", "state")}
        places = {name: path / "escaped" for name, path in folders.items()}
        places |= {"tmp": folder / "escaped", "shared_memory": shared / "escaped"}
        run = _short(stack, folder / "run")
        sockets = {"docker": run / "docker.sock", "ssh_agent": run / "agent"}
        abstract = f"tidegate-{secrets.token_hex(8)}"
        servers = _servers(stack, sockets, abstract)
        stage = Stage(
            secret=secret,
            folder=folder,
            places=places,
            sockets=sockets,
            servers=servers,
            abroad=(_own_address(), servers["abroad"].getsockname()[1]),
            abstract=abstract,
            victim=_victim(stack, folder / "home" / "signalled", secret),
        )
        stage.secret_file.write_text(secret, encoding="ascii")
        stage.secret_file.chmod(0o600)
        _key(stack, folder.name, secret)
        yield stage


def _short(stack: ExitStack, folder: Path) -> Path:
    """The folder, or one with a shorter name: the path of a socket has about a hundred bytes."""
    if len(os.fsencode(folder)) < _LONGEST:
        return folder
    return stack.enter_context(scratch_folder("/tmp"))


def _servers(stack: ExitStack, sockets: dict[str, Path], abstract: str) -> dict[str, socket.socket]:
    tcp = socket.SOCK_STREAM
    abroad = _server(stack, socket.AF_INET, tcp, ("0.0.0.0", 0))
    there = ("0.0.0.0", abroad.getsockname()[1])
    found = {
        "loopback": _server(stack, socket.AF_INET, tcp, ("127.0.0.1", 0)),
        "abroad": abroad,
        "abroad_udp": _server(stack, socket.AF_INET, socket.SOCK_DGRAM, there),
    }
    if sys.platform == "linux":
        found["abstract"] = _server(stack, socket.AF_UNIX, tcp, "\0" + abstract)
    for name, path in sockets.items():
        found[name] = _server(stack, socket.AF_UNIX, tcp, str(path))
    return found


def _server(
    stack: ExitStack, family: int, kind: int, address: tuple[str, int] | str
) -> socket.socket:
    server = stack.enter_context(socket.socket(family, kind))
    server.bind(address)
    server.setblocking(False)
    if kind == socket.SOCK_STREAM:
        server.listen()
    return server


def _own_address() -> str:
    """An address of this machine that is not its loopback, if there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client, suppress(OSError):
        client.connect(_NOWHERE)
        return str(client.getsockname()[0])
    return "127.0.0.1"


def _victim(stack: ExitStack, signalled: Path, secret: str) -> int:
    """A process of the user that waits for signals. It ends with this process, however that ends,
    and holds none of its streams open."""
    ready, written = os.pipe()
    life, alive = os.pipe()
    nothing = os.open(os.devnull, os.O_RDWR)
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-c", _VICTIM, str(signalled)],
        {"TIDEGATE_DECOY": secret},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate((life, written, nothing))
        ],
    )
    stack.callback(_end, pid)
    stack.callback(os.close, alive)
    for fd in (life, written, nothing):
        os.close(fd)
    os.read(ready, 5)
    os.close(ready)
    return pid


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _key(stack: ExitStack, name: str, secret: str) -> None:
    """A key in the user's keyring of the kernel."""
    libc = ctypes.CDLL(None, use_errno=True)
    add, control = CALLS_OF_KEYRINGS
    key = libc.syscall(add, b"user", name.encode(), secret.encode(), len(secret), USER_KEYRING)
    if key > 0:
        stack.callback(libc.syscall, control, _UNLINK, key, USER_KEYRING)
