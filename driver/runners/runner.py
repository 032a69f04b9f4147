"""The description of a test runner, and of a canary test for it. Data and small helpers; pure.

Each family of runners has one module in this package, and `driver.runners.table` lists them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from driver.runners.result import Reader
from driver.test_command.build_scripts import Read, in_folder
from driver.test_command.invocations import Command

_PLAIN = re.compile(r"[A-Za-z0-9_./=:-]*")
# Options of the runners that are given files, whose value is no file with tests.
TAKES_VALUE = ("-k", "-m", "-p", "-n", "-c", "-o", "-W", "-r", "--tb", "--cov", "--rootdir")


@dataclass(frozen=True, slots=True)
class Canary:
    """A test that must fail: write `text` to `path`, then run `command` in place of the item's.

    `names` appear in the output when its tests are red; the first is the one that runs first.
    `alone` is a command that surely runs the canary, for a `command` that seems not to find it;
    None where there is none. With `selects` no other test runs in `command`. With `amends` the
    text takes the place of a file that is there, which it begins with.
    """

    runner: str
    path: str
    text: str
    names: tuple[str, ...]
    command: Command
    alone: Command | None
    amends: bool = False
    selects: bool = False


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The command takes no canary; `reason` is for the record."""

    reason: str


Plan = Canary | NotApplicable


@dataclass(frozen=True, slots=True)
class Call:
    """The one call of a runner in a command: its arguments and the folder that it runs in.

    Arguments that are added to the end of an `extendable` command reach the call.
    """

    command: Command
    words: tuple[str, ...]
    folder: str
    extendable: bool

    def with_more(self, *words: str) -> Command | None:
        """The whole command with arguments added to the call; None where that cannot be done."""
        if not self.extendable or not all(map(_PLAIN.fullmatch, words)):
            return None
        if isinstance(self.command, str):
            return " ".join((self.command.rstrip(), *words))
        return (*self.command, *words)

    def below(self, path: str) -> str:
        """A path of the tree as the call's arguments name it."""
        return posixpath.relpath(path, self.folder or ".")

    def in_tree(self, word: str) -> str:
        """The path in the tree that an argument names; "" for the top."""
        path = in_folder(self.folder or ".", word.replace("\\", "/"))
        return "" if path == "." else path


@dataclass(frozen=True, slots=True)
class CanaryInput:
    """All that a canary is planned from; see `driver.runners.canary.plan_canary`."""

    call: Call
    files: Collection[str]
    changed: Collection[str]
    texts: Mapping[str, str]
    nonce: str


# A named test: a path, or a folder and the pattern of the names that are looked for in it.
Named = str | tuple[str, str]


def named_files(words: Sequence[str], folder: str, read: Read) -> Iterator[Named]:
    """The files among a call's arguments. A doctest names the code, so it names no tests."""
    del read
    if "doctest" not in " ".join(words):
        for word in positional(words[1:], TAKES_VALUE):
            yield in_folder(folder, word.partition("::")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """All that is known of one runner. Patterns are regular expressions.

    Called as one of `programs`, as `python -m MODULE`, or as the `test` of the program `verb_of`.
    `read` finds every summary in its output `stream` ("out", "err" or "both"); one that `closes`
    ends with a summary unless it is told to be quiet. `test_files` are the names of files that it
    takes for tests, in lower case, or `camel_case` the endings of files that are tests by a capital
    letter (`AppTest.java`); `named` finds those that a call names. `configures` are files that
    configure it, as patterns of `driver.policy.protected_paths`, and `config_options` name one.
    `plan` makes a canary, for which it needs the texts of the paths that match `canary_reads`.
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


def with_selection(
    given: CanaryInput,
    options: Sequence[str],
    names: Sequence[str],
    plan: Callable[[CanaryInput], Plan],
) -> Plan:
    """The plan for a call that ends with `options`, which may select tests by one of `names` and a
    value. The canary is selected in their place; a command given as a text is not taken apart.
    """
    kept = [
        one
        for before, one in pairwise(("", *options))
        if before not in names and one.partition("=")[0] not in names
    ]
    if len(kept) == len(options):
        return plan(given)
    call = given.call
    if isinstance(call.command, str) or not call.extendable:
        return NotApplicable("the command selects tests by name")
    chosen = (*kept, "-k", given.nonce)
    command = (*call.command[: len(call.command) - len(options)], *chosen)
    words = (*call.words[: len(call.words) - len(options)], *chosen)
    found = plan(replace(given, call=replace(call, command=command, words=words)))
    return found if isinstance(found, NotApplicable) else replace(found, selects=True)


def camel(nonce: str) -> str:
    """A nonce as the name of a class."""
    return "".join(part[:1].upper() + part[1:] for part in nonce.split("_"))


def positional(options: Sequence[str], takes_value: Sequence[str]) -> list[str]:
    """The arguments that are no options, nor the values of those that take one."""
    pairs = pairwise(("", *options))
    return [word for before, word in pairs if word[:1] != "-" and before not in takes_value]


def is_folder(path: str, files: Collection[str]) -> bool:
    """True if a tree with these files has this folder."""
    return any(file.startswith(f"{path}/") for file in files)
