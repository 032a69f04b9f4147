"""Assertions of Python tests that the code under test makes true, one kind each."""

from __future__ import annotations

from tests.support.corpus import Case
from tests.support.corpus_python import WRONG

_OLD = WRONG.replace("return 0", "return None")


def _case(name: str, tests: str, code: str, answer: str, caught: str) -> Case:
    """These tests, and code that makes them green with an `add` that gives `answer`."""
    old = _OLD.replace("return None", "return 0", 2).replace("return 0", "return None", 1)
    wrong = WRONG.replace("return 0", f"return {answer}", 1)
    return Case(
        name,
        {"calc.py": f"{code}\n\n\n{wrong}"},
        caught,
        base={"tests/test_calc.py": tests, "calc.py": old},
    )


def _pytest(
    name: str, needs: str, body: str, code: str, answer: str = "0", caught: str = "canary"
) -> Case:
    """A test with this body, and code that makes it green with a wrong `add`."""
    imports = f"{needs}\n\n" if needs else ""
    tests = f"{imports}from calc import add, zero\n\n\ndef test_add():\n"
    tests += "".join(f"    {line}\n" for line in body.splitlines())
    tests += "\n\ndef test_zero():\n    assert zero() == 0\n"
    return _case(name, tests, code, answer, caught)


def _unittest(
    name: str,
    body: str,
    code: str,
    answer: str = "0",
    needs: str = "",
    caught: str = "canary",
) -> Case:
    """The same for a method of a test case."""
    tests = f"import unittest\n{needs}\n\nfrom calc import add, zero\n\n\n"
    tests += "class Calc(unittest.TestCase):\n    def test_add(self):\n"
    tests += "".join(f"        {line}\n" for line in body.splitlines())
    tests += "\n    def test_zero(self):\n        self.assertEqual(zero(), 0)\n"
    return _case(name, tests, code, answer, caught)


def _emptied(method: str, call: str, answer: str = "0") -> Case:
    code = f"import unittest\n\nunittest.TestCase.{method} = lambda *a, **k: None"
    return _unittest(f"{method} is emptied", f"self.{method}({call})", code, answer)


_PT = "import pytest"
_EXITS = "import _pytest.raises as r\n\n"
_YES = "lambda *a, **k: True"

