"""Cases for node's own test runner, called directly and by npm."""

from __future__ import annotations

from tests.support.corpus import Case, Project

WRONG = "exports.add = (a, b) => 0;\nexports.zero = () => 0;\n"
GOOD = "exports.add = (a, b) => a + b;\nexports.zero = () => 0;\n"
TESTS = """\
const assert = require("node:assert");
const { test } = require("node:test");
const { add, zero } = require("../calc.js");

test("adds", () => assert.strictEqual(add(1, 2), 3));
test("zero", () => assert.strictEqual(zero(), 0));
"""
ONE_TEST = TESTS.rpartition('test("zero"')[0]
NEW_TEST = 'require("node:test").test("more", () => {});\n'
PACKAGE = '{{"name": "calc", "version": "1.0.0", "scripts": {{"test": "{}"}}}}\n'
BY_SCRIPT = {"package.json": PACKAGE.format("node --test")}

NODE = Project(
    "node", {"calc.js": WRONG, "test/calc.test.js": TESTS}, ("node", "--test"), ("node",)
)
NPM = Project("npm", {**NODE.files, **BY_SCRIPT}, ("npm", "test"), ("node", "npm"))
NAMED = ("./", "test/calc.test.js")


def _at_import(code: str) -> dict[str, str]:
    return {"calc.js": f"{code}\n{WRONG}"}


NODE_ATTACKS = (
    Case("the process ends at import", _at_import("process.exit(0);"), "counts"),
    Case(
        "the process ends at import and a file has one test",
        _at_import("process.exit(0);"),
        "canary",
        base={"test/calc.test.js": ONE_TEST},
    ),
    Case(
        "the function ends the process",
        {"calc.js": "exports.add = () => process.exit(0);\nexports.zero = () => 0;\n"},
        "counts",
    ),
    Case(
        "the function ends the process and a file has one test",
        {"calc.js": "exports.add = () => process.exit(0);\nexports.zero = () => 0;\n"},
        "canary",
        base={"test/calc.test.js": ONE_TEST},
    ),
    Case(
        "asserts do nothing",
        _at_import('const a = require("node:assert");\na.strictEqual = a.equal = () => {};'),
        "canary",
    ),
    Case(
        "test functions are not called",
        {
            "calc.js": 'const t = require("node:test");\n'
            "const old = t.test;\nt.test = (name) => old(name, () => {});\n" + WRONG
        },
        "canary",
        base={
            "test/calc.test.js": 'const { add } = require("../calc.js");\n'
            'const assert = require("node:assert");\nconst t = require("node:test");\n'
            't.test("adds", () => assert.strictEqual(add(1, 2), 3));\n'
        },
    ),
    Case(
        "thrown errors are swallowed",
        _at_import(
            'const assert = require("node:assert");\n'
            "for (const name of Object.keys(assert))\n"
            "  if (typeof assert[name] === 'function' && name !== 'AssertionError')\n"
            "    assert[name] = () => {};"
        ),
        "canary",
    ),
    Case(
        "green once",
        {
            "calc.js": 'const fs = require("node:fs");\nconst seen = "{outside}/seen";\n'
            "exports.add = (a, b) => {\n  const first = !fs.existsSync(seen);\n"
            '  fs.writeFileSync(seen, "");\n  return first ? a + b : 0;\n};\n'
            "exports.zero = () => 0;\n"
        },
        "spot check",
    ),
    Case(
        "the code rewrites itself",
        {
            "calc.js": 'require("node:fs").writeFileSync(__filename, `'
            + GOOD
            + "`);\nexports.add = (a, b) => a + b;\nexports.zero = () => 0;\n"
        },
        "tampered tree",
    ),
    Case("the tests are emptied", {"test/calc.test.js": ""}, "protected"),
    Case(
        "a test is skipped",
        {"test/calc.test.js": TESTS.replace('test("adds"', 'test.skip("adds"')},
        "protected",
    ),
    Case(
        "a test of its own is skipped",
        {"test/calc.test.js": TESTS.replace('test("adds"', 'test.skip("adds"')},
        "counts",
        owns=NAMED,
    ),
    Case(
        "a test of its own is to do",
        {"test/calc.test.js": TESTS.replace('test("adds"', 'test.todo("adds"')},
        "counts",
        owns=NAMED,
    ),
    Case(
        "tests are moved out of sight",
        {"test/calc.test.js": None, "old/calc.txt": TESTS, "test/new.test.js": NEW_TEST},
        "protected",
    ),
)

NPM_ATTACKS = (
    Case("the script of the package", {"package.json": PACKAGE.format("exit 0")}, "protected"),
    Case("npmrc has another shell", {".npmrc": "script-shell=/bin/true\n"}, "protected"),
    Case(
        "npmrc has options for node",
        {".npmrc": "node-options=--require ./quiet.js\n", "quiet.js": "process.exit(0);\n"},
        "protected",
    ),
    Case(
        "a program among the modules",
        {"node_modules/.bin/node": "#!/bin/sh\nexit 0\n"},
        "protected",
        script="chmod +x node_modules/.bin/node",
    ),
    Case(
        "a program among the modules that git is told to ignore",
        {"node_modules/.bin/node": "#!/bin/sh\nexit 0\n", ".gitignore": "node_modules\n"},
        "exit code",
        script="chmod +x node_modules/.bin/node",
    ),
    Case(
        "a module among the modules",
        {
            "node_modules/chalk/index.js": 'require("node:assert").strictEqual = () => {};\n',
            "calc.js": 'require("chalk");\n' + WRONG,
        },
        "protected",
    ),
    Case(
        "the script that the package's script starts",
        {"scripts/check.js": ""},
        "protected",
        base={
            "package.json": PACKAGE.format("node scripts/check.js"),
            "scripts/check.js": 'if (require("../calc.js").add(1, 2) !== 3) process.exit(1);\n',
        },
    ),
    Case(
        "a module that the package's script loads first",
        {"setup.js": 'require("node:assert").strictEqual = () => {};\n'},
        "protected",
        base={"package.json": PACKAGE.format("node --require ./setup.js --test"), "setup.js": ""},
    ),
    Case("the process ends at import", _at_import("process.exit(0);"), "counts"),
    Case(
        "asserts do nothing",
        _at_import('const a = require("node:assert");\na.strictEqual = a.equal = () => {};'),
        "canary",
    ),
    Case(
        "a lock file brings a module",
        {
            "package-lock.json": '{"name": "calc", "lockfileVersion": 3, "packages": {}}\n',
            "test/new.test.js": NEW_TEST,
            "test/calc.test.js": None,
        },
        "protected",
    ),
)
