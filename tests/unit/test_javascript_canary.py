"""The planted tests of jest, vitest, mocha and tape: where they stand, and in which style."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from driver.runners.canary import CanaryVerdict, canary_verdict, plan_canary
from driver.runners.result import Counts
from driver.runners.runner import Canary, NotApplicable

NONCE = "keeps_order_twice"
SAID = "keeps order twice"
Command = str | tuple[str, ...]

JEST = """\
const sum = require('../src/sum')

describe('sum', () => {
  it('adds', () => {
    expect(sum(1, 2)).toBe(3)
  })
})
"""
JEST_MORE = """\

describe('keeps order twice', () => {
  it('keeps order twice', () => {
    expect('a').toBe('b')
  })
})
"""
VITEST = """\
import { expect, test } from "vitest";
import { sum } from "./sum.js";

test("adds", async () => {
\tawait expect(sum(1, 2)).resolves.toEqual(3);
});
"""
VITEST_MORE = """\

test("keeps order twice", () => {
\treturn expect(Promise.resolve(1)).resolves.toBe(2);
});

test("keeps order twice again", () => {
\texpect([1]).toEqual([2]);
});
"""
MOCHA = """\
var chai = require('chai'),
    expect = chai.expect;

suite('sum', function() {
    test('adds', function() {
        expect(sum(1, 2)).to.equal(3);
        expect(sum).to.be.a('function');
    });
});
"""
MOCHA_MORE = """\

suite('keeps order twice', function() {
    test('keeps order twice', function() {
        expect(1).to.be.a('string');
    });

    test('keeps order twice again', function() {
        expect(1).to.equal(2);
    });
});
"""
FUNCTIONS = """\
import { strictEqual as same, throws } from 'assert';

it('adds', function () {
  same(sum(1, 2), 3);
  throws(function () { sum(); });
});
"""
FUNCTIONS_MORE = """\

it('keeps order twice', function () {
  same('a', 'b');
});

it('keeps order twice again', function () {
  throws(function () { return [1]; });
});
"""
THROWS = """\
it('adds', () => {
  if (sum(1, 2) !== 3) throw new Error('no');
});
"""
THROWS_MORE = """\

it('keeps order twice', () => {
  throw new Error('keeps order twice');
});
"""
TAPE = """\
'use strict';

var test = require('tape');
var sum = require('../src/sum');

test('adds', function (assert) {
    assert.deepEqual(sum(1, 2), 3);
    assert.end();
});
"""
TAPE_MORE = """\

