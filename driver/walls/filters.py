"""The seccomp filter of a wall: the system calls that no command inside may make. No I/O.

A filter is a program for the kernel's BPF machine, 8 bytes an instruction. It refuses calls and
allows the rest, because a list of allowed calls breaks with each new C library.
"""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import Iterable
from functools import cache
from typing import Any

from driver.walls.wall import Network
from state_store.values.lazy_dataclass import dataclass

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16
_X32_CALLS = 0x40000000

# Each call with its number on x86_64 and on aarch64; None where it does not exist.
_TRACES: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
}
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # the kernel's keyrings, which namespaces do not separate
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # mounts and namespaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    # parts of the kernel that no build or test needs
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
}
# Callers of these fall back to older calls, whose arguments a filter can read.
_MISSING = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_NEW_NAMESPACES = 0x7E020000
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX type for the user
# Priority and processors of a process, with the argument that names it: 0 is the caller itself.
_OF_SCHEDULES: dict[str, tuple[int, int, int, int]] = {
    "setpriority": (141, 140, 1, errno.EPERM),
    "sched_setparam": (142, 118, 0, errno.EPERM),
    "sched_setscheduler": (144, 119, 0, errno.EPERM),
    "sched_setattr": (314, 274, 0, errno.EPERM),
    "ioprio_set": (251, 30, 1, errno.EPERM),
    # Libraries ask this for single threads, by a number. It does nothing then, and says so to none.
    "sched_setaffinity": (203, 122, 0, 0),
}
# The callers of these may mean all processes of the user by 0.
_OF_USERS = {"setpriority": 2, "ioprio_set": 3}
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16


@dataclass(frozen=True, slots=True)
class _Machine:
    audit: int
    column: int
    clone: int
    socket: int
    ioctl: int
    prlimit: int


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 0, clone=56, socket=41, ioctl=16, prlimit=302),
    "aarch64": _Machine(0xC00000B7, 1, clone=220, socket=198, ioctl=29, prlimit=261),
}


def known_machine(machine: str) -> bool:
    """True if the numbers of the system calls of this processor are known."""
    return machine in _MACHINES


def families(network: Network, unix_sockets: bool) -> tuple[int, ...]:
    """The families of sockets that a command may open."""
    inet = () if network is Network.NONE else (_INET, _INET6, _NETLINK)
    return (*((_UNIX,) if unix_sockets else ()), *inet)


@cache
def seccomp_filter(
    machine: str,
    allowed_families: tuple[int, ...],
    *,
    may_trace: bool = False,
    is_alone: bool = False,
) -> bytes:
    """The filter for a processor, as the kernel takes it. Raises KeyError for an unknown one.

    With `may_trace` a command may trace its own processes, as debuggers and the leak checks of
    AddressSanitizer do: something else keeps it from those outside. With `is_alone` it sees no
    processes but its own, and may set their limits.
    """
    known = _MACHINES[machine]
    program = [
        _one(_LOAD, _MACHINE_AT),
        _one(_EQUAL, known.audit, 1, 0),
        _refuse(errno.ENOSYS),  # a call of another processor, such as 32 bits on 64
        _one(_LOAD, _NUMBER_AT),
        *((_one(_AT_LEAST, _X32_CALLS, 0, 1), _refuse(errno.ENOSYS)) if not known.column else ()),
    ]
    refused = _REFUSED if may_trace else {**_TRACES, **_REFUSED}
    for table, number_of_error in ((refused, errno.EPERM), (_MISSING, errno.ENOSYS)):
        for numbers in table.values():
            if (number := numbers[known.column]) is not None:
                program += [_one(_EQUAL, number, 0, 1), _refuse(number_of_error)]
    program += _on_argument(
        known.clone, 0, [_one(_ANY_BIT, _NEW_NAMESPACES, 0, 1), _refuse(errno.EPERM)]
    )
    typed = [
        part for k in _TERMINAL_INPUT for part in (_one(_EQUAL, k, 0, 1), _refuse(errno.EPERM))
    ]
    program += _on_argument(known.ioctl, 1, typed)
    if not is_alone:
        program += _on_others(known)
    end = len(allowed_families)
    pass_on = [_one(_EQUAL, family, end - at, 0) for at, family in enumerate(allowed_families)]
    program += _on_argument(known.socket, 0, [*pass_on, _refuse(errno.EACCES)])
    return b"".join([*program, _one(_RETURN, _ALLOW)])


def engine_profile(allowed_families: Iterable[int]) -> str:
    """Write the same rules in the form that engines of containers take. Their own rules let a
    command make namespaces."""
    allowed = tuple(allowed_families)
    refused = [
        {"names": [*_REFUSED], "errnoRet": errno.EPERM},
        {"names": [*_MISSING], "errnoRet": errno.ENOSYS},
        *(_refused_for("clone", 0, "SCMP_CMP_MASKED_EQ", 1 << bit) for bit in range(25, 31)),
        _refused_for("clone", 0, "SCMP_CMP_MASKED_EQ", 1 << 17),
        *(_refused_for("ioctl", 1, "SCMP_CMP_EQ", kind) for kind in _TERMINAL_INPUT),
        *(
            _refused_for("socket", 0, "SCMP_CMP_EQ", family)
            for family in range(_NETLINK + 1)
            if family not in allowed
        ),
        _refused_for("socket", 0, "SCMP_CMP_GT", _NETLINK),
    ]
    rules = [{"action": "SCMP_ACT_ERRNO", **one} for one in refused]
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules})


def _refused_for(call: str, index: int, how: str, value: int) -> dict[str, Any]:
    """A rule that refuses a call by the value of an argument, or by a bit of it."""
    asked = {"index": index, "value": value, "valueTwo": value, "op": how}
    return {"names": [call], "errnoRet": errno.EPERM, "args": [asked]}


def _on_others(known: _Machine) -> list[bytes]:
    """Instructions that keep a command from the limits, priority and processors of processes other
    than the caller: a limit of 0 seconds would end one."""
    program = _on_argument(known.prlimit, 0, [_one(_EQUAL, 0, 1, 0), _refuse(errno.EPERM)])
    for name, (on_x86, on_arm, index, error) in _OF_SCHEDULES.items():
        call = on_arm if known.column else on_x86
        if name in _OF_USERS:
            users = [_one(_EQUAL, _OF_USERS[name], 0, 1), _refuse(error)]
            program += _on_argument(call, 0, users)
        program += _on_argument(call, index, [_one(_EQUAL, 0, 1, 0), _refuse(error)])
    return program


def _on_argument(call: int, index: int, checks: list[bytes]) -> list[bytes]:
    """Instructions that check the low half of an argument of one call."""
    inner = [_one(_LOAD, _ARGUMENTS_AT + 8 * index), *checks, _one(_LOAD, _NUMBER_AT)]
    return [_one(_EQUAL, call, 0, len(inner)), *inner]


def _one(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(number: int) -> bytes:
    return _one(_RETURN, _REFUSE | number)
