"""The test files of a repository. Pure. They are found by the names that runners look for, and by
the files and patterns in a test command."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from driver.runners.table import RUNNERS, find_call, runner_of
from driver.test_command.build_scripts import Read, lines_run
from driver.test_command.invocations import Command, programs
from state_store.values.lazy_dataclass import dataclass
from state_store.values.lazy_pattern import lazy_pattern

_TEST_FOLDERS = frozenset(
    {"test", "tests", "__tests__", "spec", "testdata", "__snapshots__", "e2e", "cypress"}
    | {"__mocks__", "__fixtures__"}
)
# Names of tests for runners that are not in the table: ExUnit, Dart, bats, prove, cucumber.
_MORE_NAMES = (r".*_tests?\.(exs?|dart)", r".*\.(bats|t|feature)")
_NAMES = (name for runner in RUNNERS.values() for name in runner.test_files)
_TEST_NAME = lazy_pattern("|".join(dict.fromkeys((*_NAMES, *_MORE_NAMES))))
# The case decides: `LatestTest.java`, but not `Latest.java`.
_CAMEL_TEST = lazy_pattern(r"(.*(Tests?|IT|Spec)|Test[A-Z].*)\.[a-z]+")
_CAMEL_ENDINGS = (*(end for runner in RUNNERS.values() for end in runner.camel_case), "swift")
_AFFIX = lazy_pattern(r"^tests?[_-]|[._-](?:test|spec)s?$")
_MIN_STEM = 3
_CAMEL_SUFFIXES = tuple(f".{end}" for end in _CAMEL_ENDINGS)


@dataclass(frozen=True, slots=True)
class NamedTests:
    """Test files in a command: `files`, and `patterns` as pairs of folder and name pattern. Paths
    are relative to the repository's top, "." for the top. With `is_read`, the runner's call was
    found."""

    files: frozenset[str] = frozenset()
    patterns: tuple[tuple[str, str], ...] = ()
    is_read: bool = False

    def holds(self, path: str) -> bool:
        """True if a file is among the tests. A pattern with a slash matches the end of the path."""
        name = posixpath.basename(path)
        return path in self.files or any(
            fnmatchcase(f"/{path}", f"*/{pattern}")
            if "/" in pattern
            else fnmatchcase(name, pattern)
            for folder, pattern in self.patterns
            if folder in ("", ".") or path.startswith(f"{folder}/")
        )


def is_test(path: str) -> bool:
    """True if a file is a test or belongs to tests, by its name or folder."""
    folders, _, name = path.rpartition("/")
    return not _TEST_FOLDERS.isdisjoint(folders.lower().split("/")) or has_test_name(name)


def has_test_name(path: str) -> bool:
    """True if runners look for the file's own name, in any folder."""
    name = posixpath.basename(path)
    if name.lower().endswith(_CAMEL_SUFFIXES):
        return _CAMEL_TEST.fullmatch(name) is not None
    return _TEST_NAME.fullmatch(name.lower()) is not None


def stem_of(path: str) -> str:
    """The name of a file without its endings, and without the mark of a test: `calc` for
    `calc.py` and `tests/test_calc.py`."""
    return _AFFIX.sub("", posixpath.basename(path).partition(".")[0])


def stems_in_output(paths: Iterable[str]) -> set[str]:
    """The stems of files that tell something in an output; a shorter one may be in any output."""
    return {stem for path in paths if len(stem := stem_of(path)) >= _MIN_STEM}


def named_tests(command: Command, work_dir: str, read: Read) -> NamedTests:
    """The tests of a command, also behind a makefile or a package script. `read` returns the text
    of a path, "" for none."""
    files: set[str] = set()
    patterns: list[tuple[str, str]] = []
    calls = [*_calls(command, work_dir, read)]
    for words, folder in calls:
        find_named = RUNNERS[runner_of(words)].named
        for one in find_named(words, folder, read) if find_named else ():
            if isinstance(one, str):
                files.add(one)
            else:
                patterns.append(one)
    return NamedTests(frozenset(files), tuple(patterns), bool(calls))


def _calls(command: Command, work_dir: str, read: Read) -> Iterator[tuple[tuple[str, ...], str]]:
    """The calls of runners, each with its folder."""
    for line, folder in ((command, work_dir), *lines_run(command, work_dir, read)):
        if one := find_call(line, folder):
            yield one.words, one.folder or "."
        else:
            yield from ((words, folder) for words in programs(line) if runner_of(words))
