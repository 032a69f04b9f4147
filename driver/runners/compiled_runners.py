"""The summaries of `go test`, `cargo test` and ctest."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from typing import Any

from driver.runners.result import CONTRADICTORY, Counts, Doubt, Found, Runner, total
from state_store.documents.strict_json import parse

_GO_PACKAGE = re.compile(r"^(?:ok  |FAIL|\?   |---)\t?.*$", re.M)
_GO_EMPTY = re.compile(r"^(?:ok  \t.*\[no tests to run\]|\?   \t.*\[no test files\])$")
_GO_STARTED = re.compile(r"^=== RUN +(\S+)$", re.M)
_GO_ENDED = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+) \([\d.]+s\)$", re.M)
_GO_NOT_BUILT = re.compile(r"^FAIL\t.*\[(?:build|setup) failed\]$", re.M)

_GO_ACTIONS = (
    *("start", "run", "pause", "cont", "pass", "bench", "fail", "output", "skip", "attr"),
    *("artifacts", "build-output", "build-fail"),
)

_CARGO = re.compile(
    r"^running (?P<planned>\d+) tests?$"
    r"|^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored; (\d+) measured;.*$",
    re.M,
)
_CTEST = re.compile(r"^\d+% tests passed, (\d+) tests? failed out of (\d+)$", re.M)
_CTEST_LEFT_OUT = re.compile(r"^\t *\d+ - .+ \((Skipped|Disabled)\)$", re.M)
_CTEST_NONE = re.compile(r"^No tests were found!!!$", re.M)


def read_go(text: str) -> Found:
    """Sub-tests count. Without -v or -json go names packages only: their number is no count."""
    if events := _go_events(text):
        return (_go_from_events(events),)
    if started := Counter(_GO_STARTED.findall(text)):
        return _go_from_lines(text, started)
    packages = _GO_PACKAGE.findall(text)
    nothing = packages and all(_GO_EMPTY.match(line) for line in packages)
    return (Counts("go", 0, 0, 0),) if nothing else ()


def _go_events(text: str) -> list[dict[str, Any]]:
    events = []
    for line in text.split("\n"):
        if line.startswith('{"') and '"Action"' in line:
            with suppress(ValueError):
                events.append(parse(line))
    return [event for event in events if _is_gos(event)]


def _is_gos(event: dict[str, Any]) -> bool:
    """Whether it was `go test -json` that wrote it down: many a program logs JSON."""
    names = (event.get("Package", event.get("ImportPath")), event.get("Test", ""))
    return event.get("Action") in _GO_ACTIONS and all(isinstance(name, str) for name in names)


def _go_from_events(events: list[dict[str, Any]]) -> Counts:
    tests = [event for event in events if event.get("Test")]
    ended = Counter(event["Action"] for event in tests)
    lost = ended["run"] - ended["pass"] - ended["fail"] - ended["skip"]
    red = {event.get("Package") for event in tests if event["Action"] == "fail"}
    broken = [one for one in events if one["Action"] == "fail" and not one.get("Test")]
    unbuilt = sum(one.get("Package") not in red for one in broken)
    failed = ended["fail"] + max(lost, 0) + unbuilt
    return Counts("go", ended["pass"] + failed, failed, ended["skip"])


def _go_from_lines(text: str, started: Counter[str]) -> Found:
    """A result counts when its test was seen to start; a start without result is a crash."""
    results = _GO_ENDED.findall(text)
    ended = Counter(name for _, name in results)
    if ended - started:
        return Doubt("go", CONTRADICTORY)
    said = Counter(result for result, _ in results)
    failed = said["FAIL"] + (started - ended).total() + len(_GO_NOT_BUILT.findall(text))
    return (Counts("go", said["PASS"] + failed, failed, said["SKIP"]),)


def read_cargo(text: str) -> Found:
    """Each binary says how many tests it will run, then how they ended; the two must agree."""
    parts: list[Counts] = []
    planned: int | None = None
    for match in _CARGO.finditer(text):
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


def read_ctest(text: str) -> Found:
    """Skipped tests are among the total, disabled ones are not."""
    marks = list(_CTEST.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    found = tuple(
        _ctest(mark, text[mark.end() : end]) for mark, end in zip(marks, ends, strict=False)
    )
    return found or tuple(Counts("ctest", 0, 0, 0) for _ in _CTEST_NONE.finditer(text))


def _ctest(match: re.Match[str], after: str) -> Counts:
    left_out = _CTEST_LEFT_OUT.findall(after)
    ran = int(match[2]) - left_out.count("Skipped")
    return Counts("ctest", ran, int(match[1]), len(left_out))


RUNNERS = (
    Runner("go", read_go, adds=True, closes=False),
    Runner("cargo", read_cargo, adds=True),
    Runner("ctest", read_ctest),
)
