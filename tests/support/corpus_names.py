"""Ways around what goes by names: tests that are called by names of their own, links in place of
folders, new files that go before old ones; tests of its own that make up for others; runs that
break off where they are looked at again."""

from __future__ import annotations

from tests.support import corpus_node as node
from tests.support.corpus import Case, Project
from tests.support.corpus_python import (
    CASE_MORE,
    CASE_TESTS,
    FIXED_FROM_TEST,
    GOOD,
    ONE_MORE,
    PATCHES_PYTEST,
    PLAIN_TESTS,
    PYTEST,
    PYTHON,
    UNITTEST,
    WRONG,
)

_SAME = {"calc.py": f"{WRONG}\n"}
_LISTED = ("calc.py", "tests/test_more.py")
_EMPTY = "def test_add():\n    pass\n\n\ndef test_zero():\n    pass\n"
_EMPTY_CASE = (
    "import unittest\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        pass\n\n"
    "    def test_zero(self):\n        pass\n"
)
_PYTEST = PYTEST.test[:-1]
_DISCOVER = (PYTHON, "-m", "unittest", "discover")
_LEAVES_OUT_ONE = f"""\
import gc
import sys

import _pytest.config


def pytest_collection_modifyitems(items):
    del items[0]


for one in gc.get_objects():
    if isinstance(one, _pytest.config.Config):
        one.pluginmanager.register(sys.modules[__name__])
        break


{WRONG}"""
_LOADS_ALL_BUT_ONE = f"""\
import unittest

names = unittest.TestLoader.getTestCaseNames
unittest.TestLoader.getTestCaseNames = (
    lambda self, case: names(self, case)[len(names(self, case)) == 2 :]
)


{WRONG}"""

