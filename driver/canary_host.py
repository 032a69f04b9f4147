"""A Python test file that is there already and takes a planted test at its end. Pure.

Code that looks for a new test file, or counts them, finds none. A file that may skip all of its
tests, or say which of them are loaded, would do so with the planted test too: it is passed over.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Mapping

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
    """The first of the files that takes a test; `cases_only` where only classes are looked at."""
    for path in itertools.islice(tests, _MAX_READ):
        module = _parsed(texts.get(path, ""))
        if module and _has_tests(module, cases_only) and not any(map(_decides, module.body)):
            return path
    return None


def with_planted(source: str, planted: str) -> str:
    """The file's text with the planted test in it, before what makes the file a program."""
    module = _parsed(source)
    last = module.body[-1] if module and module.body else None
    if isinstance(last, ast.If) and "__name__" in set(_words(last.test)):
        lines = source.split("\n")  # as the parser counts them
        return "\n".join([*lines[: last.lineno - 1], planted, "", *lines[last.lineno - 1 :]])
    return f"{source.rstrip()}\n{planted}"


def _parsed(source: str) -> ast.Module | None:
    """None for what this Python does not read; a character that is no UTF-8 would be lost."""
    if not source or "\ufffd" in source:
        return None
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _has_tests(module: ast.Module, cases_only: bool) -> bool:
    for node in module.body:
        if isinstance(node, ast.ClassDef) and any(map(_is_test, node.body)):
            return True
        if not cases_only and _is_test(node):
            return True
    return False


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, _FUNCTIONS) and node.name.startswith("test")


def _decides(node: ast.stmt) -> bool:
    """Whether a statement may say of all tests in the file whether they run."""
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
