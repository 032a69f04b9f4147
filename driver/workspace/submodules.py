"""The commit of a submodule that an item owns by name, as its agent left it.

The agent may check out another commit in the submodule, or set its entry in the index of the clone.
Git never runs with the configuration of either: the agent wrote them.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from driver.domain.results import MODE_NESTED, Change
from driver.filesystem.safe_file_access import regular_bytes
from driver.git.private_git import GitError, PrivateGit
from driver.workspace.agent_clone import head_commit, is_own, published_refs

_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_MAX_INDEX_BYTES = 1 << 28


def moved_submodules(
    git: PrivateGit, base_tree: str, clone: Path, paths: Iterable[str], scratch: Path
) -> tuple[Change, ...]:
    """The owned `paths` that are submodules of the base and now have another commit. A commit that
    is checked out, but is on no branch or tag of the submodule's remote, is left out: nobody else
    could get it."""
    there = [path for path in paths if (clone / path).is_dir() and is_own(clone, path)]
    if not there:
        return ()
    found = []
    for path, was in git.submodules(base_tree, there).items():
        git_dir = _git_dir(clone, path)
        is_out = os.path.lexists(clone / path / ".git")
        now = _published(git, git_dir) if git_dir else ""
        now = now if is_out else _in_index(git, clone, path, scratch)
        if now and now != was and _COMMIT.fullmatch(now):
            found.append(Change(path, MODE_NESTED, now, MODE_NESTED, was))
    return tuple(found)


def _published(git: PrivateGit, git_dir: Path) -> str:
    """The commit that a submodule is at, if its remote has it; else ""."""
    commit = head_commit(git_dir) or ""
    tips = [tip for tip in published_refs(git_dir) if _COMMIT.fullmatch(tip)]
    if commit in tips:
        return commit
    with suppress(GitError):
        if _COMMIT.fullmatch(commit) and git.is_reached(commit, tips, git_dir / "objects"):
            return commit
    return ""


def _git_dir(clone: Path, path: str) -> Path | None:
    """The git dir of a submodule that is checked out, inside the clone."""
    link = clone / path / ".git"
    if not is_own(clone, f"{path}/.git"):
        return None
    if link.is_dir():
        return link
    try:
        target = regular_bytes(link)[:4000].decode("utf-8", "surrogateescape")
    except OSError:
        return None
    inside = os.path.normpath(f"{path}/{target.removeprefix('gitdir: ').strip()}")
    there = clone / inside
    return there if inside.startswith(".git/modules/") and is_own(clone, inside) else None


def _in_index(git: PrivateGit, clone: Path, path: str, scratch: Path) -> str:
    """The submodule's commit in the index of the clone; "" for none."""
    index = clone / ".git" / "index"
    try:
        seen = index.lstat()
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > _MAX_INDEX_BYTES:
            return ""
        if not is_own(clone, ".git/index"):
            return ""
        shutil.copyfile(index, scratch)
        mode, commit = git.index_entry(scratch, path)
    except (OSError, GitError):
        return ""
    finally:
        scratch.unlink(missing_ok=True)
    return commit if mode == MODE_NESTED else ""
