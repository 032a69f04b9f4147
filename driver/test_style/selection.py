"""Selects tests by words as runners do: pytest's expressions, patterns of unittest. Pure."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Callable, Sequence

_TOKEN = re.compile(r"[()]|[^\s()]+")
_OPERATORS = frozenset({"(", ")", "and", "or", "not"})


def holds(expression: str, known: Callable[[str], bool]) -> bool:
    """The value of an expression of words with `and`, `or`, `not` and brackets. True if it is
    empty or not understood."""
    tokens = _TOKEN.findall(expression)
    words = [one if one in _OPERATORS else str(known(one)) for one in tokens]
    try:
        return _value(ast.parse(" ".join(words), mode="eval").body) if words else True
    except (SyntaxError, ValueError, RecursionError):
        return True


def _value(node: ast.expr) -> bool:
    if isinstance(node, ast.BoolOp):
        values = map(_value, node.values)
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _value(node.operand)
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return node.value
    raise ValueError("not an expression of words")


def matches(patterns: Sequence[str], name: str) -> bool:
    """True if unittest selects the test of this full name; without patterns it selects all."""
    plain = (one if "*" in one else f"*{one}*" for one in patterns)
    return not patterns or any(fnmatch.fnmatchcase(name, one) for one in plain)
