"""The tests of a Python test file that can stand beside a canary, and a canary's text in their
style. Pure.

A canary looks like its neighbour: class, marks, docstring, annotations, quotes and indentation are
the same. So linters, formatters, marks that must be there and guards in `conftest.py` accept it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from state_store.values.lazy_dataclass import dataclass

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef

_DECIDES_NAMES = (
    *("load_tests", "setUpModule", "setup_module", "__test__", "pytest_generate_tests"),
)
_SKIPS = ("skip", "skipif", "skipIf", "skipUnless", "importorskip", "SkipTest", "xfail")
# Decorators that a test without arguments cannot take over, or that change what its failure means.
_NOT_COPIED = (
    *_SKIPS,
    *("parametrize", "expectedFailure", "patch", "given", "asyncio", "anyio", "trio", "flaky"),
    *("repeat", "benchmark", "dependency", "incremental", "staticmethod", "classmethod", "object"),
)
_LIMIT = 79


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A test, the class around it if there is one, its marks, and the decorators to copy."""

    test: Function
    case: ast.ClassDef | None
    marks: frozenset[str]
    copied: tuple[ast.expr, ...]
    is_plain: bool

    @property
    def is_case(self) -> bool:
        """True for a method of a `TestCase`."""
        return self.case is not None and is_case(self.case)


@dataclass(frozen=True, slots=True)
class Piece:
    """A test to add: its name, its statements, and a module to import in it."""

    name: str
    statements: tuple[str, ...]
    needs: str = ""


def parsed(source: str) -> ast.Module | None:
    """The parsed file; None if this Python cannot parse it or its text is not UTF-8."""
    if not source or "\ufffd" in source:
        return None
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def decides(module: ast.Module) -> bool:
    """True if a statement of the file may decide for all its tests if they run."""
    return any(map(_decides, module.body))


def _decides(node: ast.stmt) -> bool:
    if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
        return True
    if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        words = {*words_in(node)}
        stops = _SKIPS if "pytestmark" in words else ("skip", "importorskip", "SkipTest")
        return not words.isdisjoint((*_DECIDES_NAMES, *stops))
    marks = {word for mark in node.decorator_list for word in words_in(mark)}
    return node.name in _DECIDES_NAMES or "autouse" in marks


def words_in(node: ast.AST) -> Iterator[str]:
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


def is_case(case: ast.ClassDef) -> bool:
    """True if a class is a `TestCase`, as far as its text shows."""
    if any("Case" in word for base in case.bases for word in words_in(base)):
        return True
    calls = (node.func for node in ast.walk(case) if isinstance(node, ast.Call))
    return bool(case.bases) and any(
        isinstance(call, ast.Attribute)
        and call.attr.startswith("assert")
        and isinstance(call.value, ast.Name)
        and call.value.id == "self"
        for call in calls
    )


def neighbours(module: ast.Module, is_test: Callable[[str], bool]) -> list[Neighbour]:
    """The tests of a file, in its order."""
    known, above = _aliases(module), _module_marks(module)
    found = []
    for node in module.body:
        if isinstance(node, _FUNCTIONS) and is_test(node.name):
            found.append(_neighbour(node, None, known, above))
        elif isinstance(node, ast.ClassDef) and not _sets_apart(node):
            marks = above | {mark for one in node.decorator_list if (mark := _mark(one, known))}
            found += [
                _neighbour(test, node, known, marks)
                for test in node.body
                if isinstance(test, _FUNCTIONS) and is_test(test.name)
            ]
    return found


def _sets_apart(case: ast.ClassDef) -> bool:
    """True for a class that may skip its tests, or give arguments to them."""
    words = {word for one in case.decorator_list for word in words_in(one)}
    bodies = (one for one in case.body if not isinstance(one, _FUNCTIONS))
    words |= {word for one in bodies for word in words_in(one)}
    return not words.isdisjoint((*_NOT_COPIED, "__test__"))


