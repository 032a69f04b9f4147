"""The kinds of assertions that Python tests use, each with statements that must fail. Pure.

Code under test can empty one kind of assertion and leave the others as they are. So the canary
fails once by each kind that the tests use, and not by a fixed few.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from driver.test_style.python_imports import dotted_name, imported_names
from state_store.values.lazy_dataclass import dataclass

PLAIN = "assert"
_SELF = "self."

_BY_LITERAL: Mapping[type, tuple[str, str]] = {
    int: ("1", "2"),
    str: ('"a"', '"b"'),
    float: ("1.0", "2.0"),
    bytes: ('b"a"', 'b"b"'),
    ast.List: ("[1]", "[2]"),
    ast.Tuple: ("(1,)", "(2,)"),
    ast.Dict: ("{1: 1}", "{1: 2}"),
    ast.Set: ("{1}", "{2}"),
}
_RAISES_NOTHING, _RAISES_ANOTHER = "    sorted([1])", "    assert sorted([1]) == [2]"
_RAISES_A = '    {}.pop("a")'

_UNKNOWN = (int, str, ast.List, ast.Dict)  # what values without a literal may be
# Statements by the name of a function. `{f}` stands for the function as the test file spells it.
_FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    PLAIN: ("assert sorted([1]) == [2]",),
    "pytest.approx": (
        "assert 1.0 == {f}(2.0)",
        "assert [1.0] == {f}([2.0])",
        "assert {1: 1.0} == {f}({1: 2.0})",
    ),
    "pytest.raises": (
        f"with {{f}}(KeyError):\n{_RAISES_NOTHING}",
        f"with {{f}}(KeyError):\n{_RAISES_ANOTHER}",
        f'with {{f}}(KeyError, match="b"):\n{_RAISES_A}',
    ),
    "pytest.warns": (f"with {{f}}(UserWarning):\n{_RAISES_NOTHING}",),
    "pytest.deprecated_call": (f"with {{f}}():\n{_RAISES_NOTHING}",),
    "pytest.fail": ('{f}("as it must")',),
    "json.loads": ('assert {f}("[1]") == {f}("[2]")',),
    "json.dumps": ("assert {f}([1]) == {f}([2])",),
    "math.isclose": ("assert {f}(1.0, 2.0)",),
    "re.match": ('assert {f}("b", "a")',),
    "re.search": ('assert {f}("b", "a")',),
    "re.fullmatch": ('assert {f}("b", "a")',),
    "isinstance": ("assert {f}(1, str)",),
    "len": ("assert {f}([1]) == {f}([1, 2])",),
    "sorted": ("assert {f}([2, 1]) == [2, 1]",),
    "round": ("assert {f}(1.2) == {f}(2.2)",),
    "abs": ("assert {f}(-1) == {f}(2)",),
    "sum": ("assert {f}([1]) == {f}([2])",),
    "min": ("assert {f}(1, 2) == {f}(3, 4)",),
    "max": ("assert {f}(1, 2) == {f}(3, 4)",),
    "repr": ("assert {f}(1) == {f}(2)",),
    "bool": ("assert {f}([])",),
    "int": ('assert {f}("1") == {f}("2")',),
    "float": ('assert {f}("1") == {f}("2")',),
    "list": ("assert {f}((1,)) == {f}((2,))",),
    "tuple": ("assert {f}([1]) == {f}([2])",),
    "type": ("assert {f}(1) is {f}(None)",),
    "hasattr": ('assert {f}(1, "no_name")',),
    "unittest.mock.call": ("assert [{f}(1)] == [{f}(2)]",),
    "any": ("assert {f}([False])",),
    "all": ("assert {f}([False])",),
    "set": ("assert {f}([1]) == {f}([2])",),
    "str": ("assert {f}(1) == {f}(2)",),
    "numpy.allclose": ("assert {f}([1.0], [2.0])",),
    "numpy.array_equal": ("assert {f}([1], [2])",),
    "numpy.testing.assert_allclose": ("{f}([1.0], [2.0])",),
    "numpy.testing.assert_almost_equal": ("{f}(1.0, 2.0)",),
    "numpy.testing.assert_array_almost_equal": ("{f}([1.0], [2.0])",),
    "numpy.testing.assert_array_equal": ("{f}([1], [2])",),
    "numpy.testing.assert_equal": ("{f}(1, 2)",),
}
_BUILTIN = frozenset(name for name in _FUNCTIONS if "." not in name) - {PLAIN}
_BLOCK = tuple(f"with self.{{m}}:\n{inner}" for inner in (_RAISES_NOTHING, _RAISES_ANOTHER))
# Arguments by the name of a method of `unittest.TestCase`, or whole statements.
_METHODS: Mapping[str, str] = {
    "assertNotEqual": "1, 1",
    "assertTrue": "[]",
    "assertFalse": "[1]",
    "assertIs": "[1], [1]",
    "assertIsNot": "None, None",
    "assertIsNone": "[1]",
    "assertIsNotNone": "None",
    "assertIn": "1, [2]",
    "assertNotIn": "1, [1]",
    "assertIsInstance": "1, str",
    "assertNotIsInstance": "1, int",
    "assertAlmostEqual": "1.0, 2.0",
    "assertNotAlmostEqual": "1.0, 1.0",
    "assertGreater": "1, 2",
    "assertGreaterEqual": "1, 2",
    "assertLess": "2, 1",
    "assertLessEqual": "2, 1",
    "assertRegex": '"b", "a"',
    "assertNotRegex": '"a", "a"',
    "assertCountEqual": "[1], [2]",
    "assertSequenceEqual": "[1], [2]",
    "assertListEqual": "[1], [2]",
    "assertTupleEqual": "(1,), (2,)",
    "assertSetEqual": "{1}, {2}",
    "assertDictEqual": "{1: 1}, {1: 2}",
    "assertMultiLineEqual": '"a", "b"',
    "fail": '"as it must"',
}
_CONTEXTS: Mapping[str, str] = {
    "assertRaises": "assertRaises(KeyError)",
    "assertRaisesRegex": 'assertRaisesRegex(KeyError, "a")',
    "assertWarns": "assertWarns(UserWarning)",
    "assertWarnsRegex": 'assertWarnsRegex(UserWarning, "a")',
    "assertLogs": "assertLogs()",
}


@dataclass(frozen=True, slots=True)
class Failing:
    """A statement that must fail, without indentation. `kind` is the assertion that it tries; a
    `needs` module must be imported first."""

    kind: str
    statement: str
    needs: str = ""

    @property
    def is_method(self) -> bool:
        """True if it is a statement for a method of a `TestCase`."""
        return self.kind.startswith(_SELF)

    def as_function(self) -> Failing:
        """The statement for a function, which has no test case of its own."""
        if not self.is_method:
            return self
        statement = self.statement.replace(_SELF, "unittest.TestCase().")
        return Failing(self.kind, statement, "unittest")


def used_asserts(modules: Iterable[ast.AST]) -> frozenset[str]:
    """The kinds of assertions in the code, with the type of a literal where it matters."""
    return frozenset(kind for module in modules for kind in _kinds(module))


def failing(kinds: Iterable[str], spelled: Mapping[str, str]) -> Iterator[Failing]:
    """The statements for these kinds, in the order of their names. `spelled` are the names of
    functions in the test file that gets the statements."""
    for kind in sorted(kinds):
        name, _, literal = kind.partition(" ")
        if name.startswith(_SELF):
            for statement in _of_method(name.removeprefix(_SELF), literal):
                yield Failing(f"{_SELF}{name.removeprefix(_SELF)}", statement)
            continue
        top = name.rpartition(".")[0]
        needs = top if top and name not in spelled else ""
        for statement in _FUNCTIONS.get(name, ()):
            yield Failing(name, statement.replace("{f}", spelled.get(name, name)), needs)


def _of_method(method: str, literal: str) -> Iterator[str]:
    if context := _CONTEXTS.get(method):
        inner = _BLOCK if method.startswith("assertRaises") else _BLOCK[:1]
        yield from (block.replace("{m}", context) for block in inner)
        if method == "assertRaisesRegex":
            yield f'with self.assertRaisesRegex(KeyError, "b"):\n{_RAISES_A}'
    elif method == "assertEqual":
        yield f"self.assertEqual({literal or '1, 2'})"
    elif arguments := _METHODS.get(method):
        yield f"self.{method}({arguments})"


def spelled_names(module: ast.AST) -> dict[str, str]:
    """The known functions that a test file can call, each as it spells it."""
    found = {name: name for name in _BUILTIN}
    aliases = imported_names(getattr(module, "body", ()))
    for alias, full in aliases.items():
        for name in _FUNCTIONS:
            if name == full:
                found[name] = alias
            elif name.startswith(f"{full}."):
                found[name] = alias + name[len(full) :]
    return found


def _kinds(module: ast.AST) -> Iterator[str]:
    aliases = imported_names(getattr(module, "body", ()))
    inside = {
        call
        for node in ast.walk(module)
        if isinstance(node, ast.Assert)
        for call in ast.walk(node.test)
        if isinstance(call, ast.Call)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Assert):
            yield PLAIN
        elif isinstance(node, ast.Call):
            name = dotted_name(node.func, aliases)
            if name.startswith(_SELF):
                yield from _of_self(name, node)
            elif name in _FUNCTIONS and (name not in _BUILTIN or node in inside):
                yield name


def _of_self(name: str, call: ast.Call) -> Iterator[str]:
    """The kinds of a call of a method of the test case, whose arguments may hold known calls."""
    if name != f"{_SELF}assertEqual":
        yield name
        return
    pairs = [pair for argument in call.args[:2] if (pair := _by_literal(argument))]
    for pair in pairs[:1] or [_BY_LITERAL[kind] for kind in _UNKNOWN]:
        yield f"{name} {', '.join(pair)}"


def _by_literal(node: ast.expr) -> tuple[str, str] | None:
    """Two unlike literals of the type of this one; None if it is no literal of a known type."""
    if isinstance(node, ast.Constant):
        return _BY_LITERAL.get(type(node.value))
    return _BY_LITERAL.get(type(node))
