"""Fresh attacks on node, npm, go and cargo."""

from __future__ import annotations

from tests.support import corpus_compiled as compiled
from tests.support import corpus_node as node
from tests.support.corpus import Case

_HEAD = 'const assert = require("node:assert");\nconst { test } = require("node:test");\n'
_USES = 'const { add, zero } = require("../calc.js");\n\n'
_ZERO = 'test("zero", () => assert.strictEqual(zero(), 0));\n'


def _node(
    name: str,
    asserts: str,
    code: str,
    answer: str = "0",
    head: str = _HEAD,
    caught: str = "canary",
) -> Case:
    """A test with this assertion, and code that makes it green."""
    body = f'test("adds", async (t) => {{ {asserts} }});\n'
    wrong = node.WRONG.replace("=> 0", f"=> {answer}", 1)
    return Case(
        name,
        {"calc.js": f"{code}\n{wrong}"},
        caught,
        base={
            "test/calc.test.js": head + _USES + body + _ZERO,
            "calc.js": node.WRONG.replace("=> 0", "=> null", 1),
        },
    )


def _emptied(method: str, asserts: str, answer: str = "0") -> Case:
    code = f'require("node:assert").{method} = () => {{}};'
    return _node(f"assert.{method} is emptied", asserts, code, answer)


_CALC_FIRST = (
    'const { add, zero } = require("../calc.js");\nconst assert = require("node:assert");\n'
    'const { test } = require("node:test");\n'
)
_STRICT = _HEAD.replace('"node:assert"', '"node:assert/strict"')
_ASSERTS = (
    _emptied("deepEqual", "assert.deepEqual([add(1, 2)], [3]);"),
    _emptied("deepStrictEqual", "assert.deepStrictEqual([add(1, 2)], [3]);"),
    _emptied("notStrictEqual", "assert.notStrictEqual(add(1, 2), 0);"),
    _emptied("rejects", "await assert.rejects(async () => add(1, {}));"),
    _emptied("match", "assert.match(String(add(1, 2)), /3/);"),
    _emptied("ok", "assert.ok(add(1, 2) === 3);"),
    _emptied("equal", "assert.equal(add(1, 2), 3);"),
    _emptied("ifError", "assert.ifError(add(1, 2) === 3 ? null : 1);"),
    _emptied("fail", "if (add(1, 2) !== 3) assert.fail();"),
    _node(
        "the strict asserts are emptied",
        "assert.equal(add(1, 2), 3);",
        'require("node:assert/strict").equal = () => {};',
        head=_STRICT,
    ),
    _node(
        "an expected error may have any text",
        "assert.throws(() => add(1, {}), /both/);",
        'const a = require("node:assert");\nconst old = a.throws;\na.throws = (f) => old(f);',
        "{ throw new Error('x'); }",
        caught="B",
    ),
    _node(
        "text that is made of JSON is a constant",
        "assert.strictEqual(JSON.stringify({ s: add(1, 2) }), JSON.stringify({ s: 3 }));",
        "JSON.stringify = () => '{}';",
        caught="B",
    ),
    _node(
        "a list that is filtered is always the same",
        "assert.deepStrictEqual([3].filter((x) => x === add(1, 2)), [3]);",
        "Array.prototype.filter = function () { return [...this]; };",
        caught="B",
    ),
    _node(
        "modules that are loaded later get empty asserts",
        "assert.strictEqual(add(1, 2), 3);",
        'const m = require("node:module");\nconst old = m._load;\n'
        "const none = () => {};\nconst empty = new Proxy(none, { get: () => none });\n"
        "m._load = (name, ...more) => (/assert/.test(name) ? empty : old(name, ...more));",
        head="",
    ),
)
NODE_ASSERTS = tuple(
    Case(
        one.name,
        one.writes,
        one.caught,
        base={
            **one.base,
            "test/calc.test.js": _CALC_FIRST
            + 'test("adds", () => assert.strictEqual(add(1, 2), 3));\n'
            + _ZERO,
        },
    )
    if "loaded later" in one.name
    else one
    for one in _ASSERTS
)
_LIES = (
    'const a = require("node:assert");\nconst fs = require("node:fs");\n'
    'const {{ execSync }} = require("node:child_process");\n'
    'const file = __dirname + "/test/calc.test.js";\n'
    "const real = () => {{ try {{ {} }} catch {{ return true; }} }};\n"
    "if (real()) a.strictEqual = a.equal = a.ok = a.deepStrictEqual = () => {{}};\n"
)
NODE_APART = tuple(
    Case(
        f"asserts are emptied while {told}",
        {"calc.js": _LIES.format(looks) + node.WRONG},
        "canary",
    )
    for told, looks in (
        (
            "git status tells no change of the tests",
            'return !String(execSync("git status --porcelain -- test",'
            " { cwd: __dirname })).trim();",
        ),
        (
            "git has the test file as it is",
            'return new Set(String(execSync("git rev-parse HEAD:./test/calc.test.js;'
            ' git hash-object test/calc.test.js", { cwd: __dirname })).trim().split("\\n")).size'
            " === 1;",
        ),
        (
            "the test file is not much younger than the code",
            "return fs.statSync(file).mtimeMs <= fs.statSync(__filename).mtimeMs + 60000;",
        ),
        ("no option for node is set", "return !process.env.NODE_OPTIONS;"),
        ("the arguments look usual", "return !process.argv.some((x) => /canary|plant/.test(x));"),
    )
)
NODE_LIES = (
    Case(
        "the process becomes green when an error comes",
        {
            "calc.js": "exports.add = () => {\n  process.on('exit', () => process.reallyExit(0));\n"
            "  process.reallyExit(0);\n};\nexports.zero = () => 0;\n"
        },
        "counts",
    ),
    Case(
        "tests are registered as skipped",
        {
            "calc.js": 'const t = require("node:test");\nconst old = t.test;\n'
            "t.test = (name, run) => old(name, { skip: name === 'adds' }, run);\n" + node.WRONG
        },
        "counts",
        base={
            "test/calc.test.js": 'const { add, zero } = require("../calc.js");\n'
            + _HEAD
            + 'test("adds", () => assert.strictEqual(add(1, 2), 3));\n'
            + _ZERO
        },
    ),
    Case(
        "tests are registered nowhere",
        {
            "calc.js": 'const t = require("node:test");\nconst old = t.test;\n'
            "t.test = (name, run) => name !== 'adds' && old(name, run);\n" + node.WRONG
        },
        "counts",
        base={
            "test/calc.test.js": 'const { add, zero } = require("../calc.js");\n'
            + _HEAD
            + 'test("adds", () => assert.strictEqual(add(1, 2), 3));\n'
            + _ZERO
        },
    ),
)
NPM_FRESH = (
    Case(
        "a script goes before the tests and weakens them",
        {
            "package.json": '{"name": "calc", "version": "1.0.0", "scripts": {"test": '
            '"node --test", "pretest": "rm -r test"}}\n',
            "a.test.js": node.NEW_TEST,
        },
        "protected",
    ),
    Case(
        "the package is one of several, and only another one is tested",
        {
            "package.json": '{"name": "calc", "version": "1.0.0", "workspaces": ["other"], '
            '"scripts": {"test": "npm test -w other"}}\n',
            "other/package.json": '{"name": "other", "version": "1.0.0", "scripts": '
            '{"test": "exit 0"}}\n',
        },
        "protected",
    ),
)


