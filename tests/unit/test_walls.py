"""The rules of walls: levels, arguments, filters, and the choice."""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driver.execution.command import Command
from driver.execution.wall_entry import opened_up
from driver.filesystem.temporary import counted_here
from driver.walls.choice import (
    Asked,
    Chosen,
    WallRefusedError,
    choice_key,
    choose,
    kept_choice,
    text_to_keep,
)
from driver.walls.container import contained
from driver.walls.enclose import enclosed, why_not_entered
from driver.walls.escape import ESCAPES, Held
from driver.walls.filters import families, seccomp_filter
from driver.walls.groups import remove_left
from driver.walls.roles import Places, RoleSettings, System, wall_of
from driver.walls.wall import Level, Limits, Means, Network, Role, Wall
from state_store.values.lazy_dataclass import replace

BWRAP = Means(Level.BWRAP, "x86_64", program="/usr/bin/bwrap", landlock_abi=7)
LANDLOCK = Means(Level.LANDLOCK, "x86_64", landlock_abi=7)
OWN = Means(Level.LANDLOCK, "x86_64", landlock_abi=7, namespaces=True)
LIMITS = Means(Level.LIMITS, "x86_64")
NONE = Means(Level.NONE, "x86_64")
ENGINE = Means(Level.CONTAINER, "x86_64", program="/usr/bin/podman", image="image:1")
ALL = (BWRAP, OWN, LANDLOCK, LIMITS, NONE)
# A choice is kept for programs that are there, which bwrap may not be.
THERE = (replace(BWRAP, program=sys.executable), *ALL[1:])

WORK = Path("/home/user/places/item/work")
COMMAND = Command(("make", "test"), WORK, {"CI": "1"}, 60.0)
WALL = Wall(
    readable=(Path("/usr"), Path("/home/user/.pyenv")),
    writable=(WORK,),
    hidden=(Path("/home/user"),),
)
STATUS = Path("/run/status")


def inside(means: Means, **changes: Any) -> Command:
    return enclosed(COMMAND, replace(WALL, **changes), means, STATUS)


# Levels


def test_a_level_is_at_least_as_strong_as_itself_and_as_all_below() -> None:
    assert [level for level in Level if level.at_least(Level.LANDLOCK)] == [
        Level.CONTAINER,
        Level.BWRAP,
        Level.LANDLOCK,
    ]


def test_reports_name_the_version_of_landlock() -> None:
    assert [means.name for means in ALL] == ["bwrap", "landlock-7", "landlock-7", "limits", "none"]


# The command inside


def test_without_a_wall_the_command_stays_as_it_is() -> None:
    assert inside(NONE) == COMMAND


def test_deeper_mounts_of_bwrap_come_after_those_that_would_cover_them() -> None:
    argv = inside(BWRAP).argv
    order = [argv.index(str(path)) for path in (*WALL.hidden, WALL.readable[1], WORK)]
    assert order == sorted(order)
    assert argv[argv.index(str(WALL.hidden[0])) - 1] == "--tmpfs"
    assert argv[argv.index(str(WORK)) - 1] == "--bind"
    assert argv[-3:] == ("--", "make", "test")


@pytest.mark.parametrize(
    ("network", "shared"), [("none", False), ("loopback", False), ("host", True)]
)
def test_bwrap_shares_only_the_network_of_the_host(network: str, shared: bool) -> None:
    argv = inside(BWRAP, network=Network(network)).argv
    assert "--unshare-all" in argv
    assert ("--share-net" in argv) is shared


def test_landlock_leaves_the_arguments_alone_and_names_all_places() -> None:
    command = inside(LANDLOCK)
    assert command.argv == COMMAND.argv
    assert {f"read={path}" for path in WALL.readable} <= set(command.wall)
    assert {f"write={WORK}", "hidden=/home/user", "abi=7", f"status={STATUS}"} <= set(command.wall)


