"""Code that makes its runner lie is caught by the planted test, in real runs of real runners."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path

import pytest

from driver.runners.canary import CanaryVerdict
from tests.support.beside import beside_each_other, selected
from tests.support.planted import PYTHON, Command, Proof, prove, write

UNITTEST = (PYTHON, "-S", "-m", "unittest", "discover", "-s", "tests", "-t", ".")
UNITTEST_NAMED = (PYTHON, "-S", "-m", "unittest", "tests.test_calc")
PYTEST = (PYTHON, "-m", "pytest", "-p", "no:cacheprovider")
PYTEST_NAMED = (*PYTEST, "tests/test_calc.py::Calc::test_add")
NODE = ("node", "--test")
NODE_NAMED = ("node", "--test", "test/calc.test.js")
NPM = ("npm", "test")

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")

WRONG = "def add(a, b):\n    return 0\n"
PYTHON_TESTS = """
import unittest
from calc import add


class Calc(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)
"""
PYTHON_PROJECT = {"tests/__init__.py": "", "tests/test_calc.py": PYTHON_TESTS}

# How the code under test makes a suite green that must be red.
PYTHON_CHEATS = {
    "exits at import": "import os\nos._exit(0)\n",
    "exits when called": "import os\ndef add(a, b):\n    os._exit(0)\n",
    "exits at the end": "import atexit, os\natexit.register(os._exit, 0)\n",
    "assertEqual does nothing": (
        "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n"
    ),
    "all asserts do nothing": (
        "import unittest\nfor n in dir(unittest.TestCase):\n"
        "    if n.startswith(('assert', 'fail')) and n != 'failureException':\n"
        "        setattr(unittest.TestCase, n, lambda *a, **k: None)\n"
    ),
    "tests are not run": (
        "import unittest\nunittest.TestCase._callTestMethod = lambda self, method: None\n"
    ),
    "all tests are skipped": (
        "import unittest\ndef skip(self, method):\n    raise unittest.SkipTest('x')\n"
        "unittest.TestCase._callTestMethod = skip\n"
    ),
}
UNITTEST_CHEATS = {
    "replaces sys.exit": "import sys, os\nsys.exit = lambda *a: os._exit(0)\n",
    "results forget failures": (
        "import unittest\nfor n in ('addFailure', 'addError', 'addSubTest'):\n"
        "    setattr(unittest.TestResult, n, lambda *a, **k: None)\n"
        "unittest.TextTestResult.addFailure = lambda *a, **k: None\n"
        "unittest.TestResult.wasSuccessful = lambda self: True\n"
    ),
    "results say success": "import unittest\nunittest.TestResult.wasSuccessful = lambda s: True\n",
}
PYTEST_CHEATS = {
    "reports say passed": (
        "import _pytest.reports as r\nold = r.TestReport.from_item_and_call.__func__\n"
        "def new(cls, item, call):\n    report = old(cls, item, call)\n"
        "    report.outcome = 'passed'\n    return report\n"
        "r.TestReport.from_item_and_call = classmethod(new)\n"
    ),
    "a session says 0": (
        "import _pytest.main as m\nm.Session.testsfailed = property(lambda s: 0, lambda s, v: 0)\n"
    ),
    "test functions do nothing": (
        "import _pytest.python as p, _pytest.unittest as u\n"
        "p.Function.runtest = lambda self: None\nu.TestCaseFunction.runtest = lambda self: None\n"
    ),
    "only plain functions do nothing": (
        "import _pytest.python as p, unittest\np.Function.runtest = lambda self: None\n"
        "unittest.TestCase.assertEqual = lambda *a: None\n"
    ),
}
# One of each kind: it leaves, it empties the asserts, it skips, it replaces the runner's parts.
SAMPLE = ("exits at the end", "assertEqual does nothing")
UNITTEST_SAMPLE = (*SAMPLE, "all tests are skipped", "results say success")
PYTEST_SAMPLE = ("reports say passed", "test functions do nothing")


Proofs = Mapping[str, Future[Proof]]


def cheats(
    command: tuple[str, ...], table: dict[str, str], sample: Collection[str]
) -> Iterable[tuple[str, tuple[tuple[str, ...], str, bool]]]:
    """One case a cheat, by name: the command, the code, and whether it is in the default run."""
    for name, code in table.items():
        yield f"{command[2]}-{command[-1]}-{name}", (command, code, name in sample)


CHEATS = dict(
    [
        *cheats(UNITTEST, PYTHON_CHEATS | UNITTEST_CHEATS, UNITTEST_SAMPLE),
        *cheats(UNITTEST_NAMED, PYTHON_CHEATS | UNITTEST_CHEATS, SAMPLE[:1]),
        *cheats(PYTEST, PYTHON_CHEATS | PYTEST_CHEATS, PYTEST_SAMPLE[:1]),
        *cheats(PYTEST_NAMED, PYTHON_CHEATS | PYTEST_CHEATS, PYTEST_SAMPLE[-1:]),
    ]
)


def cases(names: Iterable[str], sample: Collection[str]) -> list[object]:
    """All of the names, those outside of the sample for the sweep."""
    return [pytest.param(name, marks=() if name in sample else pytest.mark.sweep) for name in names]


@pytest.fixture(scope="module")
def cheated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Proofs:
    def play(folder: Path, name: str) -> Proof:
        command, cheat, _ = CHEATS[name]
        write(folder, {**PYTHON_PROJECT, "calc.py": WRONG + cheat})
        return prove(command, folder, ("calc.py",))

    return beside_each_other(play, selected(request, "cheat"), tmp_path_factory.mktemp("cheated"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "cheat", cases(CHEATS, [name for name, (*_, sampled) in CHEATS.items() if sampled])
)
def test_python_code_that_makes_its_runner_lie_is_caught(cheated: Proofs, cheat: str) -> None:
    proof = cheated[cheat].result()
    assert proof.plain.code == 0, proof.plain
    assert proof.judged.verdict is CanaryVerdict.GREEN, proof.judged


NODE_TESTS = (
    "const {test} = require('node:test');\nconst assert = require('node:assert');\n"
    "const {add} = require('../calc.js');\ntest('add', () => { assert.equal(add(1, 2), 3); });\n"
)
NODE_CHEATS = {
    "exits at import": "process.exit(0);\n",
    "assert does nothing": "const a = require('node:assert');\nfor (const n of Object.keys(a))"
    " if (typeof a[n] === 'function') a[n] = () => {};\n",
    "equal does nothing": "require('node:assert').equal = () => {};\n",
}

NODE_COMMANDS = [
    pytest.param(NODE, id="discovered"),
    pytest.param(NODE_NAMED, id="named", marks=pytest.mark.sweep),
    pytest.param(NPM, id="npm", marks=pytest.mark.sweep),
]


@pytest.mark.more
@needs_node
@pytest.mark.parametrize("command", NODE_COMMANDS)
@pytest.mark.parametrize("cheat", NODE_CHEATS.values(), ids=NODE_CHEATS.keys())
def test_node_code_that_makes_its_runner_lie_is_caught(
    command: tuple[str, ...], cheat: str, tmp_path: Path
) -> None:
    package = json.dumps({"scripts": {"test": "node --test test/calc.test.js"}})
    wrong = "exports.add = () => 0;\n"
    write(tmp_path, {"package.json": package, "calc.js": wrong + cheat,
                     "test/calc.test.js": NODE_TESTS})  # fmt: skip
    proof = prove(command, tmp_path, ("calc.js",))
    assert proof.plain.code == 0, proof.plain
    assert proof.judged.verdict is CanaryVerdict.GREEN, proof.judged


RIGHT = "def add(a, b):\n    return a + b\n"
PACKAGED = PYTHON_TESTS.replace("from calc", "from pkg.calc")
PLAIN = "from pkg.calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
SUB = {f"sub/{name}": text for name, text in {**PYTHON_PROJECT, "calc.py": RIGHT}.items()}
SRC = {"src/pkg/__init__.py": "", "src/pkg/calc.py": RIGHT, "tests/test_calc.py": PLAIN}
FLAT = {"calc.py": RIGHT, **PYTHON_PROJECT}
INSIDE = {"pkg/__init__.py": "", "pkg/calc.py": RIGHT, "pkg/tests/__init__.py": "",
          "pkg/tests/test_calc.py": PACKAGED}  # fmt: skip
TOML = '[tool.pytest.ini_options]\npythonpath = ["src"]\n'
CHECKS = TOML + 'python_files = ["check_*.py"]\n'
STRICT = TOML + 'filterwarnings = ["error"]\n'
py = (PYTHON, "-S")
HONEST: dict[str, tuple[Command, dict[str, str], str]] = {
    "discover": (UNITTEST, FLAT, "calc.py"),
    "discover by itself": ((*py, "-m", "unittest"), FLAT, "calc.py"),
    "discover quietly": ((*py, "-m", "unittest", "discover", "-q"), FLAT, "calc.py"),
    "discover positional": ((*py, "-m", "unittest", "discover", "tests"), FLAT, "calc.py"),
    "discover by pattern": (
        (*py, "-m", "unittest", "discover", "-p", "*_check.py"),
        {"calc.py": RIGHT, "calc_check.py": PYTHON_TESTS},
        "calc.py",
    ),
    "tests in the package": ((*py, "-m", "unittest", "discover"), INSIDE, "pkg/calc.py"),
    "module by name": (UNITTEST_NAMED, FLAT, "calc.py"),
    "test by name": ((*UNITTEST_NAMED[:-1], "tests.test_calc.Calc.test_add"), FLAT, "calc.py"),
    "file by path": ((*UNITTEST_NAMED[:-1], "tests/test_calc.py"), FLAT, "calc.py"),
    "failfast": ((*py, "-m", "unittest", "-f", "tests.test_calc"), FLAT, "calc.py"),
    "unittest in a text": (
        f"cd sub && {PYTHON} -S -m unittest discover -s tests -t .",
        SUB,
        "sub/calc.py",
    ),
    "unittest in src": (
        f"PYTHONPATH=src {PYTHON} -S -m unittest discover -s tests",
        {**SRC, "tests/test_calc.py": PACKAGED},
        "src/pkg/calc.py",
    ),
    "pytest": (PYTEST, FLAT, "calc.py"),
    "pytest of one test": (PYTEST_NAMED, FLAT, "calc.py"),
    "pytest of one file": ((*PYTEST, "-q", "tests/test_calc.py"), FLAT, "calc.py"),
    "pytest of a folder": ((*PYTEST, "tests/"), FLAT, "calc.py"),
    "pytest in src": (PYTEST, {**SRC, "pyproject.toml": TOML}, "src/pkg/calc.py"),
    "addopts stop at the first": (
        PYTEST,
        {**SRC, "pyproject.toml": TOML + 'addopts = "-x -q --strict-markers"\n'},
        "src/pkg/calc.py",
    ),
    "addopts import mode": (
        PYTEST,
        {**SRC, "pyproject.toml": TOML + 'addopts = "--import-mode=importlib -ra"\n'},
        "src/pkg/calc.py",
    ),
    "test paths": (
        PYTEST,
        {**SRC, "spec/test_calc.py": PLAIN, "pyproject.toml": TOML + 'testpaths = ["spec"]\n'},
        "src/pkg/calc.py",
    ),
    "test files of another name": (
        PYTEST,
        {**SRC, "tests/check_it.py": PLAIN, "pyproject.toml": CHECKS},
        "src/pkg/calc.py",
    ),
    "all warnings are errors": (PYTEST, {**SRC, "pyproject.toml": STRICT}, "src/pkg/calc.py"),
    "pytest in a text": (
        f"cd sub && {PYTHON} -m pytest -q -p no:cacheprovider",
        SUB,
        "sub/calc.py",
    ),
    "pytest through a pipe": (f"{PYTHON} -m pytest -p no:cacheprovider | cat", FLAT, "calc.py"),
    "a script that ends python": (
        PYTEST,
        {**FLAT, "report.py": "import sys\nprint('report')\nsys.exit(3)\n"},
        "report.py",
    ),
    "a module that cannot be imported": (
        PYTEST,
        {**FLAT, "extra.py": "import no_such_module_at_all\n"},
        "extra.py",
    ),
    "nothing to import": (PYTEST, {**FLAT, "data.json": "{}"}, "data.json"),
}


# One of each kind: how tests are found, named, configured, wrapped, and what the change is.
HONEST_SAMPLE = (
    *("discover by pattern", "tests in the package", "test by name", "unittest in src"),
    *("addopts stop at the first", "pytest through a pipe", "a module that cannot be imported"),
)


@pytest.fixture(scope="module")
def proven(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Proofs:
    def play(folder: Path, name: str) -> Proof:
        command, files, changed = HONEST[name]
        write(folder, files)
        return prove(command, folder, (changed,))

    return beside_each_other(play, selected(request, "honest"), tmp_path_factory.mktemp("proven"))


@pytest.mark.more
@pytest.mark.parametrize("honest", cases(HONEST, HONEST_SAMPLE))
def test_an_honest_python_project_reddens_with_the_planted_test(
    proven: Proofs, honest: str
) -> None:
    proof = proven[honest].result()
    assert proof.plain.code == 0, proof.plain
    assert proof.judged.verdict is CanaryVerdict.RED, proof.judged


ESM_TESTS = (
    "import { test } from 'node:test';\nimport assert from 'node:assert';\n"
    "import { add } from '../calc.js';\ntest('add', () => { assert.equal(add(1, 2), 3); });\n"
)
CJS = {"calc.js": "exports.add = (a, b) => a + b;\n", "test/calc.test.js": NODE_TESTS}
ESM = {"calc.js": "export const add = (a, b) => a + b;\n", "test/calc.test.js": ESM_TESTS}
HONEST_NODE: dict[str, tuple[Command, dict[str, str], dict[str, object]]] = {
    "CJS": (NODE, CJS, {}),
    "ESM": (NODE, ESM, {"type": "module"}),
    "spec reporter": ((*NODE, "--test-reporter=spec"), ESM, {"type": "module"}),
    "one file": (NODE_NAMED, CJS, {}),
    "a text": ("node --test", CJS, {}),
    "a text with files": ("FOO=1 node --test test/calc.test.js", CJS, {}),
    "npm": (NPM, CJS, {"scripts": {"test": "node --test"}}),
    "npm in a text": ("npm test", ESM, {"type": "module", "scripts": {"test": "node --test"}}),
    "npm with files": (NPM, CJS, {"scripts": {"test": "node --test test/calc.test.js"}}),
}


@pytest.fixture(scope="module")
def proven_node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Proofs:
    def play(folder: Path, name: str) -> Proof:
        command, files, package = HONEST_NODE[name]
        write(folder, {**files, "package.json": json.dumps(package)})
        return prove(command, folder, ("calc.js",))

    folder = tmp_path_factory.mktemp("proven-node")
    return beside_each_other(play, selected(request, "honest_node"), folder)


@pytest.mark.more
@needs_node
@pytest.mark.parametrize("honest_node", cases(HONEST_NODE, ("CJS", "ESM", "npm")))
def test_an_honest_node_project_reddens_with_the_planted_test(
    proven_node: Proofs, honest_node: str
) -> None:
    proof = proven_node[honest_node].result()
    assert proof.plain.code == 0, proof.plain
    assert proof.judged.verdict is CanaryVerdict.RED, proof.judged
