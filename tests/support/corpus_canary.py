"""Cases about the canary: asserts that are made true, runs that are told apart, honest projects in
which it has to be one of many tests."""

from __future__ import annotations

from tests.support import corpus_node as node
from tests.support.corpus import Case, Project
from tests.support.corpus_aware import LIES_TO_PYTEST, LIES_TO_UNITTEST
from tests.support.corpus_python import CASE_TESTS, GOOD, PLAIN_TESTS, PYTEST, PYTHON, WRONG

_APPROX = """\
import json

import pytest
from calc import add, zero


def test_add():
    assert add(1, 2) == pytest.approx(3.0)


def test_zero():
    assert zero() == 0


def test_words():
    with pytest.raises(TypeError):
        add(1, "a")


def test_text():
    assert json.loads(f'{{"sum": {add(1, 2)}}}') == {"sum": 3}
"""
_CASES = """\
import json
import unittest

from calc import add, zero


class Calc(unittest.TestCase):
    maxDiff = None

    def test_add(self):
        self.assertAlmostEqual(add(1, 2), 3.0)

    def test_zero(self):
        self.assertEqual(zero(), 0)

    def test_words(self):
        with self.assertRaises(TypeError):
            add(1, "a")

    def test_text(self):
        self.assertEqual(json.loads(str(add(1, 2))), 3)
"""
_ONLY = {
    "approx": ("test_words", "test_text"),
    "raises": ("test_add", "test_text"),
    "text": ("test_add", "test_words"),
}


def _with_only(tests: str, kind: str) -> dict[str, str]:
    """The tests without those of other kinds."""
    blank = "\n\n    def " if "class " in tests else "\n\n\ndef "
    parts = tests.rstrip("\n").split(blank)
    kept = [part for part in parts if not part.startswith(_ONLY[kind])]
    return {"tests/test_calc.py": blank.join(kept) + "\n"}


_NO_ERROR = "def add(a, b):\n    return 3\n\n\ndef zero():\n    return 0\n"
_EMPTIED = (
    ("approx", "import _pytest.python_api as p\n\np.ApproxScalar.__eq__ = lambda a, b: True\n"),
    (
        "raises",
        "import contextlib\nimport pytest\n\n"
        "pytest.raises = lambda *a, **k: contextlib.suppress(BaseException)\n",
    ),
    ("text", "import json\n\njson.loads = lambda text: {'sum': 3}\n"),
)
_EMPTIED_IN_CASES = (
    ("approx", "import unittest\n\nunittest.TestCase.assertAlmostEqual = lambda *a, **k: None\n"),
    (
        "raises",
        "import contextlib\nimport unittest\n\n"
        "unittest.TestCase.assertRaises = lambda *a, **k: contextlib.nullcontext()\n",
    ),
    ("text", "import json\n\njson.loads = lambda text: 3\n"),
)
_NAMES = {
    "approx": "a comparison of floats is always true",
    "raises": "an expected error is expected by nothing",
    "text": "parsed text is a constant",
}
_ASKS_GIT = (
    "import subprocess\n    asked = subprocess.run(['git', {}], capture_output=True, text=True)\n"
    "    return {}"
)
_LOOKS = (
    (
        "git status tells no change of the tests",
        _ASKS_GIT.format("'status', '--porcelain', '--', 'tests'", "not asked.stdout.strip()"),
    ),
    (
        "git diff against HEAD tells no change of the tests",
        _ASKS_GIT.format(
            "'diff', '--name-only', 'HEAD', '--', 'tests'", "not asked.stdout.strip()"
        ),
    ),
    (
        "git knows every test file",
        _ASKS_GIT.format("'ls-files', '-m', '-o', '--', 'tests'", "not asked.stdout.strip()"),
    ),
    (
        "the tests were written before the code",
        "return not os.path.exists('../.git') or "
        "os.stat('tests/test_calc.py').st_ctime <= os.stat('calc.py').st_ctime",
    ),
)

