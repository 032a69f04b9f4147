"""The planted test of unittest and pytest: where it stands, what it says, how it is found. Pure.

The test fails only when every usual way to fail works: one that was made harmless leaves it green,
and a green canary is the finding.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Collection, Mapping
from itertools import pairwise

from driver.canary_call import Call, Canary, NotApplicable

_TEST_NAMES = ("test_*.py", "*_test.py", "test*.py")
_NOT_IMPORTED = ("__main__", "setup", "conftest", "noxfile", "manage", "fabfile", "tasks")
_SCRIPT_FOLDERS = ("scripts", "bin", "docs", "doc", "examples", "migrations")
_SOURCE_ROOTS = ("src/", "lib/", "python/")
_TEST_ROOTS = ("tests", "test", "testing")
_CONFIGS = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")

_PYTEST = ("pytest", "py.test")
_PYTEST_TAKES_VALUE = ("-k", "-m", "-p", "-n", "-c", "-o", "-W", "-r", "--tb", "--cov", "--rootdir")
_PYTEST_SELECTS = ("-k", "-m", "--lf", "--last-failed", "--sw", "--stepwise", "--pyargs")
_UNITTEST_TAKES_VALUE = ("-s", "-p", "-t", "-k", "--start-directory", "--pattern")

_TEXT = """\
import importlib
import os
import unittest

_home = os.path.dirname(os.path.abspath(__file__))
_top = os.path.realpath(os.path.join(_home, {top!a}))
_tree = os.path.realpath(os.path.join(_home, {tree!a})) + os.sep
_elsewhere = []
for _names, _path in {modules}:
    _found = ""
    for _name in _names:
        try:
            _module = importlib.import_module(_name)
        except (Exception, SystemExit):
            continue
        _file = os.path.realpath(str(getattr(_module, "__file__", "")))
        if _file == os.path.realpath(os.path.join(_top, _path)):
            _found = ""
            break
        _ends = ("/" + _name.replace(".", "/") + _end for _end in (".py", "/__init__.py"))
        _same = "." in _name and _file.replace("\\\\", "/").endswith(tuple(_ends))
        if _same and (not _file.startswith(_tree) or "site-packages" in _file):
            _found = _file
    if _found:
        _elsewhere.append("{nonce} is not tested: " + _path + ", but " + _found + " is;")


def _holds(check):
    try:
        check()
    except AssertionError:
        return True
    return False


def _bare():
    assert [1] == [2]


def _fail_if_all_can():
    case = unittest.TestCase()
    checks = (
        _bare,
        lambda: case.assertEqual(1, 2),
        lambda: case.assertEqual([1], [2]),
        lambda: case.assertTrue(0),
        lambda: case.fail("planted"),
    )
    if all([_holds(check) for check in checks]):
        raise AssertionError("\\n".join(["planted to fail", *_elsewhere]))

"""
_FUNCTION = """
def test_{nonce}_plain():
    _fail_if_all_can()

"""
_CASE = """
class Test_{nonce}(unittest.TestCase):
    def test_{nonce}_case(self):
        _fail_if_all_can()
