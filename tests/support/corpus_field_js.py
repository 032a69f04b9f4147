"""Honest work on JavaScript and TypeScript projects as people have them."""

from __future__ import annotations

from tests.support.corpus import Case, Project
from tests.support.corpus_field import GREEN, files

LISTS = files("""\
--- package.json
{
  "name": "lists",
  "version": "2.1.0",
  "type": "module",
  "exports": "./src/index.js",
  "scripts": {
    "test": "node --test",
    "test:unit": "node --test test/unique.test.js",
    "pretest": "node scripts/check.js",
    "check": "node --check src/unique.js && npm run -s test:unit"
  }
}
--- .gitignore
node_modules/
coverage/
--- scripts/check.js
import { readdirSync } from "node:fs";
console.log(`checked ${readdirSync("src").length} files`);
--- src/index.js
export { chunk } from "./chunk.js";
export { unique } from "./unique.js";
--- src/chunk.js
export function chunk(list, size) {
  const chunks = [];
  for (let at = 0; at < list.length; at += size) chunks.push(list.slice(at, at + size));
  return chunks;
}
--- src/unique.js
export function unique(list, key = (one) => one) {
  const seen = [];
  return list.filter((one) => {
    if (seen.includes(one)) return false;
    seen.push(one);
    return true;
  });
}
--- test/chunk.test.js
import assert from "node:assert/strict";
import { test } from "node:test";
import { chunk } from "../src/index.js";

test("chunks of two", () => {
  assert.deepEqual(chunk([1, 2, 3], 2), [[1, 2], [3]]);
});
--- test/unique.test.js
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { unique } from "../src/index.js";

describe("unique", () => {
  it("drops what comes again", () => {
    assert.deepEqual(unique([1, 1, 2]), [1, 2]);
  });

  describe("with a key", () => {
    it("compares keys", () => {
      assert.deepEqual(unique(["a", "A", "b"], (s) => s.toLowerCase()), ["a", "b"]);
    });
  });
});
""")
UNIQUE = """\
export function unique(list, key = (one) => one) {
  const seen = new Set();
  return list.filter((one) => !seen.has(key(one)) && seen.add(key(one)));
}
"""
LONGER = """\
export function unique(list, key = (one) => one) {
  const found = new Map();
  for (const one of list) {
    if (!found.has(key(one))) found.set(key(one), one);
  }
  return [...found.values()];
}
"""
FIX = {"src/unique.js": UNIQUE}
ESM = Project("node-esm", LISTS, ("node", "--test"), ("node",))
RUN = Project("npm-scripts", LISTS, ("npm", "test"), ("node", "npm"))
HEAD = 'import assert from "node:assert/strict";\nimport { mock, test } from "node:test";\n'
MOCKED = (
    HEAD
    + """\
import { retry } from "../src/retry.js";

test("tries again", async (t) => {
  const call = mock.fn(async () => {
    if (call.mock.callCount() < 2) throw new Error("busy");
    return "done";
  });
  assert.equal(await retry(call, 3), "done");
  assert.equal(call.mock.callCount(), 3);

  await t.test("gives up", async () => {
    await assert.rejects(retry(async () => { throw new Error("never"); }, 2), /never/);
  });
});
"""
)
RETRY = """\
export async function retry(call, times) {
  for (let left = times; ; left -= 1) {
    try {
      return await call();
    } catch (error) {
      if (left <= 1) throw error;
    }
  }
}
"""
SERVED = (
    HEAD
    + """\
import { serve } from "../src/serve.js";

test("answers on a free port", async () => {
  const server = serve();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const answer = await fetch(`http://127.0.0.1:${server.address().port}/lists`);
  assert.deepEqual(await answer.json(), { path: "/lists" });
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
});
"""
)
SERVE = """\
import { createServer } from "node:http";

export const serve = () =>
  createServer((request, response) => response.end(JSON.stringify({ path: request.url })));
"""
TOLD = (
    HEAD
    + """\
import { spawnSync } from "node:child_process";

const run = (...words) => spawnSync(process.execPath, ["bin/lists.js", ...words]);

test("prints unique words", () => {
  assert.equal(run("b", "a", "b").stdout.toString(), "b a\\n");
});

test("fails without words", () => {
  assert.equal(run().status, 2);
});
"""
)
BIN = """\
#!/usr/bin/env node
import { unique } from "../src/index.js";

const words = process.argv.slice(2);
if (!words.length) {
  console.error("usage: lists WORD...");
  process.exit(2);
}
console.log(unique(words).join(" "));
"""
WORKED = (
    HEAD
    + """\
import { Worker } from "node:worker_threads";

test("a worker doubles", async () => {
  const worker = new Worker(new URL("../src/double.js", import.meta.url), { workerData: 21 });
  assert.equal(await new Promise((done) => worker.on("message", done)), 42);
});
"""
)
WORKER = """\
import { parentPort, workerData } from "node:worker_threads";

parentPort.postMessage(workerData * 2);
"""
LOUD = (
    HEAD
    + """\
test("prints much", () => {
  for (let n = 0; n < 2000; n += 1) console.log(`not ok ${n} - # fail ${n}`);
  assert.ok(true);
});
"""
)


