"""The description of a test runner and of its canary. Data and small helpers; pure. Each family of
runners has a module in this package, listed in `driver.runners.table`."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from driver.runners.result import Counts, Reader, read_junit
from driver.test_command.build_scripts import Read, in_folder
from driver.test_command.invocations import Command
from state_store.values.lazy_dataclass import dataclass, replace
from state_store.values.lazy_pattern import lazy_pattern

_PLAIN = lazy_pattern(r"[A-Za-z0-9_./=:-]*")
# Options with a value that is no test file, of the runners that take files.
TAKES_VALUE = ("-k", "-m", "-p", "-n", "-c", "-o", "-W", "-r", "--tb", "--cov", "--rootdir")


@dataclass(frozen=True, slots=True)
class Canary:
    """A test that must fail: write `text` to `path`, then run `command` in place of the item's
    command.

    If its tests are red, the output has their `names`; the first runs first. `alone` is a command
    that surely runs the canary, for a `command` that missed it; None if there is none. With
    `selects`, `command` runs no other test. With `amends`, `text` replaces an existing file.
    `modules` are names of changed modules, each with the file, that the canary tells about: see
    `driver.runners.python_canary.loaded_elsewhere`. `tries` is the assertion of each name. A
    command that `stops` ends at the first failure.
    """

    runner: str
    path: str
    text: str
    names: tuple[str, ...]
    command: Command
    alone: Command | None
    amends: bool = False
    selects: bool = False
    modules: tuple[tuple[str, str], ...] = ()
    tries: tuple[str, ...] = ()
    stops: bool = False


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """A command without a canary; `reason` is for the record."""

    reason: str


Plan = Canary | NotApplicable


@dataclass(frozen=True, slots=True)
class Call:
    """The call of a runner in a command: its arguments and its folder. Arguments added to the end
    of an `extendable` command reach the call."""

    command: Command
    words: tuple[str, ...]
    folder: str
    extendable: bool

    def with_more(self, *words: str) -> Command | None:
        """The whole command with more arguments for the call; None if it cannot be extended."""
        if not self.extendable or not all(map(_PLAIN.fullmatch, words)):
            return None
        if isinstance(self.command, str):
            return " ".join((self.command.rstrip(), *words))
        return (*self.command, *words)

    def below(self, path: str) -> str:
        """A path of the tree in the spelling of the call's arguments."""
        return posixpath.relpath(path, self.folder or ".")

    def in_tree(self, word: str) -> str:
        """The path of an argument in the tree; "" for the top."""
        path = in_folder(self.folder or ".", word.replace("\\", "/"))
        return "" if path == "." else path


@dataclass(frozen=True, slots=True)
class CanaryInput:
    """The input of a canary plan; see `driver.runners.canary.plan_canary`."""

    call: Call
    files: Collection[str]
    changed: Collection[str]
    texts: Mapping[str, str]
    nonce: str
    output: str = ""


