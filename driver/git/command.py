"""Starts git: its environment, its time limits, and the one error when it fails.

There are two environments. The private environment is for our own git dirs and reads only our
configuration, so git executes nothing that an agent writes. The user environment is for reading the
user's repository: their configuration counts, but settings that run a program are off.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from driver.execution.processes import Captured, capture
from state_store.documents.errors import CannotRunError, TidegateError
from state_store.documents.failpoints import failpoint
from state_store.redaction import installed as hidden

LOCAL_TIMEOUT_S = 120.0
BULK_TIMEOUT_S = 900.0  # checkouts and packs: bound by the disk
NETWORK_TIMEOUT_S = 300.0

_ESSENTIAL = frozenset(
    {"PATH", "PATHEXT", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "TMPDIR", "TEMP", "TMP"}
    | {"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "GIT_EXEC_PATH"}
)
# These GIT_* variables tell where the user's settings are and how to log in; the others
# (GIT_DIR, GIT_INDEX_FILE ... as set inside a hook) would point git at another repository.
_USERS_GIT = re.compile(
    r"GIT_(CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|COUNT|PARAMETERS|KEY_\d+|VALUE_\d+)"
    r"|EXEC_PATH|SSH.*|ASKPASS|SSL_.*|HTTP_.*|PROXY_.*)"
)
_NOT_FOR_GIT = ("GIT_", "SSH_ASKPASS", "TIDEGATE_FAIL")
# The keys of models. Neither git nor its helper programs need them.
_MODEL_KEY = re.compile(r".*API_KEY|ANTHROPIC_AUTH_TOKEN|CLAUDE_CODE_OAUTH_TOKEN")
_QUIET = {
    "LC_ALL": "C",
    "LANGUAGE": "C",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LITERAL_PATHSPECS": "1",
}
_INERT_CONFIG = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
    ("protocol.ext.allow", "never"),
)
_PRIVATE_CONFIG = (
    *_INERT_CONFIG,
    ("core.excludesFile", os.devnull),
    ("core.attributesFile", os.devnull),
    ("core.autocrlf", "false"),
    ("core.safecrlf", "false"),
    ("core.longPaths", "true"),
    ("core.multiPackIndex", "false"),  # caches of object contents, which agents can write
    ("core.commitGraph", "false"),
    ("fastimport.unpackLimit", "1"),  # one pack, not three flushed files for each commit
)


class GitError(TidegateError):
    """A git command failed. All fields are free of credentials in URLs.

    `argv` is the command, `status` git's exit code (None after a time-out), `stderr` its last
    lines.
    """

    def __init__(self, argv: Sequence[str], status: int | None, stderr: bytes) -> None:
        self.argv = tuple(redacted(word) for word in argv)
        self.status = status
        self.stderr = redacted(stderr.decode("utf-8", "replace")).strip()
        how = "ran into its time limit" if status is None else f"ended with {status}"
        super().__init__(f"git {verb_of(self.argv)} {how}: {last_words(self.stderr)}")


def redacted(text: str) -> str:
    """Returns `text` with user names and passwords in URLs masked, and without known secrets."""
    return hidden.redacted(re.sub(r"(?<=://)[^/\s@]+@", "***@", text))


def verb_of(argv: Sequence[str]) -> str:
    """The subcommand of a git command line."""
    return next((word for word in argv[1:] if not word.startswith("-")), "")


def last_words(stderr: str) -> str:
    """The error lines in the output of git, as one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    causes = [line for line in lines if re.match(r"(fatal|error|remote|!)", line)] or lines[-1:]
    return "; ".join(causes[:6]) or "it printed no reason"


