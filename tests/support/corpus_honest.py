"""Honest work of every usual kind, which has to ship."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support import corpus_canary as canary
from tests.support import corpus_compiled as compiled
from tests.support import corpus_honest_more as more
from tests.support import corpus_names as called
from tests.support import corpus_node as node
from tests.support import corpus_python as python
from tests.support.corpus import Case, Project
from tests.support.corpus_python import PYTEST, PYTHON, UNITTEST


def _usual(code: str, good: str, better: str, test: str, more: str, other: str) -> tuple[Case, ...]:
    """Work as it is done in any language: `code` names the file, `good` and `better` are right
    texts of it, `test` the name of a new test and `more` its text, `other` another source file."""
    right: Mapping[str, str] = {code: good}
    aside = {**right, other: "" if other.endswith((".py", ".js")) else more.split("\n")[0] + "\n"}
    return (
        Case("a fix", right),
        Case("a fix with a new test", {code: good, test: more}),
        Case("a refactoring", {code: better}, base=right, more={"baseline": "green"}),
        Case("new tests only", {test: more}, base=right),
        Case("documentation", {"docs/usage.md": "# Usage\n", "README.md": "calc\n"}, base=right),
        Case("a deletion", {other: None}, base=aside),
    )


PYTHON_BETTER = python.GOOD.replace("a + b", "sum((a, b))")
UNITTEST_HONEST = (
    *_usual(
        "calc.py", python.GOOD, PYTHON_BETTER, "tests/test_more.py", python.CASE_MORE, "old.py"
    ),
    Case(
        "a module by name of tests that are called",
        {"calc.py": python.GOOD},
        test=(PYTHON, "-m", "unittest", "tests.test_calc"),
    ),
    Case(
        "one test by name",
        {"calc.py": python.GOOD},
        test=(PYTHON, "-m", "unittest", "tests.test_calc.Calc.test_add"),
    ),
    Case(
        "a test that is expected to fail no longer",
        {
            "calc.py": python.GOOD,
            "tests/test_calc.py": python.CASE_TESTS,
        },
        base={
            "tests/test_calc.py": python.CASE_TESTS.replace(
                "    def test_add", "    @unittest.expectedFailure\n    def test_add"
            )
        },
        owns=python.NAMED,
    ),
)
NODE_HONEST = (
    *_usual(
        "calc.js",
        node.GOOD,
        node.GOOD.replace("a + b", "b + a"),
        "test/more.test.js",
        node.NEW_TEST,
        "old.js",
    ),
    Case(
        "a module of the new kind",
        {"calc.mjs": "export const add = (a, b) => a + b;\n"},
        base={
            "calc.mjs": "export const add = () => 0;\n",
            "calc.js": node.GOOD,
            "test/calc.test.mjs": 'import assert from "node:assert";\n'
            'import { test } from "node:test";\nimport { add } from "../calc.mjs";\n'
            'test("adds", () => assert.strictEqual(add(1, 2), 3));\n',
        },
    ),
    Case("one file by name", {"calc.js": node.GOOD}, test=("node", "--test", "test/calc.test.js")),
)
NPM_HONEST = (
    Case("a fix", {"calc.js": node.GOOD}),
    Case(
        "a version of the package that is listed",
        {"calc.js": node.GOOD, "package.json": node.PACKAGE.format("node --test test")},
        owns=("./", "package.json"),
    ),
    Case(
        "a lock file that is listed",
        {
            "calc.js": node.GOOD,
            "package-lock.json": '{"name": "calc", "lockfileVersion": 3, "packages": {}}\n',
        },
        owns=("./", "package-lock.json"),
    ),
    Case(
        "the server that another script starts",
        {"calc.js": node.GOOD, "server.js": "console.log(2);\n"},
        base={
            "package.json": '{"name": "calc", "version": "1.0.0", "scripts":'
            ' {"test": "node --test", "start": "node server.js"}}\n',
            "server.js": "console.log(1);\n",
        },
    ),
)
MAKE_HONEST = (
    *_usual(
        "calc.py", python.GOOD, PYTHON_BETTER, "tests/test_more.py", python.CASE_MORE, "old.py"
    ),
    Case(
        "a program that another target starts",
        {"calc.py": python.GOOD, "app.py": "print(2)\n"},
        base={"Makefile": compiled.MAKEFILE + f"\nrun:\n\t{PYTHON} app.py\n", "app.py": ""},
    ),
    Case(
        "one more target in a makefile that is listed",
        {"calc.py": python.GOOD, "Makefile": compiled.MAKEFILE + "\nlint:\n\ttrue\n"},
        owns=("./", "Makefile"),
    ),
    Case(
        "a new script beside a script",
        {"calc.py": python.GOOD, "scripts/new.sh": "exit 0\n"},
        base=compiled.SCRIPTED,
    ),
)
GO_HONEST = (
    *_usual(
        "calc.go",
        compiled.GO_GOOD,
        compiled.GO_GOOD.replace("a + b", "b + a"),
        "more_test.go",
        compiled.GO_MORE,
        "old.go",
    ),
    Case(
        "a new package with tests",
        {
            "calc.go": compiled.GO_GOOD,
            "text/text.go": "package text\n\nconst A = 1\n",
            "text/text_test.go": compiled.GO_MORE.replace("package calc", "package text"),
        },
    ),
    Case("a verbose run", {"calc.go": compiled.GO_GOOD}, test=compiled.VERBOSE),
)
CARGO_HONEST = (
    Case("a fix", {"src/lib.rs": compiled.RUST_GOOD}),
    Case(
        "a fix with new tests",
        {"src/lib.rs": compiled.RUST_GOOD, "tests/more.rs": "#[test]\nfn more() {}\n"},
    ),
    Case(
        "a new module with tests in it",
        {
            "src/lib.rs": compiled.RUST_GOOD + "\npub mod text;\n",
            "src/text.rs": "#[test]\nfn more() {}\n",
        },
        test=("cargo", "test"),
    ),
)


def _command(name: str, test: str) -> Case:
    python_test = test.replace("pytest", " ".join(("$PY -m pytest -p no:cacheprovider",)))
    return Case(name, {"calc.py": python.GOOD}, test=python_test.replace("$PY", PYTHON))


PYTEST_HONEST = (
    *_usual("calc.py", python.GOOD, PYTHON_BETTER, "tests/test_more.py", python.ONE_MORE, "old.py"),
    Case(
        "a feature with tests and their helper",
        {
            "calc.py": python.GOOD + "\n\ndef double(a):\n    return add(a, a)\n",
            "tests/numbers_help.py": "TWO = 2\n",
            "tests/test_double.py": "import sys\nfrom pathlib import Path\n\n"
            "sys.path.insert(0, str(Path(__file__).parent))\n\nfrom numbers_help import TWO\n\n"
            "from calc import double\n\n\ndef test_double():\n    assert double(1) == TWO\n",
        },
    ),
    Case(
        "a test that is there first and names a new module",
        {"text.py": "def upper(a):\n    return a.upper()\n"},
        base={
            "calc.py": python.GOOD,
            "tests/test_text.py": "from text import upper\n\n\ndef test_upper():\n"
            "    assert upper('a') == 'A'\n",
        },
    ),
    Case(
        "the command names the new test",
        {"calc.py": python.GOOD, "tests/test_new.py": python.PLAIN_TESTS},
        test=(*PYTEST.test[:-1], "tests/test_new.py"),
    ),
    Case(
        "a folder of tests that was not there",
        {"calc.py": python.GOOD, "checks/test_new.py": python.ONE_MORE},
        test=(*PYTEST.test[:-1], "checks"),
    ),
    Case(
        "a module is renamed",
        {"old.py": None, "new.py": "A = 1\n", "calc.py": python.GOOD + "\n\nfrom new import A\n"},
        base={"old.py": "A = 1\n", "calc.py": python.WRONG + "\n\nfrom old import A\n"},
    ),
    Case(
        "modules become a package",
        {
            "calc.py": None,
            "calc/__init__.py": "from calc.core import add, zero\n",
            "calc/core.py": python.GOOD,
        },
    ),
    Case(
        "modules of a package are called like Python's",
        {
            "calc.py": python.GOOD + "\n\nimport pkg.json\n",
            "pkg/__init__.py": "",
            "pkg/json.py": "A = 1\n",
            "pkg/logging.py": "A = 1\n",
        },
    ),
    Case(
        "a generated file",
        {"calc.py": python.GOOD},
        script='python -c "print({n: n * n for n in range(2000)})" > table.json',
    ),
    Case(
        "a slow test",
        {"calc.py": python.GOOD},
        base={"tests/test_slow.py": "import time\n\n\ndef test_slow():\n    time.sleep(1)\n"},
    ),
    Case(
        "a test of its own is changed with the code",
        {
            "calc.py": python.GOOD.replace("return 0", "return 1"),
            "tests/test_calc.py": python.PLAIN_TESTS.replace("zero() == 0", "zero() == 1"),
        },
        owns=python.NAMED,
    ),
    Case(
        "a test is dropped and that is allowed",
        {
            "calc.py": python.GOOD,
            "tests/test_calc.py": python.PLAIN_TESTS.partition("def test_zero")[0],
        },
        owns=python.NAMED,
        more={"fewerTests": 1},
    ),
    Case(
        "a test is skipped and that is allowed",
        {
            "calc.py": python.GOOD,
            "tests/test_calc.py": python.PLAIN_TESTS.replace(
                "def test_zero", "import pytest\n\n\n@pytest.mark.skip\ndef test_zero"
            ),
        },
        owns=python.NAMED,
        more={"moreSkipped": 1, "fewerTests": 1},
    ),
    Case(
        "a new test that is skipped here",
        {
            "calc.py": python.GOOD,
            "tests/test_calc.py": python.PLAIN_TESTS.replace(
                "def test_zero",
                "import pytest\n\n\n@pytest.mark.parametrize('n', [0, 0])\n"
                "def test_zeros(n):\n    assert zero() == n\n\n\ndef test_zero",
            ),
        },
        owns=python.NAMED,
    ),
    Case(
        "a conftest that is listed",
        {
            "calc.py": python.GOOD,
            "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef two():\n    return 2\n",
            "tests/test_two.py": "def test_two(two):\n    assert two == 2\n",
        },
        owns=("./", "tests/conftest.py"),
    ),
    Case(
        "requirements that are listed",
        {"calc.py": python.GOOD, "requirements.txt": "wheel\n"},
        owns=("./", "requirements.txt"),
    ),
    Case(
        "a version in a pyproject that is listed",
        {"calc.py": python.GOOD, "pyproject.toml": '[project]\nname = "calc"\nversion = "2"\n'},
        base={"pyproject.toml": '[project]\nname = "calc"\nversion = "1"\n'},
        owns=("./", "pyproject.toml"),
    ),
    Case(
        "a program gets its executable bit",
        {"calc.py": python.GOOD, "bin/calc": "#!/bin/sh\nexit 0\n"},
        script="chmod +x bin/calc",
    ),
    Case(
        "a link inside",
        {"calc.py": python.GOOD, "docs/v1.md": "# 1\n"},
        script="ln -s v1.md docs/latest.md",
    ),
    Case(
        "file names in many scripts",
        {"calc.py": python.GOOD, "docs/r\u00e9sum\u00e9 \u6587.md": "x\n"},
    ),
    Case(
        "an empty file and an ignore file",
        {"calc.py": python.GOOD, "data/.gitkeep": "", ".gitignore": "*.log\n"},
    ),
    Case("line ends of Windows", {"calc.py": python.GOOD.replace("\n", "\r\n")}),
    Case(
        "code that leaves the process on purpose",
        {
            "calc.py": python.GOOD + "\n\ndef main():\n    raise SystemExit(3)\n",
            "tests/test_main.py": "import pytest\n\nfrom calc import main\n\n\n"
            "def test_main():\n    with pytest.raises(SystemExit):\n        main()\n",
        },
    ),
    Case(
        "code that cleans up at exit",
        {"calc.py": "import atexit\n\natexit.register(lambda: None)\n" + python.GOOD},
    ),
    Case(
        "a test prints text that looks like a failure",
        {"calc.py": python.GOOD},
        base={"tests/test_loud.py": "def test_loud():\n    print('1 failed, FAILED, exit 1')\n"},
        test=(*PYTEST.test, "-s"),
    ),
    Case(
        "a test replaces something for itself",
        {
            "calc.py": python.GOOD,
            "tests/test_mock.py": "from unittest import mock\n\nimport calc\n\n\n"
            "def test_mock():\n    with mock.patch('calc.add', lambda a, b: 7):\n"
            "        assert calc.add(1, 2) == 7\n",
        },
    ),
    Case(
        "a test starts a program and waits for it",
        {
            "calc.py": python.GOOD,
            "tests/test_run.py": "import subprocess\nimport sys\n\n\ndef test_run():\n"
            "    assert subprocess.call([sys.executable, '-c', 'raise SystemExit(3)']) == 3\n",
        },
    ),
    Case(
        "a test leaves files in the tree",
        {"calc.py": python.GOOD},
        base={
            "tests/test_leaves.py": "from pathlib import Path\n\n\ndef test_leaves():\n"
            "    Path('report.xml').write_text('<x/>')\n"
        },
    ),
    Case(
        "a program that the test command starts is listed",
        {"calc.py": python.GOOD, "app.py": "import calc\n\nassert calc.add(1, 2) == 3\n"},
        base={"app.py": "raise SystemExit(1)\n"},
        owns=("calc.py", "app.py"),
        test=(PYTHON, "app.py"),
    ),
    Case(
        "a red test elsewhere stays red outside of the command",
        {"calc.py": python.GOOD},
        base={"other/test_red.py": "def test_red():\n    assert False\n"},
    ),
    Case(
        "one test by its id",
        {"calc.py": python.GOOD},
        test=(*PYTEST.test[:-1], "tests/test_calc.py::test_add"),
    ),
    Case("tests by a word", {"calc.py": python.GOOD}, test=(*PYTEST.test, "-k", "add")),
    Case("a quiet run", {"calc.py": python.GOOD}, test=(*PYTEST.test, "-q")),
    Case("a very quiet run", {"calc.py": python.GOOD}, test=(*PYTEST.test, "-qq")),
    Case("a run that stops at the first", {"calc.py": python.GOOD}, test=(*PYTEST.test, "-x")),
    _command("a text as command", "pytest tests"),
    _command("a folder is entered first", "cd . && pytest tests"),
    _command("a harmless command goes first", "pwd; pytest tests"),
    _command("a date is printed first", "echo $(date); pytest tests"),
    _command("a question is asked first", "[ -z X ] || echo y; pytest tests"),
    _command("the output is kept as well", "pytest tests 2>&1 | tee log.txt"),
    _command("the exit code is kept", "pytest tests; code=$?; echo done; exit $code"),
    _command("all commands count", "set -e; pytest tests; echo done"),
)

HONEST: tuple[tuple[Project, tuple[Case, ...]], ...] = (
    (
        PYTEST,
        (
            *PYTEST_HONEST,
            *more.PYTEST_HONEST_MORE,
            *called.PYTEST_HONEST,
            *canary.PYTEST_HONEST_CANARY,
        ),
    ),
    (canary.LINTED, canary.LINTED_HONEST),
    (UNITTEST, (*UNITTEST_HONEST, *more.UNITTEST_HONEST_MORE, *called.UNITTEST_HONEST)),
    (node.NODE, (*NODE_HONEST, *more.NODE_HONEST_MORE)),
    (node.NPM, NPM_HONEST),
    (compiled.MAKE, (*MAKE_HONEST, *more.MAKE_HONEST_MORE, *called.MAKE_HONEST)),
    (compiled.GO, (*GO_HONEST, *more.GO_HONEST_MORE)),
    (compiled.CARGO, (*CARGO_HONEST, *more.CARGO_HONEST_MORE)),
)