def _neighbour(
    test: Function, case: ast.ClassDef | None, known: dict[str, str], marks: frozenset[str]
) -> Neighbour:
    copied, own, is_plain = [], set(), True
    for one in test.decorator_list:
        mark = _mark(one, known)
        if mark and mark not in _NOT_COPIED:
            copied.append(one)
            own.add(mark)
        else:
            is_plain = False
    return Neighbour(test, case, marks | own, tuple(copied), is_plain)


def _mark(node: ast.expr, known: dict[str, str]) -> str:
    """The mark that a decorator sets; "" if it sets none, as far as the file shows."""
    node = node.func if isinstance(node, ast.Call) else node
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.Attribute) and "mark" in {*words_in(node.value)}:
        return node.attr
    return ""


def _aliases(module: ast.Module) -> dict[str, str]:
    """The names of a file that stand for marks (`slow = pytest.mark.slow`)."""
    found = {}
    for node in module.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        if mark := _mark(node.value, {}):
            found[node.targets[0].id] = mark
    return found


def _module_marks(module: ast.Module) -> frozenset[str]:
    marks: set[str] = set()
    for node in module.body:
        if isinstance(node, ast.Assign) and "pytestmark" in {*words_in(node.targets[0])}:
            values = (
                node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
            )
            marks.update(mark for value in values if (mark := _mark(value, {})))
    return frozenset(marks)


def in_style(
    source: str,
    beside: Neighbour,
    pieces: Sequence[Piece],
    *,
    is_method: bool,
    indent: str | None = None,
) -> str:
    """The text of tests in the style of a neighbour, without blank lines around it. `indent` is
    theirs if it is not the neighbour's."""
    lines = source.split("\n")  # split as the parser does
    first = lines[beside.test.lineno - 1]
    unit = _unit(lines, beside.test)
    if indent is None:
        indent = _indent(first) if is_method else ""
    copied = [
        f"@{text}"
        for one in beside.copied
        if (text := ast.get_source_segment(source, one)) and "\n" not in text
    ]
    returns = " -> None" if beside.test.returns is not None else ""
    texts = []
    for piece in pieces:
        words = piece.name.removeprefix("test_").replace("_", " ")
        body = [f'"""Check that it {words}."""'] if ast.get_docstring(beside.test) else []
        body += [f"import {piece.needs}", ""] if piece.needs else []
        body += "\n".join(piece.statements).split("\n")
        written = [*copied, f"def {piece.name}({'self' if is_method else ''}){returns}:"]
        written += [f"    {line}" if line else "" for line in body]
        texts.append("\n".join(_indented(line, indent, unit) for line in written))
    whole = ("\n\n" if is_method else "\n\n\n").join(texts)
    if not _is_single(source):
        return whole
    # Docstrings keep their quotes.
    return whole.replace('"""', "\0").replace('"', "'").replace("\0", '"""')


def _indented(line: str, indent: str, unit: str) -> str:
    """A line that is indented by fours, in the indentation of the file."""
    text = line.lstrip(" ")
    return f"{indent}{unit * ((len(line) - len(text)) // 4)}{text}" if text else ""


def _is_single(source: str) -> bool:
    """True for a file that mostly uses single quotes."""
    plain = source.replace('"""', "").replace("'''", "")
    return plain.count("'") > plain.count('"')


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _unit(lines: Sequence[str], test: Function) -> str:
    """The indentation of one level, as in this test."""
    if (first := test.body[0]).lineno == test.lineno or len(lines) < first.lineno:
        return "    "
    own = _indent(lines[test.lineno - 1])
    return _indent(lines[first.lineno - 1]).removeprefix(own) or "    "


def one_or_many(name: str, values: Sequence[str]) -> str:
    """The assignment of a tuple as formatters write it, in one line if that is short."""
    quoted = [f'"{value}"' for value in values]
    whole = f"{name} = ({', '.join(quoted)}{',' if len(quoted) == 1 else ''})"
    if len(whole) + 2 * len("    ") <= _LIMIT:
        return whole
    return "\n".join([f"{name} = (", *(f"    {value}," for value in quoted), ")"])
