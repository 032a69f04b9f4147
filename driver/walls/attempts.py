"""The attempts to escape from a wall, as a program that runs inside of it.

`escape` starts it with `python -I -S -B` and judges by the effects outside. It prints a JSON object
with the words of each attempt: what it got, or the error that stopped it. Each attempt is harmless
if it succeeds.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

GOT = "got "
CHANGED_MODE = 0o640
_LIBC = ctypes.CDLL(None, use_errno=True)
_ATTACH, _DETACH = 16, 17
_NEW_USER = 0x10000000
_NOBODY = 65534
USER_KEYRING, _SEARCH, _READ = -4, 10, 11
CALLS_OF_KEYRINGS = (248, 250) if os.uname().machine == "x86_64" else (217, 219)
_SETUID_PROGRAMS = ("/usr/bin/su", "/bin/su", "/usr/bin/sudo", "/usr/bin/newgrp")


class Target:
    """The places and processes outside, as `escape.Stage` wrote them."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.secret_file = Path(facts["secret_file"])
        self.places: dict[str, str] = facts["places"]
        self.inside = Path(facts["inside"])
        self.port: int = facts["port"]
        self.abroad: tuple[str, int] = tuple(facts["abroad"])
        self.abstract: str = facts["abstract"]
        self.sockets: dict[str, str] = facts["sockets"]
        self.victim: int = facts["victim"]
        self.key: str = facts["key"]
        self.memory: int = facts["memory"]
        self.processes: int = facts["processes"]


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _write(kind: str) -> Callable[[Target], str]:
    def attempt(target: Target) -> str:
        Path(target.places[kind]).write_text("escaped", encoding="ascii")
        return "written"

    return attempt


def _unix(kind: str) -> Callable[[Target], str]:
    def attempt(target: Target) -> str:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(target.sockets[kind])
        return "connected"

    return attempt


def read_key_file(target: Target) -> str:
    """A private key in the home."""
    return GOT + target.secret_file.read_text(encoding="ascii")


def change_mode(target: Target) -> str:
    """The rights of a file of the same user."""
    target.secret_file.chmod(CHANGED_MODE)
    return "changed"


def connect_loopback(target: Target) -> str:
    """A server of the user on the loopback."""
    with socket.create_connection(("127.0.0.1", target.port), timeout=2):
        return "connected"


def connect_abroad(target: Target) -> str:
    """Another address, by UDP and by TCP."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"escaped", target.abroad)
    with socket.create_connection(target.abroad, timeout=2):
        return "connected"


def connect_abstract(target: Target) -> str:
    """A socket without a file, such as those of D-Bus and X11."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + target.abstract)
        return "connected"


def trace_outside(target: Target) -> str:
    """Another process by ptrace."""
    _checked(_LIBC.ptrace(_ATTACH, target.victim, 0, 0))
    os.waitpid(target.victim, 0)
    _checked(_LIBC.ptrace(_DETACH, target.victim, 0, 0))
    return GOT + "trace"


def signal_outside(target: Target) -> str:
    """A signal to another process."""
    os.kill(target.victim, signal.SIGUSR1)
    return "sent"


def read_environment(target: Target) -> str:
    """The environment of another process."""
    return GOT + Path(f"/proc/{target.victim}/environ").read_bytes().decode("ascii", "replace")


def read_through_root(target: Target) -> str:
    """A file by the root folder of another process."""
    path = Path(f"/proc/{target.victim}/root", *target.secret_file.parts[1:])
    return GOT + path.read_text(encoding="ascii")


def mount(target: Target) -> str:
    """A mount of its own."""
    place = target.inside / "mounted"
    place.mkdir(exist_ok=True)
    _checked(_LIBC.mount(b"none", os.fsencode(place), b"tmpfs", 0, None))
    _LIBC.umount(os.fsencode(place))
    return GOT + "mount"


def kernel_settings(target: Target) -> str:
    """The program that the kernel starts, outside of all walls, when another one crashes."""
    del target
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))  # opened, and not written
    return GOT + "core_pattern"


def new_user_namespace(target: Target) -> str:
    """A user namespace, in which it would be root."""
    del target
    child = os.fork()
    if child == 0:
        os._exit(0 if _LIBC.unshare(_NEW_USER) == 0 else ctypes.get_errno())
    number = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if number:
        raise OSError(number, os.strerror(number))
    return GOT + "namespace"


def setuid_program(target: Target) -> str:
    """The rights of root by a program that has them for everybody."""
    del target
    program = next((path for path in _SETUID_PROGRAMS if _is_setuid(path)), "")
    if not program:
        raise FileNotFoundError("no setuid program in reach")
    asks, answers = os.pipe()  # the program waits for a password that never comes
    child = os.fork()
    if child == 0:
        _become_nobody_with(program, asks)
    users = _users_of(child)
    with contextlib.suppress(PermissionError):  # it may be another user's by now
        os.kill(child, signal.SIGKILL)
    os.close(asks)
    os.close(answers)
    os.waitpid(child, 0)
    if users != ["0", "0"]:
        raise PermissionError(f"its users: {users}")
    return GOT + "root"


