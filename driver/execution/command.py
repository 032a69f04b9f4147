"""Commands and their results as frozen data, with error messages. No I/O.

Also defines the environment of a child. `driver.execution.processes` runs commands.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from driver.homes.toolchains import TOOLCHAIN_PLACES
from state_store.values.lazy_dataclass import dataclass

NOT_EXECUTABLE = 126
NOT_FOUND = 127

# The certificates of a company's network: without them no set-up and no tox can fetch a package.
_CERTIFICATES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"),
    *("NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "NIX_SSL_CERT_FILE"),
)
_PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "TZ", *_CERTIFICATES)
_VERSIONS = ("PYENV_VERSION", "RBENV_VERSION", "RUSTUP_TOOLCHAIN", "GOTOOLCHAIN", "NODE_VERSION")
_PASSED_ON_WINDOWS = (
    *("SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "TEMP", "TMP"),
    *("USERPROFILE", "APPDATA", "LOCALAPPDATA"),
)
# These variables make git in a child work on another repository than its current folder.
# TIDEGATE_FAIL arms failure points, which are meant for this process only.
_NEVER_PASSED = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"),
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES"),
    *("GIT_PREFIX", "GIT_CONFIG*", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE", "GIT_QUARANTINE_PATH"),
    *("GIT_IMPLICIT_WORK_TREE", "GIT_REPLACE_REF_BASE", "GIT_NO_REPLACE_OBJECTS"),
    "TIDEGATE_FAIL",
)
# These make a program run other code, or lead to a person's keys and services. A pattern does not
# pass them: who needs one names it.
_ONLY_BY_NAME = (
    *("LD_*", "DYLD_*", "GCONV_PATH", "BASH_ENV", "ENV", "ZDOTDIR", "PROMPT_COMMAND", "SHELLOPTS"),
    *("PYTHON*", "PYTEST_*", "NODE_OPTIONS", "NODE_PATH", "npm_config_*", "NPM_CONFIG_*"),
    *("PERL5*", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"),
    *("MAVEN_OPTS", "MAVEN_ARGS", "GRADLE_OPTS", "GOFLAGS", "MAKEFLAGS", "RUSTFLAGS"),
    *("RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_*", "GIT_SSH*", "GIT_ASKPASS"),
    *("GIT_EXEC_PATH", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"),
    *("GIT_PROXY_COMMAND", "GIT_TEMPLATE_DIR", "GIT_ATTR_*", "SSH_*", "GPG_*", "GNUPGHOME"),
    *("DOCKER_*", "CONTAINER_HOST", "KUBECONFIG", "DBUS_*", "XDG_*", "DISPLAY", "XAUTHORITY"),
    *("WAYLAND_*", "EDITOR", "VISUAL", "PAGER", "LESSOPEN", "LESSCLOSE", "IS_SANDBOX"),
)


class Ending(StrEnum):
    """The end of a run; only EXITED has an exit code."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    SILENT = "silent"
    OVER_LIMIT = "over_limit"  # of its memory, disk and the like
    CANCELLED = "cancelled"
    COULD_NOT_START = "could_not_start"
    LOST = "lost"  # the supervisor vanished, so the result is unknown


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run. A shell runs a string `argv` (`shell_argv`).

    `env` is the complete environment. `output` is a path prefix: the whole text stays in
    `<output>.out` and `<output>.err`. The tree gets `first_signal` on time-out, on cancel, and
    after `silence_s` seconds without output. KILL follows `grace_s` seconds later. `keep_bytes` of
    each stream are returned, half head and half tail. The streams are files: a command that opens
    `/dev/stdout` to write, not to append, empties it. `wall` has the rules of `wall_entry`. `watch`
    is asked from time to time, with a process above the whole tree and the bytes printed so far:
    the tree is ended if it tells of a limit that is reached, in a sentence.
    """

    argv: tuple[str, ...] | str
    cwd: Path
    env: Mapping[str, str]
    timeout_s: float | None
    stdin: bytes = b""
    output: Path | None = None
    first_signal: int = signal.SIGTERM
    grace_s: float = 2.0
    keep_bytes: int = 32_768
    silence_s: float | None = None
    wall: tuple[str, ...] = ()
    watch: Callable[[int, int], str] | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a run. `exit_code` is negative for a signal, None unless `ending` is EXITED.

    `hint` names a limit that may be the reason of a bad exit code.
    `survivors` counts the killed processes that outlived the leader (on time-out or cancel: the
    grace). `survivors_named` has `COMMAND (PID)` of the first few. `reason` is a sentence if there
    is no exit code.
    """

    ending: Ending
    exit_code: int | None
    stdout: str
    stderr: str
    duration_s: float
    survivors: int = 0
    reason: str = ""
    stdout_file: Path | None = None
    stderr_file: Path | None = None
    survivors_named: tuple[str, ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """A running process tree. `pid` is the leader's, `last_output_age_s` the age of its last
    output."""

    name: str
    pid: int
    started_monotonic: float
    last_output_age_s: float


def unusable(command: Command) -> str:
    """The fault of a command that is invalid on every system, as a sentence; "" if it is valid."""
    if not command.argv:
        return "the command is empty"
    argv = (command.argv,) if isinstance(command.argv, str) else command.argv
    texts = "".join([*argv, *command.wall, *command.env, *command.env.values()])
    try:
        if b"\0" in os.fsencode(texts):
            return "an argument or environment variable holds a NUL character"
    except UnicodeEncodeError:
        return "an argument or environment variable holds text that this system cannot pass on"
    if any(not name or "=" in name for name in command.env):
        return "an environment variable has a name that is empty or holds an equals sign"
    return ""


def why_not(program: str, problem: OSError) -> str:
    """The reason why a program did not start, as a sentence, with the remedy if known."""
    known = {
        errno.ENOENT: "it was not found; install it or correct the name or PATH",
        errno.EACCES: "it is not executable; check its permissions",
        errno.ENOEXEC: "it is not a program for this system; a script needs a #! line",
        errno.E2BIG: "its arguments and environment are too long; pass text on stdin instead",
        errno.EMFILE: "too many files are open here; raise the limit or run fewer at once",
    }
    where = "" if problem.filename in (None, program) else f" ({problem.filename})"
    system = problem.strerror or os.strerror(problem.errno or 0)
    reason = system if where else known.get(problem.errno or 0, system)
    return f"cannot start {program}: {reason}{where}"


def could_not_run_reason(finished: Finished) -> str:
    """The reason why a run proves nothing about the work, as a sentence; "" if it has a result."""
    if finished.ending in (Ending.COULD_NOT_START, Ending.LOST):
        return finished.reason
    if finished.exit_code not in (NOT_FOUND, NOT_EXECUTABLE):
        return ""
    fault = "not found" if finished.exit_code == NOT_FOUND else "not executable"
    line = finished.stderr.strip().rpartition("\n")[2]
    return f"a command was {fault} (exit {finished.exit_code}){': ' if line else ''}{line}"


def child_environment(
    parent: Mapping[str, str],
    names: Iterable[str] = (),
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The complete environment of a child: standard variables and `names` from `parent`, and
    `extra`.

    A name that ends in `*` is a prefix, which passes no variable of `_ONLY_BY_NAME`. Variables that
    would point git to another repository are never taken from `parent`. `extra` comes from the
    engine and passes unchanged.
    """
    usual = (*_PASSED, *TOOLCHAIN_PLACES, *_VERSIONS)
    wanted = {*usual, *(_PASSED_ON_WINDOWS if os.name == "nt" else ()), *names}
    begun = tuple(name[:-1] for name in wanted if name.endswith("*"))
    passed = {
        name: value
        for name, value in parent.items()
        if (name in wanted or (name.startswith(begun) and name not in _NAMED))
        and name not in _NEVER
    }
    return passed | dict(extra or {})


class _Names:
    """A set of names and prefixes. Fast, because it tests every variable of every child."""

    def __init__(self, patterns: Iterable[str]) -> None:
        whole, begun = list[str](), list[str]()
        for pattern in patterns:
            (begun if pattern.endswith("*") else whole).append(pattern)
        self._whole, self._begun = frozenset(whole), tuple(one[:-1] for one in begun)

    def __contains__(self, name: str) -> bool:
        return name in self._whole or name.startswith(self._begun)


_NEVER, _NAMED = _Names(_NEVER_PASSED), _Names(_ONLY_BY_NAME)
