"""`go test`: its summary and its canary. The canary is the first test in a package's test file. It
shares the process with the real tests, so code that ends the process also ends the canary."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

from driver.runners.result import CONTRADICTORY, Counts, Doubt, Found
from driver.runners.runner import (
    Call,
    Canary,
    CanaryInput,
    NotApplicable,
    Plan,
    Runner,
    camel,
    head_comments,
)
from state_store.documents.strict_json import parse
from state_store.values.lazy_pattern import lazy_pattern

_PACKAGE_LINE = lazy_pattern(r"^(?:ok  |FAIL|\?   |---)\t?.*$", re.M)
_EMPTY = lazy_pattern(r"^(?:ok  \t.*\[no tests to run\]|\?   \t.*\[no test files\])$")
_STARTED = lazy_pattern(r"^=== RUN +(\S+)$", re.M)
_ENDED = lazy_pattern(r"^ *--- (PASS|FAIL|SKIP): (\S+) \([\d.]+s\)$", re.M)
_NOT_BUILT = lazy_pattern(r"^FAIL\t.*\[(?:build|setup) failed\]$", re.M)
_ACTIONS = (
    *("start", "run", "pause", "cont", "pass", "bench", "fail", "output", "skip", "attr"),
    *("artifacts", "build-output", "build-fail"),
)


def _read(text: str) -> Found:
    """The counts, with sub-tests. Without -v or -json go prints only packages, which are not
    counted."""
    if events := _events(text):
        return (_from_events(events),)
    if started := Counter(_STARTED.findall(text)):
        return _from_lines(text, started)
    packages = _PACKAGE_LINE.findall(text)
    nothing = packages and all(_EMPTY.match(line) for line in packages)
    return (Counts("go", 0, 0, 0),) if nothing else ()


def _events(text: str) -> list[dict[str, Any]]:
    """The events of `go test -json`. JSON of other programs has other actions or names."""
    events = []
    for line in text.split("\n"):
        if line.startswith('{"') and '"Action"' in line:
            with suppress(ValueError):
                event = parse(line)
                names = (event.get("Package", event.get("ImportPath")), event.get("Test", ""))
                if event.get("Action") in _ACTIONS and all(isinstance(n, str) for n in names):
                    events.append(event)
    return events


def _from_events(events: list[dict[str, Any]]) -> Counts:
    tests = [event for event in events if event.get("Test")]
    ended = Counter(event["Action"] for event in tests)
    lost = ended["run"] - ended["pass"] - ended["fail"] - ended["skip"]
    red = {event.get("Package") for event in tests if event["Action"] == "fail"}
    broken = [one for one in events if one["Action"] == "fail" and not one.get("Test")]
    unbuilt = sum(one.get("Package") not in red for one in broken)
    failed = ended["fail"] + max(lost, 0) + unbuilt
    return Counts("go", ended["pass"] + failed, failed, ended["skip"])


def _from_lines(text: str, started: Counter[str]) -> Found:
    """The counts of the lines of `go test -v`. A start without a result is a crash; a result
    without a start is a contradiction."""
    results = _ENDED.findall(text)
    ended = Counter(name for _, name in results)
    if ended - started:
        return Doubt("go", CONTRADICTORY)
    by_word = Counter(result for result, _ in results)
    failed = by_word["FAIL"] + (started - ended).total() + len(_NOT_BUILT.findall(text))
    return (Counts("go", by_word["PASS"] + failed, failed, by_word["SKIP"]),)


_FAILED = lazy_pattern(r"--- FAIL: (\w+) \(")


def _failures(text: str) -> dict[str, str]:
    """The failed tests, also in the output that `-json` quotes."""
    return dict.fromkeys(_FAILED.findall(text), "")


_SELECTS = ("-skip", "-c", "-list", "-args", "-fuzz")
_NOT_IN_ALL = ("testdata", "vendor")
_PACKAGE = lazy_pattern(r"^package\s+(\w+)", re.M)
_CONSTRAINED = lazy_pattern(r"^//(?:go:build| ?\+build)", re.M)
_IMPORTS_TESTING = lazy_pattern(r'^(?:import)?\s+"testing"$', re.M)
_FIRST_TEST = lazy_pattern(r"^func (Test\w*)\(", re.M)
_TEST = """\
func {name}(t *testing.T) {{
	t.Fatal("planted to fail")
}}
"""


def plan_go(given: CanaryInput) -> Plan:
    """Put the canary before the other tests of a package, so that it fails before they run. Prefers
    a package that the work changed."""
    call, nonce = given.call, given.nonce
    words = call.words[call.words.index("test") + 1 :]
    if any(word.partition("=")[0].replace("--", "-") in _SELECTS for word in words):
        return NotApplicable("the command selects tests by name")
    named = [word for word in words if word.startswith(".")] or ["."]
    tests = [file for file in given.files if file.endswith("_test.go")]
    tests = [file for file in tests if _runs(file, named, call, given.files)]
    if not tests:
        return NotApplicable("the tree has no test file of the command")
    touched = {posixpath.dirname(file) for file in given.changed}
    tests.sort(key=lambda file: (posixpath.dirname(file) not in touched, file))
    host, name = tests[0], f"Test{camel(nonce)}"
    pattern = _pattern(words)
    chosen = _selected(given, tests, pattern) if pattern else (host, name)
    host, name = chosen or (host, name)
    below = call.below(posixpath.dirname(host) or ".")
    more = [below if below == "." else f"./{below}", *([] if chosen else [f"-run={name}"])]
    command = call.with_more(*more)
    if command is None and not chosen:
        return NotApplicable("the command selects tests by name")
    test, names = _TEST.format(name=name), (name,)
    canary = Canary("go", host, "", names, command or call.command, None, selects=not chosen)
    source = given.texts.get(host, "")
    may_stand = not _CONSTRAINED.search(source) and _IMPORTS_TESTING.search(source)
    if may_stand and (first := _FIRST_TEST.search(source)):
        text = f"{source[: first.start()]}{test}\n{source[first.start() :]}"
        return replace(canary, text=text, amends=True)
    found = _PACKAGE.search(source)
    if found is None:
        return NotApplicable(f"the package of {host} is unknown")
    path = posixpath.join(posixpath.dirname(host), f"0{nonce}_test.go")
    return replace(canary, path=path, text=f'package {found[1]}\n\nimport "testing"\n\n{test}')


def _pattern(words: Sequence[str]) -> str:
    """The pattern of names that selects tests, without the part for sub-tests; "" for none."""
    value = ""
    for word, following in pairwise((*words, "")):
        name, given, attached = word.replace("--", "-").partition("=")
        if name == "-run":
            value = attached if given else following
    return value.partition("/")[0]


def _selected(given: CanaryInput, tests: Sequence[str], pattern: str) -> tuple[str, str] | None:
    """A test file and a new name that begins like a test of it, both selected by the pattern; None
    if the pattern selects whole names only."""
    try:
        selects = re.compile(pattern)
    except re.error:
        return None
    for file in tests:
        for old in _FIRST_TEST.findall(given.texts.get(file, "")):
            name = f"{old}{camel(given.nonce)}"
            if selects.search(old) and selects.search(name):
                return file, name
    return None


def _runs(file: str, named: list[str], call: Call, files: Collection[str]) -> bool:
    """True if the command runs the tests of this file: `./...` skips some folders."""
    folder = posixpath.dirname(file)
    if any(folder == call.in_tree(word) for word in named):
        return True
    for word in named:
        top = call.in_tree(word.removesuffix("...").rstrip("/"))
        if not word.endswith("...") or (top and not folder.startswith(f"{top}/") and folder != top):
            continue
        parts = folder.removeprefix(top).strip("/").split("/")
        hidden = any(part in _NOT_IN_ALL or part[:1] in ("_", ".") for part in parts if part)
        if not hidden and not _in_other_module(folder, top, files):
            return True
    return False


def _in_other_module(folder: str, top: str, files: Collection[str]) -> bool:
    """True if a `go.mod` between `top` and the folder makes it part of another module."""
    while folder not in (top, ""):
        if f"{folder}/go.mod" in files:
            return True
        folder = posixpath.dirname(folder)
    return False


def _emptied(path: str, text: str) -> str | None:
    """The comments at the top, with build constraints, and the package."""
    found = _PACKAGE.search(text)
    if not path.endswith("_test.go") or found is None:
        return None
    return f"{head_comments(text)}package {found[1]}\n"


RUNNERS = (
    Runner(
        name="go",
        read=_read,
        counting=("-v",),
        counting_already=("-v", "-json", "-args", "-c", "-list"),
        verb_of="go",
        closes=False,
        test_files=(r".*_tests?\.go",),
        config_options=("-overlay", "-modfile", "-exec", "-toolexec"),
        plan=plan_go,
        failures=_failures,
        red=(
            r"^ *--- FAIL: (?P<name>\S+) \(",
            r"^FAIL\t(?P<name>\S+)(?:\t| \[|$)",
            r'^\{.{0,200}"Action":"fail".{0,200}"Test":"(?P<name>[^"]+)"',
            r'^\{.{0,200}"Action":"fail","Package":"(?P<name>[^"]+)","Elapsed"',
        ),
        red_marks=(r"^panic: ", r"^ +\w+_test\.go:\d+: ", r"^\S+\.go:\d+:\d+: ", r"^# \S+$"),
        canary_reads=(r"_test\.go$",),
        emptied=_emptied,
    ),
)
