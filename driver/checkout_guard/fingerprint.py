"""Fingerprint of the user's checkout and git dir, cheap enough for the start and end of each item.
Nothing there is locked, written or run: git reads a copy of the index from a private git dir.
Content is read only if stat data changed. `guard` attributes the changes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar, cast

from driver.checkout_guard.plain_settings import plain_settings
from driver.filesystem.change_detector import ChangeDetector
from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.safe_file_access import open_plain, regular_bytes
from driver.filesystem.tree import Signature, signature_of
from driver.git.command import (
    BULK_TIMEOUT_S,
    private_environment,
    raw,
    records,
    redacted,
    run_git,
    text,
    user_environment,
    with_config,
)
from driver.git.repository import Repository, lay_git_dir
from driver.tree_files.index_file import entries_in
from state_store.values.lazy_dataclass import dataclass

Seen = TypeVar("Seen")

FILE = "file "
CONFIG = "config "
REF = "ref "
TAG = "ref refs/tags/"
WORKTREE = "worktree "
STATE = "state "  # outside the checkout, but watched the same way
AROUND = "around the tests "  # the same
INSTALLED = "installed "  # the same: a new Python module
SETTING = "setting "  # the same: of a checker, in the home
HOOKS = "hooks"
_INFO = ("info/attributes", "info/exclude", "info/grafts", "info/sparse-checkout")
_ALTERNATES = "objects/info/alternates"
_SMALL_INDEX = 1 << 17  # bytes; git lists a larger one sooner
_MODE = 6  # of the stat data in the index
_HASHED_WHOLE = 1 << 20  # larger files are compared by stat data

# Everyday commands and editors write these keys, and none of them names a program.
_EVERYDAY_CONFIG = re.compile(
    rf"{CONFIG}(branch\..*\.(?!pushremote$)[^.]+|remote\..*\.gh-resolved|lfs\..*\.access"
    r"|lfs\.repositoryformatversion|(user|color|advice|pull|gui|column|status)\..*)",
    re.IGNORECASE,
)
_HARMLESS = ("user.", "safe.", "init.", "color.", "advice.", "push.", "pull.", "branch.")
_REPLACED = f"{REF}refs/replace/"
# Editors fetch these in the background, or a wave makes them.
_OURS = ("refs/tidegate/", "refs/heads/wave/", "refs/heads/wave-", "refs/heads/tidegate/")
_NOT_WATCHED = ("refs/remotes/", *_OURS)


def can_execute_code(name: str) -> bool:
    """True if a change of this part can make a program run later, or change what git shows. False
    for files, index, branches, tags, stashes, worktrees and git's settings of branches."""
    if name.startswith(CONFIG):
        return not _EVERYDAY_CONFIG.fullmatch(name)
    others = (HOOKS, _INFO[0], _INFO[2], _ALTERNATES)
    return name in others or name.startswith((AROUND, _REPLACED))


@dataclass(frozen=True, slots=True)
class CheckoutFingerprint:
    """A fingerprint. `parts` maps the name of each part, such as "index" or "file README.md", to
    its digest or its stat data."""

    parts: Mapping[str, object]

    def differences(self, other: CheckoutFingerprint) -> tuple[str, ...]:
        """The names of the parts that differ, sorted."""
        mine, theirs = self.parts, other.parts
        if mine == theirs:  # nearly always
            return ()
        names = sorted(mine.keys() | theirs.keys())
        return tuple(name for name in names if mine.get(name) != theirs.get(name))