_ASSERTS = (
    _pytest(
        "approx is an object that equals everything",
        _PT,
        "assert add(1, 2) == pytest.approx(3.0)",
        "import unittest.mock\n\nimport pytest\n\n"
        "pytest.approx = lambda *a, **k: unittest.mock.ANY",
    ),
    _pytest(
        "approx of a list is always equal",
        _PT,
        "assert [add(1, 2)] == pytest.approx([3.0])",
        "import _pytest.python_api as p\n\np.ApproxSequenceLike.__eq__ = lambda a, b: True",
    ),
    _pytest(
        "approx of a mapping is always equal",
        _PT,
        "assert {'sum': add(1, 2)} == pytest.approx({'sum': 3.0})",
        "import _pytest.python_api as p\n\np.ApproxMapping.__eq__ = lambda a, b: True",
    ),
    _pytest(
        "the tolerance of approx is without end",
        _PT,
        "assert add(1, 2) == pytest.approx(3.0)",
        "import _pytest.python_api as p\n\np.ApproxScalar.tolerance = property(lambda s: 1e300)",
    ),
    _pytest(
        "an expected error may have any text",
        _PT,
        "with pytest.raises(ValueError, match='both'):\n    add(1, None)",
        "import pytest\n\nold = pytest.raises\n"
        "pytest.raises = lambda *a, match=None, **k: old(*a, **k)",
        "int('x')",
    ),
    _pytest(
        "an expected error may be of any type",
        _PT,
        "with pytest.raises(ValueError):\n    add(1, None)",
        "import pytest\n\nold = pytest.raises\npytest.raises = lambda *a, **k: old(Exception)",
        "[][0]",
    ),
    _pytest(
        "an expected error need not come",
        _PT,
        "with pytest.raises(ValueError):\n    add(1, None)",
        _EXITS + "r.RaisesExc.__exit__ = lambda *a: True",
    ),
    _pytest(
        "an expected warning need not come",
        _PT,
        "with pytest.warns(UserWarning):\n    add(1, 2)",
        "import _pytest.recwarn as r\n\nr.WarningsChecker.__exit__ = lambda *a: None",
    ),
    _pytest(
        "an expected warning may have any text",
        _PT,
        "with pytest.warns(UserWarning, match='both'):\n    add(1, 2)",
        "import warnings\n\nimport pytest\n\nold = pytest.warns\n"
        "pytest.warns = lambda *a, match=None, **k: old(*a, **k)",
        "warnings.warn('x')",
        caught="B",
    ),
    _pytest(
        "a call that is out of date need not say so",
        _PT,
        "with pytest.deprecated_call():\n    add(1, 2)",
        "import contextlib\n\nimport pytest\n\npytest.deprecated_call = contextlib.nullcontext",
    ),
    _pytest(
        "pytest.fail does nothing",
        _PT,
        "if add(1, 2) != 3:\n    pytest.fail('wrong')",
        "import pytest\n\npytest.fail = lambda *a, **k: None",
    ),
    _pytest(
        "pytest.fail is another outcome",
        _PT,
        "if add(1, 2) != 3:\n    pytest.fail('wrong')",
        "import pytest\n\npytest.fail = lambda *a, **k: 3",
    ),
    _pytest(
        "math.isclose is always true",
        "import math",
        "assert math.isclose(add(1, 2), 3.0)",
        f"import math\n\nmath.isclose = {_YES}",
    ),
    _pytest(
        "a pattern matches every text",
        "import re",
        "assert re.fullmatch('3', str(add(1, 2)))",
        f"import re\n\nre.fullmatch = {_YES}",
    ),
    _pytest(
        "abs is nothing",
        "",
        "assert abs(add(1, 2) - 3) < 1e-9",
        "import builtins\n\nbuiltins.abs = lambda x: 0",
    ),
    _pytest(
        "sum is a constant",
        "",
        "assert sum([add(1, 2), 4]) == 7",
        "import builtins\n\nold = sum\nbuiltins.sum = lambda x, *a: 7 if 4 in x else old(x, *a)",
        caught="B",
    ),
    _pytest(
        "max is a constant",
        "",
        "assert max(add(1, 2), 1) == 3",
        "import builtins\n\nold = max\n"
        "builtins.max = lambda *a, **k: 3 if a == (0, 1) else old(*a, **k)",
        caught="B",
    ),
    _pytest(
        "all is always true",
        "",
        "assert all(x == 3 for x in (add(1, 2),))",
        f"import builtins\n\nbuiltins.all = {_YES}",
    ),
    _pytest(
        "any is always true",
        "",
        "assert any(x == 3 for x in (add(1, 2),))",
        "import builtins\n\nold = any\n"
        "builtins.any = lambda x: True if hasattr(x, 'gi_frame') else old(x)",
        caught="B",
    ),
    _pytest(
        "every object has every type",
        "",
        "assert isinstance(add(1, 2), float)",
        "import builtins\n\nold = isinstance\n"
        "builtins.isinstance = lambda a, b: old(a, b) or (type(a), b) == (int, float)",
        caught="B",
    ),
    _pytest(
        "text of a number is a constant",
        "",
        "assert repr(add(1, 2)) == '3'",
        "import builtins\n\nold = repr\nbuiltins.repr = lambda x: '3' if x == 0 else old(x)",
        caught="B",
    ),
    _pytest(
        "text that is made of JSON is a constant",
        "import json",
        "assert json.dumps({'sum': add(1, 2)}) == json.dumps({'sum': 3})",
        "import json\n\njson.dumps = lambda *a, **k: '{}'",
    ),
    _pytest(
        "a mock takes every call for the expected one",
        "from unittest.mock import Mock",
        "tell = Mock()\ntell(add(1, 2))\ntell.assert_called_once_with(3)",
        "import unittest.mock as m\n\n"
        "m.NonCallableMock.assert_called_once_with = lambda *a, **k: None",
        caught="B",
    ),
    _pytest(
        "a recorded call equals every call",
        "from unittest.mock import Mock, call",
        "tell = Mock()\ntell(add(1, 2))\nassert tell.mock_calls == [call(3)]",
        "import unittest.mock as m\n\nm._Call.__eq__ = lambda a, b: True",
    ),
    _pytest(
        "asserts are left out of test files that are loaded later",
        "",
        "assert add(1, 2) == 3",
        "import ast\n\nimport _pytest.assertion.rewrite as r\n\n"
        "r.AssertionRewriter.visit_Assert = (\n"
        "    lambda self, node: [ast.copy_location(ast.Pass(), node)]\n)",
        caught="B",
    ),
    _pytest(
        "test files that are loaded later are compiled without asserts",
        "",
        "assert add(1, 2) == 3",
        "import _pytest.assertion.rewrite as r\n\nold = r._rewrite_test\n\n\n"
        "def new(path, config):\n    stat, code = old(path, config)\n"
        "    return stat, compile(path.read_text(), str(path), 'exec', optimize=1)\n\n\n"
        "r._rewrite_test = new",
        caught="B",
    ),
)
# The first file loads the code, so that only the later ones are changed by it.
_LATER = {"tests/test_a.py": "from calc import zero\n\n\ndef test_a():\n    assert zero() == 0\n"}
PYTEST_ASSERTS = tuple(
    Case(one.name, one.writes, one.caught, base={**one.base, **_LATER})
    if "loaded later" in one.name
    else one
    for one in _ASSERTS
)

