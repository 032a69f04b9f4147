"""Enters a wall: gives up the rights that a command inside must not have, and starts it.

The supervisor calls `start` in the process that becomes the command. The rules are words
`NAME=VALUE`; `driver.walls.enclose` writes them. The status file gets `entered` just before the
command starts, or `failed REASON`, so that a wall that cannot be made is never taken for a result
of the command; after `entered` it gets `no_command ERRNO` if there is no such program.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct

_LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_SET_DUMPABLE = 4
_SET_SECCOMP, _SECCOMP_FILTER, _DROP_BOUNDING, _NO_NEW_PRIVS = 22, 2, 24, 38
_CLEAR_AMBIENT = (47, 4)
_NEW_NET, _NEW_USER, _NEW_IPC, _NEW_MOUNTS = 0x40000000, 0x10000000, 0x08000000, 0x00020000
_PRIVATE_BELOW, _BIND, _BIND_BELOW = 0x44000, 0x1000, 0x5000
_NO_DEVICES = 0x6  # neither setuid programs nor devices
_SET_MOUNT, _FROM_HERE, _RECURSIVE = 442, -100, 0x8000
_LAST_CAPABILITY = 63
_SET_FLAGS, _UP, _RUNNING = 0x8914, 0x1, 0x40

# Rights of files, and of folders, in the order of the kernel's bits.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_MAKE_DEVICES = 1 << 6 | 1 << 11


class Rules:
    """The words of a wall."""

    def __init__(self, words: list[str]) -> None:
        self._words = [word.partition("=")[::2] for word in words]

    def all(self, name: str) -> list[str]:
        """Each value of a name."""
        return [value for one, value in self._words if one == name]

    def one(self, name: str) -> str:
        """The last value of a name, or ""."""
        return (self.all(name) or [""])[-1]


def start(
    words: list[str], argv: list[bytes], env: dict[bytes, bytes], programs: list[bytes]
) -> None:
    """Enter the wall and become the first of `programs` that exists. Does not return."""
    _LIBC.prctl(_SET_DUMPABLE, 1, 0, 0, 0)  # else the kernel lets nobody write the maps of users
    rules = Rules(words)
    how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    status = os.open(rules.one("status"), how, 0o600)
    number = 0
    try:
        extra = _enter(rules, status)
        os.write(status, b"entered\n")
    except OSError as problem:
        os.write(status, f"failed {problem.filename or ''}: {problem.strerror}\n".encode())
        os._exit(126)
    for program in programs:
        try:
            os.execve(program, [argv[0], *extra, *argv[1:]], env)
        except OSError as problem:
            # One that may not be run says more than the next place, where there is none.
            number = number if number == errno.EACCES else problem.errno or 0
    os.write(status, f"no_command {number}\n".encode())
    os._exit(127)


def _enter(rules: Rules, status: int) -> list[bytes]:
    """Give up all that the rules say; returns the arguments that a wrapper needs besides."""
    for group in rules.all("group"):
        with open(group, "w") as members:  # noqa: PTH123 - pathlib costs as much as all the rest
            members.write("0")
    processes = int(rules.one("processes") or 0)
    if processes and os.getuid() != 0:
        # Before the namespaces: one of users counts its own processes, and holds those of all to
        # the limit that its maker had.
        _limit("NPROC", _tasks_of(os.getuid()) + processes)
    own = rules.all("own")
    if own:
        _own_namespaces(own, rules)
    elif rules.all("target"):
        _enter_namespaces(_NEW_MOUNTS)
        _lay_layers(rules)
    for name, _, value in (word.partition(":") for word in rules.all("limit")):
        _limit(name, int(value))
    if rules.one("abi"):
        _checked(_LIBC.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        _landlock(rules, int(rules.one("abi")))
    program = bytes.fromhex(rules.one("seccomp"))
    if rules.one("wrapper"):
        filters = os.memfd_create("seccomp", 0)
        os.write(filters, program)
        os.lseek(filters, 0, os.SEEK_SET)
        os.set_inheritable(status, True)
        return [b"--seccomp", b"%d" % filters, b"--json-status-fd", b"%d" % status]
    if program:
        _drop_capabilities()
        _seccomp(program)
    return []


def _checked(result: int, step: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), step)
    return result


def _limit(name: str, value: int) -> None:
    kind = getattr(resource, f"RLIMIT_{name}")
    hard = resource.getrlimit(kind)[1]
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (most, most))


def _tasks_of(user: int) -> int:
    """The number of threads of a user, which is what the kernel's limit counts."""
    found = 0
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == user:  # noqa: PTH116
                    found += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
            except OSError:
                continue
    return found


