"""Which files of the repository a test command starts, or is told to load, by their names. Pure.

Followed through makefiles, the scripts of a package and shell scripts, as far as plain text tells;
what a program loads by itself is not known here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Set
from itertools import pairwise

from driver.test_command.build_scripts import in_folder, lines_run, made_by
from driver.test_command.invocations import innermost, programs, without_starter
from driver.test_command.shell_lexer import UnreadableError
from driver.test_command.shell_parser import Simple, parse, simple_commands

Command = str | tuple[str, ...]
Read = Callable[[str], str]

_INTERPRETER = re.compile(
    r"(?:sh|bash|dash|zsh|ksh|python[\d.]*|pypy[\d.]*|node|nodejs|ruby|perl|php|tsx|ts-node|lua"
    r"|Rscript|source|\.)(?:\.exe)?"
)
_SHELL_SCRIPT = re.compile(r"\.(?:ba|da|z|k)?sh$|^[^.]+$")
_LOADS = frozenset({"-r", "--require", "--import", "--loader", "--experimental-loader"})
# Options behind which a program is told a file that decides about its run.
_CONFIG = ("--config", "--config-file", "--configuration", "--rcfile", "--bootstrap")
_SHORT = {
    "pytest": ("-c", "-p"),
    "tox": ("-c",),
    "jest": ("-c",),
    "vitest": ("-c",),
    "nyc": ("-r",),
    "mocha": ("-r", "--require", "--file"),
    "phpunit": ("-c",),
    "rspec": ("-r", "-O", "--options"),
    "go": ("-overlay", "-modfile", "-exec", "-toolexec"),
}
_FOUND_BY_STEM = (".js", ".cjs", ".mjs", ".json", "/index.js", "/__main__.py")
_ENDING = re.compile(r"(?:/__init__|/__main__)?\.py$|(?:/index)?\.(?:[cm]?js|json)$")
_MAX_FILES = 2_000


def files_started(command: Command, work_dir: str, read: Read) -> set[str]:
    """The paths from the repository's top, also of files that are not there; `read` gives the text
    of one, "" for none."""
    waiting = [(work_dir, word) for word in _started(command)]
    made = (made_by(words, work_dir) for words in programs(command))
    waiting += [(one.folder, one.file) for one in made if one and one.file]
    for line, folder in lines_run(command, work_dir, read):
        waiting += [(folder, word) for word in _started(line)]
    found = set[str]()
    while waiting and len(found) < _MAX_FILES:
        folder, word = waiting.pop()
        path = in_folder(folder, word)
        if path not in found:
            found.add(path)
            text = read(path) if _SHELL_SCRIPT.search(path.rpartition("/")[2]) else ""
            waiting += [(folder, inner) for inner in _by_script(text)]
    return found


def goes_first(path: str, started: Set[str], there: Set[str]) -> bool:
    """Whether a new file may be taken for one that is there: `check/__main__.py` for `check.py`."""
    stem = _ENDING.sub("", path)
    return path in started and any(_ENDING.sub("", one) == stem for one in started & there)


def words_of(command: Command) -> list[str]:
    """All words of a command, however it is to be read."""
    return list(_split(command)) if isinstance(command, str) else [*command]


def _started(command: Command) -> Iterator[str]:
    """The files that a command starts or loads; all its words, where it cannot be read."""
    if not isinstance(command, str):
        yield from _started_by(innermost(tuple(command)))
        return
    try:
        called = [innermost(one.words) for one in simple_commands(parse(command))]
    except UnreadableError:
        called = [(word,) for word in words_of(command)]
    for words in called:
        yield from _started_by(words)


def _by_script(text: str) -> Iterator[str]:
    """The files that a shell script starts or reads; a line that cannot be read tells of none."""
    for line in text.replace("\\\n", " ").splitlines():
        try:
            called = [innermost(one.words) for one in simple_commands(parse(line))]
        except UnreadableError:
            continue
        for words in called:
            yield from _started_by(words)


def _started_by(words: tuple[str, ...]) -> Iterator[str]:
    yield from words[:1]
    if not words:
        return
    yield from _told(words)
    yield from _by_starter(words)
    if not _INTERPRETER.fullmatch(Simple(words).name):
        return
    for at, (before, word) in enumerate(pairwise(words), 1):
        if re.fullmatch(r"-[a-z]*c", before):
            yield from _started(word)
        elif before in _LOADS:
            yield from _file(word)
        elif before == "-m":
            yield from _module(word)
            yield from _told(words[at:])
            yield from _by_starter(words[at:])
        if not word.startswith("-") and before not in _LOADS:
            yield from _file(word)
            return


def _by_starter(words: tuple[str, ...]) -> Iterator[str]:
    """The files behind a program that only starts another."""
    inner = without_starter(words)
    if inner != words:
        yield from _started_by(inner)


def _file(word: str) -> Iterator[str]:
    """What an interpreter may take for the program of this name."""
    yield from (f"{word}{end}" for end in ("", *_FOUND_BY_STEM))


def _told(words: tuple[str, ...]) -> Iterator[str]:
    """The files behind options that say what a program is to be run with."""
    options = (*_CONFIG, *_SHORT.get(Simple(words).name, ()))
    for before, word in pairwise((*words, "")):
        name, _, value = before.partition("=")
        if name not in options and before[:2] in options:  # written together: `-cci.ini`
            name, value = before[:2], before[2:]
        if name in options:
            yield value or word
            yield from _module(value or word) if name == "-p" else ()


def _module(name: str) -> Iterator[str]:
    yield from (f"{name.replace('.', '/')}{end}" for end in (".py", "/__init__.py", "/__main__.py"))


def _split(command: str) -> Iterator[str]:
    try:
        yield from shlex.shlex(command, posix=True, punctuation_chars=True)
    except ValueError:  # an open quote; the shell will say so
        yield from command.split()
