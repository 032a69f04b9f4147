"""The files that the set-up reads or writes. Trees that agree in them share set-ups.

Known names come first: lock files, manifests, the files in the set-up commands and the patterns of
`[workspace] setup_reads`. Each set-up adds the files that it really used, by their access times. A
file system without access times (`noatime`) adds only written files.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from driver.domain.ownership import comparison_key
from driver.domain.results import Change
from driver.policy.installed_modules import PYTHON_DEPENDENCIES
from driver.policy.protected_paths import configuration, matches
from driver.policy.started_files import files_started, words_of
from driver.test_command.build_scripts import Read, in_folder, lines_run
from driver.test_command.invocations import Command, innermost, programs

SetupKey = frozenset[tuple[str, str | None, str | None]]

_KINDS = ("configuration of a build", "run by Python")
_NAMES = f"""{PYTHON_DEPENDENCIES}
    *.lock *.lockb *-lock.json conda-lock.y*ml *.gemspec *.podspec podfile cabal.project* vendor/
    lerna.json pip.conf
"""
_INSTALLERS = frozenset({"pip", "pip3", "uv", "pipx"})
_EDITABLE = ("-e", "--editable", "-r", "--requirement", "-c", "--constraint")


class SetupReads:
    """Keys of set-ups. The base, with the files `paths`, has the empty key. `patterns` are the
    user's, and `read` returns the text of a file of the base, "" for none."""

    def __init__(
        self,
        commands: Sequence[Command],
        patterns: Sequence[str],
        paths: frozenset[str],
        read: Read,
    ) -> None:
        self._commands = tuple(commands)
        self._patterns = (*_NAMES.split(), *map(comparison_key, patterns))
        self._paths = paths
        self._read = read
        self._used = set[str]()

    def key(self, changes: Iterable[Change]) -> SetupKey:
        """The key of a tree with these changes against the base."""
        if not self._commands:
            return frozenset()
        return frozenset((c.path, c.mode, c.blob) for c in changes if self._may_read(c))

    def learn(self, top: Path, tracked: Iterable[str], began: int) -> None:
        """Note the files that a set-up at `top` used since the time `began`. All `tracked` files
        are older."""
        self._used.update(path for path in tracked if _newest_use(f"{top}/{path}") >= began)

    def learn_products(self, paths: Iterable[str]) -> None:
        """Note files that a set-up made. A tree that tracks one of them has its own set-up."""
        if self._commands:
            self._used.update(paths)

    def _may_read(self, change: Change) -> bool:
        """True for a file with a known name, a file that a set-up named, copied or used, and a new
        file of a kind that a set-up used."""
        path, key = change.path, comparison_key(change.path)
        if configuration(path).startswith(_KINDS):
            return True
        if any(matches(key, pattern) for pattern in self._patterns):
            return True
        if path in self._used or path in self._named or path.startswith(self._installed):
            return True
        return change.base_mode is None and self._belongs_to_used(path)

    def _belongs_to_used(self, path: str) -> bool:
        """True for a new file if the set-up used all files of its kind in the nearest folder."""
        suffix = PurePosixPath(path).suffix
        for folder in map(str, PurePosixPath(path).parents):
            if beside := self._beside.get((folder, suffix)):
                return self._used.issuperset(beside)
        return False

    @cached_property
    def _beside(self) -> Mapping[tuple[str, str], Sequence[str]]:
        found = defaultdict[tuple[str, str], list[str]](list)
        for path in self._paths:
            pure = PurePosixPath(path)
            found[str(pure.parent), pure.suffix].append(path)
        return found

    @cached_property
    def _lines(self) -> Sequence[tuple[Command, str]]:
        """The commands, and the lines that they run through makefiles and package scripts."""
        own = [(command, ".") for command in self._commands]
        return [*own, *(one for command, _ in own for one in lines_run(command, ".", self._read))]

    @cached_property
    def _named(self) -> frozenset[str]:
        """The files that the commands name or start, also through makefiles and scripts."""
        found = set[str]()
        for line, folder in self._lines:
            found |= files_started(line, folder, self._read)
            found.update(in_folder(folder, word.rpartition("=")[2]) for word in words_of(line))
        return frozenset(found)

    @cached_property
    def _installed(self) -> tuple[str, ...]:
        """The beginnings of the paths in folders that `pip install` copies: `pip install .`."""
        found = {
            folder
            for line, at in self._lines
            for words in programs(line)
            for folder in _copied(words, at)
        }
        return tuple("" if folder == "." else f"{folder}/" for folder in sorted(found))


def _copied(words: Sequence[str], folder: str) -> Iterator[str]:
    """The folders of the repository that a call of pip copies into an environment."""
    words = innermost(tuple(words))
    names = {PurePosixPath(word).name for word in words[:4]}
    if names.isdisjoint(_INSTALLERS) or "install" not in words:
        return
    at = words.index("install")
    for before, word in zip(words[at:], words[at + 1 :], strict=False):
        named = word.partition("[")[0]
        if before not in _EDITABLE and (named == "." or named.startswith(("./", "../"))):
            yield in_folder(folder, named)


def _newest_use(path: str) -> int:
    """The time of the last read or change of a file; 0 for a file that is gone."""
    try:
        seen = os.lstat(path)
    except OSError:
        return 0
    return max(seen.st_atime_ns, seen.st_mtime_ns, seen.st_ctime_ns)
