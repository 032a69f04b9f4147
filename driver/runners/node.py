"""`node --test`, jest, vitest and mocha: their summaries, and the canary of `node --test`.

The canary is at the end of a real test file. Node runs each file in its own process, so code that
manipulates the process also affects the canary. If the module system of the file is unknown, the
canary is at the end of a copy. It fails only if every usual assertion still works.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Sequence
from functools import partial

from driver.runners.result import Counts, Found, numbers
from driver.runners.runner import (
    Call,
    Canary,
    CanaryInput,
    NotApplicable,
    Plan,
    Runner,
    Selection,
    leaves_out_by,
    named_files,
)

_NODE = re.compile(
    r"^(# |\u2139 )tests \d+\n(?:\1suites \d+\n)?\1pass (\d+)\n\1fail (\d+)\n\1cancelled (\d+)\n"
    r"\1skipped (\d+)\n\1todo (\d+)\n\1duration_ms [\d.]+$",
    re.M,
)
_TAP, _SPEC = "# ", "\u2139 "
_JEST = re.compile(r"^Test Suites: +(.+)\nTests: +(.+)\nSnapshots: .+\nTime: .+$", re.M)
_JEST_NONE = re.compile(r"^No tests found, exiting with code \d+$", re.M)
_VITEST = re.compile(r"^ *Test Files  (.+)\n *Tests  (.+)\n(?: *[A-Z].*\n)*? *Start at  .+$", re.M)
_VITEST_NONE = re.compile(r"^No test files found, exiting with code \d+$", re.M)
_MOCHA = re.compile(r"^  (\d+) passing \(.+\)$(?:\n  (\d+) pending$)?(?:\n  (\d+) failing$)?", re.M)
_MOCHA_NONE = re.compile(r"^Error: No test files found\b", re.M)


def _read_node(text: str) -> Found:
    """The counts of node. Text that looks like TAP is test output under the other reporter."""
    blocks = list(_NODE.finditer(text))
    mark = _SPEC if any(block[1] == _SPEC for block in blocks) else _TAP
    found = []
    for block in blocks:
        if block[1] == mark:
            passed, failed, cancelled, skipped, todo = (int(block[at]) for at in range(2, 7))
            red = failed + cancelled
            found.append(Counts("node", passed + red, red, skipped + todo))
    return tuple(found)


def _read_blocks(name: str, block: re.Pattern[str], none: re.Pattern[str], text: str) -> Found:
    """The counts of jest and vitest. A file that could not be loaded counts as a failed test."""
    found = []
    for one in block.finditer(text):
        by_word = numbers(one[2])
        failed = by_word.get("failed", 0) or numbers(one[1]).get("failed", 0)
        skipped = by_word.get("skipped", 0) + by_word.get("todo", 0)
        found.append(Counts(name, by_word.get("passed", 0) + failed, failed, skipped))
    return tuple(found) or tuple(Counts(name, 0, 0, 0) for _ in none.finditer(text))


def _read_mocha(text: str) -> Found:
    """The counts of mocha: the spec, dot and min reporters end with the same lines."""
    found = []
    for match in _MOCHA.finditer(text):
        passed, skipped, failed = (int(number or 0) for number in match.groups())
        found.append(Counts("mocha", passed + failed, failed, skipped))
    return tuple(found) or tuple(Counts("mocha", 0, 0, 0) for _ in _MOCHA_NONE.finditer(text))


_TESTS = (
    r"(?:^|[./_-])test\.[cm]?js$|(?:^|/)test-[^/]*\.[cm]?js$|^test\.[cm]?js$",
    r"(?:^|/)test/.*\.[cm]?js$",
)
_TEST_FILE = re.compile("|".join(_TESTS))
_CODE = re.compile(r"\.[cm]?js$")
_NOT_IMPORTED = re.compile(r"(?:^|/)(?:scripts|bin|docs|examples)/|\.config\.[cm]?js$")
_SELECTS = ("--test-name-pattern", "--test-only", "--test-skip-pattern")

_MODULE = re.compile(r"^\s*(?:import\s[^(]*from\s|import\s*[\"'{*]|export\s)", re.M)
_REQUIRES = re.compile(r"\brequire\([\"']")

_BODY = """
const holds_{nonce} = (check) => {{
  try {{
    check();
  }} catch {{
    return true;
  }}
  return false;
}};

test_{nonce}.test("test_{nonce}", () => {{
  const checks = [
    () => assert_{nonce}(false),
    () => assert_{nonce}.equal(1, 2),
    () => assert_{nonce}.strictEqual("a", "b"),
    () => assert_{nonce}.deepStrictEqual([1], [2]),
  ];
  if (checks.every(holds_{nonce})) throw new Error("planted to fail");
}});
"""
_AS_MODULE = """
import assert_{nonce} from "node:assert";
import * as test_{nonce} from "node:test";

for (const path of {modules}) {{
  try {{
    await import(new URL(path, import.meta.url).href);
  }} catch {{}}
}}
"""
_AS_SCRIPT = """
;
const assert_{nonce} = require("node:assert");
const test_{nonce} = require("node:test");

