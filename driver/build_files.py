"""What `make` and a package's scripts run for a test command: their lines, as far as plain text
tells. Pure; who reads the files says how.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence

from driver.runners.named import programs
from driver.shell_syntax import Simple

MAKEFILES = ("GNUmakefile", "makefile", "Makefile")  # in the order in which make looks
PACKAGE = "package.json"

Read = Callable[[str], str]
_MAKES = ("make", "gmake")
_PACKAGERS = ("npm", "pnpm", "yarn", "bun")
_RULE = re.compile(r"^([^\s:#=][^:#=]*)::?(?!=)([^;#]*)(?:;(.*))?")
_INCLUDE = re.compile(r"^[ ]*(?:-include|sinclude|include)[ \t]+(.+)$", re.M)
_RUNS = re.compile(r"\b(?:npm|pnpm|yarn|bun)\s+(?:run\s+)?([\w:.-]+)")
_MAX_STEPS = 100


def lines_run(command: str | Sequence[str], work_dir: str, read: Read) -> Iterator[str]:
    """The shell lines that a command runs by way of a makefile or a package.json in its folder.

    `read` gives the text of a path from the repository's top, "" for none.
    """
    for words in programs(command):
        name, rest = Simple(words).name, [word for word in words[1:] if word[:1] != "-"]
        if name in _MAKES:
            targets = [word for word in rest if "=" not in word] or [""]
            for target in targets:
                yield from recipe(makefile(work_dir, read), target)
        elif name in _PACKAGERS and rest:
            yield from script_lines(read(_in(work_dir, PACKAGE)), rest[rest[0] == "run" :][:1])


def included(command: str | Sequence[str], work_dir: str, read: Read) -> tuple[str, ...]:
    """The patterns of files that the makefile of a command includes, from the repository's top."""
    if not any(Simple(words).name in _MAKES for words in programs(command)):
        return ()
    found = _INCLUDE.findall(makefile(work_dir, read))
    return tuple(_in(work_dir, word) for line in found for word in line.split())


def makefile(work_dir: str, read: Read) -> str:
    """The text of the makefile that make would read in a folder."""
    texts = (read(_in(work_dir, name)) for name in MAKEFILES)
    return next((text for text in texts if text), "")


def recipe(text: str, target: str = "") -> list[str]:
    """The lines that make runs for a target, of the first one without a name, and before it for
    what the target needs."""
    rules = _rules(text)
    first = next((name for name in rules if not name.startswith(".")), "")
    waiting = [target or first]
    done: list[str] = []
    lines: list[str] = []
    while waiting and len(done) < _MAX_STEPS:
        name = waiting.pop(0)
        if name in done or name not in rules:
            continue
        done.append(name)
        needs, own = rules[name]
        waiting += needs
        lines = own + lines
    return lines


def _rules(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """Target to (what it needs, the lines of its recipe)."""
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


def script_lines(text: str, names: Sequence[str]) -> Iterator[str]:
    """The lines of a package's scripts, with those around them and those that they run."""
    try:
        scripts = json.loads(text)["scripts"]
    except (ValueError, KeyError, TypeError):
        return
    waiting, done = [*names], set[str]()
    while waiting and isinstance(scripts, dict) and len(done) < _MAX_STEPS:
        name = waiting.pop()
        for each in {f"pre{name}", name, f"post{name}"} - done:
            done.add(each)
            line = scripts.get(each)
            if isinstance(line, str):
                yield line
                waiting += _RUNS.findall(line)


def _in(work_dir: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(work_dir, name))
