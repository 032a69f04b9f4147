"""The planted test of `node --test`, called directly or by `npm test`. Pure.

It stands at the end of a real test file: node runs each file in a process, and what the code does
to that process, also when it is called, it does to the planted test as well. Where it is not known
how such a file loads others, it stands at the end of a copy. It fails only when every usual way to
fail works.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Mapping

from driver.runners.insertion import Call, Canary, Field, NotApplicable, Plan, find_call

_TEST_FILE = re.compile(r"(?:^|[./_-])test\.[cm]?js$|(?:^|/)test-[^/]*\.[cm]?js$|^test\.[cm]?js$")
_TEST_FOLDER = re.compile(r"(?:^|/)test/.*\.[cm]?js$")
_CODE = re.compile(r"\.[cm]?js$")
_NOT_IMPORTED = re.compile(r"(?:^|/)(?:scripts|bin|docs|examples)/|\.config\.[cm]?js$")
_SELECTS = ("--test-name-pattern", "--test-only", "--test-skip-pattern")
_NPM = re.compile(r"^(?:npm|pnpm|yarn)(?:\.cmd)?$")
_CONFIG = "package.json"

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


def plan_node(field: Field) -> Plan:
    """In a test file that the command runs; a copy is added where the command names files."""
    call, changed, texts, nonce = field.call, field.changed, field.texts, field.nonce
    if any(word.partition("=")[0] in _SELECTS for word in call.words):
        return NotApplicable("the command selects tests by name")
    named = [word for word in call.words[1:] if not word.startswith("-")]
    real = _real_test(field.files, call.folder, [call.in_tree(word) for word in named], changed)
    if real is None:
        return NotApplicable("no test file is in the tree")
    names = (f"test_{nonce}",)
    whole = texts.get(real, "")
    if _is_module(real, texts) or _is_script(real, texts):
        text = whole + _text(real, changed, nonce, as_module=_is_module(real, texts))
        alone = call.command if named else call.with_more(call.below(real))
        return Canary("node", real, text, names, call.command, alone, amends=True)
    path = _place(real, texts, nonce)
    added = call.with_more(call.below(path))
    if named and added is None:
        return NotApplicable("the command names files, and none can be added to it")
    command = added if named and added else call.command
    text = whole + _text(path, changed, nonce, as_module=path.endswith(".mjs"))
    return Canary("node", path, text, names, command, None if named else added)


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


def _real_test(
    files: Collection[str], top: str, named: list[str], changed: Collection[str]
) -> str | None:
    """A test file of the command; one that the work wrote may do as it likes in its process."""
    here = [file for file in files if not top or file.startswith(f"{top}/")]
    here = [file for file in here if "node_modules/" not in file]
    tests = [file for file in here if _TEST_FILE.search(file) or _TEST_FOLDER.search(file)]
    order = {file: (file not in named, file in changed, file.count("/"), file) for file in tests}
    return min(tests, key=order.__getitem__, default=None)


def _place(real: str, texts: Mapping[str, str], nonce: str) -> str:
    """Where the copy of a test stands; its name says which kind of module it is."""
    kind = ".cjs" if real.endswith(".cjs") or real in texts else ".mjs"
    return posixpath.join(posixpath.dirname(real), f"{nonce}.test{kind}")


def _is_module(real: str, texts: Mapping[str, str]) -> bool:
    """Whether a test file imports others, and so may have an `import` anywhere."""
    return real in texts and (real.endswith(".mjs") or _MODULE.search(texts[real]) is not None)


def _is_script(real: str, texts: Mapping[str, str]) -> bool:
    """Whether a test file can require others."""
    return real in texts and (real.endswith(".cjs") or _REQUIRES.search(texts[real]) is not None)


def _text(path: str, changed: Collection[str], nonce: str, *, as_module: bool) -> str:
    home = posixpath.dirname(path) or "."
    modules = [posixpath.relpath(file, home) for file in sorted(changed) if _imported(file)]
    shown = json.dumps([name if name.startswith(".") else f"./{name}" for name in modules])
    start = _AS_MODULE if as_module else _AS_SCRIPT
    return (start + _BODY).format(modules=shown, nonce=nonce)


def _imported(file: str) -> bool:
    tests = _TEST_FILE.search(file) or _TEST_FOLDER.search(file)
    return bool(_CODE.search(file)) and not tests and not _NOT_IMPORTED.search(file)
