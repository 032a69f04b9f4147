"""What the planted test of Python says, in a file of its own or at the end of another. Pure.

It fails only when every usual way to fail works: one that was made harmless leaves it green, and a
green canary is the finding. All its names come from the nonce, so that it fits into any file.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Collection

from driver.canary_call import Call, camel

TEST_NAMES = ("test_*.py", "*_test.py", "test*.py")
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
    """The name of the planted function."""
    return f"test_{nonce}"


def method_name(nonce: str) -> str:
    """The name of the planted method; its class is `camel(nonce)`."""
    return f"test_again_{nonce}"


def planted_text(
    call: Call,
    files: Collection[str],
    changed: Collection[str],
    path: str,
    nonce: str,
    *,
    plain: bool,
) -> str:
    """The planted tests for the file `path`: a `plain` function, if wanted, and a method."""
    top = f"{call.folder}/" if call.folder else ""
    there = {file.removeprefix(top) for file in files}
    modules = tuple(
        (_module_names(path, there), path)
        for path in sorted(file.removeprefix(top) for file in changed)
        if _imported(path)
    )
    home = posixpath.dirname(path) or "."
    up, tree = posixpath.relpath(call.folder or ".", home), posixpath.relpath(".", home)
    text = _CHECK + (_FUNCTION if plain else "") + _CASE
    return text.format(modules=ascii(modules), top=up, tree=tree, nonce=nonce, camel=camel(nonce))


def is_test_file(path: str) -> bool:
    """Whether a file has a name by which the runners look for tests."""
    name = posixpath.basename(path)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in TEST_NAMES)


def _imported(path: str) -> bool:
    """Whether a changed file is a module that a test would import."""
    folder, name = posixpath.split(path)
    parts = [part for part in folder.split("/") if part]
    stem, extension = posixpath.splitext(name)
    named = stem.isidentifier() and all(part.isidentifier() for part in parts)
    left_out = stem in _NOT_IMPORTED or is_test_file(path) or set(parts) & set(_SCRIPT_FOLDERS)
    return extension == ".py" and named and not left_out


def _module_names(path: str, files: Collection[str]) -> tuple[str, ...]:
    """The names by which tests may import a file, the likeliest first."""
    whole = path.removesuffix(".py").removesuffix("/__init__")
    home = posixpath.dirname(path)
    while home and f"{home}/__init__.py" in files:
        home = posixpath.dirname(home)
    packaged = whole[len(home) :].lstrip("/")
    bare = next((whole[len(root) :] for root in _SOURCE_ROOTS if whole.startswith(root)), whole)
    in_package = f"{posixpath.dirname(path)}/__init__.py" in files
    ordered = (packaged, bare, whole) if in_package else (bare, whole, packaged)
    return tuple(dict.fromkeys(name.replace("/", ".") for name in ordered if name))
