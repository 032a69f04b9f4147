"""Searches the history of commits, in any git dir."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from driver.git.command import BULK_TIMEOUT_S, run_git, text
from state_store.values.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MatchingCommit:
    """A commit and its message. `tip` is the first of the given tips that leads to it."""

    tip: str
    commit: str
    message: str


def is_in_history(git_dir: Path, env: Mapping[str, str], commit: str, tip: str) -> bool:
    """True if the history of `tip` contains `commit`. False also if either is unknown."""
    asked = (f"--git-dir={git_dir}", "merge-base", "--is-ancestor", commit, tip)
    return bool(commit) and run_git(asked, cwd=git_dir, env=env, accept=(0, 1, 128)).ok


def commits_matching(
    git_dir: Path,
    env: Mapping[str, str],
    pattern: str,
    tips: Iterable[str],
    without: Iterable[str] = (),
) -> Iterator[MatchingCommit]:
    """The commits in the histories of `tips`, except those of `without`, with a message line that
    matches the extended regular expression `pattern`. Raises GitError."""
    log = (f"--git-dir={git_dir}", "log", "-z", "-E", "--no-show-signature", "--no-color",
           "--no-notes", "--encoding=UTF-8", "--format=%S%n%H%n%B", f"--grep={pattern}",
           *tips, "--not", *without)  # fmt: skip
    done = run_git(log, cwd=git_dir, env=env, timeout_s=BULK_TIMEOUT_S)
    for one in filter(None, text(done.stdout).split("\0")):
        yield MatchingCommit(*one.split("\n", 2))
