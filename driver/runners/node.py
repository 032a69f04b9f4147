"""`node --test`, jest, vitest and mocha: their summaries and the tests that they report as failed.
`driver.runners.javascript_canary` plans their canary."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import partial

from driver.runners.javascript_canary import MOCHA_CONFIG, found_by_node, plan_node, planner
from driver.runners.result import Counts, Found, numbers, read_jest_json
from driver.runners.runner import Call, Report, Runner, Selection, leaves_out_by, named_files
from driver.test_style.javascript_files import CODE_FILES
from driver.test_style.javascript_suites import JEST, MOCHA, VITEST
from state_store.values.lazy_pattern import lazy_pattern

NODE_SUMMARY = lazy_pattern(
    r"^(# |\u2139 )tests \d+\n(?:\1suites \d+\n)?\1pass (\d+)\n\1fail (\d+)\n\1cancelled (\d+)\n"
    r"\1skipped (\d+)\n\1todo (\d+)\n\1duration_ms [\d.]+$",
    re.M,
)
_TAP, _SPEC = "# ", "\u2139 "
_JEST = lazy_pattern(r"^Test Suites: +(.+)\nTests: +(.+)\nSnapshots: .+\nTime: .+$", re.M)
_JEST_NONE = lazy_pattern(r"^No tests found, exiting with code \d+$", re.M)
_VITEST = lazy_pattern(
    r"^ *Test Files  (.+)\n *Tests  (.+)\n(?: *[A-Z].*\n)*? *Start at  .+$", re.M
)
_VITEST_NONE = lazy_pattern(r"^No test files found, exiting with code \d+$", re.M)
_MOCHA = lazy_pattern(
    r"^  (\d+) passing \(.+\)$(?:\n  (\d+) pending$)?(?:\n  (\d+) failing$)?", re.M
)
_MOCHA_NONE = lazy_pattern(r"^Error: No test files found\b", re.M)


def _read_node(text: str) -> Found:
    """The counts of node. Text that looks like TAP is test output under the other reporter."""
    blocks = list(NODE_SUMMARY.finditer(text))
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


_FAILED = lazy_pattern(
    r"^ *(?:not ok \d+ - (?P<tap>.*?)|\u2716 (?P<spec>.*?))(?: # .*| \([\d.]+ms\).*)?$", re.M
)


def _failures(text: str) -> dict[str, str]:
    """The failed tests of both reporters. A test of Node fails by what it throws."""
    return {one["tap"] or one["spec"]: "" for one in _FAILED.finditer(text)}


_ASSERTION = lazy_pattern(
    r"^(?:\w*Assertion\w*|UnexpectedError)\b|\bERR_ASSERTION\b|^(?:Error: )?expect\(|^assert\b"
    r"|^(?:Error: )?expected .* to |^Expected value "
)
_OF_JEST = lazy_pattern(r"^ *\u25cf (?P<name>.+)\n\s*(?P<why>\S.*)$", re.M)
_OF_VITEST = lazy_pattern(r"^(?: *FAIL  .*\n)+(?P<why>\S.*)?$", re.M)
_NAME_OF_VITEST = lazy_pattern(r"^ *FAIL  .* > (.*)$", re.M)
_OF_MOCHA = lazy_pattern(r"^  \d+\) (?P<names>\S.*(?:\n {7,}\S.*)*?):\n\s*(?P<why>\S.*)$", re.M)


def _why(name: str, line: str) -> str:
    """The reason of a failure; "" if the first line of its message tells of an assertion."""
    return "" if _ASSERTION.search(line) or name in line else line.strip()


def _failures_of_jest(text: str) -> dict[str, str]:
    """The failed tests by their own names, without those of the groups around them."""
    found = {}
    for one in _OF_JEST.finditer(text):
        name = one["name"].rpartition(" \u203a ")[2]
        found[name] = _why(name, one["why"])
    return found


def _failures_of_vitest(text: str) -> dict[str, str]:
    """The failed tests by their own names. Tests that fail alike share a message."""
    found = {}
    for block in _OF_VITEST.finditer(text):
        for name in _NAME_OF_VITEST.findall(block[0]):
            found[name] = _why(name, block["why"] or "")
    return found


def _failures_of_mocha(text: str) -> dict[str, str]:
    """The failed tests by their own names: the last line of a name that has a line a group."""
    found = {}
    for one in _OF_MOCHA.finditer(text):
        name = one["names"].rpartition("\n")[2].strip()
        found[name] = _why(name, one["why"])
    return found


def _leaves_out(call: Call, files: Collection[str], left_out: Sequence[str]) -> Selection | None:
    """By the names of all other files: node has no option that leaves a file out. Its
    `--test-skip-pattern` takes the names of tests, and not before node 22."""
    if any(not word.startswith("-") for word in call.words[1:]):
        return None
    others = sorted({*found_by_node(call, files)} - {*left_out})
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
        canary_reads=(CODE_FILES,),
        failures=_failures,
        red=(
            r"^ *not ok \d+ - (?P<name>(?!.* # (?:SKIP|TODO)).+)$",
            r"^ *\u2716 (?P<name>(?!failing tests:)\S.*?)(?: \([\d.]+ms\))?$",
        ),
        red_marks=(r"^test at .+:\d+:\d+$", r"^ +error: ", r"^ *\w*Error\b.*: "),
    ),
    Runner(
        name="jest",
        read=partial(_read_blocks, "jest", _JEST, _JEST_NONE),
        programs=("jest",),
        stream="err",
        test_files=_TEST_NAMES,
        named=named_files,
        report=Report(
            variable="",
            options="--json --outputFile={path}",
            name="results",
            rival=r"--(?:json|outputFile|listTests|watch\w*|showConfig|init|help|version)\b",
            configs=(),
            notice=r"^Test results written to: {path}\n",
            broken=r"Unrecognized (?:option|CLI Parameter)",
            read=read_jest_json,
        ),
        plan=planner(JEST),
        leaves_out=_leaves_out_jest,
        canary_reads=(CODE_FILES,),
        failures=_failures_of_jest,
        configures=("jest.config.*", "jest.setup.*", "setuptests.[jt]s*"),
        config_options=("-c",),
        red=(r"^ *\u25cf (?P<name>(?!Console$).+)$", r"^FAIL (?P<name>\S+)(?: \([\d.]+ m?s\))?$"),
    ),
    Runner(
        name="vitest",
        read=partial(_read_blocks, "vitest", _VITEST, _VITEST_NONE),
        programs=("vitest",),
        test_files=_TEST_NAMES,
        named=named_files,
        report=Report(
            variable="",
            options="--reporter=default --reporter=json --outputFile.json={path}",
            name="results",
            rival=r"--(?:reporter|outputFile|watch|ui|mergeReports|help|version|config|root)\b"
            r"|\breporters\b| -[cr] "
            r"|\bvitest (?:list|bench|init|related)\b",
            configs=tuple(
                f"{name}.config.{end}"
                for name in ("vitest", "vite")
                for end in ("ts", "js", "mts", "mjs", "cts", "cjs")
            ),
            notice=r"^JSON report written to {path}\n",
            broken=r"CACError: Unknown option",
            read=read_jest_json,
        ),
        plan=planner(VITEST),
        leaves_out=partial(leaves_out_by, "--exclude"),
        canary_reads=(CODE_FILES,),
        failures=_failures_of_vitest,
        configures=("vitest.config.*", "vitest.workspace.*", "vite.config.*", "vitest.setup.*"),
        config_options=("-c",),
        red=(r"^ *FAIL  (?P<name>\S.*)$",),
        red_marks=(r"^ +[\u00d7\u2717] ", r"^\w*Error: ", r"^ +\u276f \S+:\d+:\d+$"),
    ),
    Runner(
        name="mocha",
        read=_read_mocha,
        programs=("mocha",),
        test_files=_TEST_NAMES,
        named=named_files,
        plan=planner(MOCHA),
        leaves_out=partial(leaves_out_by, "--ignore"),
        canary_reads=(CODE_FILES, MOCHA_CONFIG),
        failures=_failures_of_mocha,
        configures=(".mocharc*", "mocha.opts"),
        config_options=("-r", "--require", "--file"),
        red=(r"^  \d+\) (?P<name>\S.*(?:\n {7,}\S.*)*?):$",),
        red_marks=(r"^ +\d+\) \S", r"^ +\w*Error\b.*: "),
    ),
)