test('keeps order twice', function (assert) {
    assert.deepEqual([1], [2], 'keeps order twice');
    assert.end();
});
"""


def plan(
    command: Command, files: Mapping[str, str], *, changed: str = "src/sum.js", output: str = ""
) -> Canary | NotApplicable:
    return plan_canary(command, files.keys(), (changed,), NONCE, texts=files, output=output)


def planned(command: Command, files: Mapping[str, str], **more: str) -> Canary:
    found = plan(command, files, **more)
    assert isinstance(found, Canary), found
    return found


@pytest.mark.parametrize(
    ("command", "path", "text", "more"),
    [
        ("jest", "test/sum.test.js", JEST, JEST_MORE),
        ("vitest run", "src/sum.test.ts", VITEST, VITEST_MORE),
        ("mocha -u tdd test", "test/sum.js", MOCHA, MOCHA_MORE),
        ("mocha", "test/sum.ts", FUNCTIONS, FUNCTIONS_MORE),
        ("mocha test.mjs", "test.mjs", THROWS, THROWS_MORE),
        ("tape 'test/**/*.js'", "test/deep/sum.js", TAPE, TAPE_MORE),
    ],
)
def test_it_is_written_like_the_tests_of_its_file(
    command: str, path: str, text: str, more: str
) -> None:
    found = planned(command, {path: text})
    assert (found.path, found.text, found.amends) == (path, text + more, True)
    assert found.command == command
    assert all(name in found.text for name in found.names)
    assert len(found.tries) == len(found.names)


OTHER = JEST.replace("sum", "other")
NAMED = {"test/sum.test.js": JEST, "test/a.test.js": OTHER, "lib/b.spec.ts": OTHER}


@pytest.mark.parametrize(
    ("command", "output", "path"),
    [
        ("jest", "", "test/sum.test.js"),
        ("jest lib/", "", "lib/b.spec.ts"),
        ("jest 'a\\.test'", "", "test/a.test.js"),
        ("jest --coverage=false -w 2", "", "test/sum.test.js"),
        ("jest", "\nPASS lib/b.spec.ts\nPASS other/sum.js\n", "lib/b.spec.ts"),
        ("vitest run a.test", "", "test/a.test.js"),
        ("mocha --require x 'lib/**/*.{spec,test}.[jt]s'", "", "lib/b.spec.ts"),
        ("mocha --recursive lib", "", "lib/b.spec.ts"),
        ("mocha 'test/!(sum)*.js'", "", "test/a.test.js"),
        ("mocha dist/test/*.js", "", "test/sum.test.js"),
    ],
)
def test_it_stands_in_a_file_that_the_command_runs(command: str, output: str, path: str) -> None:
    assert planned(command, NAMED, output=output).path == path


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({".mocharc.json": '{"spec": ["lib/*.ts"]}'}, "lib/b.spec.ts"),
        ({".mocharc.yml": "require: x\nspec:\n  - 'lib/**'\n"}, "lib/b.spec.ts"),
        ({"package.json": '{"mocha": {"spec": "./test/a*", "bail": true}}'}, "test/a.test.js"),
    ],
)
def test_mochas_configuration_names_its_files(config: dict[str, str], path: str) -> None:
    found = planned("mocha", {**NAMED, **config})
    assert (found.path, found.stops) == (path, "package.json" in config)
    # Where the first red test ends the run, only the canary is run.
    assert found.command == ("mocha --grep=keeps.order.twice" if found.stops else "mocha")


@pytest.mark.parametrize(
    ("command", "config", "path"),
    [
        ("jest", {"jest.config.ts": "export = { testMatch: ['<rootDir>/lib/**/*.[jt]s?(x)'] }"},
         "lib/b.spec.ts"),
        ("jest", {"package.json": '{"jest": {"testMatch": ["**/?(a.)+(test|spec).js"]}}'},
         "test/a.test.js"),
        ("vitest run", {"vite.config.mts": 'test: {\n  include: ["lib/**/*.{test,spec}.ts"],\n}'},
         "lib/b.spec.ts"),
        ("vitest run", {"vitest.config.js": "coverage: { include: ['src/**'] }"},
         "test/sum.test.js"),
    ],
)  # fmt: skip
def test_patterns_of_a_configuration_are_followed_as_far_as_they_show(
    command: str, config: dict[str, str], path: str
) -> None:
    assert planned(command, {**NAMED, **config}).path == path


@pytest.mark.parametrize(
    ("command", "files", "reason"),
    [
        ("jest", {"src/sum.js": ""}, "no test file"),
        ("jest", {"a.test.js": JEST.replace("it(", "it.only(")}, "no test file"),
        ("jest", {"a.test.js": 'import { it } from "vitest";\n' + JEST}, "no test file"),
        ("vitest related src/sum.js", NAMED, "selects tests by name"),
        ("mocha -g sum -i", NAMED, "selects tests by name"),
        ("jest -t '^sum$'", NAMED, "no test shows such a name"),
        ("prove", {"t/a.t": ""}, "no runner"),
        ("tape test/*.js", {"test/a.js": JEST}, "no test file"),
    ],
)
def test_where_no_file_can_take_it_there_is_none(
    command: str, files: dict[str, str], reason: str
) -> None:
    found = plan(command, files)
    assert isinstance(found, NotApplicable)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("jest -t adds", f"adds {SAID}"),
        ("jest --testNamePattern=sum", f"sum {SAID}"),
        ("mocha --grep '^sum adds'", f"sum adds {SAID}"),
        ("vitest run -t ord", SAID),
    ],
)
def test_it_has_a_name_that_the_command_selects(command: str, name: str) -> None:
    found = planned(command, {"test/sum.test.js": JEST})
    assert found.names == (name,)
    assert "describe('keeps" not in found.text


@pytest.mark.parametrize(
    ("script", "command", "path", "called", "alone"),
    [
        ("jest", "npm test", "test/sum.test.js", "npm test --", "npm test -- test/sum.test.js"),
        ("jest --ci", ("npm", "t"), "test/sum.test.js", ("npm", "t", "--"),
         ("npm", "t", "--", "test/sum.test.js")),
        ("jest", "npm test -- --ci", "test/sum.test.js", "npm test -- --ci",
         "npm test -- --ci test/sum.test.js"),
        ("jest", "yarn test", "test/sum.test.js", "yarn test", "yarn test test/sum.test.js"),
        ("jest", "pnpm run test", "test/sum.test.js", "pnpm run test",
         "pnpm run test test/sum.test.js"),
        ("eslint . && cross-env A=b nyc -r lcov mocha test", "CI=1 npm test", "test/sum.test.js",
         "CI=1 npm test --", None),
        ("npm run lint && npm run unit", "npm test", "test/a.test.js", "npm test", None),
        ("run-s lint unit*", "npm test", "test/a.test.js", "npm test", None),
        ("npm run unit", "npm -s test", "test/a.test.js", "npm -s test", None),
        ("jest", "npm test | cat", "test/sum.test.js", "npm test | cat", None),
        ("jest", "npx jest lib", "lib/b.spec.ts", "npx jest lib", None),
        ("jest", "pnpm exec vitest run", "test/sum.test.js", "pnpm exec vitest run",
         "pnpm exec vitest run test/sum.test.js"),
    ],
)  # fmt: skip
def test_behind_package_scripts_it_is_found_by_the_runner_of_the_script(
    script: str, command: Command, path: str, called: Command, alone: Command | None
) -> None:
    package = f'{{"scripts": {{"test": "{script}", "unit": "mocha test/a*", "lint": "eslint"}}}}'
    found = planned(command, {**NAMED, "package.json": package})
    assert (found.path, found.command, found.alone) == (path, called, alone)


@pytest.mark.parametrize(
    "command", ["npm -w web test", "npm install", "bun test", "yarn workspace web test", "npm run"]
)
def test_a_script_of_another_package_is_not_known(command: str) -> None:
    found = plan(command, {**NAMED, "package.json": '{"scripts": {"test": "jest"}}'})
    assert isinstance(found, NotApplicable)


OF_JEST = """\
FAIL test/sum.test.js
  \u25cf sum \u203a keeps order twice

    {why}

      3 | expect("a").toBe("b")