def with_config(env: Mapping[str, str], pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The environment with more configuration. Later pairs override earlier pairs and files."""
    result = dict(env)
    count = int(result.get("GIT_CONFIG_COUNT") or 0)
    for key, value in pairs:
        result |= {f"GIT_CONFIG_KEY_{count}": key, f"GIT_CONFIG_VALUE_{count}": value}
        count += 1
    result["GIT_CONFIG_COUNT"] = str(count)
    return result


def private_environment(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """The environment for our git dirs: only our configuration, no credentials, empty `home`."""
    kept = {name: value for name, value in environ.items() if name.upper() in _ESSENTIAL}
    sealed = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "tidegate",
        "GIT_AUTHOR_EMAIL": "tidegate@localhost",
        "GIT_COMMITTER_NAME": "tidegate",
        "GIT_COMMITTER_EMAIL": "tidegate@localhost",
    }
    return with_config(kept | _QUIET | sealed, _PRIVATE_CONFIG)


def user_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for the user's repository: no hook, prompt or monitor, but their log-ins."""
    kept = {
        name: value
        for name, value in environ.items()
        if _USERS_GIT.fullmatch(name)
        or not (name.startswith(_NOT_FOR_GIT) or _MODEL_KEY.fullmatch(name))
    }
    return with_config(kept | _QUIET | {"SSH_ASKPASS_REQUIRE": "never"}, _INERT_CONFIG)


def person_environment(name: str, email: str) -> dict[str, str]:
    """The variables by which git takes a person as author and committer."""
    values = {"NAME": name, "EMAIL": email}
    return {f"GIT_{role}_{k}": v for role in ("AUTHOR", "COMMITTER") for k, v in values.items()}


def frozen_environment(
    environ: Mapping[str, str], git_dir: Path, config: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """The environment for logging in or signing from a git dir of ours. The user's programs see the
    user's variables and `config`, their configuration as it was at the start."""
    users = user_environment(environ)
    config_free = {name: v for name, v in users.items() if not name.startswith("GIT_CONFIG_")}
    sealed = private_environment({}, git_dir)
    kept = {name: v for name, v in sealed.items() if name not in ("HOME", "XDG_CONFIG_HOME")}
    return with_config(config_free | kept, config)


def run_git(
    args: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout_s: float = LOCAL_TIMEOUT_S,
    accept: Sequence[int] = (0,),
) -> Captured:
    """Run git; exit codes outside `accept` and time-outs raise GitError.

    Raises CannotRunError if git is missing, GitError if `cwd` does not exist.
    """
    argv = ("git", *args)
    try:
        with talking(argv):
            done = capture(argv, cwd=cwd, env=env, timeout_s=timeout_s, stdin=stdin)
    except (FileNotFoundError, NotADirectoryError) as missing:
        if not cwd.is_dir():
            raise GitError(argv, 128, f"fatal: no folder {cwd}".encode()) from missing
        raise CannotRunError("git was not found on PATH: install git 2.32 or newer") from missing
    if done.timed_out:
        raise GitError(argv, None, done.stderr)
    if done.exit_code not in accept:
        raise GitError(argv, done.exit_code, done.stderr)
    return done


@contextmanager
def talking(argv: Sequence[str], name: str = "") -> Iterator[None]:
    """Wraps a run of git in failure points, at which a test can kill this process. They have the
    verb of the command, unless they have a `name`."""
    verb = name or verb_of(argv)
    failpoint(f"git.before_{verb}")
    yield
    failpoint(f"git.after_{verb}")


def text(raw: bytes) -> str:
    """Decode a path or message of git; `raw` restores all bytes, also if they are not UTF-8."""
    return raw.decode("utf-8", "surrogateescape")


def raw(string: str) -> bytes:
    """Encode a path or message for git."""
    return string.encode("utf-8", "surrogateescape")


def records(out: bytes) -> list[str]:
    """The NUL-terminated records of `-z` output."""
    return [text(record) for record in out.split(b"\0")[:-1]]


def c_unquoted(line: bytes) -> bytes:
    """The path of a line that may be in git's C quoting."""
    if not line.startswith(b'"'):
        return line
    return line[1:-1].decode("unicode_escape").encode("latin-1")


def c_quoted(path: str) -> bytes:
    """A path in git's C quoting, for line formats."""
    quoted = bytearray()
    for byte in raw(path):
        plain = 0x20 <= byte < 0x7F and byte not in b'"\\'
        quoted += bytes([byte]) if plain else b"\\%03o" % byte
    return b'"%s"' % bytes(quoted)