for (const path of {modules}) {{
  try {{
    require(path);
  }} catch {{}}
}}
"""


def plan_node(given: CanaryInput) -> Plan:
    """Add the canary to a test file of the command, or to a copy if the module system is
    unknown."""
    call, texts, nonce = given.call, given.texts, given.nonce
    if any(word.partition("=")[0] in _SELECTS for word in call.words):
        return NotApplicable("the command selects tests by name")
    named = [word for word in call.words[1:] if not word.startswith("-")]
    real = _real_test(given, [call.in_tree(word) for word in named])
    if real is None:
        return NotApplicable("the tree has no test file")
    names, source = (f"test_{nonce}",), texts.get(real, "")
    is_module = real in texts and (real.endswith(".mjs") or bool(_MODULE.search(source)))
    is_script = real in texts and (real.endswith(".cjs") or bool(_REQUIRES.search(source)))
    if is_module or is_script:
        text = source + _text(real, given.changed, nonce, as_module=is_module)
        alone = call.command if named else call.with_more(call.below(real))
        return Canary("node", real, text, names, call.command, alone, amends=True)
    # The name of a copy decides its module system.
    kind = ".cjs" if real.endswith(".cjs") or real in texts else ".mjs"
    path = posixpath.join(posixpath.dirname(real), f"{nonce}.test{kind}")
    added = call.with_more(call.below(path))
    if named and added is None:
        return NotApplicable(
            "the command lists its test files, and Tidegate cannot add a file to it"
        )
    command = added if named and added else call.command
    text = source + _text(path, given.changed, nonce, as_module=kind == ".mjs")
    return Canary("node", path, text, names, command, None if named else added)


def _real_test(given: CanaryInput, named: list[str]) -> str | None:
    """A test file of the command, preferably a file that the work did not change: a changed file
    may manipulate its process."""
    tests = _found_by_node(given.call, given.files)
    order = {f: (f not in named, f in given.changed, f.count("/"), f) for f in tests}
    return min(tests, key=order.__getitem__, default=None)


def _found_by_node(call: Call, files: Collection[str]) -> list[str]:
    """The files that node runs if the call names none."""
    top = f"{call.folder}/" if call.folder else ""
    return [
        file
        for file in files
        if file.startswith(top) and "node_modules/" not in file and _TEST_FILE.search(file)
    ]


def _leaves_out(call: Call, files: Collection[str], left_out: Sequence[str]) -> Selection | None:
    """By the names of all other files: node has no option that leaves a file out. Its
    `--test-skip-pattern` takes the names of tests, and not before node 22."""
    if any(not word.startswith("-") for word in call.words[1:]):
        return None
    others = sorted({*_found_by_node(call, files)} - {*left_out})
    command = call.with_more(*map(call.below, others)) if others else None
    return Selection(command) if command is not None else None


def _leaves_out_jest(
    call: Call, files: Collection[str], left_out: Sequence[str]
) -> Selection | None:
    """By patterns of paths. The option replaces jest's own pattern, so that is given again."""
    del files
    paths = ("/node_modules/", *map(call.below, left_out))
    command = call.with_more(*(f"--testPathIgnorePatterns={path}" for path in paths))
    return Selection(command) if command is not None else None


def _text(path: str, changed: Collection[str], nonce: str, *, as_module: bool) -> str:
    """The text of the canary for the file `path`. It loads the changed modules first."""
    home = posixpath.dirname(path) or "."
    modules = [
        posixpath.relpath(file, home)
        for file in sorted(changed)
        if _CODE.search(file) and not _TEST_FILE.search(file) and not _NOT_IMPORTED.search(file)
    ]
    shown = json.dumps([name if name.startswith(".") else f"./{name}" for name in modules])
    start = _AS_MODULE if as_module else _AS_SCRIPT
    return (start + _BODY).format(modules=shown, nonce=nonce)


_TEST_NAMES = (
    *(r"tests?\.[cm]?[jt]s", r".*[._-](test|spec)s?\.([cm]?[jt]sx?)", r"test-.*\.[cm]?[jt]s"),
)
RUNNERS = (
    Runner(
        name="node",
        read=_read_node,
        test_files=_TEST_NAMES,
        named=named_files,
        plan=plan_node,
        leaves_out=_leaves_out,
        canary_reads=_TESTS,
    ),
    Runner(
        name="jest",
        read=partial(_read_blocks, "jest", _JEST, _JEST_NONE),
        programs=("jest",),
        stream="err",
        test_files=_TEST_NAMES,
        named=named_files,
        leaves_out=_leaves_out_jest,
        configures=("jest.config.*", "jest.setup.*", "setuptests.[jt]s*"),
        config_options=("-c",),
    ),
    Runner(
        name="vitest",
        read=partial(_read_blocks, "vitest", _VITEST, _VITEST_NONE),
        programs=("vitest",),
        test_files=_TEST_NAMES,
        named=named_files,
        leaves_out=partial(leaves_out_by, "--exclude"),
        configures=("vitest.config.*", "vitest.workspace.*", "vite.config.*", "vitest.setup.*"),
        config_options=("-c",),
    ),
    Runner(
        name="mocha",
        read=_read_mocha,
        programs=("mocha",),
        test_files=_TEST_NAMES,
        named=named_files,
        leaves_out=partial(leaves_out_by, "--ignore"),
        configures=(".mocharc*", "mocha.opts"),
        config_options=("-r", "--require", "--file"),
    ),
)
