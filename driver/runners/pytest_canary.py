"""The planted test of pytest: at the end of a test file that the command runs, else beside one.

Pure. Where the command names single tests, the planted ones are named too.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection

from driver.runners.insertion import (
    Call,
    Canary,
    Command,
    Field,
    NotApplicable,
    Plan,
    camel,
    is_folder,
    positional,
)
from driver.runners.python_source import (
    canary_text,
    find_host,
    function_name,
    is_test_file,
    method_name,
    with_canary,
)

_TEST_ROOTS = ("tests", "test", "testing")
CONFIGS = (
    *("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini"),
    "setup.cfg",
)
_PYTEST = ("pytest", "py.test")
TAKES_VALUE = ("-k", "-m", "-p", "-n", "-c", "-o", "-W", "-r", "--tb", "--cov", "--rootdir")
_SELECTS_BY = ("-k", "-m")
_SELECTS = ("--lf", "--last-failed", "--sw", "--stepwise", "--pyargs")


def plan_pytest(field: Field) -> Plan:
    """See the module. A function and a method, unless the configuration renames functions."""
    options = _options(field.call.words)
    if chosen := field.selecting(options, _SELECTS_BY, _planned):
        return chosen
    if any(word.partition("=")[0] in _SELECTS_BY for word in options):
        return NotApplicable("the command selects tests by name")
    return _planned(field)


def _planned(field: Field) -> Plan:
    call, files, changed = field.call, field.files, field.changed
    texts, nonce = field.texts, field.nonce
    options = _options(call.words)
    if any(word.partition("=")[0] in _SELECTS for word in options):
        return NotApplicable("the command selects tests by name or by what it ran before")
    config = "\n".join(texts.get(posixpath.join(call.folder, name), "") for name in CONFIGS)
    named = positional(options, TAKES_VALUE)
    tests = _tests(named, config, call, files)
    if not tests:
        return NotApplicable("no test file of the command is in the tree")
    plain = "python_functions" not in config
    names = (function_name(nonce), method_name(nonce))[0 if plain else 1 :]
    host = find_host(sorted(tests, key=lambda file: (file in changed, _usual_first(file))), texts)
    path = host or posixpath.join(
        posixpath.dirname(min(tests, key=_usual_first)), f"test_{nonce}.py"
    )
    text = canary_text(call, files, changed, path, nonce, plain=plain)
    if host is None:
        called, alone = _beside(call, path, single=_names_files(named, call, files))
    else:
        text = with_canary(texts[host], text)
        called, alone = _within(call, path, named, nonce, plain)
    if called is None:
        return NotApplicable("the command names single files, and none can be added to it")
    return Canary("pytest", path, text, names, called, alone, amends=host is not None)


def _within(
    call: Call, path: str, named: list[str], nonce: str, plain: bool
) -> tuple[Command | None, Command | None]:
    """The command that finds tests at the end of `path`, and the one for these alone."""
    below = call.below(path)
    whole = [call.in_tree(word) for word in named if "::" not in word]
    if not any(call.in_tree(word.partition("::")[0]) == path for word in named) or path in whole:
        return call.command, call.command if path in whole else call.with_more(below)
    ids = (function_name(nonce), camel(nonce))[0 if plain else 1 :]
    added = call.with_more(*(f"{below}::{one}" for one in ids))
    return added, added


def _beside(call: Call, path: str, *, single: bool) -> tuple[Command | None, Command | None]:
    """The same for a file of their own. All of it has to run, or one red test hides another."""
    added = call.with_more("--maxfail=0", call.below(path))
    if single:
        return added, None
    return call.with_more("--maxfail=0") or call.command, added


def _options(words: tuple[str, ...]) -> tuple[str, ...]:
    called = [re.split(r"[\\/]", word)[-1].removesuffix(".exe") for word in words]
    return words[next(at for at, name in enumerate(called) if name in _PYTEST) + 1 :]


def _names_files(named: list[str], call: Call, files: Collection[str]) -> bool:
    return any(call.in_tree(word.partition("::")[0]) in files for word in named)


def _tests(named: list[str], config: str, call: Call, files: Collection[str]) -> list[str]:
    """The test files that run: those named whole before those of which single tests are named."""
    paths = {call.in_tree(word.partition("::")[0]): "::" not in word for word in named}
    single = [path for path in paths if path in files]
    if single:
        return [path for path in single if paths[path]] or single
    folders = [path for path in paths if path == "" or is_folder(path, files)]
    tops = folders or _testpaths(config, call) or [call.folder]
    return [file for file in files if is_test_file(file) and any(_below(file, top) for top in tops)]


def _below(file: str, folder: str) -> bool:
    return not folder or file.startswith(f"{folder}/")


def _testpaths(config: str, call: Call) -> list[str]:
    return [call.in_tree(word) for word in words_set(config, "testpaths")]


def words_set(config: str, name: str) -> list[str]:
    """The words that a setting of pytest's has, as far as plain text tells."""
    said = re.search(rf"^{name}\s*=\s*(\[[^\]]*\]|.*(?:\n[ \t]+\S.*)*)", config, re.M)
    return re.findall(r"[^\s\[\]\"',]+", said[1]) if said else []


def _usual_first(file: str) -> tuple[bool, int, str]:
    usual = any(part in _TEST_ROOTS for part in file.split("/")[:-1])
    return not usual, file.count("/"), file