def _enter_namespaces(wanted: int) -> None:
    """Move into namespaces of our own, with mounts that nobody else sees."""
    user, group = os.geteuid(), os.getegid()
    if _LIBC.unshare(wanted) != 0:
        _checked(_LIBC.unshare(_NEW_USER | wanted), "namespaces of its own")
        for file, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{file}", "w") as mapping:  # noqa: PTH123
                mapping.write(text)
    _checked(_LIBC.mount(b"none", b"/", None, _PRIVATE_BELOW, None), "own mounts")


def _lay_layers(rules: Rules) -> None:
    """Let each target show its lower folder. What is written there goes to the upper one."""
    for parts in zip(*map(rules.all, ("lower", "upper", "beside", "target")), strict=True):
        lower, upper, beside, target = map(os.fsencode, parts)
        how = b"lowerdir=%b,upperdir=%b,workdir=%b,userxattr" % (lower, upper, beside)
        done = _LIBC.mount(b"overlay", target, b"overlay", _NO_DEVICES, how)
        _checked(done, os.fsdecode(target))


def _own_namespaces(own: list[str], rules: Rules) -> None:
    """Move into a network with only a loopback, and to mounts where only the places of `write` and
    new folders for those of `cover` can be written."""
    _enter_namespaces(_NEW_MOUNTS | _NEW_IPC | (_NEW_NET if "network" in own else 0))
    _lay_layers(rules)
    found = (os.path.realpath(path) for path in rules.all("cover") if os.path.isdir(path))  # noqa: PTH112
    covered = [*dict.fromkeys(found)]  # one may be a link to another
    for folder in covered:
        _cover(folder, [*rules.all("read"), *rules.all("write")], rules.one("scratch"))
    terminals = b"newinstance,ptmxmode=0666"
    _checked(_LIBC.mount(b"devpts", b"/dev/pts", b"devpts", 0, terminals), "terminals")
    _checked(_LIBC.mount(b"/dev/pts/ptmx", b"/dev/ptmx", None, _BIND, None), "terminals")
    open_places = [os.fsencode(path) for path in rules.all("write")]
    for place in open_places:
        _checked(_LIBC.mount(place, place, None, _BIND_BELOW, None), os.fsdecode(place))
    _set_read_only(b"/", True)
    for folder in covered:
        _set_read_only(os.fsencode(folder), False, below=0)
    for place in open_places:
        _set_read_only(place, False)
    os.chdir(os.getcwd())  # noqa: PTH109 - the folder of before lies on the mount of before
    if "network" in own:
        socket = _checked(_LIBC.socket(2, 2, 0), "loopback")
        request = ctypes.create_string_buffer(struct.pack("=16sH22x", b"lo", _UP | _RUNNING))
        _checked(_LIBC.ioctl(socket, _SET_FLAGS, request), "loopback")
        os.close(socket)


def _cover(folder: str, places: list[str], size: str) -> None:
    """Mount a new folder over one that everybody writes in; the places in it stay where they
    are."""
    begin = f"{folder}/"
    real = sorted({os.path.realpath(path) for path in places})
    held: list[tuple[str, int]] = []
    for path in (one for one in real if one.startswith(begin)):
        if any(path.startswith(f"{outer}/") for outer, _ in held):
            continue
        try:
            held.append((path, os.open(path, os.O_PATH | os.O_CLOEXEC)))
        except (FileNotFoundError, PermissionError):  # nothing is allowed there either
            continue
    linked = [one for one in places if one.startswith(begin) and os.path.islink(one)]  # noqa: PTH114
    links = {one: os.readlink(one) for one in linked}  # noqa: PTH115
    options = f"mode=1777{f',size={size}' if size else ''}".encode()
    _checked(_LIBC.mount(b"tmpfs", folder.encode(), b"tmpfs", _NO_DEVICES, options), folder)
    for path, place in held:
        source = f"/proc/self/fd/{place}"
        if os.path.isdir(source):  # noqa: PTH112
            os.makedirs(path, exist_ok=True)  # noqa: PTH103
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        mounted = _LIBC.mount(source.encode(), os.fsencode(path), None, _BIND_BELOW, None)
        _checked(mounted, path)
        os.close(place)
    for path, target in links.items():
        if not os.path.lexists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
            os.symlink(target, path)  # noqa: PTH211


