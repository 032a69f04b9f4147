"""Selects tests by words as runners do: pytest's expressions, patterns of unittest and of
JavaScript's runners. Pure."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from state_store.values.lazy_pattern import lazy_pattern

_TOKEN = lazy_pattern(r"[()]|[^\s()]+")
_TITLE = lazy_pattern(r"""\b(test|it|describe)\(\s*(["'`])(?P<title>[^"'`\\\n$]*)\2""")
_MORE = ("again", "too", "as well", "at last", "besides", "by all", "for sure", "in short")
_MAX_STARTS = 200
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


def option_values(words: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """The values of options."""
    for word, following in pairwise((*words, "")):
        name, given, attached = word.partition("=")
        if name in names:
            yield attached if given else following


def names_for(nonce: str, patterns: Sequence[str], source: str) -> tuple[str, ...] | None:
    """The names of new tests of a JavaScript file: selected by the patterns, like names of its
    tests if necessary. None if no name is known that the command selects."""
    said = nonce.replace("_", " ")
    titles = [(one[1], one["title"]) for one in _TITLE.finditer(source)]
    groups = [title for kind, title in titles if kind == "describe"]
    both = [f"{group} {title}" for group in groups for kind, title in titles if kind != "describe"]
    starts = (said, *(f"{title} {said}" for title in (*(one for _, one in titles), *both)))
    for start in starts[:_MAX_STARTS]:
        names = (start, *(f"{start} {more}" for more in _MORE))
        if not patterns or any(all(_selects(one, name) for name in names) for one in patterns):
            return names
    return None


def _selects(pattern: str, name: str) -> bool:
    """True if a pattern selects a name, as far as Python reads it like JavaScript."""
    whole = re.fullmatch(r"/(.*)/([a-z]*)", pattern)
    try:
        flags = re.I if whole and "i" in whole[2] else re.NOFLAG
        return re.search(whole[1] if whole else pattern, name, flags) is not None
    except re.error:
        return False
