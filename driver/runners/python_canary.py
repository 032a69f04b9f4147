"""The canary in a Python test file: the choice of the file and of the neighbours, and the text.
Pure.

The canary is added to an existing file if possible, beside a test that the command runs and in its
style. It imports nothing of the work: it only names the files from which the tests have loaded the
changed modules. A file that can skip all its tests, or select the tests to load, could skip the
canary too, so it is not chosen.
"""

from __future__ import annotations

import ast
import itertools
import posixpath
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence

from driver.runners.runner import CanaryInput, camel
from driver.test_style.python_asserts import PLAIN, Failing, failing, spelled_names, used_asserts
from driver.test_style.python_imports import import_place
from driver.test_style.python_neighbours import (
    Neighbour,
    Piece,
    decides,
    in_style,
    neighbours,
    one_or_many,
    parsed,
    words_in,
)
from state_store.values.lazy_dataclass import dataclass, replace
from state_store.values.lazy_pattern import lazy_pattern

_MAX_READ, _MAX_KINDS_READ, _MAX_MODULES = 20, 8, 20
_MAX_SEARCHED = 60_000  # characters of a test file
_MAX_TESTS = 16  # in one place
_MORE = tuple(
    f"{first}{second}"
    for second in ("", "_too", "_again")
    for first in (
        *("as_usual", "as_well", "at_last", "at_once", "after_all", "all_over", "besides"),
        *("by_all", "by_far", "for_sure", "in_fact", "in_place", "in_short", "on_top"),
    )
)
_A_FUNCTION = lazy_pattern(r"^(?:async )?def test|^class Test\w*:", re.M)
_A_CASE = lazy_pattern(r"^class \w+\([^)]*Case\b", re.M)
_TEST_FILE = lazy_pattern(r"test.*\.py|.*_test\.py", re.S)
_NOT_IMPORTED = ("__main__", "setup", "conftest", "noxfile", "manage", "fabfile", "tasks")
_SCRIPT_FOLDERS = ("scripts", "bin", "docs", "doc", "examples", "migrations")
_STANDARD = ("sys", "unittest", "json", "math", "re")
_SOURCE_ROOTS = ("src/", "lib/", "python/")
_LOADED = lazy_pattern(r"'([\w.]+)': <module '[\w.]+' from '([^']+)'>")
_BARE = "def test_it():\n    pass\n"

# True if a command selects a test: its file, its class or "" and its name; its marks.
Selects = Callable[[tuple[str, str, str], frozenset[str]], bool]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The tests that the canary may stand beside. `tests` are their files, in the order of
    preference. Without `functions`, only methods of classes run."""

    tests: Sequence[str]
    selects: Selects
    is_test: Callable[[str], bool]
    functions: bool = True


@dataclass(frozen=True, slots=True)
class Planted:
    """A file with the canary. `tests` are the class, or "", and the name of each of its tests,
    `tries` the assertion of each."""

    path: str
    text: str
    tests: tuple[tuple[str, str], ...]
    tries: tuple[str, ...]
    amends: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tests."""
        return tuple(name for _, name in self.tests)


@dataclass(frozen=True, slots=True)
class _Host:
    """A test file."""

    path: str
    source: str
    module: ast.Module


@dataclass(frozen=True, slots=True)
class _Spot:
    """Tests after the line `end` of a file, like those of `beside`: in the class `case`, or
    functions. A class that `is_new` is made for them."""

    beside: Neighbour
    case: str
    is_case: bool
    end: int
    is_new: bool = False


def planted(given: CanaryInput, wanted: Wanted, new_path: str) -> Planted:
    """The canary beside tests of the command, else in the new file `new_path`."""
    ordered = _ordered(given, wanted.tests)
    texts = [given.texts.get(path, "")[:_MAX_SEARCHED] for path in ordered]
    both = any(map(_A_FUNCTION.search, texts)) and any(map(_A_CASE.search, texts))
    kinds = used_asserts(_searched(given, ordered))
    for path in ordered:
        module = parsed(given.texts.get(path, ""))
        if module is None or decides(module):
            continue
        host = _Host(path, given.texts[path], module)
        if spots := _spots(given, wanted, host, both=both):
            found = _written(given, wanted, host, spots, kinds)
            if parsed(found.text) is not None:
                return found
    bare = neighbours(ast.parse(_BARE), bool)[0]
    plain = [_Spot(bare, "", is_case=False, end=0, is_new=True)] if wanted.functions else []
    spots = [*plain, _Spot(bare, camel(given.nonce), is_case=True, end=0, is_new=True)]
    found = _written(given, wanted, _Host(new_path, "", ast.parse("")), spots, kinds)
    return Planted(new_path, found.text.lstrip("\n"), found.tests, found.tries, amends=False)


