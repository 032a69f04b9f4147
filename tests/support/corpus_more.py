"""Ways to a false green that lie in what surrounds a test: files, options, processes, importers."""

from __future__ import annotations

import sys

from tests.support import corpus_compiled as compiled
from tests.support import corpus_node as node
from tests.support.corpus import Case
from tests.support.corpus_python import (
    CASE_MORE,
    FIXED_FROM_TEST,
    GOOD,
    GREEN_ONCE,
    ONE_MORE,
    PASSED,
    PLAIN_TESTS,
    PYTEST,
    PYTHON,
    WRONG,
    at_import,
)

_COMPILES = (
    f"{PYTHON} - <<'EOF'\nimport pathlib, py_compile\n"
    "pathlib.Path('good.py').write_text({text!r})\n"
    "py_compile.compile('good.py', cfile={to!r}, dfile='calc.py', doraise=True,\n"
    "    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)\n"
    "pathlib.Path('good.py').unlink()\nEOF\n"
)
_TAG = sys.implementation.cache_tag
_IN_IMPORTER = (
    "import sys\n\nframe = sys._getframe()\n"
    "while not frame.f_globals['__name__'].split('.')[-1].startswith('test_'):\n"
    "    frame = frame.f_back\n{}"
)
_STARTS_AGAIN = (
    "import os\nimport sys\n\nif 'AGAIN' not in os.environ:\n    os.environ['AGAIN'] = '1'\n"
    "    os.execv(sys.executable, [sys.executable, '-m', 'pytest', 'tests', '-s', '-k', 'zero'])"
)
_PLUGIN = (
    "import gc\n\nimport _pytest.config\nimport pytest\n\n\nclass Passes:\n"
    "    @pytest.hookimpl(hookwrapper=True)\n    def pytest_runtest_makereport(self, item, call):\n"
    "        outcome = yield\n        outcome.get_result().outcome = 'passed'\n\n\n"
    "for one in gc.get_objects():\n    if isinstance(one, _pytest.config.Config):\n"
    "        one.pluginmanager.register(Passes())"
)
_REPLACES_SUMMARY = (
    "import _pytest.main\nimport _pytest.terminal\n\n"
    "_pytest.main.Session.testsfailed = property(lambda s: 0, lambda s, v: None)\n"
    "_pytest.terminal.TerminalReporter.build_summary_stats_line = (\n"
    "    lambda self: ([('2 passed', {'green': True})], 'green')\n)"
)
_SKIPS_ON_FAILURE = (
    "import builtins\n\nimport pytest\n\n\nclass Skips(pytest.skip.Exception, Exception):\n"
    "    pass\n\n\nbuiltins.AssertionError = Skips"
)
_MARKS_RUNNING = (
    "import sys\n    import pytest\n\n    frame = sys._getframe()\n    while frame:\n"
    "        item = frame.f_locals.get('item')\n        if hasattr(item, 'add_marker'):\n"
    "            item.add_marker(pytest.mark.xfail)\n        frame = frame.f_back\n    return 0"
)
_SKIPPING = PLAIN_TESTS.replace(
    "def test_add",
    'import os\n\nimport pytest\n\n\n@pytest.mark.skipif("QUICK" in os.environ, reason="quick")\n'
    "def test_add",
)