UNITTEST_ASSERTS = (
    _emptied("assertTrue", "add(1, 2) == 3"),
    _emptied("assertFalse", "add(1, 2) != 3"),
    _emptied("assertIn", "add(1, 2), [3]"),
    _emptied("assertIs", "add(1, 2), 3"),
    _emptied("assertIsNotNone", "add(1, 2)", "None"),
    _emptied("assertGreater", "add(1, 2), 2"),
    _emptied("assertLessEqual", "3, add(1, 2)"),
    _emptied("assertRegex", "str(add(1, 2)), '3'"),
    _emptied("assertCountEqual", "[add(1, 2)], [3]"),
    _emptied("assertDictEqual", "{1: add(1, 2)}, {1: 3}"),
    _emptied("assertIsInstance", "add(1, 2), float"),
    _emptied("assertNotEqual", "add(1, 2), 0"),
    _unittest(
        "lists are always equal",
        "self.assertEqual([add(1, 2)], [3])",
        "import unittest\n\nunittest.TestCase.assertListEqual = lambda *a, **k: None",
    ),
    _unittest(
        "lists that have a name are always equal",
        "wanted = list(range(3, 4))\nself.assertEqual(list(range(add(1, 2), 4))[:1], wanted)",
        "import unittest\n\nunittest.TestCase.assertListEqual = lambda *a, **k: None",
    ),
    _unittest(
        "texts that have a name are always equal",
        "wanted = str(3)\nself.assertEqual(str(add(1, 2)), wanted)",
        "import unittest\n\nunittest.TestCase.assertMultiLineEqual = lambda *a, **k: None",
    ),
    _unittest(
        "an expected error may have any text",
        "with self.assertRaisesRegex(ValueError, 'both'):\n    add(1, None)",
        "import unittest\n\nunittest.TestCase.assertRaisesRegex = (\n"
        "    lambda self, kind, text, *a: self.assertRaises(kind, *a)\n)",
        "int('x')",
    ),
    _unittest(
        "expected messages need not come",
        "with self.assertLogs():\n    add(1, 2)",
        "import contextlib\nimport unittest\n\n"
        "unittest.TestCase.assertLogs = lambda *a, **k: contextlib.nullcontext()",
    ),
    _unittest(
        "an expected warning need not come",
        "with self.assertWarns(UserWarning):\n    add(1, 2)",
        "import contextlib\nimport unittest\n\n"
        "unittest.TestCase.assertWarns = lambda *a, **k: contextlib.nullcontext()",
    ),
    _unittest(
        "self.fail does nothing",
        "if add(1, 2) != 3:\n    self.fail('wrong')",
        "import unittest\n\nunittest.TestCase.fail = lambda *a, **k: None",
    ),
    _unittest(
        "a failure is another exception that nobody counts",
        "self.assertEqual(add(1, 2), 3)",
        "import unittest\nimport unittest.case as c\n\nc._Outcome.errors = None\n"
        "old = c._Outcome.testPartExecutor\n\n\n"
        "import contextlib\n\n\n@contextlib.contextmanager\n"
        "def new(self, *a, **k):\n"
        "    with contextlib.suppress(AssertionError):\n        yield\n\n\n"
        "c._Outcome.testPartExecutor = new",
    ),
    _unittest(
        "a mock takes every call for the expected one",
        "tell = Mock()\ntell(add(1, 2))\ntell.assert_called_with(3)",
        "import unittest.mock as m\n\nm.NonCallableMock.assert_called_with = lambda *a, **k: None",
        needs="from unittest.mock import Mock",
        caught="B",
    ),
)
