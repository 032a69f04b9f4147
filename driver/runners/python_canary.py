"""The canary in a Python test file: the choice of the file, and the text. Pure.

The canary is added to an existing file if possible: code that looks for a new test file, or counts
the files, finds none. A file that can skip all its tests, or select the tests to load, could skip
the canary too, so it is not chosen.
"""

from __future__ import annotations

import ast
import itertools
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from driver.runners.runner import CanaryInput, camel

_MAX_READ = 20
_DECIDES_NAMES = (
    *("pytestmark", "load_tests", "setUpModule", "setup_module", "__test__"),
    "pytest_generate_tests",
)
_ENDS_LOADING = ("skip", "importorskip", "SkipTest")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)


def find_host(
    tests: Iterable[str], texts: Mapping[str, str], *, cases_only: bool = False
) -> str | None:
    """The first file that can hold the canary; with `cases_only`, only its classes are examined."""
    for path in itertools.islice(tests, _MAX_READ):
        module = _parsed(texts.get(path, ""))
        if module is None or any(map(_decides, module.body)):
            continue
        cases = [node for node in module.body if isinstance(node, ast.ClassDef)]
        groups = [case.body for case in cases] + ([] if cases_only else [module.body])
        nodes = [node for body in groups for node in body if isinstance(node, _FUNCTIONS)]
        if any(node.name.startswith("test") for node in nodes):
            return path
    return None


def with_canary(source: str, canary: str) -> str:
    """The file's text with the canary, before the lines that start it as a program."""
    module = _parsed(source)
    last = module.body[-1] if module and module.body else None
    if isinstance(last, ast.If) and "__name__" in set(_words(last.test)):
        lines = source.split("\n")  # split as the parser does
        return "\n".join([*lines[: last.lineno - 1], canary, "", *lines[last.lineno - 1 :]])
    return f"{source.rstrip()}\n{canary}"


def _parsed(source: str) -> ast.Module | None:
    """The parsed file; None if this Python cannot parse it or its text is not UTF-8."""
    if not source or "\ufffd" in source:
        return None
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _decides(node: ast.stmt) -> bool:
    """True if a statement may decide for all tests of the file if they run."""
    if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
        return True
    if not isinstance(node, _DEFINITIONS):
        return not {*_DECIDES_NAMES, *_ENDS_LOADING}.isdisjoint(_words(node))
    marks = {word for mark in node.decorator_list for word in _words(mark)}
    return node.name in _DECIDES_NAMES or "autouse" in marks


def _words(node: ast.AST) -> Iterator[str]:
    """All names in a piece of code."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute):
            yield one.attr
        elif isinstance(one, ast.keyword) and one.arg:
            yield one.arg
        elif isinstance(one, ast.alias):
            yield one.asname or one.name


_TEST_FILE = re.compile(r"test.*\.py|.*_test\.py", re.S)
_NOT_IMPORTED = ("__main__", "setup", "conftest", "noxfile", "manage", "fabfile", "tasks")
_SCRIPT_FOLDERS = ("scripts", "bin", "docs", "doc", "examples", "migrations")
_SOURCE_ROOTS = ("src/", "lib/", "python/")

_CHECK = """

def _{nonce}():
    import importlib
    import os
    import unittest

    home = os.path.dirname(os.path.abspath(__file__))
    top = os.path.realpath(os.path.join(home, {top!a}))
    tree = os.path.realpath(os.path.join(home, {tree!a})) + os.sep
    elsewhere = []
    for names, path in {modules}:
        found = ""
        for name in names:
            try:
                module = importlib.import_module(name)
            except (Exception, SystemExit):
                continue
            file = os.path.realpath(str(getattr(module, "__file__", "")))
            if file == os.path.realpath(os.path.join(top, path)):
                found = ""
                break
            ends = ("/" + name.replace(".", "/") + end for end in (".py", "/__init__.py"))
            same = "." in name and file.replace("\\\\", "/").endswith(tuple(ends))
            if same and (not file.startswith(tree) or "site-packages" in file):
                found = file
        if found:
            elsewhere.append("{nonce} is not tested: " + path + ", but " + found + " is;")

    def holds(check):
        try:
            check()
        except AssertionError:
            return True
        return False

    def bare():
        assert [1] == [2]

    def fails_if_all_can():
        case = unittest.TestCase()
        checks = (
            bare,
            lambda: case.assertEqual(1, 2),
            lambda: case.assertEqual([1], [2]),
            lambda: case.assertTrue(0),
            lambda: case.fail("planted"),
        )
        if all([holds(check) for check in checks]):
            raise AssertionError("\\n".join(["planted to fail", *elsewhere]))

    return fails_if_all_can


_{nonce}_checked = _{nonce}()
"""
_FUNCTION = """

def test_{nonce}():
    _{nonce}_checked()
"""
_CASE = """

class {camel}(__import__("unittest").TestCase):
    def test_again_{nonce}(self):
        _{nonce}_checked()
"""


def function_name(nonce: str) -> str:
    """The name of the canary's function."""
    return f"test_{nonce}"


def method_name(nonce: str) -> str:
    """The name of the canary's method; its class is `camel(nonce)`."""
    return f"test_again_{nonce}"


def canary_text(given: CanaryInput, path: str, *, plain: bool) -> str:
    """The text of the canary for the test file `path`: a method and, with `plain`, a function. It
    imports every module that the item changed, and fails only if assertions still work. It prints
    only its failure, which names a module that was imported from another place."""
    top = f"{given.call.folder}/" if given.call.folder else ""
    there = {file.removeprefix(top) for file in given.files}
    modules = tuple(
        (_module_names(changed, there), changed)
        for changed in sorted(file.removeprefix(top) for file in given.changed)
        if _is_module(changed)
    )
    home = posixpath.dirname(path) or "."
    up, tree = posixpath.relpath(given.call.folder or ".", home), posixpath.relpath(".", home)
    text, nonce = _CHECK + (_FUNCTION if plain else "") + _CASE, given.nonce
    return text.format(modules=ascii(modules), top=up, tree=tree, nonce=nonce, camel=camel(nonce))


def is_test_file(path: str) -> bool:
    """True if the runners look for tests in a file of this name."""
    return _TEST_FILE.fullmatch(posixpath.basename(path)) is not None


def _is_module(path: str) -> bool:
    """True if a changed file is a module that tests can import."""
    folder, name = posixpath.split(path)
    parts = [part for part in folder.split("/") if part]
    stem, extension = posixpath.splitext(name)
    named = stem.isidentifier() and all(part.isidentifier() for part in parts)
    left_out = stem in _NOT_IMPORTED or is_test_file(path) or set(parts) & set(_SCRIPT_FOLDERS)
    return extension == ".py" and named and not left_out


def _module_names(path: str, files: Collection[str]) -> tuple[str, ...]:
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
