"""The summaries of `node --test`, jest, vitest and mocha."""

from __future__ import annotations

import re

from driver.runners.result import Counts, Found, Runner, numbers

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


def read_node(text: str) -> Found:
    """What a test prints is a comment in TAP, and looks like TAP under the other reporter."""
    blocks = list(_NODE.finditer(text))
    mark = _SPEC if any(block[1] == _SPEC for block in blocks) else _TAP
    return tuple(_node(block) for block in blocks if block[1] == mark)


def _node(block: re.Match[str]) -> Counts:
    passed, failed, cancelled, skipped, todo = (int(block[number]) for number in range(2, 7))
    red = failed + cancelled
    return Counts("node", passed + red, red, skipped + todo)


def read_jest(text: str) -> Found:
    """A file that could not be loaded counts as one failed test."""
    return _with_none("jest", text, _JEST, _JEST_NONE)


def read_vitest(text: str) -> Found:
    """A file that could not be loaded counts as one failed test."""
    return _with_none("vitest", text, _VITEST, _VITEST_NONE)


def _with_none(name: str, text: str, block: re.Pattern[str], none: re.Pattern[str]) -> Found:
    found = tuple(_files_and_tests(name, one[1], one[2]) for one in block.finditer(text))
    return found or tuple(Counts(name, 0, 0, 0) for _ in none.finditer(text))


def _files_and_tests(name: str, files: str, tests: str) -> Counts:
    said = numbers(tests)
    failed = said.get("failed", 0) or numbers(files).get("failed", 0)
    skipped = said.get("skipped", 0) + said.get("todo", 0)
    return Counts(name, said.get("passed", 0) + failed, failed, skipped)


def read_mocha(text: str) -> Found:
    """The same lines close the spec, dot and min reporters."""
    found = tuple(_mocha(match) for match in _MOCHA.finditer(text))
    return found or tuple(Counts("mocha", 0, 0, 0) for _ in _MOCHA_NONE.finditer(text))


def _mocha(match: re.Match[str]) -> Counts:
    passed, skipped, failed = (int(number or 0) for number in match.groups())
    return Counts("mocha", passed + failed, failed, skipped)


RUNNERS = (
    Runner("node", read_node),
    Runner("jest", read_jest, stream="err"),
    Runner("vitest", read_vitest),
    Runner("mocha", read_mocha),
)
