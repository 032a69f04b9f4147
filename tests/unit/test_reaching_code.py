"""Code under test that reaches into its runner, its assertions or the language is told."""

from __future__ import annotations

import pytest

from driver.test_style.reaching_code import reached

TESTS = ("tests/test_calc.py",)


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("calc.py", "import _pytest.python\n", "import _pytest"),
        ("calc.py", "def add():\n    from unittest.mock import ANY\n", "unittest.mock.ANY"),
        ("calc.py", "import json as j\n\nj.loads = None\n", "json.loads = ..."),
        ("calc.py", "import builtins\n\nbuiltins.abs = None\n", "builtins.abs = ..."),
        ("calc.py", "import json\n\nsetattr(json, 'loads', None)\n", "setattr(json, ...)"),
        ("calc.py", "import sys\n\nok = 'pytest' in sys.modules\n", "'pytest'"),
        ("calc.py", "import sys\n\nframe = sys._getframe(1)\n", "sys._getframe"),
        ("calc.py", "from gc import get_objects\n", "gc.get_objects"),
        ("calc.py", "name = 'tests/test_calc.py'\n", "test_calc.py"),
        ("calc.py", "class A:\n    def __eq__(self, o):\n        return True\n", "always true"),
        ("calc.js", 'const a = require("node:assert");\n', "node:assert"),
        ("calc.mjs", 'import a from "assert/strict";\n', "assert/strict"),
        ("calc.js", "JSON.stringify = () => '';\n", "JSON.stringify ="),
        ("calc.ts", "Array.prototype.map = none;\n", "Array.prototype.map ="),
        ("calc.js", "const real = expect;\nexpect = (v) => real(v);\n", "expect"),
        ("calc.js", "globalThis.expect = (v) => real(v);\n", "globalThis.expect"),
        ("calc.js", 'const real = global["it"];\n', 'global["it'),
        ("calc.js", "const { it, expect } = globalThis;\n", "= globalThis"),
        ("calc.js", 'Object.defineProperty(globalThis, "it", {});\n', "Object.defineProperty("),
        (
            "calc.js",
            "Object.getOwnPropertySymbols(globalThis);\n",
            "getOwnPropertySymbols(globalThis",
        ),
        ("calc.js", 'const all = globalThis[Symbol.for("$$jest-matchers")];\n', "$$jest"),
        ("calc.js", "state.currentlyRunningTest.errors = [];\n", "currentlyRunningTest"),
        ("calc.js", "process.stderr.write = () => true;\n", "process.stderr.write ="),
        ("calc.js", "if (typeof it === 'function') lie();\n", "typeof it"),
        ("calc.js", "it = (name) => test(name, () => {});\n", "it"),
        ("calc.js", "expect.extend({ toBe });\n", "expect.extend"),
        ("calc.js", "const name = real.getState().currentTestName;\n", "currentTestName"),
        ("calc.js", "afterEach(function () { this.test = 0; });\n", "afterEach("),
        ("calc.js", "return { asymmetricMatch: () => true };\n", "asymmetricMatch"),
        ("calc.ts", 'import * as chai from "chai";\n', "chai"),
        ("calc.ts", 'import "vitest/suite";\n', "vitest/suite"),
        ("calc.ts", 'const { expect } = await import("@jest/globals");\n', "@jest/globals"),
        ("calc.js", 'const T = require("tape/lib/test");\n', "tape/lib/test"),
        ("calc.js", 'require.main.require("tape");\n', "require.main.require"),
        ("calc.js", "fs.readFileSync(module.parent.filename);\n", "module.parent.filename"),
        ("calc.js", "if (new Error().stack.includes('of two')) lie();\n", "Error().stack"),
        ("calc.js", "Error.prepareStackTrace = (_, all) => all;\n", "prepareStackTrace"),
        ("calc.js", "if (process.env.VITEST_WORKER_ID) lie();\n", "VITEST_WORKER_ID"),
        ("calc.go", 'import "testing"\n', '"testing"'),
        ("calc.go", 'func init() { os.Args = append(os.Args, "-test.run=A") }\n', "os.Args"),
        ("src/lib.rs", "macro_rules! assert_eq { () => {} }\n", "macro_rules! assert_eq"),
        ("src/lib.rs", "std::panic::set_hook(Box::new(|_| {}));\n", "set_hook"),
    ],
)
def test_code_that_reaches_into_its_tests_is_told(path: str, text: str, told: str) -> None:
    found = reached({path: text}, {}, TESTS)
    assert found.startswith(f"{path} reaches into what tests it: ")
    assert told in found
    assert reached({path: text}, {path: text}, TESTS) == ""  # as on the base
    assert reached({path: text}, {}, (*TESTS, path)) == ""  # a test may


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("calc.py", "import json\nimport sys\n\nsys.stdout = None\nprint(json.loads('1'))\n"),
        ("calc.py", "class A:\n    def __eq__(self, o):\n        return self.a == o.a\n"),
        ("calc.py", "import os\n\nos.environ['A'] = 'b'\nself = os\n"),
        ("calc.py", "def add(:\n"),
        ("calc.js", "if (JSON.stringify(a) === b) console.log(a);\n"),
        ("calc.js", "class Parser {\n  expect(kind) {\n    this.test = kind;\n  }\n}\n"),
        ("calc.js", "this.expect(1);\nparser.expect.call(1);\ncommander.test = 1;\n"),
        ("calc.ts", "class A {\n  afterEach(one: One): void {\n  }\n}\n"),
        ("calc.js", "let it, test;\nit = all[Symbol.iterator]();\ntest = it.next();\n"),
        ("calc.js", "function a(it) {\n  it = it || 1;\n}\n"),
        ("calc.js", "if (require.main === module && !module.parent) main();\n"),
        ("calc.js", "Error.captureStackTrace(this, Wrong);\nlog(error.stack);\n"),
        ("calc.js", 'const t = require("./test");\nconst u = require("testing-tools");\n'),
        ("calc.js", "global.fetch = fetch;\nwindow.testing = 1;\n"),
        ("calc.go", 'import "os"\n\nvar first = os.Args[1]\n'),
        ("src/lib.rs", "macro_rules! sum { () => {} }\n"),
        ("readme.md", "import pytest\n"),
    ],
)
def test_usual_code_is_not(path: str, text: str) -> None:
    assert reached({path: text}, {}, TESTS) == ""
