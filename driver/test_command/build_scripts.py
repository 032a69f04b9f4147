"""The lines that `make` and package scripts run for a test command, as far as plain text shows.
Pure: callers pass a function that reads a file."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from driver.test_command.invocations import Command, program_name, programs, without_starter
from driver.test_command.shell_parser import Simple
from state_store.values.lazy_dataclass import dataclass
from state_store.values.lazy_pattern import lazy_pattern

MAKEFILES = ("GNUmakefile", "makefile", "Makefile")  # in the order in which make looks for them
PACKAGE = "package.json"

Read = Callable[[str], str]
_MAKES = ("make", "gmake")
_PACKAGERS = ("npm", "pnpm", "yarn", "bun")
_RUN_VERBS = ("run", "run-script", "rum", "urn")
_SHORT = {"t": "test", "tst": "test"}
# Verbs of package managers that run a program or another script, in place of a script by name.
_VERBS = ("exec", "dlx", "x", "install", "ci", "workspace", "workspaces", "add", "i")
_AROUND = ("cross-env", "c8", "nyc")
_OTHER_FOLDER = (
    *("-w", "--workspace", "--workspaces", "-ws", "--prefix", "-C", "--dir", "--cwd", "-r"),
    *("--filter", "-F", "--recursive"),
)
_RULE = lazy_pattern(r"^([^\s:#=][^:#=]*)::?(?!=)([^;#]*)(?:;(.*))?")
_INCLUDE = lazy_pattern(r"^[ ]*(?:-include|sinclude|include)[ \t]+(.+)$", re.M)
_WILDCARD = lazy_pattern(r"\$[({](?:wildcard|sort)\s+([^(){}]*)[)}]")
_VARIABLE = lazy_pattern(r"\$(?:\([^()]*\)|\{[^{}]*\}|\w)")
_RUNS = lazy_pattern(
    r"\b(?:npm|pnpm|yarn|bun)(?:\s+-\S+)*\s+(?:run(?:-script)?\s+)?(?:-\S+\s+)*([\w:.-]+)|\bnpm:([\w:.-]+)"
)
_RUNS_MANY = lazy_pattern(r"\b(?:run-[sp]|npm-run-all2?)((?:\s+[^\s&|;]+)+)")
_FOLDER_OPTIONS = ("-C", "--directory")
_FILE_OPTIONS = ("-f", "--file", "--makefile")
_MAKE_OPTION = lazy_pattern(r"(-C|-f|--directory|--file|--makefile)=?(.*)")
_MAX_STEPS = 100


@dataclass(frozen=True, slots=True)
class Made:
    """A call of make. `folder` is its work folder, `file` the makefile of an option ("" for the
    usual makefile). `targets` are its targets ("" for the first target)."""

    folder: str
    file: str
    targets: tuple[str, ...]

    def text(self, read: Read) -> str:
        """The text of the makefile."""
        names = (self.file,) if self.file else MAKEFILES
        texts = (read(in_folder(self.folder, name)) for name in names)
        return next((text for text in texts if text), "")


@dataclass(frozen=True, slots=True)
class Script:
    """A call of a package's script, with the arguments that the script gets."""

    name: str
    arguments: tuple[str, ...]


def lines_run(command: Command, work_dir: str, read: Read) -> Iterator[tuple[str, str]]:
    """The shell lines that a command runs through a makefile or a package.json, each with its
    folder. `read` returns the text of a path from the repository's top, "" for none."""
    for words in programs(command):
        if made := made_by(words, work_dir):
            text = made.text(read)
            yield from (
                (line, made.folder) for target in made.targets for line in recipe(text, target)
            )
        elif script := packaged(words):
            package = read(in_folder(work_dir, PACKAGE))
            yield from ((line, work_dir) for line in script_lines(package, (script.name,)))


def packaged(words: tuple[str, ...]) -> Script | None:
    """The script that a call of a package manager runs; None for another call. A call for another
    package of the workspace is none of this folder."""
    while program_name(words) in _AROUND:
        words = without_starter(words)
    name = program_name(words)
    if name not in _PACKAGERS or any(word.partition("=")[0] in _OTHER_FOLDER for word in words[1:]):
        return None
    own = words[1 : words.index("--")] if "--" in words else words[1:]
    rest = [word for word in own if word[:1] != "-"]
    rest = rest[rest[:1] != [] and rest[0] in _RUN_VERBS :]
    more = words[words.index("--") + 1 :] if "--" in words else ()
    if not rest or rest[0] in _VERBS or words[:2] == ("bun", "test"):
        return None
    if name != "npm":  # the others pass on options as well
        rest = [rest[0], *(word for word in own[own.index(rest[0]) + 1 :])]
    return Script(_SHORT.get(rest[0], rest[0]), (*rest[1:], *more))


