"""The settings of a run around its items: sandbox, ship, limits, checkpoint, audit, notices,
secrets.

The text below a field is its meaning; docs/configuration.md and the schema of the config are made
from it.
"""

from __future__ import annotations

from pathlib import Path

from state_store.sql.addresses import DEFAULT_SCHEMA
from state_store.values.lazy_dataclass import dataclass
from tools.settings import kinds
from tools.settings.kinds import one_of, setting, whole_number
from tools.settings.resources import DATABASE, SCHEMA, SIZE

PRIVATE, HOST = "private", "host"
LEVELS = ("container", "bwrap", "landlock", "limits", "none")


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """The walls around agents, tests, set-ups and hooks."""

    level: str = setting(one_of("auto", *LEVELS), "auto")
    """the kind of the walls, the strongest first ([security.md](security.md)). `auto` takes the
    strongest of `bwrap`, `landlock` and `limits` that this machine has and that no attempt to
    escape leaves"""
    require: str = setting(one_of(*LEVELS), "none")
    """the weakest kind of walls that a wave may begin with"""
    home: str = setting(one_of(PRIVATE, HOST), PRIVATE)
    """`private` gives each command a home and a temporary folder of its own, with links to your
    toolchains; with `host` they have yours, which a wave says in its first lines"""
    image: str | None = setting(kinds.TEXT)
    """the image of the kind `container`, which podman or docker has already
    ([more](security.md#containers))"""


@dataclass(frozen=True, slots=True)
class RoleSandboxSettings:
    """The walls around the commands of one role."""

    network: str | None = setting(one_of("none", "loopback", "host"))
    """`none`, a `loopback` of its own that nobody else reaches, or the network of the `host`.
    Without the key tests have a loopback of their own where the walls can make one, and all others
    the network of the host"""
    readable: tuple[Path, ...] = setting(kinds.PATHS, ())
    """further files and folders that the commands may read"""
    writable: tuple[Path, ...] = setting(kinds.PATHS, ())
    """further files and folders that the commands may read and write"""
    unix_sockets: bool = setting(kinds.SWITCH, False)
    """whether sockets of the file system may be opened at the kind `landlock`, which cannot hide
    those outside; `bwrap` hides them all but those in readable folders"""
    memory: int | None = setting(SIZE)
    """the memory of a command with all its processes, such as `"2 GiB"`; 0 is no limit. Without the
    key 80 % of the memory of this machine or of the container that Tidegate runs in
    ([operations.md](operations.md#limits-of-commands))"""
    processes: int | None = setting(whole_number(0, 10**6))
    """the processes and threads of a command at the same time; 0 is no limit. Without the key
    8192, or half of what this machine or container allows, if that is less"""
    file_size: int | None = setting(SIZE)
    """the size of each file that a command writes, its output included; without the key, or with 0,
    no limit"""
    disk: int | None = setting(SIZE)
    """the room that a command takes in its folders; 0 is no limit. Without the key three quarters
    of what is free when it starts. With the kind `bwrap` also the size of its private `/tmp`"""
    output: int | None = setting(SIZE)
    """what a command may print; 0 is no limit. Without the key 1 GiB"""


@dataclass(frozen=True, slots=True)
class StateSettings:
    """The database of the state, where many machines work at one backlog."""

    url: str | None = setting(DATABASE)
    """a PostgreSQL server in place of the file in the state folder
    ([many-machines.md](many-machines.md)), such as `postgresql://tidegate@db.example/builds`. What
    it leaves out is taken from the `PG*` variables and `.pgpass`; put no password here. It needs
    the driver: `pip install "tidegate[postgres]"`"""
    schema: str = setting(SCHEMA, DEFAULT_SCHEMA)
    """the schema that has this project's tables, so that one database holds many projects"""
    unshipped_max: int = setting(SIZE, 4 * 2**20)
    """the size of an item's unshipped work up to which other machines can go on with it, such as
    `"4 MiB"` ([many-machines.md](many-machines.md#work-of-a-lost-machine)); only with a `url`"""


@dataclass(frozen=True, slots=True)
class ShipSettings:
    """The destination of verified work, and the author of its commits."""

    mode: str = setting(one_of("branch", "current", "none"), "branch")
    """the destination of verified work: a new wave branch, or the branch that the wave started
    from. With `none` the work is saved as patches ([operations.md](operations.md))"""
    target: str | None = setting(kinds.TEXT)
    """the branch that waves start from and ship to; without the key the branch that is checked out
    ([operations.md](operations.md))"""
    remote: str | None = setting(kinds.REMOTE)
    """the remote that verified work is pushed to"""
    commit: str = setting(one_of("per-item", "batch"), "per-item")
    """one commit for each item, or one commit for all items that ship together
    ([operations.md](operations.md))"""
    sign: str = setting(one_of("auto", "always", "never"), "auto")
    """whether commits are signed with your own key; `auto` follows your `commit.gpgSign`
    ([operations.md](operations.md))"""
    bot_name: str = setting(kinds.TEXT, "Tidegate")
    """the author of Tidegate's commits"""
    bot_email: str = setting(kinds.TEXT, "tidegate@localhost")
    """the address of this author"""
    hooks: str = setting(one_of("run", "off"), "run")
    """whether your own `pre-commit`, `commit-msg` and `pre-push` hooks run at the ship
    ([operations.md](operations.md#your-hooks))"""
    hook_timeout_s: float = setting(kinds.SECONDS, 600.0)
    """the maximum time of each hook"""
    pr: str = setting(one_of("draft", "ready", "none"), "none")
    """whether Tidegate opens a pull request for a pushed wave branch
    ([operations.md](operations.md#pull-requests))"""
    pr_command: tuple[str, ...] = setting(kinds.ARGV, ())
    """the command that opens the pull request instead of `gh`; `{title}`, `{body_file}`, `{head}`,
    `{base}`, `{commit}` and `{state}` in it are replaced"""


