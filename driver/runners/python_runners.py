"""The summaries of unittest (also of what builds on it) and of pytest."""

from __future__ import annotations

import re

from driver.runners.result import Counts, Found, Runner, numbers

_UNITTEST = re.compile(
    r"^-{20,}\nRan (\d+) tests? in [\d.,]+s\n\n(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$",
    re.M,
)
_PROGRESS = re.compile(r"^[.FEsxu]+$", re.M)
_RESULT = re.compile(r"([a-z]+(?: [a-z]+)?)=(\d+)")

_HEADER = re.compile(r"^=+ test session starts =+$", re.M)
_PYTEST = re.compile(
    r"^(?P<rule>=+ )?(?P<what>no tests (?:ran|collected)\b[^=\n]*?|\d[\d/]* [a-z][a-z ]*[^=\n]*?)"
    r" in \d+(?:\.\d+)?s(?: \([^)\n]*\))?(?(rule) =+)$",
    re.M,
)
_KNOWN = ("passed", "failed", "skipped", "deselected", "xfailed", "xpassed", "error", "errors")
_FAILED_PART = re.compile(r"^SUBFAIL(?:ED)?\b", re.M)
_AT_TEARDOWN = re.compile(r"^_+ ERROR at teardown of .+ _+$", re.M)


def read_unittest(text: str) -> Found:
    """What was skipped is among the "Ran", except in Python 3.12.1."""
    found = []
    start = 0
    for match in _UNITTEST.finditer(text):
        found.append(_unittest(match, text[start : match.start()]))
        start = match.end()
    return tuple(found)


def _unittest(match: re.Match[str], before: str) -> Counts:
    said = {name: int(number) for name, number in _RESULT.findall(match[2] or "")}
    told, skipped = int(match[1]), said.get("skipped", 0)
    expected = said.get("expected failures", 0) + said.get("unexpected successes", 0)
    # One version leaves the skipped ones out of "Ran"; its line of marks, one a test, shows them.
    left_out = skipped and sum(map(len, _PROGRESS.findall(before))) == told + skipped
    ran = told - expected - (0 if left_out else skipped)
    failed = said.get("failures", 0) + said.get("errors", 0)
    return Counts("unittest", max(ran, 0), failed, skipped + expected)


def read_pytest(text: str) -> Found:
    """Where a session's header is seen, only lines between rules are its summaries."""
    loud = _HEADER.search(text) is not None
    found = []
    start = 0
    for match in _PYTEST.finditer(text):
        if _is_summary(match, loud):
            found.append(_pytest(match["what"], text[start : match.start()]))
            start = match.end()
    return tuple(found)


def _is_summary(match: re.Match[str], loud: bool) -> bool:
    what = match["what"]
    told = what.startswith("no tests") or "collected" in what or numbers(what).keys() & set(_KNOWN)
    return bool(told) and (match["rule"] is not None or not loud)


def _pytest(what: str, before: str) -> Counts:
    said = numbers(re.sub(r"\d+ subtests? \w+", "", what))
    errors = said.get("error", 0) + said.get("errors", 0)
    if "collected" in what:
        return Counts("pytest", errors, errors, 0)
    # A test whose parts failed is told once for each of them, an error at teardown beside its test.
    failed = max(said.get("failed", 0) - len(_FAILED_PART.findall(before)), 0)
    ran = said.get("passed", 0) + failed + max(errors - len(_AT_TEARDOWN.findall(before)), 0)
    skipped = sum(said.get(name, 0) for name in ("skipped", "xfailed", "xpassed"))
    return Counts("pytest", ran, failed + errors, skipped)


RUNNERS = (
    Runner("unittest", read_unittest, stream="err"),
    Runner("pytest", read_pytest),
)