def _run(name: str, test: str) -> Case:
    return Case(f"a bug, {name}", FIX, test=test)


def _feature(name: str, path: str, code: str, test: str, script: str = "") -> Case:
    base = {**FIX, "test/new.test.js": test}
    return Case(name, {path: code}, base=base, script=script)


def _manifest(old: str, new: str) -> dict[str, str]:
    assert old in LISTS["package.json"]
    return {"package.json": LISTS["package.json"].replace(old, new)}


LOCK = '{\n  "name": "lists",\n  "lockfileVersion": 3,\n  "requires": true,\n  "packages": {}\n}\n'
TYPES = "export declare function unique<T>(list: T[], key?: (one: T) => unknown): T[];\n"
ESM_CASES = (
    Case("a bug", FIX),
    _run("files by a pattern of the shell", "node --test test/*.test.js"),
    _run("one file without the runner", "node test/unique.test.js"),
    _run("a report in TAP", "node --test --test-reporter=tap"),
    _run("a report for people", "node --test --test-reporter=spec --test-concurrency=1"),
    _run("a report of dots", "node --test --test-reporter=dot"),
    _run("with coverage", "node --test --experimental-test-coverage"),
    _run("tests by a pattern of their names", 'node --test --test-name-pattern="unique"'),
    _run("variables in the command", "NODE_ENV=test node --test"),
    _run("the syntax is checked first", "node --check src/unique.js && node --test"),
    Case("a rewrite", {"src/unique.js": LONGER}, base=FIX, more=GREEN),
    _feature("a feature with mocks and subtests", "src/retry.js", RETRY, MOCKED),
    _feature("a server on a free port", "src/serve.js", SERVE, SERVED),
    _feature("a program that tests start", "bin/lists.js", BIN, TOLD, "chmod +x bin/lists.js"),
    _feature("a worker", "src/double.js", WORKER, WORKED),
    Case("a test that prints text of failures", FIX, base={"test/loud.test.js": LOUD}),
    Case("a test that is still to be written", FIX, base={"test/later.test.js":
         HEAD + 'test.todo("sorts");\ntest.skip("shuffles", () => assert.fail());\n'}),
    Case("a feature with a new test file", {"src/last.js":
         "export const last = (list) => list.at(-1);\n", "test/last.test.js": HEAD +
         'import { last } from "../src/last.js";\n\n'
         'test("last", () => assert.equal(last([1, 2]), 2));\n'}, base=FIX, more=GREEN),
    Case("a test moves to a folder of its own", {"test/chunk.test.js": None,
         "test/unit/chunk.test.js": LISTS["test/chunk.test.js"].replace("../src", "../../src"),
         **FIX}, owns=("./", "test/chunk.test.js")),
    Case("declarations of types and documents", {"src/unique.d.ts": TYPES, "README.md": "# Lists\n",
         ".editorconfig": "root = true\n", "CHANGELOG.md": "- types\n"}, base=FIX, more=GREEN),
)  # fmt: skip
RUN_CASES = (
    Case("a bug and its checks before", FIX),
    _run("another script", "npm run test:unit"),
    _run("a quiet script of scripts", "npm run -s check"),
    _run("a word after the script", "npm test -- --test-reporter=spec"),
    _run("silently", "npm test --silent"),
    Case("a dependency and its lock that are listed", {**FIX, "package-lock.json": LOCK + "\n",
         **_manifest('"2.1.0",', '"2.1.0",\n  "engines": { "node": ">=18" },')},
         base={"package-lock.json": LOCK}, owns=("src/", "package.json", "package-lock.json")),
    Case("an agent leaves modules that git ignores", FIX, script="mkdir -p node_modules/.bin"
         " node_modules/left && echo '{}' > node_modules/left/package.json && echo '{}' >"
         " node_modules/.package-lock.json && ln -s ../left node_modules/.bin/left"),
    Case("an agent leaves modules that git does not ignore", FIX, base={".gitignore": "*.log\n"},
         script="mkdir -p node_modules/left && echo '{}' > node_modules/left/package.json &&"
         " echo '{}' > node_modules/.package-lock.json"),
    Case("an agent leaves reports and logs", FIX, script="mkdir coverage .nyc_output && echo 1 >"
         " coverage/lcov.info && echo 1 > .nyc_output/a.json && echo 1 > npm-debug.log && echo 1"
         " > tsconfig.tsbuildinfo && touch .eslintcache"),
)  # fmt: skip

