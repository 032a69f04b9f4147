"""Looks for secrets in staged content, a range of commits, all history, or files.

The command line and the public functions. The rules are in `tools.secret_rules.rules`.
`driver.git.stored_blobs` reads content from git.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("tools.secret_scan")

from tools.secret_rules import search
from tools.secret_rules.placeholders import is_placeholder, mask_secret
from tools.secret_rules.rules import FATAL_RULES, SOFTENED_BY_PRAGMA
from tools.secret_rules.search import (
    GitScanError,
    Match,
    ScanError,
    is_env_file,
    scan_content,
    should_skip_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeVar

    from driver.git.stored_blobs import StoredBlob, StoredBlobs

    T = TypeVar("T")

__all__ = [
    "FATAL_RULES",
    "SOFTENED_BY_PRAGMA",
    "GitScanError",
    "Match",
    "ScanError",
    "find_secrets",
    "get_git_blob",
    "get_history_files",
    "get_range_files",
    "get_staged_files",
    "has_pragma",
    "is_binary_file",
    "is_env_file",
    "is_placeholder",
    "main",
    "mask_secret",
    "scan_blob",
    "scan_content",
    "scan_file",
    "scan_paths",
    "should_skip_file",
]

LARGEST_BYTES = 2**31
CLEAN, FOUND, UNREADABLE = 0, 1, 2


def scan_file(filepath: str | Path) -> list[Match]:
    """The secrets in a file. Raises ScanError if it cannot be read."""
    return scan_blob(str(filepath), _read(Path(filepath)))


def scan_blob(label: str | Path, content_bytes: bytes) -> list[Match]:
    """The secrets in a file named `label`. Notes on stderr what callers may take for skipped."""
    from driver.terminal.safe_text import safe_line

    if search.is_large(content_bytes):
        note = f"SKIPPED-LARGE {label}: nothing of its {len(content_bytes)} bytes was left out"
        print(safe_line(note), file=sys.stderr)
    if search.is_binary(content_bytes):
        note = f"SKIPPED-BINARY {label}: only rules for the shape of a key were applied"
        print(safe_line(note), file=sys.stderr)
    return search.scan_blob(label, content_bytes)


def scan_paths(paths: Iterable[str | Path]) -> list[Path]:
    """The files to scan: the named files, and those below named folders without caches, links and
    files that git ignores."""
    return list(_files(paths))


def find_secrets(paths: Iterable[str | Path]) -> list[tuple[str, int, str, str, bool]]:
    """(path, line, rule, match, is_fatal) of every secret in the files of `scan_paths`.

    Raises ScanError for the first unreadable file.
    """
    return [(str(file), *match) for file in _files(paths) for match in scan_file(file)]


def get_staged_files(repo_path: str | Path) -> list[str]:
    """Returns the paths that the next commit adds or changes.

    Raises GitScanError, like every function here that reads from git.
    """
    return [held.path for held in _asked(lambda: _shelf(repo_path).staged())]


def get_range_files(repo_path: str | Path, commit_range: str) -> list[str]:
    """Returns the paths that differ between the ends of `A..B` and exist at its end."""
    _check_range(commit_range)
    return [held.path for held in _asked(lambda: _shelf(repo_path).at_tip(commit_range))]


def get_history_files(repo_path: str | Path) -> list[tuple[str, str]]:
    """Returns (path, text) of every content of a file in the history of any ref, by path."""
    shelf = _shelf(repo_path)
    held = sorted(_asked(shelf.of_history), key=lambda one: one.path)
    return [(one.path, search.decoded(data)) for one, data in _contents(shelf, held)]


def get_git_blob(repo_path: str | Path, ref_path: str) -> bytes:
    """Returns the content of a git object: an id, `:path` (staged) or `commit:path`."""
    from state_store.documents.errors import TidegateError

    try:
        return _shelf(repo_path).content(ref_path)
    except TidegateError as error:
        raise GitScanError(f"{ref_path} cannot be read: {error}") from error


def has_pragma(filepath: str | Path) -> bool:
    """True if the file's first lines contain the marker for documented patterns."""
    try:
        return search.holds_pragma(search.decoded(_read(Path(filepath))))
    except ScanError:
        return False


