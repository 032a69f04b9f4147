"""New files that would hide others from a test run. Their names would make them a module of Python,
of a runner or of the repository, or a target of make. Pure."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator, Set

from driver.domain.ownership import parents_of
from driver.policy.started_files import words_of
from driver.policy.test_files import is_test
from driver.test_command.build_scripts import (
    MAKEFILES,
    Read,
    in_folder,
    made_by,
    made_by_name,
    phony_in,
)
from driver.test_command.invocations import Command, programs

_RUNNER_MODULES = frozenset(
    {"pytest", "_pytest", "pluggy", "iniconfig", "coverage", "nose", "nose2", "xdist"}
    | {"pytest_cov", "hypothesis", "tox", "nox", "packaging"}
    | {"pygments", "exceptiongroup", "colorama", "tomli"}  # pytest imports them
)
_CODE = ("", "src", "lib", "python")  # folders of modules that tests import by bare names
_HARMLESS = frozenset({"test", "this", "antigravity", "idlelib", "turtledemo", "__main__"})
_MODULES = (sys.stdlib_module_names | _RUNNER_MODULES) - _HARMLESS
_ELSEWHERE = re.compile(r"-[a-zA-Z]*[fC].*|--.+")  # make may then read another makefile
_OURS = re.compile(r"(?:(.*)/)?(\w+)\.py")
_MODULE_FILE = re.compile(r"([^.]+)\.(?:py|pyc|pyd|so|.*\.(?:so|pyd))")


def shadows(path: str, there: set[str]) -> bool:
    """True if a new file would be imported in place of a module of Python or of a runner. The file
    must be in a folder that can be on the import path: no package among `there`."""
    *folders, name = path.split("/")
    if name == "__init__.py" and folders:
        name = f"{folders.pop()}.py"
    found = _MODULE_FILE.fullmatch(name)
    if found is None or found[1].lower() not in _MODULES:
        return False
    return "/".join([*folders, "__init__.py"]) not in there


def hides_ours(path: str, base: Set[str], work_dir: str) -> bool:
    """True if tests would import the new file in place of the repository's module of this name. A
    test folder that is no package is the first entry of its tests' import path. `base` are the
    files of the base that still exist."""
    found = _OURS.fullmatch(path.replace("/__init__.py", ".py"))
    if found is None or is_test(path):
        return False
    folder, name = found[1] or "", found[2]
    homes = {in_folder(work_dir, one) for one in _CODE} - {folder or "."}
    ours = {in_folder(home, f"{name}{end}") for home in homes for end in (".py", "/__init__.py")}
    return (
        bool(ours & base)
        and in_folder(folder, "__init__.py") not in base
        and any(
            one.endswith(".py") and is_test(one) for one in base if posixpath.dirname(one) == folder
        )
    )


def is_made(path: str, command: Command, work_dir: str, base: Set[str], read: Read) -> bool:
    """True if make would use a new file as a target of the test command."""
    made = {*_made(command, work_dir, base, read)}
    above = {path, *parents_of(path)} & made - base
    return any(not any(file.startswith(f"{one}/") for file in base) for one in above)


def _made(command: Command, work_dir: str, base: Set[str], read: Read) -> Iterator[str]:
    """The files that make looks for: its targets and, by its makefile, their prerequisites. If the
    makefile cannot be read, every word of the command counts as a target."""
    for words in programs(command):
        one = made_by(words, work_dir)
        if one and base & {in_folder(one.folder, name) for name in (one.file, *MAKEFILES) if name}:
            text = one.text(read)
            names = (name for target in one.targets for name in made_by_name(text, target))
            asked = one.targets if not text else ()
            yield from (in_folder(one.folder, name) for name in (*names, *asked) if name)
    every = words_of(command)
    if not {posixpath.basename(word) for word in every} & {"make", "gmake"}:
        return
    is_elsewhere = any(map(_ELSEWHERE.fullmatch, every))
    for folder in ("", work_dir):
        there = [path for name in MAKEFILES if (path := in_folder(folder, name)) in base]
        if there:
            # Make reads the first of several makefiles; an option may name another.
            phony = frozenset() if is_elsewhere else phony_in(read(there[0]))
            targets = {"test", "check", "all", *every} - {"", ".", ".."} - phony
            yield from (in_folder(folder, name) for name in targets)