OLD_STYLE = files("""\
--- package.json
{ "name": "sum", "version": "0.3.0", "scripts": { "test": "RUNNER" } }
--- lib/sum.js
module.exports = (...numbers) => numbers.reduce((a, b) => a - b, 0);
--- test/sum.test.js
const sum = require("../lib/sum");

describe("sum", () => {
  it("of nothing is 0", () => {
    if (sum() !== 0) throw new Error("not 0");
  });

  it("of two", () => {
    if (sum(1, 2) !== 3) throw new Error("not 3");
  });
});
""")
SUM = {"lib/sum.js": OLD_STYLE["lib/sum.js"].replace("a - b", "a + b")}
SNAPPED = 'test("list", () => expect([1, 2].map((n) => ({ n }))).toMatchSnapshot());\n'
MORE = (
    'it("is more", () => {\n  if (require("../lib/sum")(2, 2) !== 4) throw new Error("x");\n});\n'
)
AS_MODULES = {
    "vitest.config.js": "export default { test: { globals: true } };\n",
    "package.json": OLD_STYLE["package.json"].replace("RUNNER", "vitest run"),
}


def _by(name: str, test: str, npm: bool = False) -> Project:
    manifest = OLD_STYLE["package.json"].replace("RUNNER", test)
    test = "npm test" if npm else test
    needs = ("node", name, "npm") if npm else ("node", name)
    return Project(name, {**OLD_STYLE, "package.json": manifest}, test, needs)


JEST_CASES = (
    Case("a bug", SUM),
    Case("a bug and npm", SUM, test="npm test --silent"),
    Case("a bug, one worker and all names", SUM, test="jest --runInBand --verbose"),
    Case("a bug with coverage", SUM, test="jest --ci --coverage"),
    Case("a feature with a new test", {**SUM, "test/more.test.js": MORE}),
    Case("a new test with its first snapshot", {**SUM, "test/snap.test.js": SNAPPED},
         script="jest --silent test/snap.test.js"),
)  # fmt: skip
MOCHA_CASES = (
    Case("a bug", SUM),
    Case("a bug and a report of dots", SUM, test="mocha --reporter dot --recursive"),
    Case("a feature with a new test", {**SUM, "test/more.test.js": MORE}),
)
VITEST_CASES = (
    Case("a bug", SUM, base=AS_MODULES),
    Case("a feature with a new test", {**SUM, "test/more.test.js": MORE}, base=AS_MODULES),
)
FIELD = (
    (ESM, ESM_CASES),
    (RUN, RUN_CASES),
    (_by("jest", "jest"), JEST_CASES),
    (_by("mocha", "mocha", npm=True), MOCHA_CASES),
    (_by("vitest", "vitest run"), VITEST_CASES),
)