@dataclass(frozen=True, slots=True)
class Selection:
    """A run without some test files, which stay in place: `command` in place of the whole command.
    The words of `environment` are added to the variables."""

    command: Command
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report that a runner writes if it is asked for it, beside what it prints.

    `options` are words for `variable`, or arguments of the call if that is ""; {path} in them is
    the file to write. Its last part is
    `name`, which may hold a variable that tells a runner within a test from that of the test
    command. The report is not asked for where the regular expression `rival` is found in the
    command, the variable or one of the files `configs`: the project makes its own. `notice` is the
    line that the runner prints about it; `broken` is printed by a runner that knows no such report.
    `read` makes the counts of a runner's name and a report.
    """

    variable: str
    options: str
    name: str
    rival: str
    configs: tuple[str, ...]
    notice: str
    broken: str
    read: Callable[[str, str], Counts] = read_junit


# A test in a call: a path, or a folder and a pattern of file names.
Named = str | tuple[str, str]


def named_files(words: Sequence[str], folder: str, read: Read) -> Iterator[Named]:
    """The files among a call's arguments. A doctest call names code files, so it has no
    test files."""
    del read
    if "doctest" not in " ".join(words):
        for word in positional(words[1:], TAKES_VALUE):
            yield in_folder(folder, word.partition("::")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """The description of a runner. Patterns are regular expressions.

    It is called as one of `programs`, as `python -m MODULE`, or as the `test` of the program
    `verb_of`. `read` finds every summary in its output `stream` ("out", "err" or "both"). With
    `closes` its output ends with a summary, unless a quiet option is set. `test_files` are patterns
    of its test file names, in lower case. `camel_case` are endings of files that are tests by a
    capital letter (`AppTest.java`). `named` finds the test files in a call. `configures` are its
    configuration files, as patterns of `driver.policy.protected_paths`; `config_options` name such
    a file. `plan` makes a canary; it needs the texts of the paths that match `canary_reads`.
    `failures` finds the tests that its output reports as failed, each with its reason, "" for a
    failed assertion. `red` are the lines that name a failing test in the group `name`, `red_marks`
    further lines that belong to failures.

    `report` is a report of its own that it can be asked for. `report_files` are patterns of the
    reports that it always writes, below a folder with one of the files `built_by`. `counting` are
    arguments with which it prints its tests, unless the call has one of the arguments
    `counting_already`.

    `emptied` is the text of a test file (path, text) without its tests and all other code, None for
    a file of another kind. `leaves_out` has the call run without some test files of the tree, whose
    paths are given last; None if it cannot.
    """

    name: str
    read: Reader
    programs: tuple[str, ...] = ()
    module: str = ""
    verb_of: str = ""
    stream: str = "out"
    closes: bool = True
    test_files: tuple[str, ...] = ()
    camel_case: tuple[str, ...] = ()
    named: Callable[[Sequence[str], str, Read], Iterator[Named]] | None = None
    configures: tuple[str, ...] = ()
    config_options: tuple[str, ...] = ()
    plan: Callable[[CanaryInput], Plan] | None = None
    canary_reads: tuple[str, ...] = ()
    emptied: Callable[[str, str], str | None] | None = None
    leaves_out: Callable[[Call, Collection[str], Sequence[str]], Selection | None] | None = None
    failures: Callable[[str], Mapping[str, str]] | None = None
    report: Report | None = None
    report_files: tuple[str, ...] = ()
    built_by: tuple[str, ...] = ()
    counting: tuple[str, ...] = ()
    counting_already: tuple[str, ...] = ()
    red: tuple[str, ...] = ()
    red_marks: tuple[str, ...] = ()


def with_selection(
    given: CanaryInput,
    options: Sequence[str],
    names: Sequence[str],
    plan: Callable[[CanaryInput], Plan],
) -> Plan:
    """The plan for a call that ends with `options` and selects tests by the options `names`. The
    call then selects the canary instead."""
    call = given.call
    kept = [
        one
        for before, one in pairwise(("", *options))
        if before not in names and one.partition("=")[0] not in names
    ]
    start = len(call.words) - len(options)
    words = (*call.words[:start], *kept, "-k", given.nonce)
    if not call.extendable:
        return NotApplicable("the command selects tests, and Tidegate cannot select another one")
    if not isinstance(call.command, str):
        command: Command = (*call.command[: -len(options)], *words[start:])
    elif (text := _without(call.command, options, names)) is not None:
        command = f"{text} -k {given.nonce}"
    else:
        return NotApplicable("the command selects tests in a way that Tidegate cannot change")
    found = plan(replace(given, call=replace(call, command=command, words=words)))
    return found if isinstance(found, NotApplicable) else replace(found, selects=True)


def leaves_out_by(
    option: str, call: Call, files: Collection[str], left_out: Sequence[str]
) -> Selection | None:
    """The call with an option for each left out file, for runners with such an option."""
    del files
    command = call.with_more(*(f"{option}={call.below(path)}" for path in left_out))
    return Selection(command) if command is not None else None


_COMMENTS = lazy_pattern(r"(?:[ \t]*(?://[^\n]*)?\r?\n)*")


def head_comments(text: str) -> str:
    """The `//` comments and empty lines at the top of a file."""
    found = _COMMENTS.match(text)
    return found[0] if found else ""


def _without(command: str, options: Sequence[str], names: Sequence[str]) -> str | None:
    """A command text without these options and their values; None if its text does not show
    them."""
    for name, value in pairwise((*options, "")):
        word = next((one for one in names if name == one or name.startswith(f"{one}=")), "")
        if not word:
            continue
        shown = re.escape(value if name == word else name.removeprefix(f"{word}="))
        at = re.compile(rf"""\s{re.escape(word)}[\s=]+(?:{shown}|'{shown}'|"{shown}")(?=\s|$)""")
        if len(at.findall(command)) != 1:
            return None
        command = at.sub("", command)
    return command


def camel(nonce: str) -> str:
    """A nonce as the name of a class."""
    return "".join(part[:1].upper() + part[1:] for part in nonce.split("_"))


def positional(options: Sequence[str], takes_value: Sequence[str]) -> list[str]:
    """The arguments without options and their values."""
    pairs = pairwise(("", *options))
    return [word for before, word in pairs if word[:1] != "-" and before not in takes_value]


def is_folder(path: str, files: Collection[str]) -> bool:
    """True if a tree with these files has this folder."""
    return any(file.startswith(f"{path}/") for file in files)
