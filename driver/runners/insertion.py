"""The planted test as data, and how a test command is called so that it finds one more test.

Pure. Owns reading the runner's call out of a command and adding arguments to it; what each runner
needs is the business of the modules beside it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from driver.test_command.invocations import programs, runner_of
from driver.test_command.shell_lexer import split
from driver.test_command.shell_parser import Simple, parse

Command = str | tuple[str, ...]
_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-=:"


@dataclass(frozen=True, slots=True)
class Canary:
    """A test that must fail: write `text` to `path`, then run `command` as the item's own.

    `names` appear in the output when its tests are red; the first is the one that runs first.
    `alone` is for a `command` that seems not to find it: one that surely runs it, perhaps with
    nothing else, perhaps the same again, where `path` is named in it. None: there is none.
    With `selects` no other test runs in `command`.
    `amends` tells that `text` takes the place of a file that is there, which it begins with.
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
    """No canary can be planted for this command; `reason` is for the record."""

    reason: str


Plan = Canary | NotApplicable


@dataclass(frozen=True, slots=True)
class Call:
    """The one call of a runner in a command: its arguments and the folder that it runs in."""

    command: Command
    words: tuple[str, ...]
    folder: str
    extendable: bool

    def with_more(self, *words: str) -> Command | None:
        """The whole command with arguments added to the call; None where that cannot be done."""
        if not self.extendable or any(set(word) - set(_PLAIN) for word in words):
            return None
        if isinstance(self.command, str):
            return " ".join((self.command.rstrip(), *words))
        return (*self.command, *words)

    def selecting(self, options: Sequence[str], names: Sequence[str], word: str) -> Call | None:
        """The call with its last words, the `options`, but for the selection of tests by `names`
        and a value: `-k word` in its place. None where there is none, or it cannot be told."""
        kept = [
            one
            for before, one in pairwise(("", *options))
            if before not in names and one.partition("=")[0] not in names
        ]
        if isinstance(self.command, str) or not self.extendable or len(kept) == len(options):
            return None
        start, top = len(self.words) - len(options), len(self.command) - len(options)
        chosen = (*kept, "-k", word)
        command = (*self.command[:top], *chosen)
        return Call(command, (*self.words[:start], *chosen), self.folder, extendable=True)

    def below(self, path: str) -> str:
        """A path of the tree as the call's arguments name it."""
        return posixpath.relpath(path, self.folder or ".")

    def in_tree(self, word: str) -> str:
        """The path in the tree that an argument names; "" for the top."""
        path = posixpath.normpath(posixpath.join(self.folder or ".", word.replace("\\", "/")))
        return "" if path == "." else path


@dataclass(frozen=True, slots=True)
class Field:
    """What a planted test is planned from; see `driver.canary.plan_canary`."""

    call: Call
    files: Collection[str]
    changed: Collection[str]
    texts: Mapping[str, str]
    nonce: str

    def selecting(
        self, options: Sequence[str], names: Sequence[str], plan: Callable[[Field], Plan]
    ) -> Plan | None:
        """The plan for the call that selects the planted test alone, where the command selects
        tests by one of `names`; None where that cannot be asked of it."""
        chosen = self.call.selecting(options, names, self.nonce)
        if chosen is None:
            return None
        found = plan(replace(self, call=chosen))
        return found if isinstance(found, NotApplicable) else replace(found, selects=True)


def camel(nonce: str) -> str:
    """A nonce as the name of a class."""
    return "".join(part[:1].upper() + part[1:] for part in nonce.split("_"))


def positional(options: Sequence[str], takes_value: Sequence[str]) -> list[str]:
    """The arguments that are no options, nor the values of those that take one."""
    pairs = pairwise(("", *options))
    return [word for before, word in pairs if word[:1] != "-" and before not in takes_value]


def is_folder(path: str, files: Collection[str]) -> bool:
    """Whether a tree with these files has this folder."""
    return any(file.startswith(f"{path}/") for file in files)


def find_call(command: str | Sequence[str], workdir: str = "") -> Call | None:
    """The call of the one runner that a command names; None for none, and for several."""
    calls = [words for words in programs(command) if runner_of(words)]
    if len(calls) != 1:
        return None
    if not isinstance(command, str):
        argv = tuple(command)
        whole = argv[-len(calls[0]) :] == calls[0]
        return Call(argv, calls[0], workdir, extendable=whole)
    return _in_text(command, calls[0], workdir)


def _in_text(command: str, words: tuple[str, ...], workdir: str) -> Call | None:
    """Only folders entered by `cd DIR &&` at the start are followed."""
    chains = parse(command).chains
    pipelines = [pipeline for chain in chains for pipeline in chain.pipelines]
    flat = [one for pipeline in pipelines for one in pipeline.commands]
    folder = workdir
    for one in flat:
        if isinstance(one, Simple) and one.name == "cd" and len(one.words) == 2:
            folder = posixpath.normpath(posixpath.join(folder, one.words[1]))
    last = flat[-1]
    ends = isinstance(last, Simple) and last.words[-len(words) :] == words and "#" not in command
    tokens = split(command)
    redirected = any(token.operator and token.text not in ("&&", ";", "\n") for token in tokens)
    return Call(command, words, "" if folder == "." else folder, ends and not redirected)
