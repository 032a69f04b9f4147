"""The Test Anything Protocol, as tape, ava, node-tap, bats, prove and many scripts print it. Only
points that contain no other points are counted. tape has a canary."""

from __future__ import annotations

import re
from collections.abc import Iterator

from driver.runners.javascript_canary import planner
from driver.runners.node import NODE_SUMMARY
from driver.runners.result import CONTRADICTORY, MISSING, Counts, Doubt, Found
from driver.runners.runner import Runner
from driver.test_style.javascript_files import CODE_FILES
from driver.test_style.javascript_suites import TAPE
from state_store.values.lazy_dataclass import dataclass
from state_store.values.lazy_pattern import lazy_pattern

_LINE = lazy_pattern(
    r"^(?P<indent> *)(?:(?P<red>not )?ok \d+\b(?P<rest>.*)"
    r"|1\.\.(?P<plan>\d+)(?: *#.*)?|(?P<opens>---)|(?P<version>TAP version \d+)"
    r"|(?P<stopped>Bail out!).*)$",
    re.M,
)
_CLOSES = lazy_pattern(r"^ *\.\.\.$", re.M)
_DIRECTIVE = lazy_pattern(r"# *(?:skip|todo)", re.I)
_PROVE = lazy_pattern(r"^Files=\d+, Tests=(\d+), .*\nResult: (PASS|FAIL|NOTESTS)$", re.M)
_PROVE_RED = lazy_pattern(r"^Failed (\d+)/\d+ subtests *$", re.M)
_PROVE_SKIPPED = lazy_pattern(r"^\t\(less (\d+) skipped subtests?: \d+ okay\)$", re.M)


@dataclass(frozen=True, slots=True)
class _Point:
    indent: int
    red: bool
    skipped: bool
    opens: bool  # the points that it contains follow in braces


def _read(text: str) -> Found:
    """The counts of all documents of the output, or of prove's own summary. The summary of node's
    own runner is left to its reader."""
    if NODE_SUMMARY.search(text):
        return ()
    lines = list(_lines(text))
    planned = [int(line["plan"]) for line in lines if line["plan"] and not line["indent"]]
    points = [_point(line) for line in lines if line["rest"] is not None]
    top = sum(not point.indent for point in points)
    if not points and (found := _PROVE.search(text)):
        return (_of_prove(text, found),)
    if not planned:
        begun = top and any(line["version"] for line in lines)
        return Doubt("tap", MISSING) if begun else ()
    if top > sum(planned):
        return Doubt("tap", CONTRADICTORY)
    ran, failed, skipped = _leaves(points)
    lost = sum(planned) - top + sum(bool(line["stopped"]) for line in lines)
    return (Counts("tap", ran + lost, failed + lost, skipped),)


def _lines(text: str) -> Iterator[re.Match[str]]:
    """The lines of the protocol, without those inside of a block of details."""
    at = 0
    while line := _LINE.search(text, at):
        closed = _CLOSES.search(text, line.end()) if line["opens"] else None
        at = closed.end() if closed else line.end()
        yield line


def _point(line: re.Match[str]) -> _Point:
    """The point of a line. A red point that is skipped or still to do is not red."""
    rest = line["rest"].rstrip()
    skipped = _DIRECTIVE.search(rest) is not None
    red = bool(line["red"]) and not skipped
    return _Point(len(line["indent"]), red, skipped, rest.endswith("{"))


def _leaves(points: list[_Point]) -> tuple[int, int, int]:
    """The numbers of points that ran, failed and were skipped, without those that contain others: a
    red point with only green points counts as failed."""
    ran = failed = skipped = 0
    inner: dict[int, bool] = {}  # indents of the points since the last outer point; True if red
    for point in points:
        inside = [inner.pop(indent) for indent in sorted(inner) if indent > point.indent]
        inner[point.indent] = inner.get(point.indent, False) or point.red
        if point.opens or (inside and (any(inside) or not point.red)):
            continue
        skipped += point.skipped
        ran += not point.skipped
        failed += point.red
    return ran, failed, skipped


def _of_prove(text: str, found: re.Match[str]) -> Counts:
    """The counts of prove's summary. A red file without a red point is one failed test."""
    red = sum(map(int, _PROVE_RED.findall(text)))
    skipped = sum(map(int, _PROVE_SKIPPED.findall(text)))
    failed = max(red, 1) if found[2] == "FAIL" else red
    ran = max(int(found[1]) - skipped, failed)
    return Counts("tap", ran, failed, skipped)


_RED_POINT = lazy_pattern(
    r"^ *not ok \d+(?: -)? *(?P<name>(?!.*# *(?i:skip|todo)).*?)(?: # time=.*)?(?: \{)?$", re.M
)


def _failures(text: str) -> dict[str, str]:
    """The red points."""
    return {one["name"]: "" for one in _RED_POINT.finditer(text)}


RUNNERS = (
    Runner(
        name="tap",
        read=_read,
        programs=("tape", "bats", "prove"),
        test_files=(r".*\.bats", r".*\.t"),
        plan=planner(TAPE),
        canary_reads=(CODE_FILES,),
        failures=_failures,
        red=(
            _RED_POINT.pattern,
            r"^(?P<name>\S+) +\(Wstat: \d+.* Failed: [1-9]\d*\)$",
        ),
        red_marks=(r"^Failed \d+/\d+ subtests", r"^  Failed tests?: ", r"^Bail out!"),
    ),
)