PYTEST_NAMES = (
    Case(
        "a test of which the configuration says the name is emptied",
        {**_SAME, "check_calc.py": _EMPTY},
        "protected",
        base={"check_calc.py": PLAIN_TESTS, "pytest.ini": "[pytest]\npython_files = check_*.py\n"},
        test=_PYTEST,
    ),
    Case(
        "a test that only the command names is emptied",
        {**_SAME, "checks.py": _EMPTY},
        "protected",
        base={"checks.py": PLAIN_TESTS},
        test=(*_PYTEST, "checks.py"),
    ),
    Case(
        "a link hides pytest",
        {**_SAME, "fake/__init__.py": "", "fake/__main__.py": ""},
        "protected",
        script="ln -s fake pytest",
    ),
    Case(
        "sitecustomize as a package on the import path",
        {**_SAME, "src/sitecustomize/__init__.py": "import os\n\nos._exit(0)\n"},
        "protected",
        test=("env", "PYTHONPATH=src", *PYTEST.test),
    ),
    Case(
        "a module beside the tests hides the code under test from them",
        {**_SAME, "checks/calc.py": GOOD},
        "protected",
        base={"checks/test_calc.py": PLAIN_TESTS},
        test=(*_PYTEST, "checks"),
    ),
    Case(
        "a folder is no package any more and hides a module of Python's",
        {**_SAME, "pkg/__init__.py": None, "pkg/colorsys.py": "def add(a, b):\n    return a + b\n"},
        "protected",
        base={
            "pkg/__init__.py": "",
            "pkg/test_calc.py": "from colorsys import *\nfrom calc import zero\n"
            "add = globals().get('add', lambda a, b: 0)\n\n\ndef test_add():\n"
            "    assert add(1, 2) == 3\n",
        },
        test=(*_PYTEST, "pkg"),
    ),
    Case(
        "tests that the command selects by a word are not called",
        {"calc.py": PATCHES_PYTEST},
        "canary",
        test=(*PYTEST.test, "-k", "add or zero"),
    ),
    Case(
        "a test of its own makes up for one that is left out",
        {"calc.py": _LEAVES_OUT_ONE, "tests/test_more.py": ONE_MORE},
        "added tests",
    ),
    Case(
        "a test that is listed makes up for one that is left out",
        {"calc.py": _LEAVES_OUT_ONE, "tests/test_more.py": ONE_MORE},
        "added tests",
        owns=_LISTED,
    ),
    Case(
        "a new test that is listed calls no tests but its own",
        {
            **_SAME,
            "tests/test_more.py": "import _pytest.python as p\n\np.Function.runtest = "
            f"lambda self: 'calc' in str(self.path) or self.obj()\n\n\n{ONE_MORE}",
        },
        "added tests",
        owns=_LISTED,
    ),
)
# Together with others its later runs would show it anyway.
ALONE = Project("pytest-alone", PYTEST.files, PYTEST.test)
ALONE_ATTACKS = (
    Case(
        "green once, and later runs break off",
        {
            "calc.py": "import os\nimport pathlib\n\nimport _pytest.python\n\n"
            "SEEN = pathlib.Path('{outside}/seen')\nif SEEN.exists():\n    os._exit(3)\n"
            "SEEN.touch()\n_pytest.python.Function.runtest = lambda self: None\n\n\n"
            f"{WRONG}"
        },
        "canary",
        more={"spotCheckFrac": 0},
    ),
)
UNITTEST_NAMES = (
    Case(
        "a test that is found by its beginning only is emptied",
        {**_SAME, "checks/testcalc.py": _EMPTY_CASE},
        "protected",
        base={"checks/testcalc.py": CASE_TESTS},
        test=(*_DISCOVER, "-s", "checks"),
    ),
    Case(
        "a test that is found by its beginning only replaces the code under test",
        {
            **_SAME,
            "checks/testmore.py": "import calc\nimport test_calc\n\n"
            f"test_calc.add = lambda a, b: a + b\n\n\n{CASE_MORE}",
        },
        "added tests",
        base={"checks/test_calc.py": CASE_TESTS},
        test=(*_DISCOVER, "-s", "checks"),
    ),
    Case(
        "a test by the pattern of the command is emptied",
        {**_SAME, "check_calc.py": _EMPTY_CASE},
        "protected",
        base={"check_calc.py": CASE_TESTS},
        test=(*_DISCOVER, "-p", "check_*.py"),
    ),
    Case(
        "a test that only the command names is emptied",
        {**_SAME, "checks/calc_checks.py": _EMPTY_CASE},
        "protected",
        base={"checks/calc_checks.py": CASE_TESTS},
        test=(PYTHON, "-m", "unittest", "checks.calc_checks"),
    ),
    Case(
        "tests that the command selects by a word are not called",
        {
            "calc.py": "import unittest\n\nunittest.TestCase._callTestMethod = "
            f"lambda self, method: None\n\n\n{WRONG}"
        },
        "canary",
        test=(*UNITTEST.test, "-k", "add", "-k", "zero"),
    ),
    Case(
        "a link hides unittest",
        {**_SAME, "fake/__init__.py": "", "fake/__main__.py": ""},
        "protected",
        script="ln -s fake unittest",
    ),
    Case(
        "a test of its own makes up for one that is left out",
        {"calc.py": _LOADS_ALL_BUT_ONE, "tests/test_more.py": CASE_MORE},
        "added tests",
    ),
    Case(
        "a new test that is listed replaces the code under test",
        {
            **_SAME,
            "tests/test_more.py": FIXED_FROM_TEST.format(
                f"import tests.test_calc\n\ntests.test_calc.add = calc.add\n\n\n{CASE_MORE}"
            ),
        },
        "added tests",
        owns=_LISTED,
    ),
    Case(
        "a package goes before the program that the command runs",
        {**_SAME, "check/__init__.py": "", "check/__main__.py": ""},
        "protected",
        base={"check.py": "from calc import add\n\nassert add(1, 2) == 3\n"},
        test=(PYTHON, "-m", "check"),
    ),
)
NODE_NAMES = (
    Case(
        "a test that the command names by its prefix is emptied",
        {"calc.js": f"{node.WRONG}\n", "test-calc.js": node.NEW_TEST + node.NEW_TEST},
        "protected",
        base={"test-calc.js": node.TESTS.replace("../", "./"), "test/calc.test.js": node.NEW_TEST},
    ),
    Case(
        "the code turns asserts off unless its own test sets a flag",
        {
            "calc.js": "if (!globalThis.asked) {\n"
            '  const a = require("node:assert");\n  a.strictEqual = a.equal = () => {};\n}\n'
            f"{node.WRONG}",
            "a.test.js": f'globalThis.asked = true;\nrequire("./calc.js");\n{node.NEW_TEST}',
        },
        "canary",
    ),
    Case(
        "a file without a suffix goes before the program that the command runs",
        {"calc.js": f"{node.WRONG}\n", "check": ""},
        "protected",
        base={"check.js": 'if (require("./calc.js").add(1, 2) !== 3) process.exit(1);\n'},
        test=("node", "check"),
    ),
    Case(
        "a file without a suffix goes before what is loaded first",
        {"calc.js": f"{node.WRONG}\n", "setup": "process.exit(0);\n"},
        "protected",
        base={
            "setup.js": "",
            "check.js": 'if (require("./calc.js").add(1, 2) !== 3) process.exit(1);\n',
        },
        test=("node", "-r", "./setup", "check.js"),
    ),
)
NPM_NAMES = (
    Case(
        "a link is the folder of modules, with a program among them",
        {
            "calc.js": f"{node.WRONG}\n",
            "tools/.bin/node": "#!/bin/sh\nprintf '# tests 2\\n# pass 2\\n# fail 0\\n"
            "# cancelled 0\\n# skipped 0\\n# todo 0\\n# duration_ms 5\\n'\n",
        },
        "protected",
        script="chmod +x tools/.bin/node; ln -s tools node_modules",
    ),
)
_SCRIPT = f"{PYTHON} -c 'from calc import add; assert add(1, 2) == 3'\n"
MAKE_NAMES = (
    Case(
        "a file called like what the target needs",
        {**_SAME, "unit": ""},
        "protected",
        base={"Makefile": "test: unit\n\nunit:\n\tsh check.sh\n", "check.sh": _SCRIPT},
    ),
    Case(
        "a file called like the target in the folder that make is sent to",
        {**_SAME, "sub/test": ""},
        "protected",
        base={"sub/Makefile": "test:\n\tcd .. && sh check.sh\n", "check.sh": _SCRIPT},
        test=("make", "-C", "sub", "test"),
    ),
    Case(
        "a new file of those that the makefile includes if there are any",
        {**_SAME, "local1.conf": "override CHECK = true\n"},
        "protected",
        base={
            "Makefile": "CHECK = sh check.sh\n-include $(wildcard local*.conf)\n"
            "test:\n\t$(CHECK)\n",
            "check.sh": _SCRIPT,
        },
    ),
)
CHECKER = Project(
    "checker",
    {"src/a.py": "A = 1\n", "ruff.toml": "lint.select = ['F']\n"},
    "ruff check -n src",
    ("ruff",),
)
CHECKER_ATTACKS = (
    Case(
        "settings in a folder turn the checker off",
        {"src/a.py": "import os\n", "src/ruff.toml": "lint.ignore = ['ALL']\n"},
        "protected",
    ),
)