def _set_read_only(place: bytes, read_only: bool, *, below: int = _RECURSIVE) -> None:
    change = struct.pack("=QQQQ", int(read_only), int(not read_only), 0, 0)
    size = ctypes.c_size_t(len(change))
    done = _LIBC.syscall(_SET_MOUNT, _FROM_HERE, place, below, change, size)
    _checked(done, f"read-only {os.fsdecode(place)}")


def _landlock(rules: Rules, abi: int) -> None:
    """Restrict files, unless the wrapper does, and abstract sockets and signals."""
    files = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)) - 1
    if rules.one("wrapper"):
        files = 0
    connections = 3 if abi >= 4 and rules.one("no_tcp") else 0
    scopes = 3 if abi >= 6 else 0
    if not (files or connections or scopes):
        return
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    attributes = struct.pack("=QQQ", files, connections, scopes)[:size]
    ruleset = _checked(
        _LIBC.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0), "landlock"
    )
    hidden = [os.path.realpath(path) for path in rules.all("hidden")]
    if files:
        for path in rules.all("read"):
            for part in opened_up(os.path.realpath(path), hidden):
                _allow(ruleset, part, files & _READ)
        for path in rules.all("device"):
            _allow(ruleset, path, files & ~_EXECUTE)
        for path in (*rules.all("write"), *rules.all("cover")):
            _allow(ruleset, path, files & ~_MAKE_DEVICES & ~_IOCTL_DEVICE)
        for stream in (0, 1, 2):  # what is open already may be opened again as /dev/stdout
            _allow_stream(ruleset, stream, files)
    _checked(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0), "landlock")
    os.close(ruleset)


def opened_up(path: str, hidden: list[str]) -> list[str]:
    """`path`, or what is in it beside the hidden folders: the kernel can only add rights."""
    if path in hidden:
        return []
    if not any(one.startswith(path.rstrip("/") + "/") for one in hidden):
        return [path]
    inside = [os.path.join(path, name) for name in os.listdir(path)]  # noqa: PTH118, PTH208
    return [part for one in inside for part in opened_up(one, hidden)]


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    if not os.path.isdir(path):  # noqa: PTH112
        rights &= _OF_FILES
    rule = struct.pack("=Qi", rights, place)
    _checked(_LIBC.syscall(_ADD_RULE, ruleset, 1, rule, 0), path)
    os.close(place)


def _allow_stream(ruleset: int, stream: int, files: int) -> None:
    rights = files & (_READ_FILE if stream == 0 else _WRITE_FILE | _TRUNCATE)
    try:
        _allow(ruleset, f"/proc/self/fd/{stream}", rights)
    except OSError:  # a pipe or a socket, for which there are no rules
        return


def _drop_capabilities() -> None:
    """Give up the rights of root beyond the ownership of its files."""
    for capability in range(_LAST_CAPABILITY):
        if _LIBC.prctl(_DROP_BOUNDING, capability, 0, 0, 0) != 0:
            break
    _LIBC.prctl(*_CLEAR_AMBIENT, 0, 0, 0)
    header = struct.pack("=Ii", 0x20080522, 0)
    _checked(_LIBC.capset(header, bytes(24)), "capabilities")


def _seccomp(program: bytes) -> None:
    """Install the filter of system calls, which this process cannot take away again."""
    code = ctypes.create_string_buffer(program, len(program))
    form = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    _checked(_LIBC.prctl(_SET_SECCOMP, _SECCOMP_FILTER, form, 0, 0), "seccomp")
