"""Reads the changes of a wave's items: shipped commits from git, other work from saved patches.

Two git processes serve all items of a repository. A change that cannot be read is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from driver.execution.processes import capture
from driver.git.command import LOCAL_TIMEOUT_S, private_environment
from driver.reports.documents import wave_of
from driver.reports.overview import DiffSize
from state_store.documents.errors import TidegateError
from state_store.documents.files import read_bytes

Json = Mapping[str, Any]
MOST_SHOWN_LINES = 2_000
_MOST_PATCH_BYTES = 256_000
# A larger file is like a binary one: git does not print it.
_NO_HUGE = ("-c", "core.bigFileThreshold=8m")
_COMMIT = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_COUNTED = re.compile(rb"(\d+|-)\t(\d+|-)\t")
_SAFE = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
_SECRET = "secret found"


class Diff(NamedTuple):
    """A change: its size, and its text, "" if the text is too large or may hold a secret."""

    size: DiffSize
    text: str
    why_not: str = ""


def diffs(report: Json, environ: Mapping[str, str]) -> dict[str, Diff]:
    """The change of each item, by slug, as far as it can be read."""
    wave = wave_of(report)
    records: Sequence[Json] = wave.get("built") or ()
    commits = {str(one["commit"]): str(one["slug"]) for one in records if one.get("commit")}
    found: dict[str, Diff] = {}
    for repo in {str(one["repo"]) for one in wave.get("shipped_repos") or () if one.get("repo")}:
        left = [commit for commit, slug in commits.items() if slug not in found]
        found |= {commits[commit]: diff for commit, diff in _of_commits(repo, left, environ)}
    for record in records:
        slug = str(record["slug"])
        if slug in found or not record.get("savedWork"):
            continue
        if diff := _of_patch(Path(str(record["savedWork"])), str(record.get("error"))):
            found[slug] = diff
    return found


def _of_commits(
    repo: str, commits: Sequence[str], environ: Mapping[str, str]
) -> Iterator[tuple[str, Diff]]:
    sizes = {
        commit: _size(lines)
        for commit, lines in _by_commit(_shown(repo, commits, ("--numstat",), environ))
    }
    small = [c for c, size in sizes.items() if size.added + size.removed <= MOST_SHOWN_LINES]
    texts = dict(_by_commit(_shown(repo, small, ("-p",), environ, _NO_HUGE)))
    for commit, size in sizes.items():
        yield commit, _shown_diff(size, b"\n".join(texts.get(commit, ())))


def _shown(
    repo: str,
    commits: Sequence[str],
    how: Sequence[str],
    environ: Mapping[str, str],
    config: Sequence[str] = (),
) -> bytes:
    if not commits or not Path(repo).is_dir():
        return b""
    argv = ("git", *config, "diff-tree", "--stdin", "-r", "--root", *_SAFE, *how)
    home = Path(repo)
    # Not `run_git`: nothing depends on this run, so no test needs a failure point at it.
    done = capture(
        argv,
        cwd=home,
        env=private_environment(environ, home),
        timeout_s=LOCAL_TIMEOUT_S,
        stdin="".join(f"{commit}\n" for commit in commits).encode(),
    )
    return done.stdout


def _by_commit(out: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Yields each commit with its lines. No line of a diff consists of a commit's name, because
    each begins with a sign or a word of git."""
    commit, lines = "", list[bytes]()
    for line in out.split(b"\n"):
        if _COMMIT.fullmatch(line):
            if commit:
                yield commit, lines
            commit, lines = line.decode(), []
        else:
            lines.append(line)
    if commit:
        yield commit, lines


def _size(lines: Sequence[bytes]) -> DiffSize:
    """The sums of `--numstat`, which has dashes for a binary file."""
    counted = [match for line in lines if (match := _COUNTED.match(line))]
    added, removed = (sum(int(match[n]) for match in counted if match[n] != b"-") for n in (1, 2))
    return DiffSize(len(counted), added, removed)


def _of_patch(path: Path, reason: str) -> Diff | None:
    try:
        patch = read_bytes(path, 64 * 2**20)
    except TidegateError:
        return None
    lines = patch.split(b"\n")
    size = DiffSize(
        sum(line.startswith(b"diff --git ") for line in lines),
        sum(line.startswith(b"+") and not line.startswith(b"+++ ") for line in lines),
        sum(line.startswith(b"-") and not line.startswith(b"--- ") for line in lines),
    )
    if _SECRET in reason:
        return Diff(size, "", "it may hold a secret")
    return _shown_diff(size, patch[max(patch.find(b"diff --git "), 0) :])


def _shown_diff(size: DiffSize, text: bytes) -> Diff:
    """The change with its text, unless that is too long for a page."""
    if size.added + size.removed > MOST_SHOWN_LINES:
        return Diff(size, "", f"more than {MOST_SHOWN_LINES} lines")
    if len(text) > _MOST_PATCH_BYTES:
        return Diff(size, "", f"more than {_MOST_PATCH_BYTES // 1000} KB")
    return Diff(size, text.decode("utf-8", "replace"))
