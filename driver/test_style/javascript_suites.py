"""The runners of JavaScript whose tests stand in files of a usual name: which files they run, and
how a file calls its tests and assertions. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Sequence

from driver.test_style.javascript_asserts import Names
from driver.test_style.javascript_files import matches
from driver.test_style.javascript_style import assert_names, bound_to, call_of_tests
from state_store.values.lazy_dataclass import dataclass
from state_store.values.lazy_pattern import lazy_pattern

_TEST_LIKE = lazy_pattern(
    r"(?:^|[./_-])(?:test|spec)s?\.[cm]?[jt]sx?$"
    r"|(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)test-[^/]*$"
)
_NO_HOST = lazy_pattern(
    r"(?:^|/)(?:node_modules|fixtures?|__fixtures__|__mocks__|support)/|\.d\.\w+$"
)
_OTHER_RUNNERS = lazy_pattern(
    r"""["'](node:test|bun:test|vitest|mocha|tape|tap|ava|uvu|qunit|lab|@jest/globals"""
    r"""|@playwright/test|@hapi/lab)["']"""
)
_SPEC = (
    r"""["']?\b(?:{key})["']?\s*:\s*"""
    r"""(\[(?:[^\]"']|"[^"]*"|'[^']*')*\]|["'][^"']*["']|(?:\n\s*-.*)+|.*)"""
)
_SPEC_WORD = lazy_pattern(r""""([^"]+)"|'([^']+)'|([^\s"'\[\],-][^\s"'\[\],]*)""")
_BAIL = lazy_pattern(r"""["']?\bbail["']?\s*:\s*(?:true|[1-9])""")
_ARGUMENT = r"""^\s*{call}\(\s*["'`][^\n]*?,\s*(?:async\s*)?(?:function\s*\w*\s*\(|\()?\s*(\w+)"""


@dataclass(frozen=True, slots=True)
class Suite:
    """A runner with tests that name no module. `modules` are those that its test files may load it
    from. `by_name` are its options that select tests by name, `values` other options with a value,
    `verbs` words that are no files. Other options `select` tests in a way that is not known. The
    `key` of the files `configs` has the patterns of its test files."""

    runner: str
    modules: tuple[str, ...]
    by_name: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    has_expect: bool = False
    key: str = "spec"
    configs: tuple[str, ...] = ()


def _named(name: str) -> tuple[str, ...]:
    return tuple(f"{name}.{end}" for end in ("js", "ts", "mjs", "mts", "cjs", "cts"))


JEST = Suite(
    "jest",
    ("@jest/globals",),
    by_name=("-t", "--testNamePattern"),
    values=("-c", "--config", "-w", "--maxWorkers", "--testPathIgnorePatterns", "--reporters"),
    select=("--listTests", "--findRelatedTests", "--shard", "-f", "--onlyFailures"),
    key="testMatch",
    configs=("package.json", *_named("jest.config")),
    has_expect=True,
)
VITEST = Suite(
    "vitest",
    ("vitest",),
    by_name=("-t", "--testNamePattern"),
    values=("-c", "--config", "-r", "--root", "--reporter", "--project", "--pool", "--exclude"),
    verbs=("run", "watch", "dev", "--"),
    select=("related", "bench", "list", "--shard"),
    key="include",
    configs=(*_named("vitest.config"), *_named("vite.config")),
)
MOCHA = Suite(
    "mocha",
    ("mocha",),
    by_name=("-g", "--grep", "-f", "--fgrep"),
    values=(
        *("-r", "--require", "--file", "-R", "--reporter", "-t", "--timeout", "-u", "--ui"),
        *("--config", "--extension", "-O", "--reporter-option", "--reporter-options", "-s"),
        *("--slow", "--ignore", "--exclude", "-j", "--jobs", "-n", "--loader", "--import"),
    ),
    select=("-i", "--invert", "--list-tests", "--dry-run"),
    configs=(
        *("package.json", ".mocharc.js", ".mocharc.cjs", ".mocharc.mjs", ".mocharc.json"),
        *(".mocharc.jsonc", ".mocharc.yml", ".mocharc.yaml"),
    ),
)
TAPE = Suite(
    "tap",
    ("tape", "tape-catch", "tape-promise", "blue-tape", "tap"),
    values=("-r", "--require", "-i", "--ignore"),
    select=("--only",),
)


def files_run(
    suite: Suite,
    code: Sequence[str],
    named: Sequence[str],
    configs: Sequence[str],
    below: Callable[[str], str],
) -> Collection[str]:
    """The files of the tree that a call names, or else the configuration; all that look like tests
    if these name none. `below` is a path in the spelling of the call."""
    tests = [one for one in code if _TEST_LIKE.search(one)]
    words = [*named] or [*_patterns(suite, configs)] or ["test/*.*"] * (suite is MOCHA)
    if suite is JEST and named:
        found = {one for one in tests for word in words if _searches(word, below(one))}
    elif suite is VITEST and named:
        found = {one for one in tests for word in words if word.removeprefix("./") in below(one)}
    else:
        found = {one for one in code for word in words if _is_named(word, below(one))}
    return found or tests


def _patterns(suite: Suite, configs: Sequence[str]) -> Iterator[str]:
    """The patterns of test files in a configuration, as far as its text shows."""
    for text in configs:
        for spec in re.findall(_SPEC.format(key=suite.key), text):
            for words in _SPEC_WORD.findall(spec):
                yield "".join(words).removeprefix("<rootDir>/")


def _searches(pattern: str, path: str) -> bool:
    """True if an argument of jest matches a path. An invalid pattern matches none."""
    try:
        return re.search(pattern.removeprefix("./"), path) is not None
    except re.error:
        return False


def _is_named(word: str, path: str) -> bool:
    """True if an argument names a file, its folder, or matches it."""
    word = posixpath.normpath(word)
    return path == word or path.startswith(f"{word}/") or matches(word, path)


def may_hold(path: str) -> bool:
    """True for a file of code that may hold tests."""
    return not _NO_HOST.search(path)


def stops_by_itself(options: Sequence[str], configs: Sequence[str]) -> bool:
    """True if mocha ends at the first failure, by an option or by its configuration."""
    return "--bail" in options or "-b" in options or any(map(_BAIL.search, configs))


def function_of_tests(suite: Suite, source: str) -> str:
    """The function by which a file declares its tests; "" for a file without tests of the
    runner."""
    others = {*_OTHER_RUNNERS.findall(source)} - {*suite.modules}
    if others or suite is not TAPE:
        return "" if others else call_of_tests(source)
    bound = (bound_to(source, re.escape(module)) for module in TAPE.modules)
    return next((one for one in bound if one and re.search(rf"^{one}\(", source, re.M)), "")


def names_in(suite: Suite, source: str) -> Names:
    """The names of the assertions in a file."""
    if suite is not TAPE:
        return assert_names(source, global_expect=suite.has_expect)
    call = function_of_tests(suite, source)
    found = re.search(_ARGUMENT.format(call=call), source, re.M) if call else None
    return Names(tape=found[1] if found else "t")