def is_binary_file(filepath: str | Path) -> bool:
    """Returns True if the file is not a text. Raises ScanError if it cannot be read."""
    return search.is_binary(_read(Path(filepath)))


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    parser = Parser(
        prog="secret_scan.py", description="Look for secrets before they are published."
    )
    add = parser.add_argument
    add("paths", metavar="PATH", nargs="*", help="files, and folders with all their files")
    add("--staged", action="store_true", help="the content of the next commit")
    add("--range", metavar="A..B", help="all content that these commits added")
    add("--history", action="store_true", help="all content of all branches and tags")
    add("--repo", metavar="DIR", default=".", help="the repository (default: the one you are in)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns exit code 1 for secrets or an error of git, 2 for an unreadable file or
    history."""
    from tools.program import program

    parser = build_parser()

    def run(asked: argparse.Namespace) -> int:
        modes = [asked.staged, asked.range is not None, asked.history, bool(asked.paths)]
        if modes.count(True) != 1:
            parser.error("name exactly one of --staged, --range A..B, --history and paths")
        try:
            return _report_paths(asked.paths) if asked.paths else _report_git(asked)
        except GitScanError as error:
            from driver.terminal.safe_text import log_text

            print(f"secret_scan: FATAL: {log_text(str(error))}", file=sys.stderr)
            return UNREADABLE if asked.history else FOUND

    return program(parser, run, argv)


def _report_git(asked: argparse.Namespace) -> int:
    shelf = _shelf(asked.repo)
    tip: set[str] = set()
    if asked.staged:
        held = _asked(shelf.staged)
    elif asked.history:
        held = _asked(shelf.of_history)
    else:
        _check_range(asked.range)
        held = _asked(lambda: shelf.of_range(asked.range))
        tip = {one.blob for one in _asked(lambda: shelf.at_tip(asked.range))}
    shown = _Shown()
    for one, data in _contents(shelf, held):
        found = scan_blob(one.path, data)
        where = one.path
        if found and not asked.staged and one.blob not in tip:
            where = _placed(shelf, one)
        shown.show(where, found)
    return shown.summed_up(f"{len(held)} contents")


def _placed(shelf: StoredBlobs, held: StoredBlob) -> str:
    """Returns `path@commit`, because the content may be missing in the working copy."""
    commit = _asked(lambda: [shelf.commit_with(held.blob)])[0]
    return f"{held.path}@{commit}" if commit else held.path


def _report_paths(paths: Sequence[str]) -> int:
    from driver.terminal.safe_text import safe_line

    shown, looked_at = _Shown(), 0
    unreadable = []
    for file in _files(paths):
        try:
            found = scan_file(file)
        except ScanError as error:
            unreadable.append(str(error))
            continue
        looked_at += 1
        shown.show(str(file), found)
    for line in unreadable:
        print(f"secret_scan: {safe_line(line)}", file=sys.stderr)
    if unreadable:
        print(f"UNREADABLE: {len(unreadable)} of {looked_at + len(unreadable)} files")
        return UNREADABLE
    return shown.summed_up(f"{looked_at} files")


class _Shown:
    """The printed matches: how many block, and how many a pragma allows."""

    def __init__(self) -> None:
        self.blocking = self.allowed = 0

    def show(self, where: str, found: Sequence[Match]) -> None:
        """Prints the matches in a file, without their values."""
        from driver.terminal.safe_text import safe_line

        for match in found:
            word = "HIGH" if match.is_fatal else "ALLOWED-DOC"
            masked = mask_secret(match.match)
            print(safe_line(f"{word} {where}:{match.line} {match.rule} ({masked})"))
        blocking = sum(match.is_fatal for match in found)
        self.blocking += blocking
        self.allowed += len(found) - blocking

    def summed_up(self, looked_at: str) -> int:
        """Prints the last line and returns the exit code."""
        if self.blocking:
            print(f"FOUND: {self.blocking} secret(s)")
            return FOUND
        allowed = f", {self.allowed} allowed by a pragma" if self.allowed else ""
        print(f"CLEAN: no secret in {looked_at}{allowed}")
        return CLEAN


def _files(paths: Iterable[str | Path]) -> Iterator[Path]:
    """Yields the named files, and the files below named folders without caches, links and files
    that git ignores, because those cannot be pushed. A folder that cannot be read is one of them,
    so that nobody takes it for clean."""
    for path in map(Path, paths):
        if not _is_readable_folder(path):
            yield path
            continue
        ignored = _ignored(path)
        for file in sorted(path.rglob("*")):
            inside = file.relative_to(path).as_posix()
            skipped = should_skip_file(inside) or f"{inside}/".startswith(ignored)
            is_link = os.path.islink(file)  # noqa: PTH114 - `is_symlink` may raise
            if not skipped and not is_link and not _is_readable_folder(file):
                yield file


def _is_readable_folder(path: Path) -> bool:
    from state_store.documents.files import is_folder

    return is_folder(path) and os.access(path, os.R_OK | os.X_OK)


def _ignored(folder: Path) -> tuple[str, ...]:
    """The ignored paths in `folder`, each with "/" at its end; none if git cannot tell."""
    from state_store.documents.errors import TidegateError

    try:
        return tuple(f"{path.rstrip('/')}/" for path in _shelf(folder).ignored())
    except TidegateError:
        return ()


def _read(path: Path) -> bytes:
    from state_store.documents.files import BadFileError, read_bytes

    try:
        return read_bytes(path, LARGEST_BYTES)
    except BadFileError as error:
        raise ScanError(str(error)) from error


def _shelf(repo: str | Path) -> StoredBlobs:
    from driver.git.stored_blobs import StoredBlobs
    from tools.settings.load import process_environment

    return StoredBlobs(Path(repo), process_environment())


def _contents(shelf: StoredBlobs, held: Sequence[StoredBlob]) -> Iterator[tuple[StoredBlob, bytes]]:
    """Yields each content, one at a time, because all may not fit in memory."""
    from state_store.documents.errors import TidegateError

    try:
        yield from shelf.contents(held)
    except TidegateError as error:
        raise GitScanError(str(error)) from error


def _asked(ask: Callable[[], list[T]]) -> list[T]:
    from state_store.documents.errors import TidegateError

    try:
        return ask()
    except TidegateError as error:
        raise GitScanError(str(error)) from error


def _check_range(commits: str) -> None:
    if ".." not in commits or commits.startswith("-"):
        raise GitScanError(f"{commits!r} is not a range of commits: write it as A..B")


if __name__ == "__main__":
    sys.exit(main())