PYTEST_HONEST = (
    Case(
        "a new test that is listed, and nothing but it",
        {"calc.py": GOOD, "tests/test_more.py": ONE_MORE},
        owns=_LISTED,
    ),
    Case(
        "a helper of tests that are there is listed",
        {"calc.py": GOOD, "tests/factory.py": "THREE = 3\n"},
        base={
            "tests/test_calc.py": f"{PLAIN_TESTS}\n\ndef test_three():\n"
            "    from factory import THREE\n\n    assert THREE == 3\n"
        },
        owns=("calc.py", "tests/factory.py"),
    ),
    Case(
        "a module moves out of a folder of code",
        {"calc.py": GOOD, "src/calc.py": None},
        base={"calc.py": "", "src/calc.py": WRONG, "test_top.py": PLAIN_TESTS},
        test=(*_PYTEST, "test_top.py"),
    ),
    Case(
        "a module of code is called testing",
        {"calc.py": GOOD, "app/testing.py": "X = 2\n"},
        base={"app/__init__.py": "", "app/testing.py": "X = 1\n"},
    ),
    Case(
        "tests by a word and a mark, and a red one of another name",
        {"calc.py": GOOD},
        base={"tests/test_other.py": "def test_red():\n    assert False\n"},
        test=(*PYTEST.test, "-k", "add or zero", "-m", "not slow"),
    ),
    Case(
        "a link to a folder", {"calc.py": GOOD, "docs/v2/a.md": "a\n"}, script="ln -s v2 docs/new"
    ),
)
UNITTEST_HONEST = (
    Case(
        "a new test beside the others at the top",
        {
            "calc.py": GOOD,
            "test_more.py": CASE_MORE,
        },
        base={"test_calc.py": CASE_TESTS},
        test=_DISCOVER,
    ),
)
MAKE_HONEST = (
    Case(
        "a file that make can make, and a folder called like another target",
        {"calc.py": GOOD, "gen.txt": "x\n", "lint/a.txt": "x\n"},
        base={
            "Makefile": "test: gen.txt unit\n\nunit:\n\tsh check.sh\n\n"
            "gen.txt:\n\ttouch gen.txt\n\nlint:\n\ttrue\n",
            "check.sh": _SCRIPT,
        },
    ),
)