@pytest.mark.parametrize(
    ("means", "network", "own", "closed"),
    [
        (OWN, "none", ["own=mounts", "own=network"], True),
        (OWN, "loopback", ["own=mounts", "own=network"], False),
        (OWN, "host", ["own=mounts"], False),
        (LANDLOCK, "none", [], True),
        (LANDLOCK, "loopback", [], True),  # Landlock knows ports and no addresses
        (LANDLOCK, "host", [], False),
    ],
)
def test_a_loopback_without_a_network_of_its_own_is_closed(
    means: Means, network: str, own: list[str], closed: bool
) -> None:
    words = inside(means, network=Network(network)).wall
    assert [word for word in words if word.startswith("own=")] == own
    assert ("no_tcp=1" in words) is closed


def test_what_everybody_writes_in_is_replaced_unless_it_is_a_place_itself() -> None:
    words = inside(OWN, writable=(Path("/dev/shm/places/work"), Path("/tmp"))).wall
    covered = [word for word in words if word.startswith("cover=")]
    assert covered == ["cover=/dev/shm", "cover=/var/tmp"]
    assert not [word for word in inside(LANDLOCK).wall if word.startswith("cover=")]


def test_hidden_files_are_covered_or_left_out() -> None:
    shadow = Path("/etc/shadow")
    argv = inside(BWRAP, hidden_files=(shadow,)).argv
    at = argv.index("/etc/shadow")
    assert argv[at - 2 : at] == ("--ro-bind", "/dev/null")
    assert "hidden=/etc/shadow" in inside(LANDLOCK, hidden_files=(shadow,)).wall


def test_limits_are_rules_at_every_level_with_rules() -> None:
    limits = Limits(data=1 << 20, file_size=5, processes=7)
    for means in (BWRAP, LANDLOCK, LIMITS):
        words = inside(means, limits=limits).wall
        assert {"limit=DATA:1048576", "limit=FSIZE:5", "processes=7", "limit=CORE:0"} <= set(words)


def in_container(means: Means = ENGINE, **changes: Any) -> Command:
    wall, own = replace(WALL, **changes), {"PATH": "/usr/bin", "HOME": "/home/user"}
    return contained(COMMAND, wall, means, Path("/status"), "name", own)


def test_a_container_gets_the_places_and_the_names_of_variables() -> None:
    command = in_container(network=Network.LOOPBACK, limits=Limits(processes=9))
    argv = command.argv
    assert argv[:2] == ("/usr/bin/podman", "run")
    assert {
        f"--mount=type=bind,source={WORK},target={WORK}",
        "--mount=type=bind,source=/usr,target=/usr,readonly",
        "--env=CI",
    } <= set(argv)
    assert {"--network=none", "--pids-limit=9", "--cap-drop=ALL", "--read-only"} <= set(argv)
    assert argv[argv.index("image:1") + 1] == "-c"
    assert argv[-2:] == ("make", "test")
    assert command.env["HOME"] == "/home/user"  # where the engine has its images


def test_a_comma_in_a_place_is_no_option_of_a_mount() -> None:
    argv = in_container(writable=(Path('/a,b"c'),)).argv
    assert '--mount=type=bind,"source=/a,b""c","target=/a,b""c"' in argv


@pytest.mark.parametrize(
    ("means", "status", "reason"),
    [
        (LANDLOCK, "entered\n", ""),
        (LANDLOCK, "", "the wall landlock-7 could not be made"),
        (LANDLOCK, "failed x: no\n", "the wall landlock-7 could not be made: x: no"),
        (BWRAP, "entered\n", "bwrap did not start make"),
        (BWRAP, 'entered\n{ "child-pid": 3 }\n{ "exit-code": 1 }\n', ""),
        (ENGINE, "entered\n", ""),
        (ENGINE, "", "the wall container could not be made"),
        (NONE, "", ""),
    ],
)
def test_a_command_that_never_started_has_a_reason(means: Means, status: str, reason: str) -> None:
    assert why_not_entered(means, status, "make") == reason