def included(command: Command, work_dir: str, read: Read) -> tuple[str, ...]:
    """Patterns of the files that a command's makefile includes, from the repository's top. A
    variable matches anything, if other characters of the name remain."""
    calls = [made for words in programs(command) if (made := made_by(words, work_dir))]
    return tuple(
        in_folder(made.folder, word)
        for made in calls
        for line in _INCLUDE.findall(made.text(read))
        for word in _VARIABLE.sub("*", _WILDCARD.sub(r"\1", line)).split()
        if word.strip("*./")
    )


def made_by(words: tuple[str, ...], work_dir: str) -> Made | None:
    """The call of make in these arguments; None if they start another program."""
    words = without_starter(words)
    if not words or Simple(words).name not in _MAKES:
        return None
    folder, file, targets, rest = work_dir, "", list[str](), list(words[1:])
    while rest:
        word = rest.pop(0)
        option = _MAKE_OPTION.fullmatch(word)
        if option:
            value = option[2] or (rest.pop(0) if rest else "")
            folder = in_folder(folder, value) if option[1] in _FOLDER_OPTIONS else folder
            file = value if option[1] in _FILE_OPTIONS else file
        elif word[:1] != "-" and "=" not in word:
            targets.append(word)
    return Made(folder, file, tuple(targets) or ("",))


def recipe(text: str, target: str = "") -> list[str]:
    """The lines that make runs for a target ("" for the first target), after those for its
    prerequisites."""
    rules = _rules(text)
    return [line for name in reversed(_needed(rules, target)) for line in rules[name][1]]


def made_by_name(text: str, target: str = "") -> list[str]:
    """The target and its prerequisites. Make skips them if a file of this name exists."""
    made, phony = _needed(_rules(text), target), phony_in(text)
    return [name for name in made if name not in phony and "." not in name]


def phony_in(text: str) -> frozenset[str]:
    """The targets for which make ignores files of the same name."""
    rules = _rules(text)
    return frozenset(rules[".PHONY"][0] if ".PHONY" in rules else ())


def _needed(rules: Mapping[str, tuple[list[str], list[str]]], target: str) -> list[str]:
    """A target and its prerequisites, if they have rules."""
    first = next((name for name in rules if not name.startswith(".")), "")
    waiting = [target or first]
    done: list[str] = []
    while waiting and len(done) < _MAX_STEPS:
        name = waiting.pop(0)
        if name not in done and name in rules:
            done.append(name)
            waiting += rules[name][0]
    return done


def _rules(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """A map of targets to prerequisites and recipe lines."""
    rules: dict[str, tuple[list[str], list[str]]] = {}
    current: list[str] = []
    for line in text.replace("\\\n", " ").split("\n"):
        if line.startswith("\t"):
            for name in current:
                rules[name][1].append(line.strip().lstrip("@-+ "))
        elif rule := _RULE.match(line):
            current = rule[1].split()
            for name in current:
                needs, lines = rules.setdefault(name, ([], []))
                needs += rule[2].replace("|", " ").split()
                lines += [rule[3].strip()] if rule[3] else []
    return rules


def _scripts(text: str) -> dict[str, Any]:
    """The scripts in the text of a package.json."""
    try:
        found = json.loads(text)["scripts"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def script_text(text: str, script: Script) -> str:
    """The line that a package's script is, with its arguments; "" for none."""
    line = _scripts(text).get(script.name)
    more = map(shlex.quote, script.arguments)
    return " ".join((line, *more)) if isinstance(line, str) else ""


def script_lines(text: str, names: Sequence[str]) -> Iterator[str]:
    """The lines of package scripts, with their `pre` and `post` scripts and the scripts that they
    run."""
    scripts = _scripts(text)
    waiting, done = [*names], set[str]()
    while waiting and len(done) < _MAX_STEPS:
        name = waiting.pop()
        for each in {f"pre{name}", name, f"post{name}"} - done:
            done.add(each)
            line = scripts.get(each)
            if isinstance(line, str):
                yield line
                waiting += (one or other for one, other in _RUNS.findall(line))
                waiting += (
                    one
                    for words in _RUNS_MANY.findall(line)
                    for word in words.split()
                    for one in scripts
                    if fnmatchcase(one, word.strip("'\""))
                )


def in_folder(folder: str, name: str) -> str:
    """The path from the repository's top for a name relative to `folder`."""
    return posixpath.normpath(posixpath.join(folder, name))
