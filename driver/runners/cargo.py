"""`cargo test`: its summary and its canary. The canary is at the end of a file of `tests/`, or of a
copy of it. It shares the process with real tests, so code that ends the process also ends the
canary."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Sequence

from driver.runners.result import CONTRADICTORY, Counts, Doubt, Found, total
from driver.runners.runner import (
    Call,
    Canary,
    CanaryInput,
    NotApplicable,
    Plan,
    Runner,
    Selection,
    head_comments,
)
from state_store.values.lazy_pattern import lazy_pattern

_SUMMARY = lazy_pattern(
    r"^running (?P<planned>\d+) tests?$"
    r"|^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored; (\d+) measured;.*$",
    re.M,
)


def _read(text: str) -> Found:
    """The counts of all binaries. Each prints its planned number and its results; both must
    agree."""
    parts: list[Counts] = []
    planned: int | None = None
    for match in _SUMMARY.finditer(text):
        if (match["planned"] is None) == (planned is None):
            return Doubt("cargo", CONTRADICTORY)
        if planned is None:
            planned = int(match["planned"])
            continue
        passed, failed, ignored, measured = (int(match[number]) for number in range(2, 6))
        if passed + failed + ignored + measured != planned:
            return Doubt("cargo", CONTRADICTORY)
        parts.append(Counts("cargo", passed + failed + measured, failed, ignored))
        planned = None
    if planned is not None:
        parts.append(Counts("cargo", 1, 1, 0))
    return (total("cargo", parts),) if parts else ()


_FAILED = lazy_pattern(r"^test (?:\w+::)*(\w+) \.\.\. FAILED$", re.M)


def _failures(text: str) -> dict[str, str]:
    """The failed tests of all binaries."""
    return dict.fromkeys(_FAILED.findall(text), "")


_SELECTS = ("--lib", "--bin", "--bins", "--doc", "--example", "--examples", "--bench")
_TAKES_VALUE = (
    *("--test", "-p", "--package", "--features", "-F", "--profile", "--target", "--color"),
    *("--manifest-path", "--target-dir", "-j", "--jobs", "--exclude"),
)
_IN_TESTS = r"(?:^|/)tests/[^/]+\.rs$"
_TEST = """
#[test]
fn test_{nonce}() {{
    panic!("planted to fail");
}}
"""


def plan_cargo(given: CanaryInput) -> Plan:
    """Add the canary to a file of `tests/`, or to a copy if the file may have its own `main`."""
    call, texts, nonce = given.call, given.texts, given.nonce
    words = call.words[call.words.index("test") + 1 :]
    own = words[: words.index("--")] if "--" in words else words
    named, selects = _test_files(own)
    if selects or any(not word.startswith("-") for word in words[len(own) + 1 :]):
        return NotApplicable("the command selects tests by name")
    top = f"{call.folder}/" if call.folder else ""
    tests = [f for f in given.files if f.startswith(top) and re.search(_IN_TESTS, f)]
    tests = [f for f in tests if not named or posixpath.basename(f)[:-3] in named]
    host = min(tests, key=lambda file: (file.count("/"), file), default=None)
    if host is None or host not in texts:
        return NotApplicable("the tree has no readable test file")
    text = f"{texts[host]}\n{_TEST.format(nonce=nonce)}"
    names = (f"test_{nonce}",)
    if "#[test]" in texts[host] and "fn main" not in texts[host]:
        name = posixpath.basename(host)[:-3]
        more = call.with_more("--test", name) if "--" not in words else None
        alone = call.command if named else more
        return Canary("cargo", host, text, names, call.command, alone, amends=True)
    command = call.with_more("--test", nonce) if named and "--" not in words else None
    if named and command is None:
        return NotApplicable(
            "the command lists its test files, and Tidegate cannot add a file to it"
        )
    path = posixpath.join(posixpath.dirname(host), f"{nonce}.rs")
    return Canary("cargo", path, text, names, command or call.command, None)


def _test_files(words: tuple[str, ...]) -> tuple[list[str], bool]:
    """The test files in the arguments, and True if other arguments select tests."""
    named, selects, before = [], False, ""
    for word in words:
        if before == "--test":
            named.append(word)
        elif before not in _TAKES_VALUE:
            selects = selects or not word.startswith("-") or word in _SELECTS
        before = word
    return named, selects


_MODULE_OF_TESTS = lazy_pattern(r"(?:^|.*/)src/((?:\w+/)*\w+)\.rs")


def _emptied(path: str, text: str) -> str | None:
    """The comments at the top, so that `mod tests;` still finds its file."""
    return head_comments(text) if path.endswith(".rs") else None


def _leaves_out(call: Call, files: Collection[str], left_out: Sequence[str]) -> Selection | None:
    """By `--skip` with the path of a module below `src`. A file of `tests/` is a program of its
    own, whose name no filter sees."""
    del files
    found = [_MODULE_OF_TESTS.fullmatch(path) for path in left_out]
    modules = [one[1].replace("/", "::") for one in found if one]
    if len(modules) < len(left_out):
        return None
    skipped = [word for module in modules for word in ("--skip", f"{module}::")]
    command = call.with_more(*(() if "--" in call.words else ("--",)), *skipped)
    return Selection(command) if command is not None else None


RUNNERS = (
    Runner(
        name="cargo",
        read=_read,
        verb_of="cargo",
        test_files=(r".*_tests?\.rs", r"tests?\.rs"),
        configures=("nextest.toml",),
        plan=plan_cargo,
        failures=_failures,
        red=(
            r"^test (?P<name>.+?)(?: - should panic)? \.\.\. FAILED$",
            r"^(?P<name>\S+) --- FAILED$",
            r"^---- (?P<name>.+?) stdout ----$",
        ),
        red_marks=(
            r"^thread '.*' (?:\(\d+\) )?panicked at ",
            r"^error(?:\[E\d+\])?: ",
            r"^ +--> \S",
        ),
        canary_reads=(_IN_TESTS,),
        emptied=_emptied,
        leaves_out=_leaves_out,
    ),
)