def test_a_missing_program_is_told_as_it_is_without_a_wall() -> None:
    told = why_not_entered(LANDLOCK, f"entered\nno_command {errno.ENOENT}\n", "make")
    assert told.startswith("cannot start make: it was not found")


def test_a_readable_folder_is_opened_up_around_hidden_ones(tmp_path: Path) -> None:
    for name in ("a/secret", "a/open", "b"):
        (tmp_path / name).mkdir(parents=True)
    found = opened_up(str(tmp_path), [str(tmp_path / "a" / "secret")])
    assert sorted(found) == [str(tmp_path / "a" / "open"), str(tmp_path / "b")]


# Filters


def run_filter(program: bytes, audit: int, call: int, *arguments: int) -> int:
    """The answer of the kernel's machine: 0 if the call is allowed, or the error number."""
    words = [0, 0] * 6
    for at, value in enumerate(arguments):
        words[2 * at : 2 * at + 2] = [value & 0xFFFFFFFF, value >> 32]
    memory = [call, audit, 0, 0, *words]
    at = held = 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, 8 * at)
        at += 1
        if code == 0x06:
            return 0 if value == 0x7FFF0000 else value & 0xFFFF
        if code == 0x20:
            held = memory[value // 4]
            continue
        holds = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
        at += if_true if holds else if_false


X86, ARM = 0xC000003E, 0xC00000B7
MACHINES = {"x86_64": X86, "aarch64": ARM}
CALLS = {
    "read": {"x86_64": 0, "aarch64": 63},
    "execve": {"x86_64": 59, "aarch64": 221},
    "ptrace": {"x86_64": 101, "aarch64": 117},
    "mount": {"x86_64": 165, "aarch64": 40},
    "unshare": {"x86_64": 272, "aarch64": 97},
    "keyctl": {"x86_64": 250, "aarch64": 219},
    "clone": {"x86_64": 56, "aarch64": 220},
    "socket": {"x86_64": 41, "aarch64": 198},
    "ioctl": {"x86_64": 16, "aarch64": 29},
    "prlimit64": {"x86_64": 302, "aarch64": 261},
    "setpriority": {"x86_64": 141, "aarch64": 140},
    "sched_setscheduler": {"x86_64": 144, "aarch64": 119},
    "ioprio_set": {"x86_64": 251, "aarch64": 30},
    "clone3": {"x86_64": 435, "aarch64": 435},
    "io_uring_setup": {"x86_64": 425, "aarch64": 425},
}
SIGCHLD, NEW_USER = 17, 0x10000000


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("call", "arguments", "answer"),
    [
        ("read", (), 0),
        ("execve", (), 0),
        ("ptrace", (), errno.EPERM),
        ("mount", (), errno.EPERM),
        ("unshare", (), errno.EPERM),
        ("keyctl", (), errno.EPERM),
        ("clone3", (), errno.ENOSYS),
        ("io_uring_setup", (), errno.ENOSYS),
        ("clone", (SIGCHLD,), 0),
        ("clone", (SIGCHLD | NEW_USER,), errno.EPERM),
        ("ioctl", (0, 0x5401), 0),
        ("ioctl", (0, 0x5412), errno.EPERM),
        ("ioctl", (0, 0x541C), errno.EPERM),
        ("prlimit64", (0, 7), 0),
        ("prlimit64", (4711, 7), errno.EPERM),
        ("setpriority", (0, 0), 0),
        ("setpriority", (0, 4711), errno.EPERM),
        ("setpriority", (2, 0), errno.EPERM),
        ("sched_setscheduler", (0,), 0),
        ("sched_setscheduler", (4711,), errno.EPERM),
        ("ioprio_set", (1, 0), 0),
        ("ioprio_set", (1, 4711), errno.EPERM),
        ("ioprio_set", (3, 0), errno.EPERM),
        ("socket", (2,), 0),
        ("socket", (10,), 0),
        ("socket", (16,), 0),
        ("socket", (1,), errno.EACCES),
        ("socket", (17,), errno.EACCES),
    ],
)
def test_the_filter_refuses_what_leads_out(
    machine: str, call: str, arguments: tuple[int, ...], answer: int
) -> None:
    program = seccomp_filter(machine, families(Network.HOST, unix_sockets=False))
    assert run_filter(program, MACHINES[machine], CALLS[call][machine], *arguments) == answer


