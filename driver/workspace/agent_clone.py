"""Traces of an agent in the git dir of its clone, read as plain files. Git is never run there: the
agent can write this git dir, and its configuration and hooks must not act."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from driver.filesystem.safe_file_access import regular_bytes, replace_plain

_MAX_BYTES = 1_000_000
_MAX_REFS = 10_000
_KINDS = (("refs/heads/", "branch"), ("refs/tags/", "tag"), ("refs/stash", "a stash"))


def git_traces(clone: Path, base: str, branch: str | None) -> tuple[str, ...]:
    """Sentences about what an agent did with git in its clone: a moved HEAD, new branches, tags,
    stashes, other refs and worktrees."""
    git_dir = clone / ".git"
    if is_broken(clone, branch):
        return ("it removed or replaced its .git",)
    moved = _head_moved(git_dir, base, branch)
    refs = {name for name in _refs(git_dir) if name != f"refs/heads/{branch}"}
    worktrees = (f"worktree {name}" for name in sorted(_names(git_dir / "worktrees")))
    return (*([moved] if moved else ()), *map(_kind_and_name, sorted(refs)), *worktrees)


def _head_moved(git_dir: Path, base: str, branch: str | None) -> str:
    """A sentence about a HEAD that the agent moved; "" if it is at the base."""
    head = _read(git_dir / "HEAD") or ""
    expected = f"ref: refs/heads/{branch}" if branch else base
    name = head.removeprefix("ref: ")
    commit = _ref(git_dir, name) if name != head else head
    shown = (commit or "gone")[:12]
    if head != expected:
        to = name.removeprefix("refs/heads/") if name != head else "no branch"
        return f"it switched to {to} (HEAD is {shown})"
    return f"it committed (HEAD is {shown})" if commit != base else ""


def is_broken(clone: Path, branch: str | None) -> bool:
    """True if the `.git` of a clone is gone or leads elsewhere, or git could not work with it."""
    git_dir = clone / ".git"
    own = (f"refs/heads/{branch or ''}", "objects/info", "worktrees")
    if not all(is_own(clone, f".git/{name}") for name in own) or not (git_dir / "refs").is_dir():
        return True
    files = ("HEAD", "config", "objects/info/alternates")
    return any(_read(git_dir / name) is None for name in files)


def head_commit(git_dir: Path) -> str | None:
    """The commit of a git dir's HEAD."""
    head = _read(git_dir / "HEAD") or ""
    name = head.removeprefix("ref: ")
    return _ref(git_dir, name) if name != head else head


def published_refs(git_dir: Path) -> list[str]:
    """The commits of the remote branches and tags that a git dir knows."""
    names = (n for n in set(_refs(git_dir)) if n.startswith(("refs/remotes/", "refs/tags/")))
    return [commit for name in names if (commit := _ref(git_dir, name))]


def _kind_and_name(ref: str) -> str:
    """The name of a ref in reports: "branch x", "tag v1", "a stash", else "ref refs/x"."""
    kinds = ((start, kind) for start, kind in _KINDS if ref.startswith(start))
    start, kind = next(kinds, ("", "ref"))
    return f"{kind} {ref.removeprefix(start)}".strip()


def _refs(git_dir: Path) -> Iterator[str]:
    waiting, seen = ["refs"], 0
    while waiting and seen < _MAX_REFS:
        folder = waiting.pop()
        for name in _names(git_dir / folder):
            path, seen = git_dir / folder / name, seen + 1
            if path.is_dir() and not path.is_symlink():
                waiting.append(f"{folder}/{name}")
            else:
                yield f"{folder}/{name}"
    for line in (_read(git_dir / "packed-refs") or "").splitlines()[:_MAX_REFS]:
        _, _, name = line.partition(" ")
        if name.startswith("refs/"):
            yield name


def _names(folder: Path) -> list[str]:
    """The names in a folder; none if it does not exist or is a link."""
    if folder.is_symlink():
        return []
    try:
        return os.listdir(folder)  # noqa: PTH208 - one call for the common case of no such folder
    except OSError:
        return []


def put_back_head(clone: Path, base: str, branch: str | None) -> None:
    """Restore the HEAD of the new clone, and remove git's locks; the files and the agent's other
    refs stay. The `.git` must not be broken."""
    git_dir = clone / ".git"
    for name in _names(git_dir):
        if name.endswith(".lock"):  # a git command that was ended leaves it, and stops all others
            (git_dir / name).unlink(missing_ok=True)
    if branch:
        ref = f"refs/heads/{branch}"
        replace_plain(clone, f".git/{ref}", _line(base))
    replace_plain(clone, ".git/HEAD", _line(f"ref: refs/heads/{branch}" if branch else base))


def is_own(clone: Path, path: str) -> bool:
    """True if no folder of the path is a link, which may lead into the user's own git dir."""
    own = clone / path
    above = [folder for folder in own.parents if folder.is_relative_to(clone)]
    return not any(one.is_symlink() for one in (own, *above))


def _line(text: str) -> bytes:
    return f"{text}\n".encode("utf-8", "surrogateescape")


def _ref(git_dir: Path, name: str) -> str | None:
    loose = _read(git_dir / name)
    if loose is not None:
        return loose
    for line in (_read(git_dir / "packed-refs") or "").splitlines():
        commit, _, ref = line.partition(" ")
        if ref == name:
            return commit
    return None


def _read(path: Path) -> str | None:
    """The text of a small regular file; None for anything else that an agent may have put there."""
    with suppress(OSError):
        if not path.is_symlink():
            return regular_bytes(path, _MAX_BYTES).decode("utf-8", "surrogateescape").strip()
    return None