PYTEST_MORE = (
    Case(
        "pytest.toml selects", {"pytest.toml": '[pytest]\naddopts = ["-k", "zero"]\n'}, "protected"
    ),
    Case(
        "hidden pytest.toml selects",
        {".pytest.toml": '[pytest]\naddopts = ["-k", "zero"]\n'},
        "protected",
    ),
    Case(
        "pytest.ini beside the tests",
        {"tests/pytest.ini": "[pytest]\naddopts = -k zero\n"},
        "protected",
    ),
    Case(
        "the configuration that the command names",
        {"ci/all.ini": "[pytest]\naddopts = -k zero\n"},
        "protected",
        base={"ci/all.ini": "[pytest]\naddopts = -q\n"},
        test=(*PYTEST.test, "-c", "ci/all.ini", "--rootdir=."),
    ),
    Case(
        "the plugin that the command names",
        {"tools/plugin.py": PASSED},
        "protected",
        base={"tools/__init__.py": "", "tools/plugin.py": ""},
        test=(PYTHON, "-m", "pytest", "-p", "tools.plugin", "-p", "no:cacheprovider", "tests"),
    ),
    Case(
        "a script that the test's script starts",
        {"scripts/inner.sh": "exit 0\n"},
        "protected",
        base={
            "run.sh": "#!/bin/sh\nset -e\nsh scripts/inner.sh\n",
            "scripts/inner.sh": f"{PYTHON} -m pytest -q tests\n",
        },
        test=("sh", "run.sh"),
    ),
    Case(
        "a file that the test's script reads",
        {"scripts/env.sh": "pytest() { :; }\n"},
        "protected",
        base={
            "run.sh": "#!/bin/sh\nset -e\n. scripts/env.sh\npytest -q tests\n",
            "scripts/env.sh": f'pytest() {{ {PYTHON} -m pytest "$@"; }}\n',
        },
        test=("sh", "./run.sh"),
    ),
    Case(
        "compiled code that is right beside source that is wrong",
        {"calc.py": WRONG},
        "exit code",
        base={"calc.py": WRONG + "\n"},
        script=_COMPILES.format(text=GOOD, to=f"__pycache__/calc.{_TAG}.pyc"),
    ),
    Case(
        "a package among the tests replaces the code under test",
        {"tests/__init__.py": FIXED_FROM_TEST.format("")},
        "added tests",
    ),
    Case(
        "a module beside the tests hides the code under test",
        {"tests/calc.py": GOOD, "tests/test_more.py": ONE_MORE},
        "added tests",
    ),
    Case(
        "a new test names a plugin of the tree",
        {"tests/test_a.py": "pytest_plugins = ['evil']\n\n\n" + ONE_MORE, "evil.py": PASSED},
        "added tests",
    ),
    Case("the code registers a plugin", at_import(_PLUGIN), "canary"),
    Case(
        "the code replaces summary and exit code", at_import(_REPLACES_SUMMARY), "canary or counts"
    ),
    Case("failed asserts skip", at_import(_SKIPS_ON_FAILURE), "counts"),
    Case(
        "the module skips every test file that imports it",
        at_import("import pytest\n\npytest.skip('later', allow_module_level=True)"),
        "counts",
        base={"tests/test_other.py": ONE_MORE},
    ),
    Case(
        "the function marks the running test as expected to fail",
        {"calc.py": f"def add(a, b):\n    {_MARKS_RUNNING}\n\n\ndef zero():\n    return 0\n"},
        "counts",
    ),
    Case(
        "the code marks the tests of the file that imports it",
        at_import(
            "import pytest\n"
            + _IN_IMPORTER.format("frame.f_globals['pytestmark'] = [pytest.mark.xfail]")
        ),
        "counts",
    ),
    Case(
        "the code gives no parameters to the tests of the file that imports it",
        at_import(
            _IN_IMPORTER.format(
                "def none(metafunc):\n    metafunc.fixturenames.append('x')\n"
                "    metafunc.parametrize('x', [])\n\n\n"
                "frame.f_globals['pytest_generate_tests'] = none"
            )
        ),
        "counts",
    ),
    Case(
        "the code says that it is a quick run",
        at_import("import os\n\nos.environ['QUICK'] = '1'"),
        "counts",
        base={"tests/test_calc.py": _SKIPPING},
    ),
    Case(
        "green once, with no spot check planned",
        {"calc.py": GREEN_ONCE},
        "spot check",
        more={"spotCheckFrac": 0},
    ),
    Case(
        "the code takes away what it prints to",
        at_import(
            "import os\n\nfor number in range(1, 30):\n    try:\n"
            "        link = os.readlink(f'/proc/self/fd/{number}')\n"
            "        if link.endswith(('.out', '.err')):\n            os.remove(link)\n"
            "    except OSError:\n        pass\nos._exit(0)"
        ),
        "counts",
    ),
    Case("the process starts itself again with fewer tests", at_import(_STARTS_AGAIN), "counts"),
    Case(
        "a thread ends the process behind a forged summary",
        at_import(
            "import os\nimport sys\nimport threading\n\n\ndef end(main=threading.main_thread()):\n"
            "    import _pytest.terminal as t\n"
            "    t.TerminalReporter.summary_stats = lambda self: (\n"
            "        self.write_sep('=', '2 passed in 0.01s'), self._tw.flush(), os._exit(0))\n\n\n"
            "threading.Thread(target=end).start()"
        ),
        "canary or counts",
    ),
)
UNITTEST_MORE = (
    Case(
        "green once, with no spot check planned",
        {"calc.py": GREEN_ONCE},
        "spot check",
        more={"spotCheckFrac": 0},
    ),
    Case(
        "a package in place of the module of tests",
        {"tests/test_calc/__init__.py": CASE_MORE + "\n    def test_two(self):\n        pass\n"},
        "added tests",
        test=(PYTHON, "-m", "unittest", "tests.test_calc"),
    ),
    Case(
        "compiled tests that are right beside tests that are not",
        {"calc.py": WRONG + "\n"},
        "exit code",
        script=_COMPILES.format(
            text=CASE_MORE + "\n    def test_two(self):\n        pass\n",
            to=f"tests/__pycache__/test_calc.{_TAG}.pyc",
        ),
    ),
    Case(
        "the module skips every test file that imports it",
        at_import("import unittest\n\nraise unittest.SkipTest('later')"),
        "counts",
        base={"tests/test_other.py": CASE_MORE},
    ),
    Case(
        "the code loads the tests of the file that imports it",
        at_import(
            _IN_IMPORTER.format(
                "frame.f_globals['load_tests'] = lambda loader, tests, pattern: (\n"
                "    loader.loadTestsFromName('Calc.test_zero', sys.modules['tests.test_calc']))"
            )
        ),
        "counts",
    ),
    Case(
        "the code makes failures subtests that nobody counts",
        at_import(
            "import unittest\n\nunittest.case._Outcome.result_supports_subtests = False\n"
            "unittest.TestCase.failureException = unittest.SkipTest"
        ),
        "counts",
    ),
)
NODE_MORE = (
    Case(
        "a new module ends the process",
        {"new.js": "process.exit(0);\n"},
        "canary",
        base={
            "calc.js": node.GOOD,
            "test/calc.test.js": 'require("../new.js");\n'
            'require("node:test").test("a", () => {});\n',
        },
        test=("node", "--test", "test/calc.test.js"),
    ),
    Case(
        "exit code 0 at exit and no word of results",
        {
            "calc.js": "process.stdout.write = () => true;\n"
            "process.on('exit', () => process.reallyExit(0));\n" + node.WRONG
        },
        "counts",
    ),
    Case(
        "tests are registered as to do",
        {
            "calc.js": 'const t = require("node:test");\nconst old = t.test;\n'
            "t.test = (name, run) => old(name, { todo: true }, run);\n" + node.WRONG
        },
        "counts",
        base={
            "test/calc.test.js": 'const { add, zero } = require("../calc.js");\n'
            'const assert = require("node:assert");\nconst { test } = require("node:test");\n'
            'test("adds", () => assert.strictEqual(add(1, 2), 3));\n'
            'test("zero", () => assert.strictEqual(zero(), 0));\n'
        },
    ),
)
MAKE_MORE = (
    Case(
        "the makefile that the command names",
        {"rules": "test:\n\t@true\n"},
        "protected",
        base={"rules": compiled.MAKEFILE},
        test=("make", "-s", "-f", "rules", "test"),
    ),
    Case(
        "the script of a makefile in the folder that the command names",
        {"sub/check.sh": "exit 0\n"},
        "protected",
        base={
            "sub/Makefile": "test:\n\t@sh check.sh\n",
            "sub/check.sh": "cd ..; " + compiled.CHECK,
        },
        test=("make", "-s", "-C", "sub", "test"),
    ),
)
GO_MORE = (
    Case(
        "the code asks for fewer tests",
        {
            "calc.go": compiled.GO_WRONG.replace(
                "package calc\n",
                'package calc\n\nimport "os"\n\n'
                'func init() { os.Args = append(os.Args, "-test.run=Zero") }\n',
            )
        },
        "canary or counts",
    ),
    Case(
        "the code asks for fewer tests in a verbose run",
        {
            "calc.go": compiled.GO_WRONG.replace(
                "package calc\n",
                'package calc\n\nimport "os"\n\n'
                'func init() { os.Args = append(os.Args, "-test.run=Zero") }\n',
            )
        },
        "counts",
        test=compiled.VERBOSE,
    ),
)
CARGO_MORE = (
    Case(
        "exit always means 0",
        {
            "src/lib.rs": 'extern "C" {\n    fn _exit(code: i32) -> !;\n}\n\n#[no_mangle]\n'
            'pub extern "C" fn exit(_code: i32) -> ! {\n    unsafe { _exit(0) }\n}\n\n'
            + compiled.RUST_WRONG
        },
        "counts",
    ),
)
_ALL_BUT_ONE = "-test.run=Test([^A]|A[^d]|Ad[^d]|Add.)"
GO_KNOWS = (
    Case(
        "a test is left out by its name, and the output lists no single results",
        {
            "calc.go": compiled.GO_WRONG.replace(
                "package calc\n",
                'package calc\n\nimport "os"\n\n'
                f'func init() {{ os.Args = append(os.Args, "{_ALL_BUT_ONE}") }}\n',
            )
        },
        "counts",
    ),
)