def _ordered(given: CanaryInput, tests: Sequence[str]) -> list[str]:
    """The files to read: first those that the work left alone, of these first those that name a
    changed module, because the changed code runs beside their tests."""
    stems = {posixpath.splitext(posixpath.basename(path))[0] for path in given.changed}
    words = "|".join(sorted(re.escape(stem) for stem in stems if stem.isidentifier())) or "(?!)"
    read = list(itertools.islice(tests, _MAX_READ))
    named = {path for path in read if re.search(rf"\b(?:{words})\b", given.texts.get(path, ""))}
    return sorted(read, key=lambda path: (path in given.changed, path not in named))


def _searched(given: CanaryInput, ordered: Sequence[str]) -> Iterator[ast.Module]:
    """The item's tests: the changed test files, then those that name a changed module."""
    changed = [path for path in ordered if path in given.changed]
    for path in itertools.islice(dict.fromkeys([*changed, *ordered]), _MAX_KINDS_READ):
        text = given.texts.get(path, "")
        if len(text) <= _MAX_SEARCHED and (module := parsed(text)) is not None:
            yield module


def _spots(given: CanaryInput, wanted: Wanted, host: _Host, *, both: bool) -> list[_Spot]:
    """The places for tests in a file: after a function and after a method of a test case, if the
    file has both. With `both` the command runs tests of both kinds, here or elsewhere."""
    found = [
        one
        for one in neighbours(host.module, wanted.is_test)
        if (wanted.functions or one.case is not None)
        and wanted.selects((host.path, one.case.name if one.case else "", one.test.name), one.marks)
    ]
    classes = [one.case for one in found if one.case is not None]
    bases = {word for case in classes for base in case.bases for word in words_in(base)}
    found = [one for one in found if one.case is None or one.case.name not in bases] or found
    found.sort(key=lambda one: (one.is_plain, isinstance(one.test, ast.FunctionDef)))
    spots = []
    for one in {one.is_case or not wanted.functions: one for one in found}.values():
        end = (one.case or one.test).end_lineno or 0
        is_case = one.is_case or not wanted.functions
        spots.append(_Spot(one, one.case.name if one.case else "", is_case, end))
    if both and wanted.functions and len(spots) == 1:
        case = "" if spots[0].is_case else camel(given.nonce)
        end = _last_line(host.module)
        spots.append(_Spot(spots[0].beside, case, not spots[0].is_case, end, is_new=True))
    return spots


def _last_line(module: ast.Module) -> int:
    """The last line before the lines that start a file as a program."""
    last = module.body[-1]
    starts = isinstance(last, ast.If) and "__name__" in {*words_in(last.test)}
    return (module.body[-2] if starts and len(module.body) > 1 else last).end_lineno or 0


def _written(
    given: CanaryInput,
    wanted: Wanted,
    host: _Host,
    spots: Sequence[_Spot],
    kinds: frozenset[str],
) -> Planted:
    """A file with the canary in these places."""
    more, spelled = iter(_MORE), spelled_names(host.module)
    inserts, tests, tries = [], list[tuple[str, str]](), list[str]()
    imported = {word for n in host.module.body if isinstance(n, ast.Import) for word in words_in(n)}
    for number, spot in enumerate(spots):
        name = f"test_{given.nonce}"  # begins like its neighbour's if the command asks for that
        if not wanted.is_test(name) or not wanted.selects(
            (host.path, spot.case, name), spot.beside.marks
        ):
            name = f"{spot.beside.test.name}_{given.nonce}"
        failures = _failures(kinds, spot, spelled, alone=len(spots) == 1)[:_MAX_TESTS]
        names = [name if number == 0 else f"{name}_{next(more)}"]
        names += [f"{name}_{next(more)}" for _ in failures[1:]]
        named = zip(names, failures, strict=True)
        pieces = [Piece(own, (one.statement,), one.needs) for own, one in named]
        if number == 0:
            pieces[0] = _telling(given, name, failures[0])
        for at, piece in enumerate(pieces):
            place = import_place(host.module, piece.needs) if piece.needs in _STANDARD else None
            if place and piece.needs not in imported:
                inserts.append((place[0], -1, list(place[1])))
                imported.add(piece.needs)
            if piece.needs in imported:
                pieces[at] = replace(piece, needs="")
        blank = [""] * (1 if spot.case and not spot.is_new else 2)
        inserts.append((spot.end, number, [*blank, _text(host.source, spot, pieces)]))
        tests += [(spot.case, piece.name) for piece in pieces]
        tries += [one.kind for one in failures]
    lines = host.source.split("\n")  # split as the parser does
    for end, _, added in sorted(inserts, reverse=True):
        after = lines[end:] if any(lines[end:]) else [""]
        lines = [*lines[:end], *added, *after]
    return Planted(host.path, "\n".join(lines), tuple(tests), tuple(tries), amends=True)


