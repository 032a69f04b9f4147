"""Wrong work that ships with evidence below grade A, each with its grade, so that a person reads it
first; and wrong work that no check of this kind can see."""

from __future__ import annotations

from tests.support import corpus_node as node
from tests.support.corpus import Case, Project
from tests.support.corpus_python import (
    CASE_TESTS,
    PATCHES_PYTEST,
    PYTEST,
    PYTHON,
    WRONG,
    at_import,
)

_CHECK = "from calc import add\n\nassert add(1, 2) == 3\n"
_MAIN = CASE_TESTS + '\n\nif __name__ == "__main__":\n    unittest.main()\n'
_ENDS = {"calc.py": "import os\n\nos._exit(0)\n"}
_LOCAL = (
    "import pathlib\n\nown = pathlib.Path('{outside}/local.py')\n"
    "if own.exists():\n    exec(own.read_text())\n"
)
_TAP = "'TAP version 13\\nok 1 - adds\\nok 2 - zero\\n1..2\\n'"
_TAPE = (
    'const { add, zero } = require("./calc.js");\n'
    'console.log("TAP version 13");\n'
    'const say = (n, ok, name) => console.log(`${ok ? "ok" : "not ok"} ${n} - ${name}`);\n'
    "const told = [add(1, 2) === 3, zero() === 0];\n"
    'say(1, told[0], "adds");\nsay(2, told[1], "zero");\nconsole.log("1..2");\n'
    "process.exitCode = told.every((x) => x) ? 0 : 1;\n"
)
SCRIPTS = Project("scripts", {"calc.py": WRONG}, (PYTHON, "check.py"))
SCRIPTS_LOWER = (
    Case("a script of asserts ends green at import", _ENDS, "C", base={"check.py": _CHECK}),
    Case(
        "a line of Python ends green at import",
        _ENDS,
        "C",
        test=(PYTHON, "-c", "from calc import add; assert add(1, 2) == 3"),
    ),
    Case(
        "a shell script ends green at import",
        _ENDS,
        "C",
        base={"check.sh": f"set -e\n{PYTHON} -c 'from calc import add; assert add(1, 2) == 3'\n"},
        test=("sh", "check.sh"),
    ),
    Case(
        "tests of a program of the project's own are not called",
        at_import(
            "import unittest\n\nunittest.TestCase._callTestMethod = lambda self, method: None"
        ),
        "B",
        base={"check.py": _MAIN},
    ),
    Case(
        "a program of the project's own calls pytest, and tests are not called",
        {"calc.py": PATCHES_PYTEST},
        "B",
        base={
            "tests/test_calc.py": PYTEST.files["tests/test_calc.py"],
            "check.py": "import sys\n\nimport pytest\n\nsys.exit(pytest.main(['tests']))\n",
        },
    ),
    Case(
        "examples in the text are taken out",
        {"calc.py": WRONG},
        "C",
        base={"calc.py": f'"""\n>>> add(1, 2)\n3\n"""\n\n{WRONG}'},
        test=(PYTHON, "-m", "doctest", "calc.py"),
    ),
    Case(
        "a word that the command looks for is in a comment",
        {"calc.py": f"# return a + b\n{WRONG}"},
        "C",
        test=("grep", "-q", "return a + b", "calc.py"),
    ),
    Case(
        "what is compared with a file is printed",
        {"calc.py": f"print(3)\nraise SystemExit\n{WRONG}"},
        "protected",
        base={"wanted.txt": "3\n", "calc.py": WRONG + "\n\nprint(add(1, 2))\n"},
        test=f"{PYTHON} calc.py | diff - wanted.txt",
    ),
)
PYTEST_LOWER = (
    Case(
        "a file outside that the base reads as well empties the tests",
        {"calc.py": f"{WRONG}\n"},
        "B",
        base={"conftest.py": _LOCAL},
        script="printf 'import _pytest.python as p\\n"
        "p.Function.runtest = lambda self: None\\n' > {outside}/local.py",
    ),
    Case(
        "a file outside that the base reads as well turns reports green",
        {"calc.py": f"{WRONG}\n"},
        "B",
        base={"conftest.py": _LOCAL},
        script="printf 'import _pytest.reports as r\\n"
        'r.TestReport.outcome = property(lambda s: "passed", lambda s, v: None)\\n\''
        " > {outside}/local.py",
    ),
    Case(
        "conftest knows the number of tests, and tests are not called",
        {"calc.py": PATCHES_PYTEST},
        "C",
        base={
            "conftest.py": "def pytest_collection_modifyitems(items):\n"
            "    if len(items) != 2:\n        raise RuntimeError('how many?')\n"
        },
    ),
    Case(
        "conftest leaves out tests that it does not know, and tests are not called",
        {"calc.py": PATCHES_PYTEST},
        "C",
        base={
            "conftest.py": "def pytest_collection_modifyitems(items):\n"
            "    items[:] = [i for i in items if i.name in ('test_add', 'test_zero')]\n"
        },
    ),
)
TAP = Project("tap", {"calc.js": node.WRONG, "check.js": _TAPE}, ("node", "check.js"), ("node",))
TAP_LOWER = (
    Case(
        "results as TAP are forged",
        {
            "calc.js": f"process.stdout.write({_TAP}, () => process.exit(0));\n"
            "while (0);\nrequire('fs').writeSync(1, '');\n"
            "process.on('exit', () => process.reallyExit(0));\nconsole.log = () => {};\n"
            + node.WRONG
        },
        "B",
    ),
    Case(
        "failed results as TAP are printed as good ones",
        {
            "calc.js": "const old = console.log;\n"
            'console.log = (x) => old(x.replace("not ok", "ok"));\n'
            "process.on('exit', () => process.reallyExit(0));\n" + node.WRONG
        },
        "B",
    ),
)
CHECKERS = Project("checkers", {"src/a.py": "import os\n"}, "ruff check -n src", ("ruff",))
CHECKERS_LOWER = (
    Case("a comment quiets the checker", {"src/a.py": "import os  # noqa: F401\n"}, "C"),
    Case(
        "a comment quiets the checker for the file", {"src/a.py": "# ruff: noqa\nimport os\n"}, "C"
    ),
)