def _become_nobody_with(program: str, asks: int) -> None:
    """Run a program as an ordinary user, which a root without capabilities cannot become."""
    try:
        if os.getuid() == 0:
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        nothing = os.open("/dev/null", os.O_WRONLY)
        for number, fd in enumerate((asks, nothing, nothing)):
            os.dup2(fd, number)
        os.closerange(3, 100)
        os.execv(program, [program, "root", "-c", "true"])
    finally:
        os._exit(1)


def _users_of(child: int) -> list[str]:
    """The effective and the saved user of a child once it runs its program."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{child}/stat").read_text(encoding="ascii").split(") ")[1][0]
            lines = Path(f"/proc/{child}/status").read_text(encoding="ascii").splitlines()
            name = next(line.split()[1] for line in lines if line.startswith("Name:"))
            users = next(line.split()[2:4] for line in lines if line.startswith("Uid:"))
        except OSError:
            break
        if not name.startswith("python"):
            return users
        if state == "Z":
            return ["it did not start"]
        select.select([], [], [], 0.002)
    return ["unknown"]


def _is_setuid(path: str) -> bool:
    """True for a program that runs with the rights of its owner, such as sudo."""
    return Path(path).exists() and bool(Path(path).stat().st_mode & 0o4000)


def _keyctl(*arguments: object) -> int:
    """A call of the kernel's keyrings, for which C has no function."""
    return int(_LIBC.syscall(CALLS_OF_KEYRINGS[1], *arguments))


def read_keyring(target: Target) -> str:
    """A key in the kernel's keyring of the user."""
    key = _checked(_keyctl(_SEARCH, USER_KEYRING, b"user", target.key.encode(), 0))
    content = ctypes.create_string_buffer(200)
    size = _checked(_keyctl(_READ, key, content, 200))
    return GOT + content.raw[:size].decode("ascii", "replace")


def fill_memory(target: Target) -> str:
    """More memory than the limit."""
    held = bytearray(target.memory)
    return GOT + f"memory {len(held)}"


def fork_bomb(target: Target) -> str:
    """More processes than the limit."""
    ours, theirs = os.pipe()
    children = []
    try:
        for _ in range(target.processes):
            child = os.fork()
            if child == 0:
                os.close(theirs)
                select.select([ours], [], [], 20)
                os._exit(0)
            children.append(child)
    finally:
        os.close(theirs)
        os.close(ours)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return GOT + f"processes {len(children)}"


ATTEMPTS: dict[str, Callable[[Target], str]] = {
    "write_home": _write("home"),
    "read_key_file": read_key_file,
    "write_checkout": _write("checkout"),
    "write_other_item": _write("other_item"),
    "write_state": _write("state"),
    "write_shared_memory": _write("shared_memory"),
    "write_tmp": _write("tmp"),
    "change_mode": change_mode,
    "connect_loopback": connect_loopback,
    "connect_abroad": connect_abroad,
    "connect_abstract": connect_abstract,
    "docker_socket": _unix("docker"),
    "ssh_agent": _unix("ssh_agent"),
    "trace_outside": trace_outside,
    "signal_outside": signal_outside,
    "read_environment": read_environment,
    "read_through_root": read_through_root,
    "mount": mount,
    "kernel_settings": kernel_settings,
    "new_user_namespace": new_user_namespace,
    "setuid_program": setuid_program,
    "kernel_keyring": read_keyring,
    "fill_memory": fill_memory,
    "fork_bomb": fork_bomb,
}


def work_as_usual(target: Target, own_loopback: bool) -> str:
    """The things that a wall must allow; "" if they work."""
    try:
        (target.inside / "own").write_text("own", encoding="ascii")
        if os.waitstatus_to_exitcode(os.system("exit 0")):  # noqa: S605
            return "no shell can be started"
        if own_loopback:
            with socket.create_server(("127.0.0.1", 0)) as server:
                socket.create_connection(server.getsockname(), timeout=5).close()
    except OSError as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def main(target: Target, own_loopback: bool) -> None:
    """Try all, and print the words."""
    words = {"as_usual": work_as_usual(target, own_loopback)}
    for name, attempt in ATTEMPTS.items():
        try:
            words[name] = attempt(target)
        except (OSError, MemoryError) as problem:
            words[name] = f"{type(problem).__name__}: {problem}"
    sys.stdout.write(json.dumps(words))


if __name__ == "__main__":
    main(Target(json.loads(sys.argv[1])), bool(json.loads(sys.argv[1])["own_loopback"]))