@dataclass(frozen=True, slots=True)
class LimitsSettings:
    """Limits of a run. None means no limit."""

    max_workers: int | None = setting(kinds.COUNT)  # None means 8, see `agents_at_once`
    """the maximum number of agents that work at the same time; 8 if the key is not set"""
    max_parallel_tests: int | None = setting(kinds.COUNT)
    """the maximum number of test commands that run at the same time, in all repositories of a wave
    and for any number of agents; the number of processors if the key is not set"""
    max_wave_tokens: int | None = setting(kinds.TOKENS)
    """the tokens that one wave may spend; none is no ceiling"""
    max_daily_tokens: int | None = setting(kinds.TOKENS)
    """the tokens that all waves of one UTC day together may spend; none is no ceiling"""
    max_wave_usd: float | None = setting(kinds.USD)
    """the money that one wave may spend"""
    max_daily_usd: float | None = setting(kinds.USD)
    """the money that all waves of one UTC day may spend"""
    max_wave_minutes: float | None = setting(kinds.MINUTES)
    """after this clock time a wave starts no further agent; agents at work finish"""
    max_daily_minutes: float | None = setting(kinds.MINUTES)
    """the minutes that agents may work on one UTC day, added up"""
    max_wave_dispatches: int | None = setting(kinds.TOKENS)
    """the agents that one wave may start, repairs included"""
    max_daily_dispatches: int | None = setting(kinds.TOKENS)
    """the agents that may be started on one UTC day"""
    default_dispatch_tokens: int = setting(whole_number(1, 10**12), 200_000)
    """the estimate for a dispatch before any dispatch of its kind was measured"""
    allow_unpriced: bool = setting(kinds.SWITCH, False)
    """with a ceiling in USD: whether a model of unknown price may be used; its cost then counts as
    nothing"""
    wave_duration_minutes: float = setting(kinds.MINUTES, 60.0)
    """the time for which `tools/cost_projection.py` predicts the use"""
    lease_s: float = setting(kinds.SECONDS, 120.0)
    """how long a silent run keeps its items; leases are renewed three times in this time. After
    this time other runs take the items over. If the run's process is gone, they take them over at
    once"""
    halt_grace_s: float = setting(kinds.SECONDS, 5.0)
    """after a halt all agents and tests end within this time. They are asked to end at once, and
    ended by force after 2 s or half of this time, whichever is less"""
    halt_push_s: float = setting(kinds.SECONDS, 10.0)
    """how long a push that is under way at a halt may go on. Then the push is ended, and the next
    run finishes it"""
    give_up_s: float = setting(kinds.SECONDS, 1800.0)
    """if a backend's provider answers no call for this time, the run is parked"""
    max_attempts_per_item: int = setting(kinds.COUNT, 3)
    """an item of the tracker is `blocked` after this many failed waves"""
    retry_backoff_s: float = setting(kinds.WAIT, 60.0)
    """how long a failed item waits for its next attempt; the wait doubles with each further
    attempt. An undecided item waits this time after each attempt"""
    retry_backoff_max_s: float = setting(kinds.WAIT, 3600.0)
    """the longest of these waits"""


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The commit of STATE.md and BUILDLOG.md after each cycle."""

    commit: bool = setting(kinds.SWITCH, False)
    """whether STATE.md and BUILDLOG.md are committed after each wave of the scheduler
    ([operations.md](operations.md))"""
    branch: str = setting(kinds.BRANCH, "tidegate/state")
    """the branch of these commits; it may contain nothing else"""
    push: bool = setting(kinds.SWITCH, False)
    """whether this branch is pushed, too, if there is a remote"""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The audit after each wave."""

    propose: bool = setting(kinds.SWITCH, False)
    """whether each finding of the audit is added to the tracker as a `proposed` item"""


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """The notices at the end of a wave, also of a halted or parked one."""

    command: tuple[str, ...] = setting(kinds.ARGV, ())
    """a program that gets the notice as JSON on stdin; [] runs none"""
    env: tuple[str, ...] = setting(kinds.VARIABLES, ())
    """your variables that this program may see, besides PATH, HOME, language and the like"""
    webhook: str | None = setting(kinds.WEBHOOK)
    """an address that gets a POST with the notice as JSON: https, or http for this machine. It
    often is a secret: set it in the environment or in your own file"""
    template: str = setting(kinds.JSON_OBJECT, '{"text": "{text}"}')
    """the JSON of this POST; in its texts `{text}` and other names in braces are replaced
    ([operations.md](operations.md#notices))"""
    timeout_s: float = setting(kinds.SECONDS, 10.0)
    """how long the program or the POST may take; after a signal at most 2 s"""


@dataclass(frozen=True, slots=True)
class SecretsSettings:
    """The values that no text of Tidegate may show."""

    files: tuple[Path, ...] = setting(kinds.PATHS, ())
    """files of keys, such as `.env` or `~/.aws/credentials`, whose values are hidden like those of
    variables with a key's name: in every report, log, event, prompt, notice and pull request
    ([operations.md](operations.md#hidden-values)). A missing file has no values"""
    variables: tuple[str, ...] = setting(kinds.VARIABLES, ())
    """further environment variables whose values are hidden"""