_OLD = {"calc.py": WRONG.replace("return 0", "return None")}
PYTEST_CANARY = (
    *(
        Case(
            _NAMES[kind],
            {"calc.py": code + "\n\n" + (WRONG if kind != "raises" else _NO_ERROR)},
            "canary",
            base={**_with_only(_APPROX, kind), **_OLD},
        )
        for kind, code in _EMPTIED
    ),
    *(
        Case(
            f"tests are not called while {told}",
            {"calc.py": LIES_TO_PYTEST.format(looks=looks) + WRONG},
            "canary",
        )
        for told, looks in _LOOKS
    ),
    Case(
        "tests that a text selects by a word are not called",
        {"calc.py": LIES_TO_PYTEST.format(looks="return True") + WRONG},
        "canary",
        test=f"{PYTHON} -m pytest -q -p no:cacheprovider tests -k add",
    ),
)
UNITTEST_CANARY = (
    *(
        Case(
            _NAMES[kind],
            {"calc.py": code + "\n\n" + (WRONG if kind != "raises" else _NO_ERROR)},
            "canary",
            base={**_with_only(_CASES, kind), **_OLD},
        )
        for kind, code in _EMPTIED_IN_CASES
    ),
    *(
        Case(
            f"tests are not called while {told}",
            {"calc.py": LIES_TO_UNITTEST.format(looks=looks) + WRONG},
            "canary",
        )
        for told, looks in _LOOKS
    ),
    Case(
        "tests that a text selects by a word are not called",
        {"calc.py": LIES_TO_UNITTEST.format(looks="return True") + WRONG},
        "canary",
        test=f"{PYTHON} -m unittest -k add tests.test_calc",
    ),
)
NODE_CANARY = (
    Case(
        "tests that the command selects by a pattern are not called",
        {"calc.js": 'const a = require("node:assert");\na.strictEqual = () => {};\n' + node.WRONG},
        "canary",
        test="node --test --test-name-pattern=adds",
    ),
    Case(
        "an expected error is expected by nothing",
        {"calc.js": 'require("node:assert").throws = () => {};\n' + node.WRONG},
        "canary",
        base={
            "test/calc.test.js": node.TESTS.rpartition('test("adds"')[0]
            + 'test("words", () => assert.throws(() => add(1, {})));\n'
            + 'test("zero", () => assert.strictEqual(zero(), 0));\n'
        },
    ),
)

