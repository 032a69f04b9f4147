"""The git dirs of clones and test checkouts. Each borrows the user's objects, and has a
configuration of our own."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path

from driver.filesystem.safe_file_access import regular_bytes, replace_plain
from driver.filesystem.tree import remove_tree
from driver.git.private_git import PrivateGit, Repository
from driver.git.repository import lay_git_dir
from driver.workspace.root import WorkspaceError

# The user's global git settings also apply in an agent's clone. Override them: no monitor process
# for each clone, no hooks of the user on an agent's commit, no passphrase prompt, line ends as
# committed.
_CLONE_CONFIG = f"""\
\tbare = false
\tautocrlf = false
\tfsmonitor = false
\tuntrackedCache = false
\thooksPath = {os.devnull}
[commit]
\tgpgSign = false
[tag]
\tgpgSign = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""
# aider else adds this line to the project's .gitignore.
_CLONE_EXCLUDE = b".aider*\n"
_PROBED = frozenset({"filemode", "symlinks", "ignorecase", "precomposeunicode"})


class OwnGit:
    """Lays git dirs that borrow the objects of `repository`. `git` is the private git of a run."""

    def __init__(self, git: PrivateGit, repository: Repository) -> None:
        self._git, self._repository = git, repository

    def lay(self, path: Path, index: Path, *, head: str, branch: str | None) -> None:
        """Give the folder `path` a new `.git` with a copy of `index`."""
        own = path / ".git"
        remove_tree(own)
        config = self._probed + _CLONE_CONFIG
        lay_git_dir(own, self._repository, head=head, branch=branch, config=config)
        shutil.copyfile(index, own / "index")

    @functools.cached_property
    def _probed(self) -> str:
        """The facts of this file system that git found. A repeated key could not be set by
        agents."""
        made = regular_bytes(self._git.path / "config").decode().splitlines(keepends=True)
        return "".join(line for line in made if line.split("=")[0].strip() in _PROBED)


def put_index(clone: Path, index: Path) -> None:
    """Let the clone's git have a copy of `index`, whatever a set-up made of its own."""
    replace_plain(clone, ".git/index", regular_bytes(index))


def exclude(clone: Path) -> None:
    """Let an agent's git ignore files that its program would else have the project ignore. Raises
    WorkspaceError if a set-up has removed the clone's git dir."""
    if not os.path.lexists(clone / ".git" / "HEAD"):
        raise WorkspaceError("[workspace] setup removes .git, which an agent's git needs; keep it")
    replace_plain(clone, ".git/info/exclude", _CLONE_EXCLUDE)