def _failures(
    kinds: frozenset[str], spot: _Spot, spelled: dict[str, str], *, alone: bool
) -> list[Failing]:
    """The statements for a place, the plainest first. A place that is `alone` gets those of both
    kinds of tests."""
    own = used_asserts([spot.beside.case or spot.beside.test]) if not spot.is_new else frozenset()
    first = PLAIN
    if spot.is_case and (spot.is_new or PLAIN not in own or any("self." in kind for kind in own)):
        equal = sorted(kind for kind in kinds | own if kind.startswith("self.assertEqual"))
        first = equal[0] if equal else "self.assertEqual"
    rest = list(failing(kinds - {PLAIN, first}, spelled))
    if not alone:
        rest = [one for one in rest if one.is_method == spot.is_case]
    elif not spot.is_case:
        rest = [one.as_function() for one in rest]
    return [*failing([first], spelled), *rest]


def _telling(given: CanaryInput, name: str, failure: Failing) -> Piece:
    """A test that fails with the names of the files from which changed modules were loaded."""
    if not (names := tuple(name for name, _ in module_names(given))):
        return Piece(name, (failure.statement,), failure.needs)
    loaded = "loaded = {name: sys.modules.get(name) for name in names}"
    told = f"{failure.statement}, str(loaded)"
    if failure.statement.endswith(")"):
        told = f"{failure.statement[:-1]}, str(loaded))"
    statements = (one_or_many("names", names), loaded, told)
    return Piece(name, statements, "sys")


def _text(source: str, spot: _Spot, pieces: Sequence[Piece]) -> str:
    """The text for a place, without blank lines around it."""
    if not spot.is_new or not spot.case:
        return in_style(source, spot.beside, pieces, is_method=bool(spot.case))
    text = in_style(source, spot.beside, pieces, is_method=True, indent="    ")
    return f'class {spot.case}(__import__("unittest").TestCase):\n{text}'


def is_test_file(path: str) -> bool:
    """True if the runners look for tests in a file of this name."""
    return _TEST_FILE.fullmatch(posixpath.basename(path)) is not None


def module_names(given: CanaryInput) -> tuple[tuple[str, str], ...]:
    """The names under which tests may have loaded the changed modules, each with the file below the
    folder of the call, the most likely first."""
    top = f"{given.call.folder}/" if given.call.folder else ""
    there = {file.removeprefix(top) for file in given.files}
    changed = sorted(file.removeprefix(top) for file in given.changed)
    modules = [file for file in changed if _is_module(file)][:_MAX_MODULES]
    return tuple({name: (name, file) for file in modules for name in _names(file, there)}.values())


def _is_module(path: str) -> bool:
    """True if a changed file is a module that tests can import."""
    folder, name = posixpath.split(path)
    parts = [part for part in folder.split("/") if part]
    stem, extension = posixpath.splitext(name)
    named = stem.isidentifier() and all(part.isidentifier() for part in parts)
    left_out = stem in _NOT_IMPORTED or is_test_file(path) or set(parts) & set(_SCRIPT_FOLDERS)
    return extension == ".py" and named and not left_out


def _names(path: str, files: Collection[str]) -> tuple[str, ...]:
    """The names under which tests may import a file, the most likely first."""
    whole = path.removesuffix(".py").removesuffix("/__init__")
    home = posixpath.dirname(path)
    while home and f"{home}/__init__.py" in files:
        home = posixpath.dirname(home)
    packaged = whole[len(home) :].lstrip("/")
    bare = next((whole[len(root) :] for root in _SOURCE_ROOTS if whole.startswith(root)), whole)
    in_package = f"{posixpath.dirname(path)}/__init__.py" in files
    ordered = (packaged, bare, whole) if in_package else (bare, whole, packaged)
    return tuple(dict.fromkeys(name.replace("/", ".") for name in ordered if name))


def loaded_elsewhere(output: str, modules: Sequence[tuple[str, str]], top: str) -> str:
    """The sentence about a changed module that the canary says was loaded from another place than
    the tree at `top`; "" if there is none. Only a canary that runs prints the form it looks for."""
    told = dict(_LOADED.findall(output))
    for name, path in modules:
        file = posixpath.normpath(told.get(name, "").replace("\\\\", "/").replace("\\", "/"))
        ends = tuple("/" + name.replace(".", "/") + end for end in (".py", "/__init__.py"))
        is_its_own = "." in name or name not in sys.stdlib_module_names
        outside = not file.startswith(f"{top.rstrip('/')}/") or "/site-packages/" in file
        if is_its_own and file.endswith(ends) and outside:
            return f"the tests import {file} in place of {path}, which was changed"
    return ""
