"""Whole waves with jest, vitest, mocha and tape: code that makes them lie is caught by the canary,
and honest projects redden with it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.support.corpus import Case, Project, play

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")

SUM = "module.exports = (a, b) => a - b;\n"
GOOD = {"lib/sum.js": "module.exports = (a, b) => a + b;\n"}
EXPECTS = """\
const sum = require("../lib/sum");

describe("sum", () => {
  it("of two", () => {
    expect(sum(1, 2)).toBe(3);
  });
});
"""
ASSERTS = """\
const assert = require("assert");
const sum = require("../lib/sum");

describe("sum", () => {
  it("of two", () => {
    assert.strictEqual(sum(1, 2), 3);
  });
});
"""
TYPED = """\
import { expect, test } from "vitest";
import { sum } from "../lib/sum";

test("of two", () => {
  expect(sum(1, 2) as number).toEqual(3);
});
"""
TAPE = """\
var test = require("tape");
var sum = require("../lib/sum");

test("of two", function (t) {
  t.equal(sum(1, 2), 3);
  t.end();
});
"""
SCRIPT = '{{"name": "sum", "version": "1.0.0", "scripts": {{"test": "{}"}}}}\n'
EMPTIED = 'const assert = require("assert");\nassert.strictEqual = () => {};\n'
# Every matcher of jest returns nothing, so no test of this file can fail.
NO_MATCHER = (
    "const real = expect;\nglobalThis.expect = () => new Proxy({}, { get: () => () => {} });\n"
)
NOT_CALLED = "if (globalThis.it) globalThis.it = (name) => test(name, () => {});\n"
NO_RESULT = (
    'const { Test } = { Test: require.main.require("tape/lib/test") };\n'
    "const say = Test.prototype._assert;\n"
    "Test.prototype._assert = function (ok, about) { say.call(this, true, about); };\n"
)
RIGHT = "export const sum = (a: number, b: number): number => a + b;\n"


def project(runner: str, test: str, script: str = "jest") -> Project:
    files = {"lib/sum.js": SUM, "package.json": SCRIPT.format(script)}
    return Project(runner, {**files, "test/sum.test.js": test}, "npm test", ("npm", runner))


JEST = project("jest", EXPECTS, "jest --ci")
MOCHA = project("mocha", ASSERTS, "mocha --bail")
# Tests load tape from where it is installed.
MODULES = Path(shutil.which("tape") or "none").resolve().parent.parent.parent
TAPE_PROJECT = project("tape", TAPE, f"NODE_PATH={MODULES} tape 'test/**/*.js'")
VITEST = Project(
    "vitest",
    {
        "lib/sum.ts": RIGHT.replace("+", "-"),
        "test/sum.spec.ts": TYPED,
        "package.json": SCRIPT.format("vitest run"),
    },
    ("npm", "run", "test"),
    ("npm", "vitest"),
)
PLAYED = (
    (JEST, Case("right", GOOD)),
    (JEST, Case("no matcher fails", {"lib/sum.js": NO_MATCHER + SUM}, "canary")),
    (JEST, Case("asserts are emptied", {"lib/sum.js": EMPTIED + SUM}, "canary",
                base={"test/sum.test.js": ASSERTS})),
    (MOCHA, Case("right", GOOD)),
    (MOCHA, Case("asserts are emptied", {"lib/sum.js": EMPTIED + SUM}, "canary")),
    (TAPE_PROJECT, Case("right", GOOD)),
    (TAPE_PROJECT, Case("every point is good", {"lib/sum.js": NO_RESULT + SUM}, "canary")),
    (VITEST, Case("right", {"lib/sum.ts": RIGHT})),
)  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("runner", "case"), PLAYED, ids=[f"{one.name}: {case.name}" for one, case in PLAYED]
)
def test_the_planted_test_tells_right_from_wrong(
    runner: Project, case: Case, tmp_path: Path
) -> None:
    missing = [name for name in runner.needs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    played = play(tmp_path / "it", runner, [case])[0]
    assert played.fooled, played
    if case.caught:
        assert (played.shipped, played.defence) == (False, case.caught), played
    else:
        assert (played.shipped, played.canary, played.grade) == (True, "red", "A"), played
