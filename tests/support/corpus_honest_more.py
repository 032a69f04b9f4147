"""Honest work in files where a planted test is not easily at home, and beside what is protected."""

from __future__ import annotations

from tests.support import corpus_compiled as compiled
from tests.support import corpus_node as node
from tests.support.corpus import Case
from tests.support.corpus_python import CASE_TESTS, GOOD, PLAIN_TESTS, PYTEST, PYTHON

FIXED = {"calc.py": GOOD}
_PROGRAM = '\n\nif __name__ == "__main__":\n    {}\n'


def _with_tests(text: str) -> dict[str, str]:
    return {"tests/test_calc.py": text}


PYTEST_HONEST_MORE = (
    Case(
        "a test file that is a program too",
        FIXED,
        base=_with_tests(
            "import pytest\n" + PLAIN_TESTS + _PROGRAM.format("raise SystemExit(pytest.main())")
        ),
    ),
    Case(
        "tests in a plain class",
        FIXED,
        base=_with_tests(
            "from calc import add\n\n\nclass TestAdd:\n    def test_add(self):\n"
            "        assert add(1, 2) == 3\n"
        ),
    ),
    Case(
        "a test file with a __future__ import",
        FIXED,
        base=_with_tests('"""Tests."""\n\nfrom __future__ import annotations\n\n' + PLAIN_TESTS),
    ),
    Case(
        "a test file with line ends of Windows",
        FIXED,
        base=_with_tests(PLAIN_TESTS.replace("\n", "\r\n")),
    ),
    Case(
        "a test file that declares its encoding",
        FIXED,
        base=_with_tests("# coding: latin-1\n" + PLAIN_TESTS),
    ),
    Case(
        "a test file of which all tests have a mark",
        FIXED,
        base=_with_tests(
            "import pytest\n\npytestmark = pytest.mark.filterwarnings('ignore')\n" + PLAIN_TESTS
        ),
    ),
    Case(
        "a test file that needs a module which is not there",
        FIXED,
        base={
            "tests/test_a.py": "import pytest\n\npytest.importorskip('no_such')\n\n\n"
            "def test_a():\n    pass\n"
        },
    ),
    Case(
        "a fixture that surrounds every test",
        FIXED,
        base=_with_tests(
            "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef around():\n    yield\n\n\n"
            + PLAIN_TESTS
        ),
    ),
    Case(
        "a test that knows how many test files there are",
        FIXED,
        base=_with_tests(
            PLAIN_TESTS + "\n\ndef test_files():\n    import glob\n\n"
            "    assert len(glob.glob('tests/test_*.py')) == 1\n"
        ),
    ),
    Case(
        "a test that reads its own file",
        FIXED,
        base=_with_tests(
            PLAIN_TESTS + "\n\ndef test_style():\n    text = open(__file__).read()\n\n"
            "    assert max(map(len, text.splitlines())) < 120\n"
        ),
    ),
    Case(
        "one test of a class by its id",
        FIXED,
        base=_with_tests(CASE_TESTS),
        test=(*PYTEST.test[:-1], "tests/test_calc.py::Calc::test_add"),
    ),
    Case(
        "a file that the command compiles first",
        FIXED,
        test=f"{PYTHON} -m py_compile calc.py && {' '.join(PYTEST.test)}",
    ),
    Case(
        "an agent that leaves compiled files behind",
        FIXED,
        script=f"{PYTHON} -c 'import calc'; test -d __pycache__",
    ),
    Case(
        "a script that the test's script does not start",
        {**FIXED, "scripts/other.sh": "echo other\n"},
        base={
            "run.sh": f"#!/bin/sh\nset -e\n{' '.join(PYTEST.test)}\n",
            "scripts/other.sh": "echo none\n",
        },
        test=("sh", "run.sh"),
    ),
)
UNITTEST_HONEST_MORE = (
    Case(
        "a test file that is a program too",
        FIXED,
        base=_with_tests(CASE_TESTS + _PROGRAM.format("unittest.main()")),
        test=(PYTHON, "-m", "unittest", "tests.test_calc"),
    ),
    Case(
        "a module that is set up once",
        FIXED,
        base=_with_tests(CASE_TESTS + "\n\ndef setUpModule():\n    pass\n"),
    ),
    Case(
        "a module that says which tests are loaded",
        FIXED,
        base=_with_tests(
            CASE_TESTS + "\n\ndef load_tests(loader, tests, pattern):\n    return tests\n"
        ),
    ),
)
NODE_HONEST_MORE = (
    Case(
        "a test file that asserts at its top",
        {"calc.js": node.GOOD},
        base={
            "test/calc.test.js": 'const assert = require("node:assert");\n'
            'assert.strictEqual(require("../calc.js").add(1, 2), 3);\n'
        },
    ),
)
MAKE_HONEST_MORE = (
    Case(
        "a folder that make is sent to",
        FIXED,
        base={"sub/Makefile": f"test:\n\tcd .. && {PYTHON} -m unittest discover -s tests -t .\n"},
        test=("make", "-s", "-C", "sub", "test"),
    ),
)
GO_HONEST_MORE = (
    Case(
        "tests that are set up once",
        {"calc.go": compiled.GO_GOOD},
        base={
            "calc_test.go": compiled.GO_TESTS.replace(
                'import "testing"', 'import (\n\t"os"\n\t"testing"\n)'
            )
            + "\nfunc TestMain(m *testing.M) { os.Exit(m.Run()) }\n"
        },
    ),
)
CARGO_HONEST_MORE = (
    Case(
        "tests in a module of a test file",
        {"src/lib.rs": compiled.RUST_GOOD},
        base={"tests/calc.rs": f"mod sums {{\n{compiled.RUST_TESTS}}}\n"},
    ),
)