class CheckoutWatch:
    """Takes fingerprints of one checkout. `scratch` is an empty folder for a private git dir. Not
    thread safe.

    The index counts by its entries, so a refresh of its stat data by an editor's `git status` is no
    difference. Unmodified files count by the index, modified and untracked files by content.
    Ignored files and changes below the folders `apart` do not count. `now_ns` is the clock of the
    checkout's file system. `settings` are those that are `configured`, if they were just read.
    """

    def __init__(
        self,
        repo: Repository,
        environ: Mapping[str, str],
        scratch: Path,
        apart: Iterable[Path] = (),
        now_ns: Callable[[], int] = time.time_ns,
        settings: Iterable[tuple[str, str]] = (),
    ) -> None:
        self._repo = repo
        self._environ = environ
        self._scratch = scratch
        self._kept: dict[str, tuple[object, object]] = {}
        lay_git_dir(scratch, repo, head=repo.head)
        named = dict(settings).get("core.excludesfile", "~" if not settings else "")
        if not named.startswith(("~", "%")):  # which git would replace
            at = _signature(repo.common_dir / "config")
            self._kept["ignores"] = at, named or self._usual_ignores()
        exclude = repo.common_dir / "info" / "exclude"
        own = (repo.git_dir / "index", repo.common_dir / "config", exclude)
        self._changes = ChangeDetector(
            repo.top, (*own, Path(self._ignored_everywhere())), apart, now_ns
        )

    def look(self) -> CheckoutFingerprint:
        """Take the fingerprint. Raises GitError."""
        common = self._repo.common_dir
        parts = {**self._config(), **self._refs()}
        parts[HOOKS] = self._digest(*_below(common / "hooks"))
        parts |= {name: self._digest(common / name) for name in (*_INFO, _ALTERNATES)}
        for tree in _below(common / "worktrees", 1):
            parts[WORKTREE + tree.name] = self._digest(tree / "gitdir", tree / "commondir")
        index = self._repo.git_dir / "index"
        parts["index"] = self._known("index", _signature(index), self._index_digest)
        # Marked before git reads: the next look then sees a change made meanwhile.
        mark, now = self._changes.mark(), self._touched_now
        touched = now() if mark is None else self._known("touched", mark, now)
        parts |= {f"{FILE}{path}": self._digest(self._repo.top / path) for path in touched}
        return CheckoutFingerprint(parts)

    def _config(self) -> dict[str, str]:
        """The configuration of the repository, and the user's global configuration."""
        own = (self._repo.common_dir / "config", self._repo.git_dir / "config.worktree")
        home = self._environ.get("HOME", "")
        settings = self._environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
        named = self._environ.get("GIT_CONFIG_GLOBAL")
        users = [named] if named else [f"{home}/.gitconfig", f"{settings}/git/config"]
        found: dict[str, str] = {}
        for path in (*own, *(path for path in map(Path, users) if path.is_file())):
            keys = self._known(f"keys {path}", _signature(path), lambda p=path: self._keys(p))  # type: ignore[misc]
            found |= keys if path in own else _of_every_repository(keys)
        return found

    def _keys(self, path: Path) -> dict[str, str]:
        env = user_environment(self._environ)
        asked = ("config", "--file", str(path), "--no-includes", "--list", "-z")
        there = os.path.lexists(path)
        pairs = plain_settings(path) if there else None
        if pairs is None:
            accept = (0, 1, 128)
            listed = run_git(asked, cwd=self._repo.top, env=env, accept=accept) if there else None
            if listed is None or not listed.ok:
                return {f"{CONFIG}{path.name}": _digest_of(_content(path))}
            pairs = [record.partition("\n")[::2] for record in records(listed.stdout)]
        found: dict[str, list[str]] = {}
        for key, value in pairs:
            found.setdefault(CONFIG + redacted(key), []).append(value)
        return {key: _digest_of(raw("\0".join(values))) for key, values in found.items()}

    def _refs(self) -> dict[str, str]:
        common, own = self._repo.common_dir, self._repo.git_dir
        packed = common / "packed-refs"
        found = dict(self._known("packed", _signature(packed), lambda: _packed(packed)))
        for path in _below(common / "refs"):
            if not path.is_dir():
                found[path.relative_to(common).as_posix()] = _first_line(path)
        head = _first_line(own / "HEAD")
        branch = head.removeprefix("ref: ")
        parts = {
            f"{REF}{name}": commit
            for name, commit in found.items()
            if name != branch and not name.startswith(_NOT_WATCHED)
        }
        parts["stash"] = parts.pop(f"{REF}refs/stash", "")
        return parts | {"branch": head, "HEAD": found.get(branch, head)}

    def _index_digest(self) -> str:
        own = self._repo.git_dir
        for name in ("index", *(path.name for path in own.glob("sharedindex.*"))):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy2(own / name, self._scratch / name)
        return _digest_of(self._plain_index() or self._git("ls-files", "-z", "-v", "-s"))

    def _plain_index(self) -> bytes:
        """The list that git makes of our copy of the index, if it is small and plain; else b""."""
        copy = self._scratch / "index"
        with contextlib.suppress(OSError, ValueError):
            if copy.stat().st_size <= _SMALL_INDEX and not any(copy.parent.glob("sharedindex.*")):
                listed = entries_in(copy, self._repo.object_format)
                return b"".join(
                    raw(f"H {noted[_MODE]:06o} {name} 0\t{path}\0") for path, noted, name in listed
                )
        return b""

    def _touched_now(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            exclude = self._repo.common_dir / "info" / "exclude"
            shutil.copyfile(exclude, self._scratch / "info" / "exclude")
        return records(self._git("ls-files", "-z", "-m", "-o", "--exclude-standard"))

    def _git(self, *args: str) -> bytes:
        env = private_environment(self._environ, self._scratch)
        env = with_config(env, (("core.excludesFile", self._ignored_everywhere()),))
        at = (f"--git-dir={self._scratch}", f"--work-tree={self._repo.top}")
        return run_git((*at, *args), cwd=self._repo.top, env=env, timeout_s=BULK_TIMEOUT_S).stdout

    def _ignored_everywhere(self) -> str:
        config = self._repo.common_dir / "config"
        return self._known("ignores", _signature(config), self._ignores)

    def _ignores(self) -> str:
        asked = ("config", "--path", "--get", "core.excludesFile")
        env = user_environment(self._environ)
        named = run_git(asked, cwd=self._repo.top, env=env, accept=(0, 1))
        return text(named.stdout).rstrip("\n") or self._usual_ignores()

    def _usual_ignores(self) -> str:
        home = self._environ.get("XDG_CONFIG_HOME") or f"{self._environ.get('HOME', '')}/.config"
        return f"{home}/git/ignore"

    def _digest(self, *paths: Path) -> str:
        digests = [self._known(str(p), _signature(p), lambda p=p: _content(p)) for p in paths]  # type: ignore[misc]
        return _digest_of(*digests)

    def _known(self, name: str, signature: object, read: Callable[[], Seen]) -> Seen:
        """The cached result of `read` while the stat data are the same, else a new result."""
        before = self._kept.get(name)
        if before is not None and before[0] == signature:
            return cast("Seen", before[1])
        found = read()
        self._kept[name] = signature, found
        return found


def _of_every_repository(keys: Mapping[str, str]) -> dict[str, str]:
    """The global keys without names, colors and similar keys. Agents set their name in the user's
    global configuration, and that harms no repository."""
    plain = ((name.removeprefix(CONFIG), digest) for name, digest in keys.items())
    return {f"{CONFIG}--global {key}": d for key, d in plain if not key.startswith(_HARMLESS)}


def _below(folder: Path, depth: int = 20) -> list[Path]:
    """Every path below a folder, sorted; links are not followed."""
    found: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                found.append(folder / entry.name)
                if depth > 1 and entry.is_dir(follow_symlinks=False):
                    found += _below(folder / entry.name, depth - 1)
    except OSError:
        return found
    return sorted(found)


def _signature(path: Path) -> Signature | int | None:
    try:
        return signature_of(path.lstat())
    except FileNotFoundError:
        return None
    except OSError as trouble:
        return trouble.errno


def _first_line(path: Path) -> str:
    try:
        with open_plain(path.parent, path.name) as stream:
            return text(stream.read(1000)).strip()
    except NotPlainError:
        return "no file"
    except OSError:
        return ""


def _packed(path: Path) -> dict[str, str]:
    try:
        lines = text(regular_bytes(path)).splitlines()
    except OSError:
        return {}
    found = (line.partition(" ") for line in lines if not line.startswith(("#", "^")))
    return {name: commit for commit, _, name in found}


def _content(path: Path) -> bytes:
    """Enough of a path's name, kind and bytes to notice any change."""
    try:
        seen = path.lstat()
        if stat.S_ISLNK(seen.st_mode):
            body = os.fsencode(path.readlink())
        elif stat.S_ISREG(seen.st_mode) and seen.st_size <= _HASHED_WHOLE:
            body = hashlib.sha256(regular_bytes(path)).digest()
        else:  # a folder, a pipe that would hang, or a file too large to read before every wave
            times = (seen.st_mtime_ns, seen.st_ctime_ns)  # the second cannot be reset
            body = repr((seen.st_size, *times) if stat.S_ISREG(seen.st_mode) else ()).encode()
    except FileNotFoundError:
        return b"missing"
    except OSError as trouble:
        return f"unreadable {trouble.errno}".encode()
    return b"%s\0%o\0%s" % (raw(path.name), seen.st_mode, body)


def _digest_of(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(b"%d\0%s" % (len(part), part))
    return whole.hexdigest()
