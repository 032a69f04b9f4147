"""Notes changed files in an index without a process of git, which costs more than the files.

Only for files that git would store as they are; git notes all others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath

from driver.filesystem.safe_file_access import open_plain
from driver.tree_files.index_file import Noted, entries_in, noted_of, write_index
from driver.tree_files.small_trees import FILE, MOST_FILES, PROGRAM, Entry, is_plain

_MOST_TOUCHED, _MOST_BYTES = 50, 1_000_000
_ATTRIBUTES = ".gitattributes"
_MODE = 6  # the place of the mode in the noted stat data


def note_small(
    work_tree: Path,
    index: Path,
    files: Iterable[str],
    gone: Iterable[str],
    algorithm: str,
    store: Callable[[bytes], str],
) -> Mapping[str, Entry]:
    """Note the content, mode and stat data of `files` on disk in an index, and that the `gone` are
    not there; returns the mode and id of each of its paths. `store` keeps a content and returns its
    id. Raises OSError and ValueError, with the index as it was, if git has to do it, and
    NotPlainError if a file is none any more."""
    entries = {
        path: (noted, name) for path, noted, name in entries_in(index, algorithm, MOST_FILES)
    }
    touched, lost = [*files], [path for path in gone if path in entries]
    _check_attributes(work_tree, touched)
    for path in lost:
        del entries[path]
    if len(touched) > _MOST_TOUCHED:
        raise ValueError("many files")
    for path in touched:
        entries[path] = _read(work_tree, path, store)
    found = {path: (f"{noted[_MODE]:o}", name) for path, (noted, name) in entries.items()}
    if not is_plain(found):
        raise ValueError("a tree that git has to write")
    if touched or lost:
        write_index(index, entries, algorithm)
    return found


def _check_attributes(work_tree: Path, paths: Iterable[str]) -> None:
    """Raises ValueError if a file on disk may make git convert the content of the paths."""
    above = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    if any(os.path.lexists(work_tree / folder / _ATTRIBUTES) for folder in above):
        raise ValueError("attributes may convert files")


def _read(work_tree: Path, path: str, store: Callable[[bytes], str]) -> tuple[Noted, str]:
    with open_plain(work_tree, path) as file:
        before = os.fstat(file.fileno())
        if before.st_size > _MOST_BYTES:
            raise ValueError("a large file")
        content = file.read(before.st_size + 1)
        after = os.fstat(file.fileno())
    mode = PROGRAM if before.st_mode & stat.S_IXUSR else FILE
    noted = noted_of(before, mode)
    if len(content) != before.st_size or noted != noted_of(after, mode):
        raise ValueError("a file that is being written")
    return noted, store(content)