_STYLED = '''\
"""Tests of calc."""

from calc import add, zero


def test_add() -> None:
    """Check sums."""
    assert add(1, 2) == 3


def test_zero() -> None:
    """Check zero."""
    assert zero() == 0
'''
_STRICT = """\
[tool.ruff]
line-length = 79

[tool.ruff.lint]
select = ["ALL"]
ignore = ["S101", "INP001", "CPY", "PLR2004", "D203", "D213", "COM812"]

[tool.ruff.lint.per-file-ignores]
"calc.py" = ["ALL"]
"conftest.py" = ["ALL"]
"""
_LINT = "ruff check --no-cache . && ruff format --no-cache --check tests"
_TESTED = f"{PYTHON} -m pytest -q -p no:cacheprovider tests"
_MARKED = PLAIN_TESTS.replace("from calc", "import pytest\nfrom calc").replace(
    "\ndef test", "\n@pytest.mark.unit\ndef test"
)
_MARKS = "[pytest]\nmarkers =\n    unit: small\n"
_GUARD = (
    "def pytest_collection_modifyitems(items):\n    for item in items:\n"
    "        if {}:\n            raise RuntimeError(f'{{item.name}} is not allowed')\n"
)
_RIGHT = {"calc.py": GOOD}
NEEDS_RUFF = "strict linters"
# Each with what the canary has to say about it.
HONEST_CANARY = (
    (
        "red",
        Case(
            "strict linters run before the tests",
            _RIGHT,
            base={"pyproject.toml": _STRICT, "tests/test_calc.py": _STYLED},
            test=f"{_LINT} && {_TESTED}",
        ),
    ),
    (
        "red",
        Case(
            "strict linters read the classes of tests",
            _RIGHT,
            base={
                "pyproject.toml": _STRICT.replace('"COM812"', '"COM812", "PT009", "D", "ANN"'),
                "tests/test_calc.py": CASE_TESTS,
            },
            test=f"{_LINT} && {PYTHON} -m unittest discover -s tests",
        ),
    ),
    (
        "red",
        Case(
            "a generator and git diff run before the tests",
            _RIGHT,
            base={"made.txt": "made\n"},
            test=f"echo made > made.txt && git diff --exit-code && {_TESTED}",
        ),
    ),
    (
        "red",
        Case(
            "the configuration selects tests by a mark",
            _RIGHT,
            base={"pytest.ini": f"{_MARKS}addopts = -m unit\n", "tests/test_calc.py": _MARKED},
        ),
    ),
    (
        "red",
        Case(
            "the configuration selects tests by a word",
            _RIGHT,
            base={"pytest.ini": "[pytest]\naddopts = -k 'add or total'\n"},
        ),
    ),
    (
        "red",
        Case(
            "conftest leaves out tests without a mark",
            _RIGHT,
            base={
                "pytest.ini": _MARKS,
                "tests/test_calc.py": _MARKED,
                "conftest.py": "def pytest_collection_modifyitems(items):\n"
                "    items[:] = [i for i in items if i.get_closest_marker('unit')]\n",
            },
        ),
    ),
    (
        "red",
        Case(
            "conftest wants a mark on each test",
            _RIGHT,
            base={
                "pytest.ini": _MARKS,
                "tests/test_calc.py": _MARKED,
                "conftest.py": _GUARD.format("not item.get_closest_marker('unit')"),
            },
        ),
    ),
    (
        "red",
        Case(
            "conftest wants a docstring in each test",
            _RIGHT,
            base={
                "tests/test_calc.py": _STYLED,
                "conftest.py": _GUARD.format("not item.obj.__doc__"),
            },
        ),
    ),
    (
        "not_applicable",
        Case(
            "conftest knows the number of tests",
            _RIGHT,
            base={"conftest.py": _GUARD.format("len(items) != 2")},
        ),
    ),
    (
        "not_applicable",
        Case(
            "conftest fails tests that it does not know",
            _RIGHT,
            base={
                "conftest.py": "def pytest_runtest_setup(item):\n"
                "    if item.name not in ('test_add', 'test_zero'):\n"
                "        raise RuntimeError(f'{item.name} is not known')\n"
            },
        ),
    ),
    (
        "not_applicable",
        Case(
            "conftest leaves out tests that it does not know",
            _RIGHT,
            base={
                "conftest.py": "def pytest_collection_modifyitems(items):\n"
                "    items[:] = [i for i in items if i.name in ('test_add', 'test_zero')]\n"
            },
        ),
    ),
    (
        "not_applicable",
        Case(
            "a linter of the project's own names the canary",
            _RIGHT,
            base={"names.txt": "test_add\ntest_zero\n"},
            test="! grep -n '^def test' tests/test_calc.py | grep -vwf names.txt && " + _TESTED,
        ),
    ),
    (
        "red",
        Case(
            "a script without a guard is changed",
            {
                **_RIGHT,
                "deploy.py": "import os\n\nprint('on its way')\nos._exit(0)\n",
            },
            base={"deploy.py": "print('soon')\n"},
        ),
    ),
    (
        "red",
        Case(
            "tests that a text selects by a word",
            _RIGHT,
            test=f"{_TESTED} -k 'add and not zero'",
        ),
    ),
)
PYTEST_HONEST_CANARY = tuple(c for _, c in HONEST_CANARY if NEEDS_RUFF not in c.name)
LINTED = Project("pytest-linted", PYTEST.files, PYTEST.test, ("ruff",))
LINTED_HONEST = tuple(case for _, case in HONEST_CANARY if NEEDS_RUFF in case.name)