Tests:       1 failed, 1 passed, 2 total
"""
OF_VITEST = """\
 FAIL  src/sum.test.ts > keeps order twice
 FAIL  src/sum.test.ts > keeps order twice again
{why}

- Expected
"""
OF_MOCHA = """\
  1) sum
       keeps order twice:

      {why}
      + expected - actual

  2) sum
       keeps order twice again:
     {why}
"""
OF_TAPE = """\
# keeps order twice
not ok 2 keeps order twice
  ---
    operator: deepEqual
"""


@pytest.mark.parametrize(
    ("command", "text", "output", "why", "verdict"),
    [
        ("jest", JEST, OF_JEST, "expect(received).toBe(expected)", CanaryVerdict.RED),
        ("jest", JEST, OF_JEST, "AssertionError: expected 1 to equal 2", CanaryVerdict.RED),
        ("jest", JEST, OF_JEST, "ReferenceError: a is not defined", CanaryVerdict.NOT_APPLICABLE),
        ("vitest", VITEST, OF_VITEST, "AssertionError: expected 'a' to be 'b'", CanaryVerdict.RED),
        ("vitest", VITEST, OF_VITEST, "TypeError: no", CanaryVerdict.NOT_APPLICABLE),
        ("mocha", MOCHA, OF_MOCHA, "AssertionError [ERR_ASSERTION]: 1 == 2", CanaryVerdict.RED),
        ("mocha", MOCHA, OF_MOCHA, "Error: expect(received).toBe(expected)", CanaryVerdict.RED),
        ("mocha", MOCHA, OF_MOCHA, "Error: Timeout of 2000ms", CanaryVerdict.NOT_APPLICABLE),
        ("tape test/*", TAPE, OF_TAPE, "", CanaryVerdict.RED),
        ("tape test/*", TAPE, OF_TAPE.replace("not ok", "ok"), "", CanaryVerdict.GREEN),
    ],
)
def test_only_an_assertion_of_its_own_makes_it_red(
    command: str, text: str, output: str, why: str, verdict: CanaryVerdict
) -> None:
    canary = planned(command, {"test/sum.test.ts": text})
    counts = Counts("x", 3, len(canary.names), 0)
    judged = canary_verdict(canary, 1, output.replace("{why}", why), counts, Counts("x", 1, 0, 0))
    assert judged.verdict is verdict, judged
