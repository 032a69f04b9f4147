"""Finds where Python imports the modules of a repository from.

This file runs in the interpreter of a test command: as a plugin of pytest, or by itself in place of
`python -m unittest`. It reads the imports of the test files and asks Python's finders for them. It
imports nothing itself. It must run on every Python since 3.7.
"""

# Every Python has loaded os.path already, but not pathlib.
# ruff: noqa: PTH105, PTH110, PTH118, PTH119, PTH120, PTH123

from __future__ import annotations

import ast
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

INPUT = "IMPORT_PROBE"
_MAX_FILES = 400
_MAX_S = 5.0
# A file with such a word may do without a module.
_GUARDS = ("importorskip", "skip(", "SkipTest", "collect_ignore")
# Code with such a word may change the import path while the tests are loaded.
_MOVES = ("sys.path", "addsitedir")


class _Found(NamedTuple):
    """The part of a dotted name that was found, and the file of the last part. `paths` are the
    folders of a package."""

    name: str
    file: str | None
    paths: Any


class _Search:
    """A search from the test files through all files of the repository that they import."""

    def __init__(self, given: dict[str, Any], *, adds_folders: bool) -> None:
        self.top = os.path.realpath(given["top"])
        self.ours = frozenset(given["ours"])
        self.tests = [os.path.join(self.top, path) for path in given["tests"]]
        self.adds_folders = adds_folders
        self.seen: set[str] = set()
        self.elsewhere: dict[tuple[str, str], str] = {}
        self.missing: dict[str, str] = {}
        conftests = [os.path.join(self.top, path) for path in given["conftests"]]
        self.common = [_folder_of(path) for path in conftests] if adds_folders else []
        # The import path already has what the loaded conftest files change.
        loaded = {getattr(one, "__file__", None) for one in list(sys.modules.values())}
        unread = [path for path in conftests if path not in loaded]
        self.moves = any(_moves(_text(path)) for path in unread + self._packages())

    def run(self) -> dict[str, Any]:
        """The imports that lead elsewhere, and those without which a test file cannot be loaded."""
        waiting = [(path, True) for path in self.tests]
        ends = time.monotonic() + _MAX_S
        while waiting and len(self.seen) < _MAX_FILES and time.monotonic() < ends:
            path, is_test = waiting.pop(0)
            if path in self.seen:
                continue
            self.seen.add(path)
            folders = [_folder_of(path)] if is_test and self.adds_folders else []
            waiting += [
                (file, False) for file in self._follow(path, folders + self.common, is_test)
            ]
        if self.moves:
            self.elsewhere, self.missing = {}, {}
        return {
            "python": sys.executable,
            "elsewhere": [[name, file, at] for (name, file), at in self.elsewhere.items()],
            "missing": [[name, file] for name, file in self.missing.items()],
        }

    def _follow(self, path: str, folders: list[str], is_test: bool) -> Iterator[str]:
        """Ask for the imports of a file; the files of the repository that they lead to."""
        text = _text(path)
        self.moves = self.moves or _moves(text)
        needs = is_test and not any(word in text for word in _GUARDS)
        for name, is_needed, may_be_attribute in _imports(text, path):
            first = name.partition(".")[0]
            if first not in self.ours and not (needs and is_needed):
                continue
            found = _locate(name, folders)
            file = found.file
            if file is not None and (first in self.ours):
                real = os.path.realpath(file)
                if real.startswith(self.top + os.sep):
                    yield real
                else:
                    at = (found.name, real)
                    self.elsewhere.setdefault(at, self._shown(path))
            is_whole = found.name == name or (found.name and found.paths is None)
            if needs and is_needed and not may_be_attribute and not is_whole:
                part = name.split(".")[: found.name.count(".") + 2 if found.name else 1]
                self.missing.setdefault(".".join(part), self._shown(path))

    def _packages(self) -> list[str]:
        """The `__init__.py` files of the packages of tests, which Python runs first."""
        found = set()
        for path in self.tests:
            folder = os.path.dirname(path)
            while folder.startswith(self.top) and folder not in found:
                found.add(folder)
                folder = os.path.dirname(folder)
        return [os.path.join(folder, "__init__.py") for folder in found]

    def _shown(self, path: str) -> str:
        return os.path.relpath(path, self.top).replace(os.sep, "/")


def _moves(text: str) -> bool:
    return any(word in text for word in _MOVES)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def _imports(text: str, path: str) -> Iterator[tuple[str, bool, bool]]:
    """Every imported name; True if the file cannot be imported without it; True if the name may
    be an attribute of a module."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    body = {id(node) for node in module.body}
    for node in ast.walk(module):
        needed = id(node) in body
        if isinstance(node, ast.Import):
            for one in node.names:
                yield one.name, needed, False
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, path)
            if base:
                yield base, needed and not node.level, False
                for one in node.names:
                    yield base + "." + one.name, False, True


def _base(node: ast.ImportFrom, path: str) -> str:
    """The module after `from`; for a relative import by the folders of packages."""
    if not node.level:
        return node.module or ""
    folder = os.path.dirname(path)
    parts: list[str] = []
    while os.path.exists(os.path.join(folder, "__init__.py")):
        parts.insert(0, os.path.basename(folder))
        folder = os.path.dirname(folder)
    kept = parts[: len(parts) - node.level + 1]
    return ".".join([*kept, node.module] if node.module and kept else kept)


def _folder_of(path: str) -> str:
    """The folder that pytest adds to the import path for a file."""
    folder = os.path.dirname(path)
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return folder


def _locate(name: str, folders: list[str]) -> _Found:
    """The module as a file would import it for which these folders come first."""
    before = sys.path[:]
    sys.path[:0] = folders
    try:
        return _walk(name)
    finally:
        sys.path[:] = before


def _walk(name: str) -> _Found:
    found = _Found("", None, None)
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        whole = ".".join(parts[:end])
        if end > 1 and found.paths is None:
            return found
        known = sys.modules.get(whole)
        if known is not None:
            paths = getattr(known, "__path__", None)
            found = _Found(whole, getattr(known, "__file__", None), paths)
            continue
        spec = _spec(whole, found.paths)
        if spec is None:
            return found
        paths = spec.submodule_search_locations
        # The object of a namespace package would import its parents.
        paths = getattr(paths, "_path", paths)
        found = _Found(whole, spec.origin if spec.has_location else None, paths)
    return found


def _spec(name: str, paths: Any) -> Any:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        try:
            spec = find(name, paths) if find else None
        except Exception:  # noqa: BLE001 - a finder of a foreign package
            spec = None
        if spec is not None:
            return spec
    return None


def main(*, adds_folders: bool = False) -> None:
    """Read the question and write the answer beside it."""
    path = os.environ[INPUT]
    with open(path, encoding="utf-8") as stream:
        given = json.load(stream)
    sys.path[:0] = [os.path.join(given["top"], one) for one in given["first"]]
    answer = _Search(given, adds_folders=adds_folders).run()
    with open(path + ".tmp", "w", encoding="utf-8") as stream:
        json.dump(answer, stream)
    os.replace(path + ".tmp", path + ".answer")


def pytest_cmdline_main(config: Any) -> int:
    """Answer in place of the tests, after pytest has read its settings and conftest files."""
    main(adds_folders=config.getoption("importmode", "prepend") != "importlib")
    return 0


if "pytest" in sys.modules:
    pytest_cmdline_main = sys.modules["pytest"].hookimpl(tryfirst=True)(pytest_cmdline_main)
