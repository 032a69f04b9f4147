"""The planted test of `go test` and `cargo test`. Pure.

It stands in one process with real tests, so that code that ends the process, when it is loaded or
when it is called, takes the planted test along: in a test file of a package in Go, first of its
tests, in a test file in Rust.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection

from driver.runners.insertion import Call, Canary, Field, NotApplicable, Plan, camel

_SELECTS_GO = ("-run", "-skip", "-c", "-list", "-args", "-fuzz")
_NOT_IN_ALL = ("testdata", "vendor")
_PACKAGE = re.compile(r"^package\s+(\w+)", re.M)
_CONSTRAINED = re.compile(r"^//(?:go:build| ?\+build)", re.M)
_IMPORTS_TESTING = re.compile(r'^(?:import)?\s+"testing"$', re.M)
_GO_TEST = re.compile(r"^func Test\w*\(", re.M)
_GO = """\
func Test{camel}(t *testing.T) {{
	t.Fatal("planted to fail")
}}
"""

_SELECTS_CARGO = ("--lib", "--bin", "--bins", "--doc", "--example", "--examples", "--bench")
_TAKES_VALUE_CARGO = (
    *("--test", "-p", "--package", "--features", "-F", "--profile", "--target", "--color"),
    *("--manifest-path", "--target-dir", "-j", "--jobs", "--exclude"),
)
_RUST = """
#[test]
fn test_{nonce}() {{
    panic!("planted to fail");
}}
"""


def plan_go(field: Field) -> Plan:
    """First of the tests of a package, so that it is seen to fail whatever the next one does: of a
    changed one, where that has tests."""
    call, files, changed = field.call, field.files, field.changed
    texts, nonce = field.texts, field.nonce
    words = call.words[call.words.index("test") + 1 :]
    if any(word.partition("=")[0].replace("--", "-") in _SELECTS_GO for word in words):
        return NotApplicable("the command selects tests by name")
    named = [word for word in words if word.startswith(".")] or ["."]
    tests = [file for file in files if file.endswith("_test.go")]
    tests = [file for file in tests if _runs(file, named, call, files)]
    if not tests:
        return NotApplicable("no test file of the command is in the tree")
    touched = {posixpath.dirname(file) for file in changed}
    first = min(tests, key=lambda file: (posixpath.dirname(file) not in touched, file))
    below = call.below(posixpath.dirname(first) or ".")
    command = call.with_more(below if below == "." else f"./{below}") or call.command
    test, names = _GO.format(camel=camel(nonce)), (f"Test{camel(nonce)}",)
    source = texts.get(first, "")
    if at := _place_go(source):
        text = f"{source[:at]}{test}\n{source[at:]}"
        return Canary("go", first, text, names, command, None, amends=True)
    found = _PACKAGE.search(source)
    if found is None:
        return NotApplicable(f"the package of {first} is not known")
    path = posixpath.join(posixpath.dirname(first), f"0{nonce}_test.go")
    text = f'package {found[1]}\n\nimport "testing"\n\n{test}'
    return Canary("go", path, text, names, command, None)


def _place_go(source: str) -> int:
    """Where in a test file one more test may stand; 0 for nowhere."""
    if _CONSTRAINED.search(source) or not _IMPORTS_TESTING.search(source):
        return 0
    first = _GO_TEST.search(source)
    return first.start() if first else 0


def _runs(file: str, named: list[str], call: Call, files: Collection[str]) -> bool:
    """Whether the command runs the tests of this file: `./...` leaves out some folders."""
    folder = posixpath.dirname(file)
    if any(folder == call.in_tree(word) for word in named):
        return True
    for word in named:
        top = call.in_tree(word.removesuffix("...").rstrip("/"))
        if not word.endswith("...") or (top and not folder.startswith(f"{top}/") and folder != top):
            continue
        parts = folder.removeprefix(top).strip("/").split("/")
        hidden = any(part in _NOT_IN_ALL or part[:1] in ("_", ".") for part in parts if part)
        if not hidden and not _other_module(folder, top, files):
            return True
    return False


def _other_module(folder: str, top: str, files: Collection[str]) -> bool:
    while folder not in (top, ""):
        if f"{folder}/go.mod" in files:
            return True
        folder = posixpath.dirname(folder)
    return False


def plan_cargo(field: Field) -> Plan:
    """At the end of a file of `tests/`; of a copy, where that may bring a `main` of its own."""
    call, files, texts, nonce = field.call, field.files, field.texts, field.nonce
    words = call.words[call.words.index("test") + 1 :]
    ours = words[: words.index("--")] if "--" in words else words
    theirs = words[len(ours) + 1 :]
    named, selects = _cargo_tests(ours)
    if selects or any(not word.startswith("-") for word in theirs):
        return NotApplicable("the command selects tests by name")
    top = f"{call.folder}/" if call.folder else ""
    tests = [f for f in files if f.startswith(top) and re.search(r"(?:^|/)tests/[^/]+\.rs$", f)]
    tests = [f for f in tests if not named or posixpath.basename(f)[:-3] in named]
    first = min(tests, key=lambda file: (file.count("/"), file), default=None)
    if first is None or first not in texts:
        return NotApplicable("no file of tests that can be read is in the tree")
    text = f"{texts[first]}\n{_RUST.format(nonce=nonce)}"
    names = (f"test_{nonce}",)
    if "#[test]" in texts[first] and "fn main" not in texts[first]:
        name = posixpath.basename(first)[:-3]
        more = call.with_more("--test", name) if "--" not in words else None
        alone = call.command if named else more
        return Canary("cargo", first, text, names, call.command, alone, amends=True)
    command = call.with_more("--test", nonce) if named and "--" not in words else None
    if named and command is None:
        return NotApplicable("the command names test files, and none can be added to it")
    path = posixpath.join(posixpath.dirname(first), f"{nonce}.rs")
    return Canary("cargo", path, text, names, command or call.command, None)


def _cargo_tests(words: tuple[str, ...]) -> tuple[list[str], bool]:
    """The test files that are named, and whether tests are selected otherwise."""
    named, selects, before = [], False, ""
    for word in words:
        if before == "--test":
            named.append(word)
        elif before not in _TAKES_VALUE_CARGO:
            selects = selects or not word.startswith("-") or word in _SELECTS_CARGO
        before = word
    return named, selects
