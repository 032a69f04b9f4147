"""The files of the repository that a test command starts or loads by an option. Pure. Follows
makefiles, package scripts and shell scripts as far as plain text shows. Files that a program loads
by itself are not found."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Set
from itertools import pairwise

from driver.runners.table import RUNNERS
from driver.test_command.build_scripts import Read, in_folder, lines_run, made_by
from driver.test_command.invocations import Command, innermost, programs, without_starter
from driver.test_command.shell_lexer import UnreadableError
from driver.test_command.shell_parser import Simple, parse, simple_commands
from state_store.values.lazy_pattern import lazy_pattern

_INTERPRETER = lazy_pattern(
    r"(?:sh|bash|dash|zsh|ksh|python[\d.]*|pypy[\d.]*|node|nodejs|ruby|perl|php|tsx|ts-node|lua"
    r"|Rscript|source|\.)(?:\.exe)?"
)
_SHELL_SCRIPT = lazy_pattern(r"\.(?:ba|da|z|k)?sh$|^[^.]+$")
# Calls that only parse their file. Perl is not here, because `perl -c` runs `BEGIN` blocks.
_PARSES = lazy_pattern(r"(?:node|nodejs) (?:--check|-c)|(?:ba|da|z|k)?sh -n|ruby -c|php -l")
_LOADS = frozenset({"-r", "--require", "--import", "--loader", "--experimental-loader"})
# Options that name a configuration file: for any program, and for single programs.
_CONFIG = ("--config", "--config-file", "--configuration", "--rcfile", "--bootstrap")
_CONFIG_OF = {
    **{"tox": ("-c",), "nyc": ("-r",)},
    **{
        program: runner.config_options
        for runner in RUNNERS.values()
        for program in (*runner.programs, runner.module, runner.verb_of)
        if program
    },
}
_FOUND_BY_STEM = (".js", ".cjs", ".mjs", ".json", "/index.js", "/__main__.py")
_ENDING = lazy_pattern(r"(?:/__init__|/__main__)?\.py$|(?:/index)?\.(?:[cm]?js|json)$")
_MAX_FILES = 2_000


def files_started(command: Command, work_dir: str, read: Read) -> set[str]:
    """The paths from the repository's top, including files that do not exist. `read` returns the
    text of a path, "" for none."""
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
            lines = text.replace("\\\n", " ").splitlines()
            waiting += [(folder, inner) for line in lines for inner in _started_by_text(line, [])]
    return found


def goes_first(path: str, started: Set[str], there: Set[str]) -> bool:
    """True if a new file may run in place of an existing file: `check/__main__.py` for
    `check.py`."""
    stem = _ENDING.sub("", path)
    return path in started and any(_ENDING.sub("", one) == stem for one in started & there)


def words_of(command: Command) -> list[str]:
    """All words of a command, whatever their meaning."""
    if not isinstance(command, str):
        return [*command]
    words: list[str] = []
    try:
        words.extend(shlex.shlex(command, posix=True, punctuation_chars=True))
    except ValueError:  # an open quote, which the shell will report; earlier words count too
        words.extend(command.split())
    return words


def _started(command: Command) -> Iterator[str]:
    """The files that a command starts or loads. An unreadable command yields all its words."""
    if isinstance(command, str):
        yield from _started_by_text(command, words_of(command))
    else:
        yield from _started_by(innermost(command))


def _started_by_text(text: str, otherwise: list[str]) -> Iterator[str]:
    """The files that a shell line starts or loads. An unreadable line yields `otherwise`."""
    try:
        called = [innermost(one.words) for one in simple_commands(parse(text))]
    except UnreadableError:
        called = [(word,) for word in otherwise]
    for words in called:
        yield from _started_by(words)


def _started_by(words: tuple[str, ...]) -> Iterator[str]:
    yield from words[:1]
    if not words:
        return
    yield from _behind(words)
    name = Simple(words).name
    if not _INTERPRETER.fullmatch(name) or _PARSES.fullmatch(" ".join((name, *words[1:2]))):
        return
    for at, (before, word) in enumerate(pairwise(words), 1):
        if re.fullmatch(r"-[a-z]*c", before):
            yield from _started(word)
        elif before in _LOADS:
            yield from _file(word)
        elif before == "-m":
            yield from _module(word)
            yield from _behind(words[at:])
        if not word.startswith("-") and before not in _LOADS:
            yield from _file(word)
            return


def _file(word: str) -> Iterator[str]:
    """The paths at which an interpreter looks for the program `word`."""
    yield from (f"{word}{end}" for end in ("", *_FOUND_BY_STEM))


def _behind(words: tuple[str, ...]) -> Iterator[str]:
    """The configuration files in a program's options, also behind a starter such as `env`."""
    if (inner := without_starter(words)) != words:
        yield from _started_by(inner)
    options = (*_CONFIG, *_CONFIG_OF.get(Simple(words).name, ()))
    for before, word in pairwise((*words, "")):
        name, _, value = before.partition("=")
        if name not in options and before[:2] in options:  # the value follows directly: `-cci.ini`
            name, value = before[:2], before[2:]
        if name in options:
            yield value or word
            yield from _module(value or word) if name == "-p" else ()


def _module(name: str) -> Iterator[str]:
    yield from (f"{name.replace('.', '/')}{end}" for end in (".py", "/__init__.py", "/__main__.py"))