@pytest.mark.parametrize("machine", MACHINES)
def test_a_command_may_trace_its_own_processes_where_it_reaches_no_others(machine: str) -> None:
    program = seccomp_filter(machine, (), may_trace=True, is_alone=True)
    for call in ("ptrace", "prlimit64", "sched_setscheduler"):
        assert run_filter(program, MACHINES[machine], CALLS[call][machine], 4711) == 0
    assert run_filter(program, MACHINES[machine], CALLS["keyctl"][machine]) == errno.EPERM


def test_without_landlock_nothing_is_traced() -> None:
    def filter_of(means: Means) -> bytes:
        [word] = [word for word in inside(means).wall if word.startswith("seccomp=")]
        return bytes.fromhex(word.partition("=")[2])

    trace = CALLS["ptrace"]["x86_64"]
    assert run_filter(filter_of(BWRAP), X86, trace) == 0
    assert run_filter(filter_of(replace(BWRAP, landlock_abi=0)), X86, trace) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("unix", "allowed"), [(False, []), (True, [1])])
def test_without_a_network_no_socket_leaves_the_machine(
    machine: str, unix: bool, allowed: list[int]
) -> None:
    program = seccomp_filter(machine, families(Network.NONE, unix_sockets=unix))
    call = CALLS["socket"][machine]
    open_ones = [at for at in range(64) if run_filter(program, MACHINES[machine], call, at) == 0]
    assert open_ones == allowed


def test_calls_of_another_processor_do_not_exist() -> None:
    program = seccomp_filter("x86_64", ())
    assert run_filter(program, 0x40000003, 3) == errno.ENOSYS  # 32 bits
    assert run_filter(program, X86, 0x40000000 + 41) == errno.ENOSYS  # x32
    assert run_filter(seccomp_filter("aarch64", ()), X86, 0) == errno.ENOSYS


# The choice


MOUNT_EVERYWHERE = {level: ["mount"] for level in Level}


def holding(escaped: dict[Level, list[str]]) -> Callable[[Means], Held]:
    return lambda means: Held(escaped=dict.fromkeys(escaped.get(means.level, []), "got"))


def chosen(escaped: dict[Level, list[str]], asked: Asked | None = None) -> Chosen:
    return choose(asked or Asked(), ALL, holding(escaped))


def test_the_strongest_wall_that_holds_is_chosen() -> None:
    assert chosen({}) == Chosen(BWRAP)


def test_one_escape_passes_a_level_over_and_says_why() -> None:
    result = chosen({Level.BWRAP: ["read_key_file"]})
    assert result == Chosen(OWN, ("bwrap: read_key_file",))


def test_a_broken_limit_is_no_escape() -> None:
    assert chosen({Level.BWRAP: ["fork_bomb", "fill_memory"]}).means is BWRAP


def test_a_wall_in_which_nothing_works_is_passed_over() -> None:
    result = choose(Asked(), ALL, lambda means: Held(problem="no shell" if means is BWRAP else ""))
    assert result == Chosen(OWN, ("bwrap: no shell",))


def test_without_a_wall_that_holds_only_limits_are_left() -> None:
    result = chosen(MOUNT_EVERYWHERE)
    assert result.means is LIMITS
    assert len(result.passed_over) == 3


