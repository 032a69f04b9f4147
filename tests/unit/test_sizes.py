"""Half of all functions fit in eight lines and none needs a second screen."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("state_store", "tools", "driver")
LONGEST = 40
USUAL = 8


def functions() -> Iterator[tuple[str, int]]:
    """Where each function is, and its length in lines without its docstring."""
    for path in (path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", length(node)


def length(function: ast.FunctionDef) -> int:
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    told = ast.get_docstring(function, clean=False)
    return lines - (told.count("\n") + 1 if told is not None else 0)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def f(): pass", 1),
        ("def f():\n    '''One line.'''\n    return 1", 2),
        ("def f(\n    a,\n):\n    '''Two\n    lines.'''\n    return (\n        a\n    )", 6),
    ],
)
def test_a_docstring_does_not_count(source: str, lines: int) -> None:
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    assert length(function) == lines


def test_functions_are_short() -> None:
    sizes = dict(functions())
    too_long = {where: size for where, size in sizes.items() if size > LONGEST}
    assert not too_long, f"over {LONGEST} lines: {too_long}"
    assert median(sizes.values()) <= USUAL