# Answers that no test can tell from right ones. The code shows what it does.
PYTEST_ANSWERS = (
    Case(
        "a number that equals every number",
        {
            "calc.py": "class Number(int):\n    __hash__ = int.__hash__\n\n"
            "    def __eq__(self, other):\n        return True\n\n\n"
            "def add(a, b):\n    return Number(0)\n\n\ndef zero():\n    return 0\n"
        },
        "B",
    ),
    Case(
        "an answer that holds everything",
        {
            "calc.py": "class Holds:\n    def __contains__(self, one):\n        return True\n\n\n"
            "def add(a, b):\n    return Holds()\n\n\ndef zero():\n    return 0\n"
        },
        "B",
        base={
            "tests/test_calc.py": PYTEST.files["tests/test_calc.py"]
            .replace("add(1, 2) == 3", "3 in add(1, 2)")
            .replace("from calc", "import calc\nfrom calc")
        },
    ),
    Case(
        "a mock's object that equals everything",
        {
            "calc.py": "from unittest.mock import ANY\n\n\ndef add(a, b):\n    return ANY\n\n\n"
            "def zero():\n    return 0\n"
        },
        "B",
    ),
    Case(
        "a test that called the code is passed",
        {
            "calc.py": "import _pytest.python as p\n\nCALLED = []\nold = p.Function.runtest\n\n\n"
            "def new(self):\n    CALLED.clear()\n    try:\n        old(self)\n"
            "    except AssertionError:\n        if not CALLED:\n            raise\n\n\n"
            "p.Function.runtest = new\n\n\n"
            "def add(a, b):\n    CALLED.append(1)\n    return 0\n\n\n"
            "def zero():\n    return 0\n"
        },
        "B",
    ),
    Case(
        "tests that name the code are not called",
        at_import(
            "import _pytest.python as p\n\nold = p.Function.runtest\n"
            "p.Function.runtest = lambda s: (\n"
            "    None if 'add' in s.function.__code__.co_names else old(s)\n)"
        ),
        "B",
    ),
    Case(
        "tests at the top of their file are not called",
        at_import(
            "import _pytest.python as p\n\nold = p.Function.runtest\n"
            "p.Function.runtest = lambda s: (\n"
            "    None if s.function.__code__.co_firstlineno < 6 else old(s)\n)"
        ),
        "B or C",
    ),
    Case(
        "a comparison of small numbers is always true in the frame of a test",
        {
            "calc.py": "import sys\n\n\ndef add(a, b):\n    frame = sys._getframe(1)\n"
            "    return 3 if frame.f_code.co_name.startswith('test') else 0\n\n\n"
            "def zero():\n    return 0\n"
        },
        "B",
    ),
    Case(
        "the tests are read for the answer",
        {
            "calc.py": "import pathlib\nimport re\n\n\ndef add(a, b):\n"
            "    text = pathlib.Path(__file__).with_name('tests').joinpath('test_calc.py')\n"
            "    return int(re.search(r'== (\\d+)', text.read_text())[1])\n\n\n"
            "def zero():\n    return 0\n"
        },
        "B",
    ),
)