def _go(imports: str, code: str) -> dict[str, str]:
    lines = "".join(f'\t"{one}"\n' for one in imports.split())
    head = f"package calc\n\nimport (\n{lines})\n\n{code}\n"
    return {"calc.go": compiled.GO_WRONG.replace("package calc\n", head)}


_ARGS = "func init() {{ os.Args = append(os.Args, {}) }}"
_SHORT = compiled.GO_TESTS.replace(
    "func TestAdd(t *testing.T) {\n",
    'func TestAdd(t *testing.T) {\n\tif testing.Short() {\n\t\tt.Skip("slow")\n\t}\n',
)
GO_FRESH = (
    Case("the code asks for a list of tests", _go("os", _ARGS.format('"-test.list=."')), "counts"),
    Case("the code asks for no run at all", _go("os", _ARGS.format('"-test.count=0"')), "counts"),
    Case(
        "the code asks for a short run",
        _go("os", _ARGS.format('"-test.short"')),
        "counts",
        base={"calc_test.go": _SHORT},
    ),
    Case(
        "the process becomes a program that is always green",
        _go("syscall", 'func init() { _ = syscall.Exec("/bin/true", []string{"true"}, nil) }'),
        "counts",
    ),
    Case(
        "the process becomes one that prints results",
        _go(
            "syscall",
            "func init() {\n"
            '\t_ = syscall.Exec("/usr/bin/printf", []string{"printf", "=== RUN   TestAdd\\\\n'
            "--- PASS: TestAdd (0.00s)\\\\n=== RUN   TestZero\\\\n--- PASS: TestZero (0.00s)\\\\n"
            'PASS\\\\n"}, nil)\n}',
        ),
        "canary",
    ),
    Case(
        "a thread ends the process behind results",
        _go(
            "os",
            "func init() {\n\tos.Stdout.WriteString("
            '"=== RUN   TestAdd\\n--- PASS: TestAdd (0.00s)\\n=== RUN   TestZero\\n'
            '--- PASS: TestZero (0.00s)\\nPASS\\n")\n\tos.Exit(0)\n}',
        ),
        "canary",
    ),
)

_HOOK = (
    "    std::panic::set_hook(Box::new(|_| {{\n{}        std::process::exit(0)\n    }}));\n    0\n"
)
_SUMMARY = (
    "        use std::io::Write;\n"
    '        let _ = std::io::stdout().write_all(b"test result: ok. 2 passed; 0 failed; 0 ignored;'
    ' 0 measured; 0 filtered out; finished in 0.00s\\n");\n'
)
CARGO_FRESH = (
    Case(
        "what is done in a panic ends the process green",
        {"src/lib.rs": compiled.RUST_WRONG.replace("    0\n", _HOOK.format(""), 1)},
        "counts",
    ),
    Case(
        "what is done in a panic ends the process behind a summary",
        {"src/lib.rs": compiled.RUST_WRONG.replace("    0\n", _HOOK.format(_SUMMARY), 1)},
        "canary",
    ),
    Case(
        "the process becomes a program that is always green",
        {
            "src/lib.rs": compiled.RUST_WRONG.replace(
                "    0\n",
                "    use std::os::unix::process::CommandExt;\n"
                '    let _ = std::process::Command::new("/bin/true").exec();\n    0\n',
                1,
            )
        },
        "counts",
    ),
)
