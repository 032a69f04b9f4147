"""The planted test of `node --test`, called directly or by `npm test`. Pure.

An ES module, as these can load either kind of module. Its test fails only when every usual way to
fail works.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Mapping

from driver.canary_call import Call, Canary, NotApplicable, find_call

_TEST_FILE = re.compile(r"(?:^|[./_-])test\.[cm]?js$|(?:^|/)test-[^/]*\.[cm]?js$|^test\.[cm]?js$")
_TEST_FOLDER = re.compile(r"(?:^|/)test/.*\.[cm]?js$")
_CODE = re.compile(r"\.[cm]?js$")
_NOT_IMPORTED = re.compile(r"(?:^|/)(?:scripts|bin|docs|examples)/|\.config\.[cm]?js$")
_SELECTS = ("--test-name-pattern", "--test-only", "--test-skip-pattern")
_NPM = re.compile(r"^(?:npm|pnpm|yarn)(?:\.cmd)?$")
_CONFIG = "package.json"

_TEXT = """\
import assert from "node:assert";
import {{ test }} from "node:test";

for (const path of {modules}) {{
  try {{
    await import(new URL(path, import.meta.url).href);
  }} catch {{}}
}}

const holds = (check) => {{
  try {{
    check();
  }} catch {{
    return true;
  }}
  return false;
}};

test("test_{nonce}", () => {{
  const checks = [
    () => assert(false),
    () => assert.equal(1, 2),
    () => assert.strictEqual("a", "b"),
    () => assert.deepStrictEqual([1], [2]),
  ];
  if (checks.every(holds)) throw new Error("planted to fail");
}});
"""


def plan_node(
    call: Call, files: Collection[str], changed: Collection[str], nonce: str
) -> Canary | NotApplicable:
    """Beside the tests; its path is added where the command names files."""
    if any(word.partition("=")[0] in _SELECTS for word in call.words):
        return NotApplicable("the command selects tests by name")
    path = _place(files, call.folder, nonce)
    if path is None:
        return NotApplicable("no test file is in the tree")
    added = call.with_more(call.below(path))
    named = [word for word in call.words[1:] if not word.startswith("-")]
    if named and added is None:
        return NotApplicable("the command names files, and none can be added to it")
    command = added if named and added else call.command
    text = _text(path, changed, nonce)
    return Canary("node", path, text, (f"test_{nonce}",), command, None if named else added)


def npm_call(command: str | tuple[str, ...], workdir: str, texts: Mapping[str, str]) -> Call | None:
    """The call of `node --test` in package.json's test script, when the command runs that one."""
    words = tuple(command.split()) if isinstance(command, str) else command
    runs = len(words) > 1 and _NPM.match(words[0]) and words[1:] in (("test",), ("run", "test"))
    script = _script(texts.get(posixpath.join(workdir, _CONFIG), "")) if runs else ""
    inner = find_call(script, workdir) if script else None
    if inner is None:
        return None
    more = "npm" in words[0] and "pnpm" not in words[0] and inner.extendable
    outer = (*words, "--") if more else words
    return Call(outer, inner.words, inner.folder, extendable=more)


def _script(text: str) -> str:
    try:
        script = json.loads(text)["scripts"]["test"]
    except (ValueError, KeyError, TypeError):
        return ""
    return script if isinstance(script, str) else ""


def _place(files: Collection[str], top: str, nonce: str) -> str | None:
    here = [file for file in files if not top or file.startswith(f"{top}/")]
    here = [file for file in here if "node_modules/" not in file]
    tests = [file for file in here if _TEST_FILE.search(file) or _TEST_FOLDER.search(file)]
    if not tests:
        return None
    first = min(tests, key=lambda file: (file.count("/"), file))
    return posixpath.join(posixpath.dirname(first), f"{nonce}.test.mjs")


def _text(path: str, changed: Collection[str], nonce: str) -> str:
    home = posixpath.dirname(path) or "."
    modules = [posixpath.relpath(file, home) for file in sorted(changed) if _imported(file)]
    shown = json.dumps([name if name.startswith(".") else f"./{name}" for name in modules])
    return _TEXT.format(modules=shown, nonce=nonce)


def _imported(file: str) -> bool:
    tests = _TEST_FILE.search(file) or _TEST_FOLDER.search(file)
    return bool(_CODE.search(file)) and not tests and not _NOT_IMPORTED.search(file)