def test_a_required_level_is_refused_with_the_reasons() -> None:
    with pytest.raises(WallRefusedError, match="level landlock can be made here: bwrap: mount"):
        chosen(MOUNT_EVERYWHERE, Asked(require=Level.LANDLOCK))


@pytest.mark.parametrize("name", ESCAPES)
def test_no_escape_is_tolerated_at_bwrap(name: str) -> None:
    assert chosen({Level.BWRAP: [name]}).means is not BWRAP


def test_a_choice_is_kept_for_the_same_question(tmp_path: Path) -> None:
    file = tmp_path / "walls.json"
    made = Chosen(OWN, ("bwrap: mount",))
    key = choice_key(Asked(), THERE)
    file.write_text(text_to_keep(key, made), encoding="utf-8")
    possible = tuple(means for means in THERE if means.level is not Level.BWRAP)
    assert kept_choice(file, key, THERE) == made
    assert kept_choice(file, choice_key(Asked(require=Level.BWRAP), THERE), THERE) is None
    assert kept_choice(file, choice_key(Asked(), possible), possible) is None


def test_a_choice_of_another_boot_is_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "walls.json"
    key = choice_key(Asked(), THERE)
    text = text_to_keep(key, Chosen(OWN))
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    file.write_text(text.replace(boot, "0" * len(boot)), encoding="utf-8")
    assert kept_choice(file, key, THERE) is None
    file.write_text("not JSON", encoding="utf-8")
    assert kept_choice(file, key, THERE) is None


# Roles

PLACES = Places(
    WORK,
    own=(Path("/places/item/home"), Path("/places/item/tmp")),
    objects=(Path("/repo/.git/objects"),),
    prepared=(Path("/places/venv"),),
)
LOGIN = Path("/home/user/.agent")


def wall_for(role: Role, settings: RoleSettings | None = None) -> Wall:
    shared = (Path("/usr"), Path("/home/user/.pyenv"))
    system = System(shared, writable_of={Role.AGENT: (LOGIN,)})
    return wall_of(role, PLACES, system, settings or RoleSettings())


def test_only_an_agent_gets_the_login_of_its_program() -> None:
    assert [role for role in Role if LOGIN in wall_for(role).writable] == [Role.AGENT]
    assert [role for role in Role if LOGIN in wall_for(role).readable] == []


def test_only_a_set_up_may_change_what_it_installed() -> None:
    assert [role for role in Role if PLACES.prepared[0] in wall_for(role).writable] == [Role.SETUP]


def test_an_agent_reads_all_that_its_test_reads() -> None:
    assert set(wall_for(Role.TEST).readable) <= set(wall_for(Role.AGENT).readable)


def test_no_role_may_write_what_its_git_borrows() -> None:
    assert all(PLACES.objects[0] in wall_for(role).readable for role in Role)
    assert not any(PLACES.objects[0] in wall_for(role).writable for role in Role)


def test_tests_have_a_loopback_and_the_others_the_network() -> None:
    networks = {role: wall_for(role).network for role in Role}
    assert networks.pop(Role.TEST) is Network.LOOPBACK
    assert set(networks.values()) == {Network.HOST}


def test_settings_of_a_role_add_places_and_replace_the_network() -> None:
    settings = RoleSettings(Network.NONE, (Path("/data"),), (Path("/cache"),), unix_sockets=True)
    wall = wall_for(Role.TEST, settings)
    assert wall.network is Network.NONE
    assert (wall.readable[-1], wall.writable[-1]) == (Path("/data"), Path("/cache"))
    assert wall.unix_sockets


# Groups


def test_only_groups_of_ended_runs_are_removed(tmp_path: Path) -> None:
    ended, running = (f"tidegate-{counted_here()}-{pid}-ab" for pid in (2**22 + 1, os.getpid()))
    foreign = f"tidegate-another-{2**22 + 1}-ab"
    for name in (ended, running, foreign):
        (tmp_path / name).mkdir()
    remove_left(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {running, foreign}