"""


def plan_pytest(
    call: Call,
    files: Collection[str],
    changed: Collection[str],
    texts: Mapping[str, str],
    nonce: str,
) -> Canary | NotApplicable:
    """Beside the tests that the command runs; its path is added where the command names files."""
    options = _pytest_options(call.words)
    if any(word.partition("=")[0] in _PYTEST_SELECTS for word in options):
        return NotApplicable("the command selects tests by name")
    config = "\n".join(texts.get(posixpath.join(call.folder, name), "") for name in _CONFIGS)
    paths = [call.in_tree(word.partition("::")[0]) for word in _positional(options)]
    folders, single = _named(paths, files)
    found = _folder(folders or _testpaths(config, call), single, files, call.folder)
    if found is None:
        return NotApplicable("no test file of the command is in the tree")
    path = posixpath.join(found, f"test_{nonce}.py")
    plain = "" if "python_functions" in config else _FUNCTION.format(nonce=nonce)
    names = (f"test_{nonce}_plain", f"test_{nonce}_case")[0 if plain else 1 :]
    text = _text(call, files, changed, path, nonce) + plain + _CASE.format(nonce=nonce)
    added = call.with_more("--maxfail=0", call.below(path))
    if single and added is None:
        return NotApplicable("the command names single files, and none can be added to it")
    command = added if single and added else call.with_more("--maxfail=0") or call.command
    return Canary("pytest", path, text, names, command, None if single else added)


def _pytest_options(words: tuple[str, ...]) -> tuple[str, ...]:
    called = [re.split(r"[\\/]", word)[-1].removesuffix(".exe") for word in words]
    return words[next(at for at, name in enumerate(called) if name in _PYTEST) + 1 :]


def _positional(options: tuple[str, ...]) -> list[str]:
    found = []
    for before, word in pairwise(("", *options)):
        if not word.startswith("-") and before not in _PYTEST_TAKES_VALUE:
            found.append(word)
    return found


def _named(paths: list[str], files: Collection[str]) -> tuple[list[str], list[str]]:
    """Which of the arguments are folders of the tree, and which are files."""
    folders = [path for path in paths if path == "" or _is_folder(path, files)]
    return folders, [path for path in paths if path in files]


def _is_folder(path: str, files: Collection[str]) -> bool:
    return any(file.startswith(f"{path}/") for file in files)


def _testpaths(config: str, call: Call) -> list[str]:
    """The folders of `testpaths`, as far as plain text tells."""
    said = re.search(r"^testpaths\s*=\s*(\[[^\]]*\]|.*(?:\n[ \t]+\S.*)*)", config, re.M)
    words = re.findall(r"[^\s\[\]\"',]+", said[1]) if said else []
    return [call.in_tree(word) for word in words]


def _folder(folders: list[str], single: list[str], files: Collection[str], top: str) -> str | None:
    """The folder of the first test file that runs; tests of the usual folders come first."""
    tests = single or [
        file
        for file in files
        if _is_test(file) and any(_within(file, folder) for folder in folders or [top])
    ]
    return posixpath.dirname(min(tests, key=_usual_first)) if tests else None


def _within(file: str, folder: str) -> bool:
    return not folder or file.startswith(f"{folder}/")


def _is_test(file: str) -> bool:
    name = posixpath.basename(file)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _TEST_NAMES)


def _usual_first(file: str) -> tuple[bool, int, str]:
    usual = any(part in _TEST_ROOTS for part in file.split("/")[:-1])
    return not usual, file.count("/"), file


def plan_unittest(
    call: Call, files: Collection[str], changed: Collection[str], nonce: str
) -> Canary | NotApplicable:
    """Found by discovery, or added by name beside the modules that the command names."""
    options = call.words[call.words.index("unittest") + 1 :]
    if "-k" in options:
        return NotApplicable("the command selects tests by name")
    named = [word for word in _unittest_positional(options) if word != "discover"]
    if "discover" in options or not named:
        return _discovered(call, options, named, files, changed, nonce)
    homes = [home for word in named if (home := _module_home(word, call, files)) is not None]
    if not homes:
        return NotApplicable("no module that the command names is in the tree")
    path = posixpath.join(homes[0], f"test_{nonce}.py")
    command = call.with_more(call.below(path).removesuffix(".py").replace("/", "."))
    if command is None:
        return NotApplicable("the command names single modules, and none can be added to it")
    return Canary("unittest", path, *_case_only(call, files, changed, path, nonce), command, None)


def _discovered(
    call: Call,
    options: tuple[str, ...],
    named: list[str],
    files: Collection[str],
    changed: Collection[str],
    nonce: str,
) -> Canary | NotApplicable:
    start = _value(options, "-s", "--start-directory") or (named[0] if named else ".")
    pattern = _value(options, "-p", "--pattern") or (named[1] if len(named) > 1 else "test*.py")
    folder = call.in_tree(start)
    if folder and not _is_folder(folder, files):
        folder = call.in_tree(start.replace(".", "/"))
    name = pattern.replace("*", f"_{nonce}", 1).replace("*", "").lstrip("_")
    if not re.fullmatch(r"[A-Za-z]\w*\.py", name) or (folder and not _is_folder(folder, files)):
        return NotApplicable("it is not clear which files the command discovers")
    alone = ("-p", name) if "discover" in options else ("discover", "-p", name)
    plain = "discover" in options or not options
    more = call.with_more(*alone) if plain and len(named) < 2 else None
    path = posixpath.join(folder, name)
    return Canary(
        "unittest", path, *_case_only(call, files, changed, path, nonce), call.command, more
    )


def _unittest_positional(options: tuple[str, ...]) -> list[str]:
    pairs = pairwise(("", *options))
    return [
        word
        for before, word in pairs
        if not word.startswith("-") and before not in _UNITTEST_TAKES_VALUE
    ]


def _value(options: tuple[str, ...], *names: str) -> str:
    for before, word in pairwise(options):
        if before in names:
            return word
    given = (word.partition("=") for word in options)
    return next((value for name, _, value in given if name in names and value), "")


def _module_home(word: str, call: Call, files: Collection[str]) -> str | None:
    """The folder of the module that `tests.test_a.Case.test_x` or `tests/test_a.py` names."""
    if word.endswith(".py"):
        path = call.in_tree(word)
        return posixpath.dirname(path) if path in files else None
    parts = word.split(".")
    for end in range(len(parts), 0, -1):
        path = call.in_tree("/".join(parts[:end]))
        if f"{path}.py" in files:
            return posixpath.dirname(path)
        if f"{path}/__init__.py" in files:
            return path
    return None


def _case_only(
    call: Call, files: Collection[str], changed: Collection[str], path: str, nonce: str
) -> tuple[str, tuple[str, ...]]:
    text = _text(call, files, changed, path, nonce)
    return text + _CASE.format(nonce=nonce), (f"test_{nonce}_case",)


def _text(
    call: Call, files: Collection[str], changed: Collection[str], path: str, nonce: str
) -> str:
    top = f"{call.folder}/" if call.folder else ""
    there = {file.removeprefix(top) for file in files}
    modules = tuple(
        (_module_names(path, there), path)
        for path in sorted(file.removeprefix(top) for file in changed)
        if _imported(path)
    )
    home = posixpath.dirname(path) or "."
    up, tree = posixpath.relpath(call.folder or ".", home), posixpath.relpath(".", home)
    return _TEXT.format(modules=ascii(modules), top=up, tree=tree, nonce=nonce)


def _imported(path: str) -> bool:
    """Whether a changed file is a module that a test would import."""
    folder, name = posixpath.split(path)
    parts = [part for part in folder.split("/") if part]
    stem, extension = posixpath.splitext(name)
    named = stem.isidentifier() and all(part.isidentifier() for part in parts)
    left_out = stem in _NOT_IMPORTED or _is_test(path) or set(parts) & set(_SCRIPT_FOLDERS)
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
