"""The sizes of functions: none needs a second screen, and none only moves the eye elsewhere."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("state_store", "tools", "driver")
LONGEST = 40
SMALL = 6


@functools.cache
def sources() -> dict[str, str]:
    paths = (path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


@functools.cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def length(function: ast.FunctionDef) -> int:
    """The lines of a function without its docstring."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    docstring = ast.get_docstring(function, clean=False)
    return lines - (docstring.count("\n") + 1 if docstring is not None else 0)


def detours(source: str) -> list[str]:
    """The names of small private functions that one place calls and that say no rule.

    A docstring or a comment says the rule that the name stands for, or the surprise that it hides.
    """
    tree = parsed(source)
    lines = source.splitlines()
    used = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    called = Counter(
        node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    )
    return [
        function.name
        for function in functions(tree)
        if function.name.startswith("_")
        and not function.name.startswith("__")
        and not function.decorator_list
        and used[function.name] == called[function.name] == 1
        and (function.end_lineno or 0) - function.body[0].lineno < SMALL
        and ast.get_docstring(function) is None
        and not any("#" in line for line in lines[function.lineno - 1 : function.end_lineno])
    ]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def f(): pass", 1),
        ("def f():\n    '''One line.'''\n    return 1", 2),
        ("def f(\n    a,\n):\n    '''Two\n    lines.'''\n    return (\n        a\n    )", 6),
    ],
)
def test_a_docstring_does_not_count(source: str, lines: int) -> None:
    (function,) = functions(ast.parse(source))
    assert length(function) == lines


def test_functions_are_short() -> None:
    sizes = {
        f"{name}:{function.lineno} {function.name}": length(function)
        for name, source in sources().items()
        for function in functions(parsed(source))
    }
    assert {where: size for where, size in sizes.items() if size > LONGEST} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def _f():\n    return 1\n\nx = _f()", ["_f"]),
        ("def _f():\n    return 1\n\nx = _f() + _f()", []),
        ("def _f():\n    return 1\n\nx = map(_f, y)", []),
        ("def _f():\n    '''Rounds half to even.'''\n    return 1\n\nx = _f()", []),
        ("def _f():\n    return 1  # the kernel counts from one\n\nx = _f()", []),
        ("def f():\n    return 1\n\nx = f()", []),
        (
            "class A:\n    def _f(self):\n        return 1\n    def g(self):\n        self._f()",
            ["_f"],
        ),
        ("def _f():\n" + "    x()\n" * 7 + "\n_f()", []),
    ],
)
def test_a_function_earns_its_name(source: str, found: list[str]) -> None:
    assert detours(source) == found


def test_no_function_only_moves_the_eye_elsewhere() -> None:
    found = {name: names for name, source in sources().items() if (names := detours(source))}
    assert found == {}
