"""The table of all test runners, and the runners that a command calls. Pure. To add a runner, write
a module with `RUNNERS` in this package and list it in `_FAMILIES`."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from driver.runners import cargo, go, hosted, node, pytest, tap, unittest
from driver.runners.runner import Call, Runner
from driver.test_command.build_scripts import PACKAGE, Read, lines_run, packaged, script_text
from driver.test_command.invocations import Command, program_name, programs, without_starter
from driver.test_command.shell_lexer import split
from driver.test_command.shell_parser import Simple, parse
from state_store.values.lazy_pattern import lazy_pattern

_FAMILIES = (unittest, pytest, node, go, cargo, tap, hosted)

RUNNERS: Mapping[str, Runner] = {one.name: one for family in _FAMILIES for one in family.RUNNERS}
_BY_PROGRAM = {program: one.name for one in RUNNERS.values() for program in one.programs}
_BY_MODULE = {one.module: one.name for one in RUNNERS.values() if one.module}
_BY_VERB = {one.verb_of: one.name for one in RUNNERS.values() if one.verb_of}
_PYTHON = lazy_pattern(r"^(?:python|py|pypy)[\d.]*$")


def runner_of(words: Sequence[str]) -> str:
    """The name of the runner that these arguments call; "" for none."""
    words = without_starter(tuple(words))
    name, rest = program_name(words), words[1:]
    if name in _BY_PROGRAM:
        return _BY_PROGRAM[name]
    if _PYTHON.match(name):
        return _BY_MODULE.get(_python_module(rest), "")
    if name == "node":
        script = next((word for word in rest if not word.startswith("-")), "")
        return "node" if "--test" in rest else _BY_PROGRAM.get(program_name((script,)), "")
    verbs = [word for word in rest if word[:1] not in "-+"]
    return _BY_VERB[name] if name in _BY_VERB and verbs[:1] == ["test"] else ""


def _python_module(rest: tuple[str, ...]) -> str:
    """The module after python's `-m`; for `-m coverage run -m x` it is x."""
    if "-m" not in rest or rest.index("-m") + 1 >= len(rest):
        return ""
    at = rest.index("-m")
    has_script = any(not word.startswith("-") for word in rest[:at])
    if has_script and "-W" not in rest and "-X" not in rest:
        return ""
    if rest[at + 1 : at + 3] == ("coverage", "run"):
        return _python_module(rest[at + 3 :])
    return rest[at + 1]


def runners_named(command: Command) -> tuple[str, ...]:
    """The names of the runners in a command, one entry for each call."""
    return tuple(name for words in programs(command) if (name := runner_of(words)))


def find_call(command: Command, workdir: str = "") -> Call | None:
    """The call of the only runner in a command; None for no runner or several."""
    calls = [words for words in programs(command) if runner_of(words)]
    if len(calls) != 1:
        return None
    return call_in(command, calls[0], workdir)


def is_bare_call(command: Command) -> bool:
    """True if a command is one call of a runner and starts no other program, not even one that
    only starts the runner."""
    words = tuple(command.split()) if isinstance(command, str) else command
    if programs(command) != (words,) or without_starter(words) != words:
        return False
    runner = RUNNERS.get(runner_of(words))
    if runner is None or not _PYTHON.match(program_name(words)):
        return runner is not None
    return words[words.index("-m") + 1] == runner.module  # not coverage


def call_in(command: Command, words: tuple[str, ...], workdir: str = "") -> Call:
    """The call of the program in a command that has these arguments."""
    if not isinstance(command, str):
        return Call(command, words, workdir, extendable=command[-len(words) :] == words)
    pipelines = [pipeline for chain in parse(command).chains for pipeline in chain.pipelines]
    flat = [one for pipeline in pipelines for one in pipeline.commands]
    folder = workdir
    for one in flat:
        if isinstance(one, Simple) and one.name == "cd" and len(one.words) == 2:
            folder = posixpath.normpath(posixpath.join(folder, one.words[1]))
    last = flat[-1]
    ends = isinstance(last, Simple) and last.words[-len(words) :] == words and "#" not in command
    redirected = any(
        token.operator and token.text not in ("&&", ";", "\n") for token in split(command)
    )
    return Call(command, words, "" if folder == "." else folder, ends and not redirected)


def npm_call(command: Command, workdir: str, read: Read) -> Call | None:
    """The runner's call in a script of package.json, if the command runs this script and it is one
    plain command. More arguments reach it as far as each package manager passes them on."""
    given = [words for words in programs(command) if packaged(words)]
    if len(given) != 1 or (script := packaged(given[0])) is None:
        return None
    outer = call_in(command, given[0], workdir)
    line = script_text(read(posixpath.join(outer.folder, PACKAGE)), script)
    inner = (find_call(line, outer.folder) or npm_call(line, outer.folder, read)) if line else None
    if inner is None:
        return None
    needs_dashes = given[0][0].startswith("npm") and "--" not in given[0]
    # A script of scripts passes on words, but a package manager takes options among them.
    if not (outer.extendable and inner.extendable and inner.command == line):
        return Call(command, inner.words, inner.folder, extendable=False)
    more = ("--",) if needs_dashes else ()
    extended: Command = " ".join((command.rstrip(), *more)) if isinstance(command, str) else (
        *command, *more)  # fmt: skip
    return Call(extended, inner.words, inner.folder, extendable=True)


def make_call(command: Command, workdir: str, read: Read) -> Call | None:
    """The only runner's call in the lines that make runs, or package scripts. It cannot be
    extended."""
    lines = lines_run(command, workdir, read)
    found = [call for line, folder in lines if (call := find_call(line, folder))]
    if len(found) != 1:
        return None
    return Call(command, found[0].words, found[0].folder, extendable=False)


def call_of(command: Command, workdir: str, read: Read) -> Call | None:
    """The only runner's call in a command, also behind a package script or a makefile. `read`
    returns the text of a path, "" for none."""
    found = find_call(command, workdir) or npm_call(command, workdir, read)
    return found or make_call(command, workdir, read)


def emptied(path: str, text: str) -> str | None:
    """The text of a test file without its tests, by the runner of its kind; None for no runner."""
    found = (one.emptied(path, text) for one in RUNNERS.values() if one.emptied)
    return next((text for text in found if text is not None), None)
