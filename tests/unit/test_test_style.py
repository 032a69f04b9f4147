"""How a planted test is written: statements that must fail, its neighbour's style, its place."""

from __future__ import annotations

import ast
import importlib
import unittest

import pytest

from driver.runners.canary import plan_canary
from driver.runners.runner import Canary
from driver.test_style import javascript_asserts
from driver.test_style.javascript_asserts import Names
from driver.test_style.python_asserts import failing, spelled_names, used_asserts
from driver.test_style.python_imports import import_place
from driver.test_style.selection import holds, matches

EVERYTHING = """
import json
import math as m
import re
import unittest
import numpy as np
import pytest
from pytest import approx


def test_all():
    assert x == approx(1) and isinstance(x, str) and len(x) == len(y) and sorted(x) == y
    assert round(x) and any(x) and all(x) and set(x) == y and str(x) == y
    assert json.loads(x) == json.dumps(y) and m.isclose(x, y)
    assert re.match(x, y) and re.search(x, y) and re.fullmatch(x, y)
    with pytest.raises(KeyError), pytest.warns(UserWarning):
        pytest.fail("x")
    np.testing.assert_allclose(x, y)
    print(min(x))
"""
METHODS = """
class A(unittest.TestCase):
    def test_all(self):
        {}
"""
OLD_NAMES = ("Equals", "Regexp", "RegexpMatches")
CALLED = [
    name
    for name in dir(unittest.TestCase)
    if name.startswith("assert") and name[6].isupper() and not name.endswith(OLD_NAMES)
]
NOT_TRIED = {"assertNoLogs", "assertSequenceEqual", "assertDictContainsSubset"}


def kinds(text: str) -> frozenset[str]:
    return used_asserts([ast.parse(text)])


def test_each_statement_for_a_kind_in_use_fails_and_says_so() -> None:
    used = kinds(EVERYTHING)
    assert {
        "assert",
        "pytest.approx",
        "math.isclose",
        "len",
        "numpy.testing.assert_allclose",
    } < used
    assert "min" not in used
    given = {"pytest": pytest, "approx": pytest.approx}
    for name in ("json", "math", "re"):
        given[name] = importlib.import_module(name)
    given["m"] = given["math"]
    found = [*failing(used, spelled_names(ast.parse(EVERYTHING)))]
    assert all(not one.needs for one in found)
    for one in found:
        if "np." not in one.statement:
            with pytest.raises((AssertionError, pytest.fail.Exception)):
                exec(one.statement, dict(given))


@pytest.mark.parametrize("method", CALLED)
def test_each_assertion_of_a_test_case_has_a_statement_that_fails(method: str) -> None:
    found = [*failing(kinds(METHODS.format(f"self.{method}(1, 2)")), {})]
    assert found or method in NOT_TRIED, method
    for one in found:
        assert one.is_method
        with pytest.raises(AssertionError):
            exec(one.statement, {"self": unittest.TestCase()})
        function = one.as_function()
        with pytest.raises(AssertionError):
            exec(function.statement, {"unittest": unittest})


def test_an_equality_is_tried_with_the_type_that_tests_compare() -> None:
    text = METHODS.format("self.assertEqual(f(), 'x'); self.assertEqual({}, f())")
    assert {one.statement for one in failing(kinds(text), {})} == {
        'self.assertEqual("a", "b")',
        "self.assertEqual({1: 1}, {1: 2})",
    }


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("import json\n\nimport pytest\n", (1, ("import sys",))),
        ("import unittest\n", (0, ("import sys",))),
        ('"""Doc."""\n\nfrom typing import Any\n', (2, ("import sys",))),
        ("from __future__ import annotations\n\nimport pytest\n", (2, ("import sys", ""))),
        ("from __future__ import annotations\n", (1, ("", "import sys"))),
        ("from . import calc\n", (0, ("import sys", ""))),
        ("x = 1\nimport json\n", None),
    ],
)
def test_an_import_goes_where_sorted_imports_have_it(
    text: str, place: tuple[int, tuple[str, ...]] | None
) -> None:
    assert import_place(ast.parse(text), "sys") == place


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("", True),
        ("a", True),
        ("not a", False),
        ("b or (a and not b)", True),
        ("a and", True),
        ("mark(x=1)", True),
    ],
)
def test_an_expression_of_words_is_understood_or_true(expression: str, value: bool) -> None:
    assert holds(expression, {"a"}.__contains__) is value


def test_patterns_of_unittest_are_parts_of_names_or_wildcards() -> None:
    assert matches(["alpha"], "tests.test_a.A.test_alpha_n")
    assert matches(["no", "tests.*.A.*"], "tests.test_a.A.test_x")
    assert not matches(["test_x*"], "tests.test_a.A.test_x")


MARKED = "import pytest\n\n\n@pytest.mark.slow\ndef test_a() -> None:\n"
FAILS = "assert sorted([1])"
STYLES = {
    f"{MARKED}\t'Check.'\n\tassert f('a')\n": (
        f'@pytest.mark.slow\ndef test_n() -> None:\n\t"""Check that it n."""\n\t{FAILS}'
    ),
    "class TestA:\n  def test_a(self):\n    assert 1\n": f"  def test_n(self):\n    {FAILS}",
    MARKED.replace("@", "@pytest.mark.parametrize('x', [1])\n@") + "    assert 1\n": (
        f"\n\n\n@pytest.mark.slow\ndef test_n() -> None:\n    {FAILS}"
    ),
}


@pytest.mark.parametrize("text", STYLES)
def test_it_is_written_like_the_test_beside_it(text: str) -> None:
    texts = {"test_a.py": text}
    found = plan_canary("pytest", texts, (), "n", texts=texts)
    assert isinstance(found, Canary)
    assert STYLES[text] in found.text
    assert found.text.startswith(text)


def javascript_kinds(text: str, assert_: str) -> list[str]:
    return [kind for kind, _ in javascript_asserts.failing([text], Names(assert_))]


def test_javascript_asserts_are_found_by_their_names() -> None:
    text = "assert(x); assert.throws(f); assert.strict.deepEqual(a, b); assert.unknown(1);"
    assert javascript_kinds(text, "assert") == [
        "assert",
        "assert.deepEqual",
        "assert.throws",
    ]
    usual = ["assert", "assert.equal", "assert.strictEqual", "assert.deepStrictEqual"]
    assert javascript_kinds("", "assert") == usual
