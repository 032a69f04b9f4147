"""Which files are tests: by the names that runners look for, and by what a test command says, which
names files to its runner or is given a pattern of names. Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise

from driver.runners.insertion import Command, find_call, positional
from driver.runners.pytest_canary import CONFIGS, TAKES_VALUE, words_set
from driver.runners.unittest_canary import discovery_of
from driver.test_command.build_scripts import in_folder, lines_run
from driver.test_command.invocations import programs, runner_of

_TAKE_FILES = ("pytest", "node", "jest", "vitest", "mocha", "rspec", "phpunit")
_DOTTED = re.compile(r"\w+(?:\.\w+)+")

_TEST_FOLDERS = frozenset(
    {"test", "tests", "__tests__", "spec", "testdata", "__snapshots__", "e2e", "cypress"}
    | {"__mocks__", "__fixtures__"}
)
_TEST_NAME = re.compile(
    r"test_.*\.py|.*_tests?\.(py|go|rs|c|cc|cpp|rb|exs?|dart)|tests?\.(py|rs|[cm]?[jt]s)"
    r"|.*[._-](test|spec)s?\.([cm]?[jt]sx?)|.*_spec\.rb|test-.*\.[cm]?[jt]s|.*\.(bats|t|feature)"
)
# Here the case tells: `LatestTest.java`, but not `Latest.java`.
_CAMEL_TEST = re.compile(r"(.*(Tests?|IT|Spec)|Test[A-Z].*)\.[a-z]+")
_CAMEL_SUFFIX = re.compile(r".*\.(java|kt|scala|groovy|cs|fs|vb|php|swift)")

Read = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class NamedTests:
    """`files`, and `patterns` of names, each with the folder that is looked through for it; paths
    are from the repository's top, "." for that. `is_read`: the call of a runner was found."""

    files: frozenset[str] = frozenset()
    patterns: tuple[tuple[str, str], ...] = ()
    is_read: bool = False

    def holds(self, path: str) -> bool:
        """Whether a file is one of them."""
        return path in self.files or any(_fits(path, *one) for one in self.patterns)


def is_test(path: str) -> bool:
    """Whether a file is a test or belongs to tests, by the names that runners look for."""
    *folders, name = path.split("/")
    if any(folder.lower() in _TEST_FOLDERS for folder in folders):
        return True
    return has_test_name(name)


def has_test_name(path: str) -> bool:
    """Whether runners look for a file by its own name, wherever it lies."""
    name = posixpath.basename(path)
    if _CAMEL_SUFFIX.fullmatch(name.lower()):
        return _CAMEL_TEST.fullmatch(name) is not None
    return _TEST_NAME.fullmatch(name.lower()) is not None


def named_tests(command: Command, work_dir: str, read: Read) -> NamedTests:
    """The tests of a command, also behind a makefile or the scripts of a package; `read` gives the
    text of a path, "" for none."""
    files: set[str] = set()
    patterns: list[tuple[str, str]] = []
    calls = [*_calls(command, work_dir, read)]
    for words, folder in calls:
        runner = runner_of(words)
        if runner == "unittest":
            options = words[words.index("unittest") + 1 :]
            files |= {in_folder(folder, one) for one in _modules(options)}
            patterns += _discovered(options, folder)
        elif runner in _TAKE_FILES:
            if "doctest" not in " ".join(words):  # there it is the code that is named
                named = positional(words[1:], TAKES_VALUE)
                files |= {in_folder(folder, word.partition("::")[0]) for word in named}
            patterns += _configured(words, folder, read) if runner == "pytest" else []
    return NamedTests(frozenset(files), tuple(patterns), bool(calls))


def _calls(command: Command, work_dir: str, read: Read) -> Iterator[tuple[tuple[str, ...], str]]:
    """The calls of runners, each with its folder."""
    for line, folder in ((command, work_dir), *lines_run(command, work_dir, read)):
        if one := find_call(line, folder):
            yield one.words, one.folder or "."
        else:
            yield from ((words, folder) for words in programs(line) if runner_of(words))


def _modules(options: Sequence[str]) -> Iterator[str]:
    """The files that `checks.a.Case.test_x` or `checks/a.py` may mean."""
    for word in options:
        if word.endswith(".py"):
            yield word
        parts = word.split(".")
        yield from ("/".join(parts[:end]) + ".py" for end in range(1, len(parts) + 1))


def _discovered(options: Sequence[str], folder: str) -> Iterator[tuple[str, str]]:
    """Where discovery looks, and for which names; a package is looked through by its folder."""
    if (asked := discovery_of(options)) is None:
        return
    yield in_folder(folder, asked.start), asked.pattern
    if _DOTTED.fullmatch(asked.start):
        yield in_folder(folder, asked.start.replace(".", "/")), asked.pattern


def _configured(words: Sequence[str], folder: str, read: Read) -> Iterator[tuple[str, str]]:
    """`python_files` of pytest: as the call says, and in the folder it starts in or one above."""
    files = (read(in_folder(folder, name)) for name in _values(words, "-c", "--config-file"))
    for text in (*_values(words, "-o", "--override-ini"), *files):
        yield from ((folder, pattern) for pattern in words_set(text, "python_files"))
    place = folder
    while True:
        texts = [read(in_folder(place, name)) for name in CONFIGS]
        for pattern in words_set("\n".join(texts), "python_files"):
            yield place, pattern
        if place in ("", "."):
            return
        place = posixpath.dirname(place) or "."


def _values(words: Sequence[str], short: str, long: str) -> Iterator[str]:
    """What an option is given, each time."""
    for word, following in pairwise((*words, "")):
        if word in (short, long):
            yield following
        elif word.startswith(f"{long}="):
            yield word.removeprefix(f"{long}=")
        elif word.startswith(short):
            yield word.removeprefix(short)


def _fits(path: str, folder: str, pattern: str) -> bool:
    below = folder in ("", ".") or path.startswith(f"{folder}/")
    whole = "/" in pattern
    found = fnmatchcase(f"/{path}", f"*/{pattern}") if whole else fnmatchcase(_name(path), pattern)
    return below and found


def _name(path: str) -> str:
    return posixpath.basename(path)
